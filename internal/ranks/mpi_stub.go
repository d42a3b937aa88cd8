//go:build !gpu

package ranks

import "os"

// Built reports whether this binary can open MPI.
const Built = false

// Find describes the MPI library that Open would open.
func Find(string) (string, error) { return "", ErrNotBuilt }

// Open joins the processes that a launcher started.
func Open(string) (Communicator, error) { return nil, ErrNotBuilt }

// Exit ends the process like os.Exit. A process that opened MPI ends so after Close.
func Exit(code int) { os.Exit(code) }
