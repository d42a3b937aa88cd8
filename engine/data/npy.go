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

// maxHeader bounds the length of an array's header.
const maxHeader = 1 << 16

// arrayHeader is what one .npy file holds, up to its numbers.
type arrayHeader struct {
	shape []int
	width int                  // bytes a number
	whole bool                 // integers or booleans
	byte  bool                 // unsigned bytes
	value func([]byte) float64 // of a number's bytes
}

// total is how many numbers the array has.
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
	"<f4": {width: 4, value: func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }},
	"<f8": {width: 8, value: func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }},
	"|b1": {width: 1, whole: true, value: func(b []byte) float64 { return float64(b[0]) }},
	"|u1": {width: 1, whole: true, byte: true, value: func(b []byte) float64 { return float64(b[0]) }},
	"|i1": {width: 1, whole: true, value: func(b []byte) float64 { return float64(int8(b[0])) }},
	"<u2": {width: 2, whole: true, value: func(b []byte) float64 { return float64(binary.LittleEndian.Uint16(b)) }},
	"<i2": {width: 2, whole: true, value: func(b []byte) float64 { return float64(int16(binary.LittleEndian.Uint16(b))) }},
	"<u4": {width: 4, whole: true, value: func(b []byte) float64 { return float64(binary.LittleEndian.Uint32(b)) }},
	"<i4": {width: 4, whole: true, value: func(b []byte) float64 { return float64(int32(binary.LittleEndian.Uint32(b))) }},
	"<u8": {width: 8, whole: true, value: func(b []byte) float64 { return float64(binary.LittleEndian.Uint64(b)) }},
	"<i8": {width: 8, whole: true, value: func(b []byte) float64 { return float64(int64(binary.LittleEndian.Uint64(b))) }},
}

// readHeader reads a .npy file up to its numbers (NumPy's documentation of
// numpy.lib.format, versions 1 to 3).
func readHeader(r io.Reader) (arrayHeader, error) {
	var start [8]byte
	if _, err := io.ReadFull(r, start[:]); err != nil || string(start[:6]) != "\x93NUMPY" {
		return arrayHeader{}, errors.New("is no .npy array")
	}
	width, version := 4, start[6]
	switch version {
	case 1:
		width = 2
	case 2, 3:
	default:
		return arrayHeader{}, fmt.Errorf("is of .npy version %d; versions 1 to 3 are read", version)
	}
	var n [4]byte
	if _, err := io.ReadFull(r, n[:width]); err != nil {
		return arrayHeader{}, fmt.Errorf("ends within its header: %w", unexpectedEOF(err))
	}
	length := binary.LittleEndian.Uint32(n[:])
	if length > maxHeader {
		return arrayHeader{}, fmt.Errorf("has a header of %d bytes; at most %d are read", length, maxHeader)
	}
	header := make([]byte, length)
	if _, err := io.ReadFull(r, header); err != nil {
		return arrayHeader{}, fmt.Errorf("ends within its header: %w", unexpectedEOF(err))
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
		return arrayHeader{}, errors.New("holds numbers of another type than float32, float64, bool and little-endian integers, which are read")
	}
	total := 1
	for text := range strings.SplitSeq(shape[1], ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || total > maxBytes/8/n {
			return arrayHeader{}, errors.New("has an axis of impossible length")
		}
		total *= n
		a.shape = append(a.shape, n)
	}
	if len(a.shape) == 0 {
		return arrayHeader{}, errors.New("is a single number; an array needs one entry an example")
	}
	if order[1] == "True" && len(a.shape) > 1 {
		return arrayHeader{}, errors.New("is in Fortran order; save numpy.ascontiguousarray of it")
	}
	return a, nil
}

// numbers reads what follows the header, in the room that roomier makes for it.
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
		part := chunk[:min(len(chunk), (cap(values)-len(values))*a.width)]
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, fmt.Errorf("ends before the %d numbers that its header announces: %w", total, unexpectedEOF(err))
		}
		for ; len(part) > 0; part = part[a.width:] {
			values = append(values, float32(a.value(part)))
		}
	}
	return values, checkEnd(r)
}
