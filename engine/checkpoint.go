package engine

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/dptrain/dptrain/internal/plan"
)

// ErrDamaged is what an error unwraps to where a checkpoint, or the ledger beside
// it, is not what its writer wrote.
var ErrDamaged = errors.New("damaged")

// checkpoint is what a run goes on from. All of it is public once the ledger's
// entries for its lots are: what was released, and functions of that. A key is
// never among it, so a run that goes on draws noise and lots with a fresh one.
//
// Its file is: the line checkpointMagic; the length of the header, 8 bytes,
// little-endian; the header, as JSON; the vectors' weights, averages and
// optimiser state in that order, vector by vector, and the directions of a
// projection, float32, little-endian; and the SHA-256 of all this.
type checkpoint struct {
	Run     []trait   `json:"run"`
	Step    int       `json:"step"` // lots done
	Head    string    `json:"ledger_head,omitempty"`
	Bounds  []float64 `json:"bounds,omitempty"` // clip.Clipper's State
	Sizes   []int     `json:"sizes"`            // elements of each vector
	Average bool      `json:"average"`
	Slots   int       `json:"slots"`
	state   plan.State

	Projection int `json:"projection,omitempty"` // numbers of released directions
	projection []float32
}

const checkpointMagic = "dptrain checkpoint 1\n"

// allocate makes room for the vectors, all in one block.
func (c *checkpoint) allocate() {
	c.state = plan.State{}
	total := c.Projection
	for _, n := range c.Sizes {
		total += n * c.perElement()
	}
	block := make([]float32, total)
	take := func(n int) (x []float32) {
		x, block = block[:n:n], block[n:]
		return x
	}
	for _, n := range c.Sizes {
		c.state.Weights = append(c.state.Weights, take(n))
		if c.Average {
			c.state.Average = append(c.state.Average, take(n))
		}
		slots := make([][]float32, c.Slots)
		for s := range slots {
			slots[s] = take(n)
		}
		c.state.Slots = append(c.state.Slots, slots)
	}
	if c.Projection > 0 {
		c.projection = take(c.Projection)
	}
}

// perElement is how many numbers are kept for each weight.
func (c *checkpoint) perElement() int {
	if c.Average {
		return 2 + c.Slots
	}
	return 1 + c.Slots
}

// each calls f with every vector of numbers, in the order of the file.
func (c *checkpoint) each(f func([]float32) error) error {
	for v := range c.Sizes {
		if err := f(c.state.Weights[v]); err != nil {
			return err
		}
		if c.Average {
			if err := f(c.state.Average[v]); err != nil {
				return err
			}
		}
		for _, s := range c.state.Slots[v] {
			if err := f(s); err != nil {
				return err
			}
		}
	}
	return f(c.projection)
}

// copyState copies the numbers of one state to another of the same shape.
func copyState(to, from plan.State) {
	for v := range from.Weights {
		copy(to.Weights[v], from.Weights[v])
		if from.Average != nil {
			copy(to.Average[v], from.Average[v])
		}
		for s := range from.Slots[v] {
			copy(to.Slots[v][s], from.Slots[v][s])
		}
	}
}

func (c *checkpoint) write(w io.Writer) error {
	header, err := json.Marshal(c)
	if err != nil {
		return err
	}
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	out.WriteString(checkpointMagic)
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header))))
	out.Write(header)
	var four [4]byte
	c.each(func(x []float32) error {
		for _, v := range x {
			binary.LittleEndian.PutUint32(four[:], math.Float32bits(v))
			out.Write(four[:])
		}
		return nil
	})
	if err := out.Flush(); err != nil { // it keeps the first error
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// parseCheckpoint reads a checkpoint's file. What it allocates is bounded by the
// file's size, whatever the file says.
func parseCheckpoint(file []byte) (*checkpoint, error) {
	damaged := func(why string) (*checkpoint, error) { return nil, fmt.Errorf("%w: %s", ErrDamaged, why) }
	if len(file) < len(checkpointMagic)+8+sha256.Size || string(file[:len(checkpointMagic)]) != checkpointMagic {
		return damaged("it does not begin as a checkpoint of this version")
	}
	body, sum := file[:len(file)-sha256.Size], file[len(file)-sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return damaged("its checksum does not match: it was cut short or changed")
	}
	body = body[len(checkpointMagic):]
	size := binary.LittleEndian.Uint64(body)
	if body = body[8:]; size > uint64(len(body)) {
		return damaged("its header is longer than the file")
	}
	c := &checkpoint{}
	d := json.NewDecoder(bytes.NewReader(body[:size]))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return damaged("its header cannot be read: " + err.Error())
	}
	if body = body[size:]; !c.holds(len(body)) {
		return damaged("it does not hold as many numbers as its header says")
	}
	c.allocate()
	err := c.each(func(x []float32) error {
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(body[4*i:]))
			if math.IsNaN(float64(x[i])) {
				return fmt.Errorf("%w: a value is not a number", ErrDamaged)
			}
		}
		body = body[4*len(x):]
		return nil
	})
	return c, err
}

// holds reports whether the header describes so many bytes of numbers.
func (c *checkpoint) holds(size int) bool {
	if c.Step < 0 || c.Slots < 0 || c.Slots > size || c.Projection < 0 || c.Projection > size/4 {
		return false
	}
	left := size - 4*c.Projection
	for _, n := range c.Sizes {
		if n < 1 || n > left/4/c.perElement() {
			return false
		}
		left -= 4 * n * c.perElement()
	}
	return left == 0
}
