package data

import (
	"errors"
	"fmt"
	"io"
	"math"
	"unsafe"

	"github.com/dptrain/dptrain/internal/memory"
)

// maxBytes bounds what one file may claim to hold, so that a damaged header is
// an error and not a crash.
const maxBytes = min(1<<36, math.MaxInt)

// readExactly reads a file's last n bytes, in the room that roomier makes for them.
func readExactly(r io.Reader, n int) ([]byte, error) {
	var content []byte
	for len(content) < n {
		var err error
		if content, err = grow(content, n); err != nil {
			return nil, err
		}
		got, err := io.ReadFull(r, content[len(content):cap(content)])
		content = content[:len(content)+got]
		if err != nil {
			return nil, fmt.Errorf("ends after %d of the %d bytes that its header announces: %w", len(content), n, unexpectedEOF(err))
		}
	}
	return content, checkEnd(r)
}

// grow is values with more room, at last for n of them and no more. A header that
// announces too many costs 16 times what has come at most, and a 16th of what comes
// is held twice. What memory does not hold is refused.
func grow[T any](values []T, n int) ([]T, error) {
	const least = 1 << 12
	room := n
	for room/16 > max(len(values), least) {
		room = room/16 + 1
	}
	if left := memory.Available(); !left.Fits(int64(room) * int64(unsafe.Sizeof(values[0]))) {
		return nil, fmt.Errorf("holds more than %s has memory for; give a part of it", left.LimitedBy)
	}
	return append(make([]T, 0, room), values...), nil
}

// checkEnd refuses a file that goes on, or whose checksum at the end is wrong.
func checkEnd(r io.Reader) error {
	var next [1]byte
	switch n, err := io.ReadFull(r, next[:]); {
	case n > 0:
		return errors.New("goes on after what its header announces")
	case err != io.EOF:
		return fmt.Errorf("is damaged: %w", err)
	}
	return nil
}

// unexpectedEOF turns an end of file, which is where it should not be, into a name that
// says so.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
