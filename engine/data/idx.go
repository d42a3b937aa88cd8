package data

import (
	"encoding/binary"
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

// readIDX reads an IDX file of unsigned bytes with the given number of axes
// (LeCun, Cortes, Burges, "The MNIST database", section on file formats). It
// takes no more memory than readExactly does.
func readIDX(r io.Reader, axes int) (shape []int, bytes []byte, err error) {
	var magic [4]byte
	if _, err := io.ReadFull(r, magic[:]); err != nil {
		return nil, nil, fmt.Errorf("too short for an IDX file: %w", short(err))
	}
	const unsignedByte = 8
	if magic[0] != 0 || magic[1] != 0 {
		return nil, nil, errors.New("no IDX file: it does not begin with two zero bytes")
	}
	if magic[2] != unsignedByte || int(magic[3]) != axes {
		return nil, nil, fmt.Errorf("holds IDX type %#x with %d axes; want unsigned bytes (0x8) with %d", magic[2], magic[3], axes)
	}
	shape = make([]int, axes)
	total := 1
	for i := range shape {
		var length [4]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return nil, nil, fmt.Errorf("ends within its header: %w", short(err))
		}
		shape[i] = int(binary.BigEndian.Uint32(length[:]))
		if shape[i] < 1 || total > maxBytes/shape[i] {
			return nil, nil, fmt.Errorf("axis %d has an impossible length of %d", i, shape[i])
		}
		total *= shape[i]
	}
	bytes, err = readExactly(r, total)
	return shape, bytes, err
}

// readExactly reads a file's last n bytes, in the room that roomier makes for them.
func readExactly(r io.Reader, n int) ([]byte, error) {
	var content []byte
	for len(content) < n {
		var err error
		if content, err = roomier(content, n); err != nil {
			return nil, err
		}
		got, err := io.ReadFull(r, content[len(content):cap(content)])
		content = content[:len(content)+got]
		if err != nil {
			return nil, fmt.Errorf("ends after %d of the %d bytes that its header announces: %w", len(content), n, short(err))
		}
	}
	return content, ended(r)
}

// roomier is values with more room, at last for n of them and no more. A header that
// announces too many costs 16 times what has come at most, and a 16th of what comes
// is held twice. What memory does not hold is refused.
func roomier[T any](values []T, n int) ([]T, error) {
	const least = 1 << 12
	room := n
	for room/16 > max(len(values), least) {
		room = room/16 + 1
	}
	if left := memory.Left(); !left.Holds(int64(room) * int64(unsafe.Sizeof(values[0]))) {
		return nil, fmt.Errorf("holds more than %s has memory for; give a part of it", left.Of)
	}
	return append(make([]T, 0, room), values...), nil
}

// ended refuses a file that goes on, or whose checksum at the end is wrong.
func ended(r io.Reader) error {
	var next [1]byte
	switch n, err := io.ReadFull(r, next[:]); {
	case n > 0:
		return errors.New("goes on after what its header announces")
	case err != io.EOF:
		return fmt.Errorf("is damaged: %w", err)
	}
	return nil
}

// short turns an end of file, which is where it should not be, into a name that
// says so.
func short(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
