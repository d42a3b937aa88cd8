//go:build gpu

package cuda

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/plan"
	"gorgonia.org/tensor"
)

type dim = driver.Dim

// compiler turns instructions into launches over fixed memory. It goes over the
// program twice: once to learn how much scratch memory each instruction wants, once
// with that memory at hand.
type compiler struct {
	*Machine
	code      *code
	name      string  // of the instruction being compiled
	access    *access // of it
	err       error
	measuring bool
	wanted    []int          // scratch bytes of each instruction
	begun     int            // instructions
	from      int            // where this one's scratch memory begins
	taken     int            // bytes of it
	pool      driver.Pointer // the scratch memory
	constants map[string]driver.Pointer
	notes     map[any]driver.Pointer
	seen      map[any]bool // notes that an earlier instruction of the program writes
	prepared  map[task]*driver.Prepared
}

// call is one instruction with its memory.
type call struct {
	bases      []int // of the inputs: the buffers whose memory they are
	in         []driver.Pointer
	shapes     []tensor.Shape
	out        driver.Pointer
	shape      tensor.Shape
	accumulate bool
}

// size is the number of elements of input i.
func (k call) size(i int) int { return k.shapes[i].TotalSize() }

// results is the number of elements of the result.
func (k call) results() int { return k.shape.TotalSize() }

func (m *Machine) compile() error {
	c := &compiler{
		Machine: m, measuring: true, constants: map[string]driver.Pointer{}, notes: map[any]driver.Pointer{},
		prepared: map[task]*driver.Prepared{},
	}
	if err := c.all(); err != nil {
		return err
	}
	for _, bytes := range c.wanted {
		m.pooled += bytes
	}
	m.pooled = max(min(m.pooled, scratchBeside), slices.Max(append(c.wanted, 0)))
	if !m.guarded() {
		var err error
		if c.pool, err = m.alloc(m.pooled); err != nil {
			return err
		}
	}
	c.measuring = false
	if err := c.all(); err != nil {
		return err
	}
	return m.record()
}

// record makes the graphs that answer to the host: what it fills is copied in and
// what it reads is copied out.
func (m *Machine) record() error {
	in := func(x *mirror) step { return copying(x.span(), func() error { return m.in(x) }) }
	out := func(x *mirror) step {
		return step{name: "copy out", access: &access{reads: []span{x.span()}}, queue: func() error { return m.out(x) }}
	}
	each := func(f func(*mirror) step, list ...*mirror) (steps []step) {
		for _, x := range list {
			if x != nil {
				steps = append(steps, f(x))
			}
		}
		return steps
	}
	before := each(in, append(slices.Clone(m.inputs), m.weights, m.ticket)...)
	after := each(out, append(slices.Clone(m.squared), m.output, m.losses)...)
	if err := m.front.record(m.device, before, after); err != nil {
		return err
	}
	return m.back.record(m.device, each(in, m.factors...), nil)
}

func (c *compiler) all() error {
	c.seen = map[any]bool{}
	c.begun, c.from, c.taken = 0, 0, 0
	c.front, c.back = code{}, code{}
	c.code = &c.front
	if err := c.instructions(c.program.Front); err != nil {
		return err
	}
	c.code = &c.back
	return c.instructions(c.program.Back)
}

func (c *compiler) instructions(list []plan.Instruction) error {
	for _, i := range list {
		c.begin()
		c.access.writes = append(c.access.writes, c.span(i.Out))
		k := call{out: c.memory[i.Out], shape: c.program.Buffers[i.Out].Shape, accumulate: i.Accumulate}
		for _, id := range i.In {
			c.access.reads = append(c.access.reads, c.span(id))
			k.in = append(k.in, c.memory[id])
			k.shapes = append(k.shapes, c.program.Buffers[id].Shape)
			k.bases = append(k.bases, c.program.Buffers[id].Base)
		}
		if i.Spec == nil {
			c.name = i.Foreign.String()
			c.foreign(i.Foreign, k)
		} else {
			c.name = i.Spec.String()
			if !c.native(i.Spec, k) {
				c.reference(i.Spec, k)
			}
		}
		if c.err != nil {
			return fmt.Errorf("cuda: %s: %w", c.name, c.err)
		}
		c.end()
	}
	return nil
}

