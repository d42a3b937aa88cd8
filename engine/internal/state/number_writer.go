package state

import (
	"encoding/binary"
	"io"
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
		w.chunk, _ = binary.Append(w.chunk[:0], binary.LittleEndian, part)
		w.To.Write(w.chunk)
	}
}
