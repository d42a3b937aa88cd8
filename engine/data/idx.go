package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// readIDX reads an IDX file of unsigned bytes with the given number of axes
// (LeCun, Cortes, Burges, "The MNIST database", section on file formats). It
// takes no more memory than readExactly does.
func readIDX(r io.Reader, axes int) (shape []int, bytes []byte, err error) {
	var magic [4]byte
	if _, err := io.ReadFull(r, magic[:]); err != nil {
		return nil, nil, fmt.Errorf("too short for an IDX file: %w", unexpectedEOF(err))
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
			return nil, nil, fmt.Errorf("ends within its header: %w", unexpectedEOF(err))
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
