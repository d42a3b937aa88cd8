// Package gguf reads files of llama.cpp: metadata and tensors, whose numbers may be quantized.
//
//	magic, version, number of tensors, number of entries
//	entries: a name, a type, a value
//	tensors: a name, a shape, a type, an offset behind the header
//	the numbers of the tensors
//
// A tensor of a quantized type consists of blocks of 32 numbers:
//
//	Q8_0  a scale of 16 bits, and 32 bytes q: the numbers are scale·q
//	Q4_0  a scale, and 32 half bytes q: scale·(q − 8)
//	Q4_1  a scale and a minimum, and 32 half bytes q: scale·q + minimum
//
// The first 16 numbers of a block are in the low half bytes. Other types are errors that name them.
//
// A file is read as hostile: each count and each offset is compared with the size of the file before memory is
// allocated.
package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/dptrain/dptrain/internal/half"
)

// The limits of a file.
const (
	maxEntries = 1 << 16
	maxDims    = 4
	maxNumbers = math.MaxInt32 // of a tensor
)

// File is the header of a file, and where its tensors are.
type File struct {
	Metadata map[string]any // uint64, int64, float64, bool, string, or a list of one of them
	Tensors  []Tensor

	numbers io.ReaderAt
	from    int64 // where the numbers begin
}

// Tensor describes a tensor.
type Tensor struct {
	Name   string
	Shape  []int // the last axis is contiguous
	kind   kind
	offset int64
}

// kind is a type of numbers: a block of numbers in some bytes.
type kind struct {
	name           string
	numbers, bytes int64
	decode         func(into []float32, from []byte)
}

var kinds = map[uint32]kind{
	0:  {"F32", 1, 4, func(y []float32, x []byte) { y[0] = math.Float32frombits(binary.LittleEndian.Uint32(x)) }},
	1:  {"F16", 1, 2, func(y []float32, x []byte) { y[0] = float16(x) }},
	2:  {"Q4_0", 32, 18, func(y []float32, x []byte) { halfBytes(y, x[2:], float16(x), -8*float16(x)) }},
	3:  {"Q4_1", 32, 20, func(y []float32, x []byte) { halfBytes(y, x[4:], float16(x), float16(x[2:])) }},
	8:  {"Q8_0", 32, 34, signedBytes},
	30: {"BF16", 1, 2, func(y []float32, x []byte) { y[0] = half.BFloat16.Value(binary.LittleEndian.Uint16(x)) }},
}

// otherKinds are the names of types that are not supported.
var otherKinds = map[uint32]string{6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K",
	16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 28: "F64"}

// halfBytes writes scale·q + minimum.
func halfBytes(y []float32, x []byte, scale, minimum float32) {
	for i, b := range x[:16] {
		y[i] = scale*float32(b&15) + minimum
		y[i+16] = scale*float32(b>>4) + minimum
	}
}

func signedBytes(y []float32, x []byte) {
	scale := float16(x)
	for i, b := range x[2:34] {
		y[i] = scale * float32(int8(b))
	}
}

// float16 reads a number of 16 bits.
func float16(x []byte) float32 { return half.Float16.Value(binary.LittleEndian.Uint16(x)) }

// Half returns the format of the numbers in the file, if all have 16 bits; otherwise half.None.
func (t Tensor) Half() half.Format {
	switch t.kind.name {
	case "BF16":
		return half.BFloat16
	case "F16":
		return half.Float16
	}
	return half.None
}

// Read reads the header of a file with the given size.
func Read(file io.ReaderAt, size int64) (*File, error) {
	r := &reader{in: bufio.NewReaderSize(io.NewSectionReader(file, 0, size), 1<<16), left: size}
	f := &File{Metadata: map[string]any{}, numbers: file}
	if magic := r.bytes(4); r.err == nil && string(magic) != "GGUF" {
		return nil, errors.New("this is not a GGUF file: it does not begin with GGUF")
	}
	version, tensors, entries := r.uint(4), r.uint(8), r.uint(8)
	switch {
	case r.err != nil:
		return nil, r.err
	case version != 2 && version != 3:
		return nil, fmt.Errorf("GGUF version %d is not supported; 2 and 3, with little-endian numbers, are", version)
	case tensors > maxEntries || entries > maxEntries:
		return nil, fmt.Errorf("%d tensors and %d entries: at most %d are supported", tensors, entries, maxEntries)
	}
	for range entries {
		name := r.string()
		value := r.value(r.uint(4), true)
		if r.err != nil {
			return nil, fmt.Errorf("entry %.60q: %w", name, r.err)
		}
		f.Metadata[name] = value
	}
	if err := f.readTensors(r, tensors); err != nil {
		return nil, err
	}
	return f, f.place(size, size-r.left)
}

// readTensors reads the descriptions of the tensors.
func (f *File) readTensors(r *reader, count uint64) error {
	names := map[string]bool{}
	for range count {
		t := Tensor{Name: r.string()}
		dims := r.uint(4)
		if dims > maxDims {
			return fmt.Errorf("tensor %.60q has %d axes; at most %d are supported", t.Name, dims, maxDims)
		}
		numbers := uint64(1)
		for range dims {
			n := r.uint(8)
			if n < 1 || n > maxNumbers/numbers {
				return fmt.Errorf("tensor %.60q has an axis of %d: a tensor has from 1 to %d numbers", t.Name, n, int64(maxNumbers))
			}
			numbers *= n
			t.Shape = append([]int{int(n)}, t.Shape...)
		}
		code := uint32(r.uint(4))
		offset := r.uint(8)
		if r.err != nil {
			return fmt.Errorf("tensor %.60q: %w", t.Name, r.err)
		}
		k, known := kinds[code]
		switch {
		case names[t.Name]:
			return fmt.Errorf("two tensors are called %.60q", t.Name)
		case !known:
			name := otherKinds[code]
			if name == "" {
				name = fmt.Sprintf("number %d", code)
			}
			return fmt.Errorf("tensor %.60q has the type %s, which is not supported; F32, F16, BF16, Q8_0, Q4_1 and Q4_0 are", t.Name, name)
		case len(t.Shape) == 0 || int64(t.Shape[len(t.Shape)-1])%k.numbers != 0:
			return fmt.Errorf("tensor %.60q of shape %v cannot have the type %s, whose blocks have %d numbers", t.Name, t.Shape, k.name, k.numbers)
		case offset > math.MaxInt64/2:
			return fmt.Errorf("tensor %.60q: its offset %d is beyond the end of the file", t.Name, offset)
		}
		names[t.Name], t.kind, t.offset = true, k, int64(offset)
		f.Tensors = append(f.Tensors, t)
	}
	return nil
}

