package state

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

	"github.com/dptrain/dptrain/internal/device/plan"
)

// ErrDamaged is wrapped by an error where a checkpoint or its ledger differs from what was
// written.
var ErrDamaged = errors.New("damaged")

// Checkpoint is the state from which a run continues. All of it is public once the ledger
// contains its lots: released values and functions of them. It never contains a key: a resumed
// run draws noise and lots with a fresh one.
//
// The file format: the line magic; the length of the header, 8 bytes, little-endian;
// the header, as JSON; parameter by parameter the weights, the average and the optimizer state,
// then the directions of a projection and running statistics, as little-endian float32; the SHA-256 of all this.
type Checkpoint struct {
	Run     Fingerprint `json:"run"`
	Step    int         `json:"step"` // lots done
	Head    string      `json:"ledger_head,omitempty"`
	Bounds  []float64   `json:"bounds,omitempty"` // clipping.Clipper's State
	Sizes   []int       `json:"sizes"`            // elements of each parameter
	Average bool        `json:"average"`
	Slots   int         `json:"slots"`
	Memory  plan.State  `json:"-"`

	Projection int       `json:"projection,omitempty"` // numbers of released directions
	Directions []float32 `json:"-"`

	Running           int       `json:"running,omitempty"` // numbers of running statistics, and of their average
	RunningStatistics []float32 `json:"-"`

	numbers *io.SectionReader // of a file that is read: the input of load
	file    io.Closer
}

const (
	magic          = "dptrain checkpoint 2\n"
	notACheckpoint = "it does not begin as a checkpoint of this version"
	chunkNumbers   = 1 << 14 // numbers that are read or written at a time
)

// numbersPerWeight returns how many numbers the file has for each weight.
func (c *Checkpoint) numbersPerWeight() int64 {
	if c.Average {
		return 2 + int64(c.Slots)
	}
	return 1 + int64(c.Slots)
}

// arrays returns the state's arrays, in the order of the file.
func (c *Checkpoint) arrays() [][]float32 {
	var all [][]float32
	for v := range c.Sizes {
		all = append(all, c.Memory.Weights[v])
		if c.Average {
			all = append(all, c.Memory.Average[v])
		}
		all = append(all, c.Memory.Slots[v]...)
	}
	return all
}

func (c *Checkpoint) write(w io.Writer) error {
	header, err := json.Marshal(c)
	if err != nil {
		return err
	}
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	out.WriteString(magic)
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header))))
	out.Write(header)
	numbers := NumberWriter{To: out}
	for _, x := range append(c.arrays(), c.Directions, c.RunningStatistics) {
		numbers.Write(x)
	}
	if err := out.Flush(); err != nil { // bufio.Writer keeps the first error
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// readCheckpoint reads a checkpoint from a file of a given size. It only checks the state's
// numbers: load reads them once their memory is allocated. It allocates at most in proportion
// to the size, even if the header states more.
func readCheckpoint(file io.ReaderAt, size int64) (*Checkpoint, error) {
	damaged := func(why string) (*Checkpoint, error) { return nil, fmt.Errorf("%w: %s", ErrDamaged, why) }
	start := make([]byte, len(magic)+8)
	if size < int64(len(start)+sha256.Size) {
		return damaged(notACheckpoint)
	}
	body := io.NewSectionReader(file, 0, size-sha256.Size)
	if _, err := body.ReadAt(start, 0); err != nil {
		return nil, err
	}
	if string(start[:len(magic)]) != magic {
		return damaged(notACheckpoint)
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
	left := body.Size() - int64(len(start))
	length := binary.LittleEndian.Uint64(start[len(magic):])
	if length > uint64(left) {
		return damaged("its header is longer than the file")
	}
	header := make([]byte, length)
	if _, err := io.ReadFull(io.NewSectionReader(body, int64(len(start)), int64(length)), header); err != nil {
		return nil, err
	}
	c := &Checkpoint{}
	d := json.NewDecoder(bytes.NewReader(header))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return damaged("its header cannot be read: " + err.Error())
	}
	if left -= int64(length); !c.describes(left) {
		return damaged("it does not contain as many numbers as its header states")
	}
	c.numbers = io.NewSectionReader(file, body.Size()-left, left)
	if err := readNumbers(c.numbers, left/4-int64(c.Projection)-int64(c.Running), nil); err != nil {
		return nil, err
	}
	if c.Projection > 0 {
		c.Directions = make([]float32, c.Projection)
	}
	if err := readNumbers(c.numbers, int64(c.Projection), c.Directions); err != nil || c.Running == 0 {
		return c, err
	}
	c.RunningStatistics = make([]float32, c.Running)
	return c, readNumbers(c.numbers, int64(c.Running), c.RunningStatistics)
}

// describes reports whether the header describes size bytes of numbers.
func (c *Checkpoint) describes(size int64) bool {
	if c.Step < 0 || c.Slots < 0 || int64(c.Slots) > size || c.Projection < 0 || int64(c.Projection) > size/4 ||
		c.Running < 0 || int64(c.Running) > size/4-int64(c.Projection) {
		return false
	}
	left := size - 4*int64(c.Projection) - 4*int64(c.Running)
	for _, n := range c.Sizes {
		if n < 1 || int64(n) > left/4/c.numbersPerWeight() {
			return false
		}
		left -= 4 * int64(n) * c.numbersPerWeight()
	}
	return left == 0
}

// CheckSizes compares the sizes of the state with those of a run whose fingerprint is equal.
func (c *Checkpoint) CheckSizes(of *Checkpoint) error {
	if !slices.Equal(c.Sizes, of.Sizes) || c.Slots != of.Slots || c.Average != of.Average ||
		c.Projection != of.Projection || c.Running != of.Running {
		return fmt.Errorf("%w: the checkpoint does not contain the parameters that it describes", ErrDamaged)
	}
	return nil
}

// Close closes the file that open opened.
func (c *Checkpoint) Close() error { return c.file.Close() }

// Load reads the state's numbers into memory.
func (c *Checkpoint) Load(into plan.State) error {
	c.Memory = into
	if _, err := c.numbers.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for _, x := range c.arrays() {
		if err := readNumbers(c.numbers, int64(len(x)), x); err != nil {
			return err
		}
	}
	return nil
}

// readNumbers reads and checks n numbers. It stores them unless into is nil.
func readNumbers(in io.Reader, n int64, into []float32) error {
	chunk := make([]byte, 4*min(n, chunkNumbers))
	for ; n > 0; n -= int64(len(chunk) / 4) {
		chunk = chunk[:4*min(n, chunkNumbers)]
		if _, err := io.ReadFull(in, chunk); err != nil {
			return err
		}
		for i := range len(chunk) / 4 {
			v := math.Float32frombits(binary.LittleEndian.Uint32(chunk[4*i:]))
			if math.IsNaN(float64(v)) {
				return fmt.Errorf("%w: a value is not a number", ErrDamaged)
			}
			if into != nil {
				into[i] = v
			}
		}
		if into != nil {
			into = into[len(chunk)/4:]
		}
	}
	return nil
}
