package drawdiscard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/internal/safetensors"
)

// Codec writes and reads the weights of one model as a safetensors file. It is safe for concurrent
// use.
type Codec struct {
	tensors []TensorShape
	weights int
	header  []byte // of the files that it writes
}

// Errors of Decode.
var (
	ErrMalformed = errors.New("not a safetensors file of float32 tensors")
	ErrShape     = errors.New("other tensors than the model's")
	ErrNotFinite = errors.New("a weight is NaN or infinite")
)

// maxForeignHeader is the largest header of a file from another program.
const maxForeignHeader = 1 << 16

// NewCodec returns the codec of a model.
func NewCodec(tensors []TensorShape) (*Codec, error) {
	c := &Codec{tensors: tensors}
	parts := make([]safetensors.Tensor, len(tensors))
	for i, t := range tensors {
		size := 1
		for _, n := range t.Shape {
			size *= n
		}
		parts[i] = safetensors.Tensor{Name: t.Name, Shape: t.Shape, Values: make([]float32, size)}
		c.weights += size
	}
	var file bytes.Buffer
	if err := safetensors.Write(&file, parts, nil); err != nil {
		return nil, err
	}
	c.header = slices.Clone(file.Bytes()[:file.Len()-4*c.weights])
	return c, nil
}

// Size is the length of a file that Append writes.
func (c *Codec) Size() int { return len(c.header) + 4*c.weights }

// MaxSize is the length of the longest file that Decode reads.
func (c *Codec) MaxSize() int { return max(len(c.header), maxForeignHeader) + 4*c.weights }

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
	weights := make([]float32, 0, c.weights)
	if len(file) == c.Size() && bytes.HasPrefix(file, c.header) {
		weights = weights[:c.weights]
		for i := range weights {
			weights[i] = math.Float32frombits(binary.LittleEndian.Uint32(file[len(c.header)+4*i:]))
		}
		return weights, checkFinite(weights)
	}
	if len(file) > c.MaxSize() {
		return nil, fmt.Errorf("%w: %d bytes, and at most %d are expected", ErrMalformed, len(file), c.MaxSize())
	}
	parts, _, err := safetensors.Read(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	if len(parts) != len(c.tensors) {
		return nil, fmt.Errorf("%w: %d tensors, and the model has %d", ErrShape, len(parts), len(c.tensors))
	}
	for _, t := range c.tensors {
		i := slices.IndexFunc(parts, func(p safetensors.Tensor) bool { return p.Name == t.Name })
		if i < 0 {
			return nil, fmt.Errorf("%w: tensor %s is missing", ErrShape, t.Name)
		}
		if !slices.Equal(parts[i].Shape, t.Shape) {
			return nil, fmt.Errorf("%w: tensor %s has shape %v, and the model's has %v", ErrShape, t.Name, parts[i].Shape, t.Shape)
		}
		weights = append(weights, parts[i].Values...)
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