// place finds where the numbers begin, and checks that all tensors are in the file.
func (f *File) place(size, header int64) error {
	alignment := int64(32)
	if a, given := f.Metadata["general.alignment"].(uint64); given {
		if a < 1 || a > 1<<20 {
			return fmt.Errorf("general.alignment is %d; it needs a number from 1 to 2^20", a)
		}
		alignment = int64(a)
	}
	f.from = (header + alignment - 1) / alignment * alignment
	for _, t := range f.Tensors {
		if end := f.from + t.offset + t.size(); t.offset%alignment != 0 || end > size {
			return fmt.Errorf("tensor %.60q ends at byte %d of a file with %d, or is not aligned to %d: the file is cut or damaged", t.Name, end, size, alignment)
		}
	}
	return nil
}

// size is the number of bytes of a tensor.
func (t Tensor) size() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n / t.kind.numbers * t.kind.bytes
}

// Values returns the numbers of a tensor.
func (f *File) Values(t Tensor) ([]float32, error) {
	values := make([]float32, t.size()/t.kind.bytes*t.kind.numbers)
	return values, f.ReadRows(f.numbers, t, 0, values)
}

// ReadRows reads the numbers of a tensor from a row on, as many rows as into has. It reads them from the given copy of the
// file.
func (f *File) ReadRows(from io.ReaderAt, t Tensor, row int, into []float32) error {
	n, b := int(t.kind.numbers), int(t.kind.bytes)
	columns := t.Shape[len(t.Shape)-1]
	buffer := buffers.Get().(*[bufferBytes]byte)
	defer buffers.Put(buffer)
	at := f.from + t.offset + int64(row)*int64(columns/n*b)
	for len(into) > 0 {
		blocks := min(len(into)/n, len(buffer)/b)
		text := buffer[:blocks*b]
		if _, err := from.ReadAt(text, at); err != nil {
			return fmt.Errorf("tensor %.60q: %w", t.Name, err)
		}
		for i := range blocks {
			t.kind.decode(into[i*n:(i+1)*n], text[i*b:(i+1)*b])
		}
		into, at = into[blocks*n:], at+int64(len(text))
	}
	return nil
}

// bufferBytes is how many bytes of a tensor are read together.
const bufferBytes = 1 << 15

var buffers = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// reader reads a header, and keeps the first error.
type reader struct {
	in   *bufio.Reader
	left int64
	err  error
}

var errCut = errors.New("the file is cut or damaged: its header goes beyond its end")

func (r *reader) bytes(n uint64) []byte {
	if r.err == nil && n > uint64(max(0, r.left)) {
		r.err = errCut
	}
	if r.err != nil {
		return nil
	}
	r.left -= int64(n)
	x := make([]byte, n)
	if _, err := io.ReadFull(r.in, x); err != nil {
		r.err = errCut
		return nil
	}
	return x
}

// uint reads a number of at most 8 bytes.
func (r *reader) uint(size uint64) (n uint64) {
	for i, b := range r.bytes(size) {
		n |= uint64(b) << (8 * i)
	}
	return n
}

func (r *reader) string() string { return string(r.bytes(r.uint(8))) }

// The types of values.
const (
	typeBool   = 7
	typeString = 8
	typeList   = 9
)

// sizes are the bytes of a value: signed integers are odd types.
var sizes = map[uint64]uint64{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, typeBool: 1, 10: 8, 11: 8, 12: 8}

func (r *reader) value(kind uint64, listAllowed bool) any {
	size, isNumber := sizes[kind]
	switch {
	case r.err != nil:
		return nil
	case kind == typeString:
		return r.string()
	case kind == typeList && listAllowed:
		return r.list()
	case !isNumber:
		r.err = fmt.Errorf("a value of type %d is not supported", kind)
		return nil
	}
	n := r.uint(size)
	switch {
	case kind == typeBool:
		return n != 0
	case kind == 6:
		return float64(math.Float32frombits(uint32(n)))
	case kind == 12:
		return math.Float64frombits(n)
	case kind == 1 || kind == 3 || kind == 5 || kind == 11:
		shift := 64 - 8*size
		return int64(n<<shift) >> shift
	}
	return n
}

// list reads a list of values of one type.
func (r *reader) list() []any {
	kind, count := r.uint(4), r.uint(8)
	size := sizes[kind]
	if kind == typeString {
		size = 8 // of its length
	}
	if r.err == nil && (size == 0 || count > uint64(max(0, r.left))/size) {
		r.err = fmt.Errorf("a list of %d values of type %d does not fit the file", count, kind)
	}
	if r.err != nil {
		return nil
	}
	list := make([]any, 0, count)
	for range count {
		list = append(list, r.value(kind, false))
		if r.err != nil {
			return nil
		}
	}
	return list
}
