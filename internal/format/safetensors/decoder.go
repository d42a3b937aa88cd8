package safetensors

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// ErrOther reports a file of other tensors than those of the [Decoder].
var ErrOther = errors.New("other tensors than expected")

// Decoder reads files that contain tensors of known names and shapes, in any order. It is for files
// of strangers: it refuses a file at the first name, shape or type that it does not expect, and its
// time is proportional to what it has read until then. It is safe for concurrent use.
type Decoder struct {
	tensors []expected
	byName  map[string]int
	values  int
}

type expected struct {
	shape []int
	first int // place of the first value
	size  int // number of values
}

// NewDecoder returns a decoder of tensors with the names and shapes of the given ones.
func NewDecoder(tensors []Tensor) *Decoder {
	d := &Decoder{byName: map[string]int{}}
	for i, t := range tensors {
		size := t.size()
		d.byName[t.Name] = i
		d.tensors = append(d.tensors, expected{t.Shape, d.values, size})
		d.values += size
	}
	return d
}

// Decode writes the values of a file to dst, in the order of the decoder's tensors. It allocates
// memory for the header only.
func (d *Decoder) Decode(dst []float32, file []byte) error {
	if len(dst) != d.values {
		return fmt.Errorf("safetensors: %d values for tensors of %d", len(dst), d.values)
	}
	if len(file) < 8 {
		return errors.New("safetensors: the file ends within its first 8 bytes")
	}
	length := binary.LittleEndian.Uint64(file)
	if length > uint64(len(file)-8) {
		return fmt.Errorf("safetensors: the header has %d bytes and the file %d", length, len(file))
	}
	entries, err := d.readEntries(file[8:][:length])
	if err != nil {
		return err
	}
	data := file[8+length:]
	order := make([]int, len(entries))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(entries[a].Offsets[0], entries[b].Offsets[0]) })
	var at int64
	for _, i := range order {
		e := entries[i]
		if err := e.check(); err != nil {
			return fmt.Errorf("safetensors: %w", err)
		}
		if e.Offsets[0] != at && e.Offsets[0] != e.Offsets[1] || e.Offsets[1] > int64(len(data)) {
			return fmt.Errorf("safetensors: offsets %v overlap, leave a gap or exceed the data", e.Offsets)
		}
		at = max(at, e.Offsets[1])
	}
	if at != int64(len(data)) {
		return fmt.Errorf("safetensors: %d bytes follow the last tensor", int64(len(data))-at)
	}
	for i, e := range entries {
		t := d.tensors[i]
		convert(dst[t.first:][:t.size], e.Dtype, data[e.Offsets[0]:e.Offsets[1]])
	}
	return nil
}

// convert reads values of an element type.
func convert(dst []float32, dtype string, from []byte) {
	if dtype == "F32" {
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(from[4*i:]))
		}
		return
	}
	format := elementTypes[dtype].half
	for i := range dst {
		dst[i] = format.Value(binary.LittleEndian.Uint16(from[2*i:]))
	}
}

// readEntries reads a header. Each tensor of the decoder occurs once, and no other.
func (d *Decoder) readEntries(text []byte) ([]headerEntry, error) {
	entries := make([]headerEntry, len(d.tensors))
	found := 0
	r := headerReader{text: text}
	r.object(func(name []byte) {
		if string(name) == "__metadata__" {
			r.object(func([]byte) { r.quoted() })
			return
		}
		i, known := d.byName[string(name)]
		switch {
		case !known:
			r.fail(fmt.Errorf("%w: there is an extra tensor %.40q", ErrOther, name))
		case entries[i].Dtype != "":
			r.fail(fmt.Errorf("safetensors: tensor %s occurs twice", name))
		default:
			found++
			entries[i] = r.entry(name, d.tensors[i].shape)
		}
	})
	if r.space(); r.err == nil && r.at != len(text) {
		r.fail(errors.New("safetensors: text follows the header"))
	}
	if r.err == nil && found != len(entries) {
		r.fail(fmt.Errorf("%w: %d tensors of %d", ErrOther, found, len(entries)))
	}
	return entries, r.err
}

