package random

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
)

// A Key is the eight words of a ChaCha20 key. It is secret: with it the noise can be computed
// and subtracted. Printing a Key does not print its words.
type Key [8]uint32

// Format keeps the key out of all printed text.
func (Key) Format(f fmt.State, _ rune) { io.WriteString(f, "noise.Key(secret)") }

// A Source computes the random values of one run. It is immutable and safe for concurrent
// use.
type Source struct {
	key    Key
	secure bool
}

// New returns a Source with a new key from the operating system. It has no fallback: if the
// system provides no entropy, New returns an error. (Since Go 1.24 the standard reader ends
// the program when the system call fails; the error is for a crypto/rand.Reader that was
// replaced.)
func New() (*Source, error) { return newFrom(rand.Reader) }

func newFrom(entropy io.Reader) (*Source, error) {
	var b [32]byte
	if _, err := io.ReadFull(entropy, b[:]); err != nil {
		return nil, fmt.Errorf("noise: the operating system provides no key, without which no private run is possible: %w", err)
	}
	return &Source{key: keyFromBytes(b), secure: true}, nil
}

// NewSeeded returns a Source whose values can be reproduced from the seed, for tests and
// public randomness. Its noise gives no privacy: Secure is false.
// The key is the seed's eight bytes, little-endian, and 24 zeros.
func NewSeeded(seed uint64) *Source {
	var b [32]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	return &Source{key: keyFromBytes(b)}
}

// NewKeyed returns the Source of a key, which is that of another process's secure Source.
func NewKeyed(k Key) *Source { return &Source{key: k, secure: true} }

func keyFromBytes(b [32]byte) (k Key) {
	for i := range k {
		k[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return k
}

// Secure reports whether the key came from the operating system.
func (s *Source) Secure() bool { return s.secure }

// KeyOf returns the secret key, for a device that computes the same streams. Do not write it
// to a file, a log or a checkpoint.
func KeyOf(s *Source) Key { return s.key }

// Format keeps the key out of all printed text.
func (s *Source) Format(f fmt.State, _ rune) {
	if s != nil && s.secure {
		io.WriteString(f, "noise.Source(secure)")
		return
	}
	io.WriteString(f, "noise.Source(insecure)")
}
