package noise

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
)

// A Key is the eight words of a ChaCha20 key. It is secret: who has it can
// compute the noise and subtract it. Printing it says only that it is one.
type Key [8]uint32

// Format keeps the key out of whatever is printed.
func (Key) Format(f fmt.State, _ rune) { io.WriteString(f, "noise.Key(secret)") }

// A Source gives the random values of one run. It never changes, so any number
// of goroutines may read from it.
type Source struct {
	key    Key
	secure bool
}

// New returns a Source with a fresh key from the operating system. There is no
// fallback: where the system gives no entropy it fails. (Since Go 1.24 the
// standard reader ends the program itself when the system call fails; the error
// is for a crypto/rand.Reader that was replaced.)
func New() (*Source, error) { return newFrom(rand.Reader) }

func newFrom(entropy io.Reader) (*Source, error) {
	var b [32]byte
	if _, err := io.ReadFull(entropy, b[:]); err != nil {
		return nil, fmt.Errorf("noise: no key from the operating system: %w; nothing private can run without one", err)
	}
	return &Source{key: keyFromBytes(b), secure: true}, nil
}

// NewSeeded returns a Source whose values anyone can reproduce from the seed, for
// tests and public randomness. Noise from it protects nobody: Secure is false.
// The key is the seed's eight bytes, little-endian, and 24 zeros.
func NewSeeded(seed uint64) *Source {
	var b [32]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	return &Source{key: keyFromBytes(b)}
}

func keyFromBytes(b [32]byte) (k Key) {
	for i := range k {
		k[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return k
}

// Secure reports whether the key came from the operating system.
func (s *Source) Secure() bool { return s.secure }

// Key returns the secret key, for a device that computes the same streams. It
// must not be written to a file, a log or a checkpoint.
func (s *Source) Key() Key { return s.key }

// Format keeps the key out of whatever is printed.
func (s *Source) Format(f fmt.State, _ rune) {
	if s != nil && s.secure {
		io.WriteString(f, "noise.Source(secure)")
		return
	}
	io.WriteString(f, "noise.Source(insecure)")
}