// scratchBeside is how many bytes of scratch memory are taken so that instructions may run
// beside each other.
var scratchBeside = 32 << 20

// begin gives an instruction scratch memory behind that of the one before it, as far as
// there is such, and where ends are guarded memory of its own.
func (c *compiler) begin() {
	c.access = &access{}
	c.from, c.taken = c.from+c.taken, 0
	switch {
	case c.measuring:
	case c.guarded():
		c.from = 0
		c.pool, c.err = c.alloc(c.wanted[c.begun])
	case c.from+c.wanted[c.begun] > c.pooled:
		c.from = 0
	}
	c.begun++
}

func (c *compiler) end() {
	if c.measuring {
		c.wanted = append(c.wanted, c.taken)
	}
	c.access.writes = append(c.access.writes, bytesAt(c.pool+driver.Pointer(c.from), c.taken))
}

// span is a buffer's memory.
func (m *Machine) span(id int) span {
	return floatsAt(m.memory[id], m.program.Buffers[m.program.Buffers[id].Base].Size())
}

// native queues the kernels for an operation; false where there is none for
// these shapes and the host's reference serves. An operation is in one of the lists.
func (c *compiler) native(spec op.Spec, k call) bool {
	switch s := spec.(type) { // these alone add to what is there
	case op.ClippedSum:
		return c.clippedSum(s, k)
	case op.WeightedRows:
		c.weightedRows(k)
		return true
	}
	return !k.accumulate && (c.records(spec, k) || c.products(spec, k) || c.convolutions(spec, k) || c.channels(spec, k) || c.loss(spec, k) ||
		c.sequences(spec, k) || c.tables(spec, k) || c.elements(spec, k) || c.moves(spec, k))
}

// queue adds work for the device.
func (c *compiler) queue(name string, f func() error) {
	c.code.steps = append(c.code.steps, step{name: name, access: c.access, queue: f})
}

// launch adds a kernel's launch. Arguments are laid out as C does.
func (c *compiler) launch(kernel string, grid, block dim, args ...any) {
	k, err := c.device.Kernel(kernel)
	if err != nil {
		if c.err == nil {
			c.err = err
		}
		return
	}
	packed := driver.Pack(args...)
	c.queue(c.name+" ("+kernel+")", func() error { return c.device.Launch(k, grid, block, packed) })
}

// scratch is memory for the instruction being compiled alone.
func (c *compiler) scratch(bytes int) driver.Pointer {
	at := c.from + c.taken
	c.taken += (bytes + 255) &^ 255
	return c.pool + driver.Pointer(at)
}

// constant is memory that holds x for the machine's life; equal contents share
// it.
func (c *compiler) constant(x []int32) driver.Pointer { return c.kept(bytesOf(x)) }

func (c *compiler) kept(content []byte) driver.Pointer {
	if p, ok := c.constants[string(content)]; ok {
		return p
	}
	p, err := c.alloc(len(content))
	if err == nil {
		err = c.upload(p, content)
	}
	if err != nil && c.err == nil {
		c.err = err
	}
	c.constants[string(content)] = p
	return p
}

// note is memory in which one instruction leaves something for later ones, such
// as the cells that maxima came from, which then run one after the other. Known tells
// whether an earlier instruction asked for it, and so writes it.
func (c *compiler) note(key any, bytes int) (p driver.Pointer, known bool) {
	p, ok := c.notes[key]
	if !ok {
		var err error
		if p, err = c.alloc(bytes); err != nil && c.err == nil {
			c.err = err
		}
		c.notes[key] = p
	}
	c.access.writes = append(c.access.writes, bytesAt(p, bytes))
	known = c.seen[key]
	c.seen[key] = true
	return p, known
}

// blocks is a grid of one thread an element, in blocks of 256; kernels stride by
// the grid, so it need not cover every element at once.
func blocks(elements int) dim {
	const most = 1 << 20
	return dim{uint32(max(1, min(ceil(elements, 256), most))), 1, 1}
}

// threads is the block that goes with blocks.
var threads = dim{256, 1, 1}
