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
	"slices"

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

	numbers *io.SectionReader // of a file that was read: what load reads
	file    io.Closer
}

const (
	checkpointMagic = "dptrain checkpoint 1\n"
	noCheckpoint    = "it does not begin as a checkpoint of this version"
	inPart          = 1 << 14 // numbers that are read or written at a time
)

// perElement is how many numbers are kept for each weight.
func (c *checkpoint) perElement() int64 {
	if c.Average {
		return 2 + int64(c.Slots)
	}
	return 1 + int64(c.Slots)
}

// vectors are the state's, in the order of the file.
func (c *checkpoint) vectors() [][]float32 {
	var all [][]float32
	for v := range c.Sizes {
		all = append(all, c.state.Weights[v])
		if c.Average {
			all = append(all, c.state.Average[v])
		}
		all = append(all, c.state.Slots[v]...)
	}
	return all
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
	part := make([]byte, 0, 4*inPart)
	for _, x := range append(c.vectors(), c.projection) {
		for numbers := range slices.Chunk(x, inPart) {
			part, _ = binary.Append(part[:0], binary.LittleEndian, numbers)
			out.Write(part)
		}
	}
	if err := out.Flush(); err != nil { // it keeps the first error
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// readCheckpoint reads a checkpoint's file of so many bytes. The state's numbers are
// only looked at: load reads them once there is a place for them. What is allocated is
// bounded by the size, whatever the file says.
func readCheckpoint(file io.ReaderAt, size int64) (*checkpoint, error) {
	damaged := func(why string) (*checkpoint, error) { return nil, fmt.Errorf("%w: %s", ErrDamaged, why) }
	begin := make([]byte, len(checkpointMagic)+8)
	if size < int64(len(begin)+sha256.Size) {
		return damaged(noCheckpoint)
	}
	body := io.NewSectionReader(file, 0, size-sha256.Size)
	if _, err := body.ReadAt(begin, 0); err != nil {
		return nil, err
	}
	if string(begin[:len(checkpointMagic)]) != checkpointMagic {
		return damaged(noCheckpoint)
	}
	sum, got := make([]byte, sha256.Size), sha256.New()
	if _, err := file.ReadAt(sum, body.Size()); err != nil {
		return nil, err
	}
	if _, err := io.Copy(got, body); err != nil {
		return nil, err
	}
	if !bytes.Equal(got.Sum(nil), sum) {
		return damaged("its checksum does not match: it was cut short or changed")
	}
	left := body.Size() - int64(len(begin))
	length := binary.LittleEndian.Uint64(begin[len(checkpointMagic):])
	if length > uint64(left) {
		return damaged("its header is longer than the file")
	}
	header := make([]byte, length)
	if _, err := io.ReadFull(io.NewSectionReader(body, int64(len(begin)), int64(length)), header); err != nil {
		return nil, err
	}
	c := &checkpoint{}
	d := json.NewDecoder(bytes.NewReader(header))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return damaged("its header cannot be read: " + err.Error())
	}
	if left -= int64(length); !c.holds(left) {
		return damaged("it does not hold as many numbers as its header says")
	}
	c.numbers = io.NewSectionReader(file, body.Size()-left, left)
	if err := readNumbers(c.numbers, left/4-int64(c.Projection), nil); err != nil {
		return nil, err
	}
	if c.Projection > 0 {
		c.projection = make([]float32, c.Projection)
	}
	return c, readNumbers(c.numbers, int64(c.Projection), c.projection)
}

// holds reports whether the header describes so many bytes of numbers.
func (c *checkpoint) holds(size int64) bool {
	if c.Step < 0 || c.Slots < 0 || int64(c.Slots) > size || c.Projection < 0 || int64(c.Projection) > size/4 {
		return false
	}
	left := size - 4*int64(c.Projection)
	for _, n := range c.Sizes {
		if n < 1 || int64(n) > left/4/c.perElement() {
			return false
		}
		left -= 4 * int64(n) * c.perElement()
	}
	return left == 0
}

// load reads the state's numbers.
func (c *checkpoint) load(into plan.State) error {
	c.state = into
	if _, err := c.numbers.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for _, x := range c.vectors() {
		if err := readNumbers(c.numbers, int64(len(x)), x); err != nil {
			return err
		}
	}
	return nil
}

// readNumbers reads n numbers, and keeps them where there is a place for them.
func readNumbers(in io.Reader, n int64, into []float32) error {
	part := make([]byte, 4*min(n, inPart))
	for ; n > 0; n -= int64(len(part) / 4) {
		part = part[:4*min(n, inPart)]
		if _, err := io.ReadFull(in, part); err != nil {
			return err
		}
		for i := range len(part) / 4 {
			v := math.Float32frombits(binary.LittleEndian.Uint32(part[4*i:]))
			if math.IsNaN(float64(v)) {
				return fmt.Errorf("%w: a value is not a number", ErrDamaged)
			}
			if into != nil {
				into[i] = v
			}
		}
		if into != nil {
			into = into[len(part)/4:]
		}
	}
	return nil
}
