// Package safetensors reads and writes float32 tensors in the safetensors format: eight bytes of
// header length, a JSON header, and the data. It also reads float16 and bfloat16 and converts them
// to float32 without loss.
package safetensors

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/dptrain/dptrain/internal/half"
	"github.com/dptrain/dptrain/internal/host/memory"
)

const (
	maxHeaderBytes = 100 << 20 // the limit of the reference implementation
	chunkLength    = 1 << 14   // values converted per read or write
)

// Tensor is a named array in row-major order.
type Tensor struct {
	Name   string
	Shape  []int
	Values []float32
}

type headerEntry struct {
	Dtype   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// Header returns the begin of a file of tensors in the given order, up to their data. It needs names
// and shapes, and no values.
func Header(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	header := map[string]any{}
	if len(metadata) > 0 {
		header["__metadata__"] = metadata
	}
	var at int64
	for _, t := range tensors {
		if _, twice := header[t.Name]; twice {
			return nil, fmt.Errorf("safetensors: two tensors have the name %s", t.Name)
		}
		n := int64(4)
		for _, d := range t.Shape {
			n *= int64(d)
		}
		e := headerEntry{"F32", append([]int{}, t.Shape...), [2]int64{at, at + n}}
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("safetensors: tensor %q: %w", t.Name, err)
		}
		header[t.Name] = e
		at += n
	}
	text, err := json.Marshal(header)
	if err != nil {
		return nil, err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), nil
}

// Write writes tensors in the given order, with free-form metadata.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	for _, t := range tensors {
		if t.size() != len(t.Values) {
			return fmt.Errorf("safetensors: tensor %q of shape %v has %d values", t.Name, t.Shape, len(t.Values))
		}
	}
	return WriteParts(w, tensors, metadata, func(i int, yield func(part []float32)) { yield(tensors[i].Values) })
}

