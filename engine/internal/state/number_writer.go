package state

import (
	"encoding/binary"
	"io"
	"math"
	"slices"
)

// NumberWriter writes numbers as little-endian float32, some at a time. Errors are those that To keeps.
type NumberWriter struct {
	To    io.Writer
	chunk []byte
}

// Write writes numbers.
func (w *NumberWriter) Write(numbers []float32) {
	for part := range slices.Chunk(numbers, chunkNumbers) {
		chunk := slices.Grow(w.chunk[:0], 4*len(part))[:4*len(part)]
		for i, x := range part { // several times as fast as binary.Append
			binary.LittleEndian.PutUint32(chunk[4*i:], math.Float32bits(x))
		}
		w.To.Write(chunk)
		w.chunk = chunk
	}
}
