// Package tensorboard writes event files that TensorBoard reads.
//
// A file is a sequence of TFRecord frames (length, its checksum, the
// data, their checksum; tensorflow/core/lib/io/record_writer.h), each an Event of
// tensorflow/core/util/event.proto in protocol-buffer encoding.
package tensorboard

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"time"
)

// Scalar is one value of one curve.
type Scalar struct {
	Tag   string
	Value float64
}

// Writer appends events to one file. It must be used by one goroutine at a time.
type Writer struct {
	file  *os.File
	frame []byte
	event []byte
	value []byte
}

// Create creates a new event file in dir, and dir if it is missing. TensorBoard orders the
// files of one folder by their names, which contain the time.
func Create(dir string, at time.Time) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("events.out.tfevents.%010d.%09d.dptrain", at.Unix(), at.Nanosecond())
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, err
	}
	w := &Writer{file: f}
	w.beginEvent(at)
	w.event = appendBytes(w.event, 3, "brain.Event:2") // file_version
	if err := w.writeEvent(); err != nil {
		f.Close()
		return nil, err
	}
	return w, nil
}

// Write appends the values of the scalars at a step.
func (w *Writer) Write(step int, at time.Time, scalars ...Scalar) error {
	w.beginEvent(at)
	w.event = binary.AppendUvarint(append(w.event, tag(2, varint)), uint64(step))
	var summary []byte
	for _, s := range scalars {
		w.value = appendBytes(w.value[:0], 1, s.Tag)
		w.value = append(w.value, tag(2, fixed32)) // simple_value
		w.value = binary.LittleEndian.AppendUint32(w.value, math.Float32bits(float32(s.Value)))
		summary = appendBytes(summary, 1, w.value)
	}
	w.event = appendBytes(w.event, 5, summary)
	return w.writeEvent()
}

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }

// beginEvent starts an event with its wall-clock time.
func (w *Writer) beginEvent(at time.Time) {
	seconds := float64(at.UnixMicro()) / 1e6
	w.event = append(w.event[:0], tag(1, fixed64))
	w.event = binary.LittleEndian.AppendUint64(w.event, math.Float64bits(seconds))
}

// writeEvent frames the event and writes it with one system call.
func (w *Writer) writeEvent() error {
	w.frame = binary.LittleEndian.AppendUint64(w.frame[:0], uint64(len(w.event)))
	w.frame = binary.LittleEndian.AppendUint32(w.frame, maskedChecksum(w.frame))
	w.frame = append(w.frame, w.event...)
	w.frame = binary.LittleEndian.AppendUint32(w.frame, maskedChecksum(w.event))
	_, err := w.file.Write(w.frame)
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedChecksum returns the checksum of the framing: CRC-32C, rotated by 15 bits, plus a
// constant. The mask keeps the checksum valid for data that contain checksums.
func maskedChecksum(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// The wire types of protocol buffers.
const (
	varint  = 0
	fixed64 = 1
	length  = 2
	fixed32 = 5
)

func tag(field, wire byte) byte { return field<<3 | wire }

func appendBytes[T string | []byte](b []byte, field byte, value T) []byte {
	b = binary.AppendUvarint(append(b, tag(field, length)), uint64(len(value)))
	return append(b, value...)
}
