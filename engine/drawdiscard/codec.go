package drawdiscard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/internal/format/safetensors"
)

// Codec writes and reads the weights of one model as a safetensors file. It is safe for concurrent
// use.
type Codec struct {
	weights int
	header  []byte // of the files that it writes
	decoder *safetensors.Decoder
}

// Errors of Decode.
var (
	ErrMalformed = errors.New("not a safetensors file of float32 tensors")
	ErrShape     = errors.New("other tensors than the model's")
	ErrNotFinite = errors.New("a weight is NaN or infinite")
)

// foreignHeader is the room for metadata and white space in the header of a file from another
// program, besides twice the codec's own header.
const foreignHeader = 4 << 10

// NewCodec returns the codec of a model.
func NewCodec(tensors []TensorShape) (*Codec, error) {
	c := &Codec{}
	parts := make([]safetensors.Tensor, len(tensors))
	for i, t := range tensors {
		size := 1
		for _, n := range t.Shape {
			size *= n
		}
		parts[i] = safetensors.Tensor{Name: t.Name, Shape: t.Shape}
		c.weights += size
	}
	var err error
	if c.header, err = safetensors.Header(parts, nil); err != nil {
		return nil, err
	}
	c.decoder = safetensors.NewDecoder(parts)
	return c, nil
}

// Size is the length of a file that Append writes.
func (c *Codec) Size() int { return len(c.header) + 4*c.weights }

// MaxSize is the length of the longest file that Decode reads.
func (c *Codec) MaxSize() int { return 2*len(c.header) + foreignHeader + 4*c.weights }

// Append appends the file of the weights to dst.
func (c *Codec) Append(dst []byte, weights []float32) []byte {
	dst = append(dst, c.header...)
	at := len(dst)
	dst = slices.Grow(dst, 4*len(weights))[:at+4*len(weights)]
	for i, w := range weights {
		binary.LittleEndian.PutUint32(dst[at+4*i:], math.Float32bits(w))
	}
	return dst
}

// Decode reads the weights from a file. All weights must be finite. The file may come from another
// program: its tensors may have another order, but no other names or shapes.
func (c *Codec) Decode(file []byte) ([]float32, error) {
	if least := 2 * c.weights; len(file) < least || len(file) > c.MaxSize() { // a weight has two bytes at least
		return nil, fmt.Errorf("%w: %d bytes, and %d to %d are expected", ErrMalformed, len(file), least, c.MaxSize())
	}
	weights := make([]float32, c.weights)
	if len(file) == c.Size() && bytes.HasPrefix(file, c.header) {
		for i := range weights {
			weights[i] = math.Float32frombits(binary.LittleEndian.Uint32(file[len(c.header)+4*i:]))
		}
		return weights, checkFinite(weights)
	}
	switch err := c.decoder.Decode(weights, file); {
	case errors.Is(err, safetensors.ErrOther):
		return nil, fmt.Errorf("%w: %v", ErrShape, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	return weights, checkFinite(weights)
}

// checkFinite returns an error if a weight is NaN or infinite: its exponent has all bits set.
func checkFinite(weights []float32) error {
	for _, w := range weights {
		if math.Float32bits(w)&0x7f800000 == 0x7f800000 {
			return ErrNotFinite
		}
	}
	return nil
}
