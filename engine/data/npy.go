package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// maxHeader limits the length of an array's header.
const maxHeader = 1 << 16

// arrayHeader describes the content of a .npy file.
type arrayHeader struct {
	shape       []int
	elementSize int                  // bytes of a number
	isInteger   bool                 // integers or booleans
	isByte      bool                 // type uint8
	decode      func([]byte) float64 // decodes a number
}

// total is the number of elements of the array.
func (a arrayHeader) total() int {
	n := 1
	for _, length := range a.shape {
		n *= length
	}
	return n
}

var (
	npyType    = regexp.MustCompile(`'descr':\s*'([^']*)'`)
	npyFortran = regexp.MustCompile(`'fortran_order':\s*(True|False)`)
	npyShape   = regexp.MustCompile(`'shape':\s*\(([0-9, ]*)\)`)
)

var npyTypes = map[string]arrayHeader{
	"<f4": {elementSize: 4, decode: func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }},
	"<f8": {elementSize: 8, decode: func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }},
	"|b1": {elementSize: 1, isInteger: true, decode: func(b []byte) float64 { return float64(b[0]) }},
	"|u1": {elementSize: 1, isInteger: true, isByte: true, decode: func(b []byte) float64 { return float64(b[0]) }},
	"|i1": {elementSize: 1, isInteger: true, decode: func(b []byte) float64 { return float64(int8(b[0])) }},
	"<u2": {elementSize: 2, isInteger: true, decode: func(b []byte) float64 { return float64(binary.LittleEndian.Uint16(b)) }},
	"<i2": {elementSize: 2, isInteger: true, decode: func(b []byte) float64 { return float64(int16(binary.LittleEndian.Uint16(b))) }},
	"<u4": {elementSize: 4, isInteger: true, decode: func(b []byte) float64 { return float64(binary.LittleEndian.Uint32(b)) }},
	"<i4": {elementSize: 4, isInteger: true, decode: func(b []byte) float64 { return float64(int32(binary.LittleEndian.Uint32(b))) }},
	"<u8": {elementSize: 8, isInteger: true, decode: func(b []byte) float64 { return float64(binary.LittleEndian.Uint64(b)) }},
	"<i8": {elementSize: 8, isInteger: true, decode: func(b []byte) float64 { return float64(int64(binary.LittleEndian.Uint64(b))) }},
}

// readHeader reads the header of a .npy file (NumPy's documentation of numpy.lib.format,
// versions 1 to 3).
func readHeader(r io.Reader) (arrayHeader, error) {
	var start [8]byte
	if _, err := io.ReadFull(r, start[:]); err != nil || string(start[:6]) != "\x93NUMPY" {
		return arrayHeader{}, errors.New("is not a .npy array")
	}
	width, version := 4, start[6]
	switch version {
	case 1:
		width = 2
	case 2, 3:
	default:
		return arrayHeader{}, fmt.Errorf("has .npy version %d; versions 1 to 3 are supported", version)
	}
	var n [4]byte
	if _, err := io.ReadFull(r, n[:width]); err != nil {
		return arrayHeader{}, fmt.Errorf("ends in its header: %w", unexpectedEOF(err))
	}
	length := binary.LittleEndian.Uint32(n[:])
	if length > maxHeader {
		return arrayHeader{}, fmt.Errorf("has a header of %d bytes; at most %d bytes are supported", length, maxHeader)
	}
	header := make([]byte, length)
	if _, err := io.ReadFull(r, header); err != nil {
		return arrayHeader{}, fmt.Errorf("ends in its header: %w", unexpectedEOF(err))
	}
	return parseHeader(string(header))
}

func parseHeader(header string) (arrayHeader, error) {
	kind, order, shape := npyType.FindStringSubmatch(header), npyFortran.FindStringSubmatch(header), npyShape.FindStringSubmatch(header)
	if kind == nil || order == nil || shape == nil {
		return arrayHeader{}, errors.New("has a header without descr, fortran_order or shape; save it with numpy.save")
	}
	a, ok := npyTypes[kind[1]]
	if !ok {
		return arrayHeader{}, errors.New("has an unsupported element type; save it as float32, float64, bool or little-endian integers")
	}
	total := 1
	for text := range strings.SplitSeq(shape[1], ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || total > maxBytes/8/n {
			return arrayHeader{}, errors.New("has an axis with an impossible length")
		}
		total *= n
		a.shape = append(a.shape, n)
	}
	if len(a.shape) == 0 {
		return arrayHeader{}, errors.New("is a single number; an array needs one entry for each example")
	}
	if order[1] == "True" && len(a.shape) > 1 {
		return arrayHeader{}, errors.New("is in Fortran order; apply numpy.ascontiguousarray before saving it")
	}
	return a, nil
}

// numbers reads the elements after the header. It allocates as grow does.
func (a arrayHeader) numbers(r io.Reader) ([]float32, error) {
	total := a.total()
	var values []float32
	chunk := make([]byte, 1<<16) // a multiple of every width
	for len(values) < total {
		if len(values) == cap(values) {
			var err error
			if values, err = grow(values, total); err != nil {
				return nil, err
			}
		}
		part := chunk[:min(len(chunk), (cap(values)-len(values))*a.elementSize)]
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, fmt.Errorf("ends before the %d numbers that its header announces: %w", total, unexpectedEOF(err))
		}
		for ; len(part) > 0; part = part[a.elementSize:] {
			values = append(values, float32(a.decode(part)))
		}
	}
	return values, checkEnd(r)
}