// WriteParts is Write for values that need not be in memory together: the function parts passes those of a tensor, in their
// order.
func WriteParts(w io.Writer, tensors []Tensor, metadata map[string]string, parts func(i int, yield func(part []float32))) error {
	header, err := Header(tensors, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	var text []byte
	for i, t := range tensors {
		count := 0
		parts(i, func(part []float32) {
			count += len(part)
			for values := range slices.Chunk(part, chunkLength) {
				if err == nil {
					text, _ = binary.Append(text[:0], binary.LittleEndian, values)
					_, err = w.Write(text)
				}
			}
		})
		if err != nil {
			return err
		}
		if count != t.size() {
			return fmt.Errorf("safetensors: %d values were passed for tensor %q of shape %v", count, t.Name, t.Shape)
		}
	}
	return nil
}

// size is the number of values of the shape.
func (t Tensor) size() int {
	size := 1
	for _, d := range t.Shape {
		size *= d
	}
	return size
}

// ReadMetadata reads the free-form metadata of a file of the given size, and no tensor.
func ReadMetadata(r io.Reader, size int64) (map[string]string, error) {
	text, err := readHeader(r, size)
	if err != nil {
		return nil, err
	}
	_, metadata, err := parseHeader(text, all)
	return metadata, err
}

// Read reads every tensor of a file of the given size, in the order of the data.
// It checks every size in the header against the file size before it allocates memory.
func Read(r io.Reader, size int64) ([]Tensor, map[string]string, error) {
	places, metadata, err := Places(r, size, all)
	if err != nil {
		return nil, nil, err
	}
	left := memory.Available()
	var allocated int64
	var tensors []Tensor
	for _, p := range places {
		if allocated += 4 * p.count; !left.Fits(allocated) {
			return nil, nil, fmt.Errorf("safetensors: tensor %q has %d values, which exceeds the memory of %s", p.Name, p.count, left.LimitedBy)
		}
		values := make([]float32, p.count)
		if err := p.read(r, values); err != nil {
			return nil, nil, err
		}
		tensors = append(tensors, Tensor{p.Name, p.Shape, values})
	}
	return tensors, metadata, nil
}

func all(string) bool { return true }

// Place is where a file has the values of a tensor.
type Place struct {
	Name  string
	Shape []int

	dtype string
	from  int64 // in the file
	count int64 // values
}

// Places reads the header of a file of the given size, and returns where its tensors are, in the order of the data. Tensors
// whose names are not wanted are left out; they may have any element type.
func Places(r io.Reader, size int64, wanted func(name string) bool) ([]Place, map[string]string, error) {
	text, err := readHeader(r, size)
	if err != nil {
		return nil, nil, err
	}
	entries, metadata, err := parseHeader(text, wanted)
	if err != nil {
		return nil, nil, err
	}
	names := slices.SortedFunc(maps.Keys(entries), func(a, b string) int {
		i, j := entries[a].Offsets, entries[b].Offsets
		return cmp.Or(cmp.Compare(i[0], j[0]), cmp.Compare(i[1], j[1]), cmp.Compare(a, b))
	})
	header := 8 + int64(len(text))
	data := size - header
	var at int64
	var places []Place
	for _, name := range names {
		e := entries[name]
		if e.Offsets[0] != at || e.Offsets[1] > data {
			return nil, nil, fmt.Errorf("safetensors: tensor %q has offsets %v, which overlap, leave a gap or exceed the data", name, e.Offsets)
		}
		at = e.Offsets[1]
		if wanted(name) {
			places = append(places, Place{name, e.Shape, e.Dtype, header + e.Offsets[0], (at - e.Offsets[0]) / elementTypes[e.Dtype].bytes})
		}
	}
	if at != data {
		return nil, nil, fmt.Errorf("safetensors: %d bytes follow the last tensor", data-at)
	}
	return places, metadata, nil
}

// Half returns the format of the values in the file; half.None for float32.
func (p *Place) Half() half.Format { return elementTypes[p.dtype].half }

// Read reads values of the tensor from the given one on, as many as into has.
func (p *Place) Read(file io.ReaderAt, first int64, into []float32) error {
	at := p.from + first*elementTypes[p.dtype].bytes
	return p.read(io.NewSectionReader(file, at, math.MaxInt64-at), into)
}

var buffers = sync.Pool{New: func() any { return new([4 * chunkLength]byte) }}

// read reads the next values.
func (p *Place) read(r io.Reader, into []float32) error {
	bytes := elementTypes[p.dtype].bytes
	buffer := buffers.Get().(*[4 * chunkLength]byte)
	defer buffers.Put(buffer)
	for to := range slices.Chunk(into, chunkLength) {
		part := buffer[:bytes*int64(len(to))]
		if _, err := io.ReadFull(r, part); err != nil {
			return fmt.Errorf("safetensors: tensor %q is truncated", p.Name)
		}
		convert(to, p.dtype, part)
	}
	return nil
}

func readHeader(r io.Reader, size int64) ([]byte, error) {
	var length uint64
	if err := binary.Read(r, binary.LittleEndian, &length); err != nil {
		return nil, fmt.Errorf("safetensors: the file ends within its first 8 bytes")
	}
	if length > maxHeaderBytes || int64(length) > size-8 {
		return nil, fmt.Errorf("safetensors: the header has %d bytes and the file %d: the file is truncated or has another format", length, size)
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, fmt.Errorf("safetensors: the header is truncated")
	}
	return text, nil
}

// parseHeader checks the entries of the tensors that are wanted, and of the others where they begin and end.
func parseHeader(text []byte, wanted func(name string) bool) (entries map[string]headerEntry, metadata map[string]string, err error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, nil, fmt.Errorf("safetensors: the header is not a JSON object: %w", err)
	}
	entries = map[string]headerEntry{}
	for name, value := range raw {
		if name == "__metadata__" {
			if err := json.Unmarshal(value, &metadata); err != nil {
				return nil, nil, fmt.Errorf("safetensors: __metadata__: %w", err)
			}
			continue
		}
		var e headerEntry
		err := json.Unmarshal(value, &e)
		switch {
		case err != nil:
		case wanted(name):
			err = e.check()
		case e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0]:
			err = fmt.Errorf("offsets %v are no range", e.Offsets)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("safetensors: tensor %q: %w", name, err)
		}
		entries[name] = e
	}
	return entries, metadata, nil
}

// elementTypes are the supported element types.
var elementTypes = map[string]struct {
	bytes int64
	half  half.Format
}{"F32": {4, half.None}, "BF16": {2, half.BFloat16}, "F16": {2, half.Float16}}

func (e headerEntry) check() error {
	kind, known := elementTypes[e.Dtype]
	if !known {
		return fmt.Errorf("element type %s is not supported; convert the tensor to F32, F16 or BF16", e.Dtype)
	}
	n := int64(1)
	for _, d := range e.Shape {
		if d < 0 || d > 0 && n > math.MaxInt64/kind.bytes/int64(d) {
			return fmt.Errorf("invalid shape %v", e.Shape)
		}
		n *= int64(d)
	}
	if e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || e.Offsets[1]-e.Offsets[0] != kind.bytes*n {
		return fmt.Errorf("offsets %v do not fit shape %v", e.Offsets, e.Shape)
	}
	return nil
}