// headerReader reads the JSON of a header in one pass. After an error it reads nothing more.
type headerReader struct {
	text []byte
	at   int
	err  error
}

func (r *headerReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *headerReader) malformed() {
	r.fail(fmt.Errorf("safetensors: byte %d of the header is not what its JSON needs", r.at))
}

func (r *headerReader) space() {
	for r.at < len(r.text) && (r.text[r.at] == ' ' || r.text[r.at] == '\n' || r.text[r.at] == '\t' || r.text[r.at] == '\r') {
		r.at++
	}
}

// takes reads the byte b if it is next after white space.
func (r *headerReader) takes(b byte) bool {
	if r.space(); r.err != nil || r.at == len(r.text) || r.text[r.at] != b {
		return false
	}
	r.at++
	return true
}

func (r *headerReader) take(b byte) {
	if !r.takes(b) {
		r.malformed()
	}
}

// list reads the items of a list up to its end.
func (r *headerReader) list(end byte, item func()) {
	for first := true; r.err == nil && !r.takes(end); first = false {
		if !first {
			r.take(',')
		}
		if r.err == nil {
			item()
		}
	}
}

// object reads an object. Value reads the value of a key.
func (r *headerReader) object(value func(key []byte)) {
	r.take('{')
	r.list('}', func() {
		key := r.quoted()
		if r.take(':'); r.err == nil {
			value(key)
		}
	})
}

// quoted reads a string.
func (r *headerReader) quoted() []byte {
	if r.take('"'); r.err != nil {
		return nil
	}
	for from, escaped := r.at, false; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '\\':
			escaped = true
			r.at++
		case c < ' ':
			r.malformed()
			return nil
		case c == '"':
			r.at++
			text := r.text[from : r.at-1]
			if !escaped {
				return text
			}
			var s string
			if json.Unmarshal(r.text[from-1:r.at], &s) != nil {
				r.malformed()
			}
			return []byte(s)
		}
	}
	r.malformed()
	return nil
}

// integer reads a number without a fraction.
func (r *headerReader) integer() int64 {
	r.space()
	from := r.at
	for r.at < len(r.text) && r.at-from < 20 && (r.text[r.at] == '-' || r.text[r.at] >= '0' && r.text[r.at] <= '9') {
		r.at++
	}
	n, err := strconv.ParseInt(string(r.text[from:r.at]), 10, 64)
	if err != nil {
		r.malformed()
	}
	return n
}

// entry reads the description of a tensor that has the given shape.
func (r *headerReader) entry(name []byte, shape []int) (e headerEntry) {
	r.object(func(key []byte) {
		switch string(key) {
		case "dtype":
			dtype := r.quoted()
			if _, known := elementTypes[string(dtype)]; !known && r.err == nil {
				r.fail(fmt.Errorf("safetensors: tensor %s: element type %.10q is not supported; convert it to F32, F16 or BF16", name, dtype))
			}
			e.Dtype = string(dtype)
		case "shape":
			e.Shape = make([]int, 0, len(shape))
			r.take('[')
			r.list(']', func() {
				n := r.integer()
				if i := len(e.Shape); i == len(shape) || int64(shape[i]) != n {
					r.fail(fmt.Errorf("%w: tensor %s has another shape than %v", ErrOther, name, shape))
					return
				}
				e.Shape = append(e.Shape, int(n))
			})
			if r.err == nil && len(e.Shape) != len(shape) {
				r.fail(fmt.Errorf("%w: tensor %s has another shape than %v", ErrOther, name, shape))
			}
		case "data_offsets":
			r.take('[')
			e.Offsets[0] = r.integer()
			r.take(',')
			e.Offsets[1] = r.integer()
			r.take(']')
		default:
			r.malformed()
		}
	})
	if r.err == nil && (e.Dtype == "" || e.Shape == nil) {
		r.fail(fmt.Errorf("safetensors: tensor %s has no element type or shape", name))
	}
	return e
}
