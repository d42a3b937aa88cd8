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
	*Executable
	code         *stepSequence
	name         string  // of the instruction being compiled
	access       *access // of it
	err          error
	measuring    bool
	scratchSizes []int          // scratch bytes of each instruction
	instruction  int            // instructions
	scratchStart int            // where this one's scratch memory begins
	scratchUsed  int            // bytes of it
	scratchBase  driver.Pointer // the scratch memory
	constants    map[string]driver.Pointer
	shared       map[any]driver.Pointer
	written      map[any]bool // notes that an earlier instruction of the program writes
	prepared     map[libraryTask]*driver.PreparedCall
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

func (m *Executable) compile() error {
	c := &compiler{
		Executable: m, measuring: true, constants: map[string]driver.Pointer{}, shared: map[any]driver.Pointer{},
		prepared: map[libraryTask]*driver.PreparedCall{},
	}
	if err := c.all(); err != nil {
		return err
	}
	for _, bytes := range c.scratchSizes {
		m.scratchBytes += bytes
	}
	m.scratchBytes = max(min(m.scratchBytes, concurrentScratch), slices.Max(append(c.scratchSizes, 0)))
	if !m.guarded() {
		var err error
		if c.scratchBase, err = m.alloc(m.scratchBytes); err != nil {
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
func (m *Executable) record() error {
	in := func(x *pinnedBuffer) step { return copyInStep(x.span(), func() error { return m.in(x) }) }
	out := func(x *pinnedBuffer) step {
		return step{name: "copy out", access: &access{reads: []span{x.span()}}, queue: func() error { return m.out(x) }}
	}
	each := func(f func(*pinnedBuffer) step, list ...*pinnedBuffer) (steps []step) {
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
	c.written = map[any]bool{}
	c.instruction, c.scratchStart, c.scratchUsed = 0, 0, 0
	c.front, c.back = stepSequence{}, stepSequence{}
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
			c.runGorgoniaOp(i.Foreign, k)
		} else {
			c.name = i.Spec.String()
			if !c.lowerNative(i.Spec, k) {
				c.runReference(i.Spec, k)
			}
		}
		if c.err != nil {
			return fmt.Errorf("cuda: %s: %w", c.name, c.err)
		}
		c.end()
	}
	return nil
}

// concurrentScratch is how many bytes of scratch memory are taken so that instructions may run
// beside each other.
var concurrentScratch = 32 << 20

// begin gives an instruction scratch memory behind that of the one before it, as far as
// there is such, and where ends are guarded memory of its own.
func (c *compiler) begin() {
	c.access = &access{}
	c.scratchStart, c.scratchUsed = c.scratchStart+c.scratchUsed, 0
	switch {
	case c.measuring:
	case c.guarded():
		c.scratchStart = 0
		c.scratchBase, c.err = c.alloc(c.scratchSizes[c.instruction])
	case c.scratchStart+c.scratchSizes[c.instruction] > c.scratchBytes:
		c.scratchStart = 0
	}
	c.instruction++
}

func (c *compiler) end() {
	if c.measuring {
		c.scratchSizes = append(c.scratchSizes, c.scratchUsed)
	}
	c.access.writes = append(c.access.writes, bytesAt(c.scratchBase+driver.Pointer(c.scratchStart), c.scratchUsed))
}

// span is a buffer's memory.
func (m *Executable) span(id int) span {
	return floatsAt(m.memory[id], m.program.Buffers[m.program.Buffers[id].Base].Size())
}

// lowerNative queues the kernels for an operation; false where there is none for
// these shapes and the host's reference serves. An operation is in one of the lists.
func (c *compiler) lowerNative(spec op.Spec, k call) bool {
	switch s := spec.(type) { // these alone add to what is there
	case op.ClippedSum:
		return c.lowerClippedSum(s, k)
	case op.WeightedRows:
		c.lowerWeightedRows(k)
		return true
	}
	return !k.accumulate && (c.lowerRecordOp(spec, k) || c.lowerProductOp(spec, k) || c.lowerConvolutionOp(spec, k) || c.lowerChannelOp(spec, k) || c.lowerLossOp(spec, k) ||
		c.lowerSequenceOp(spec, k) || c.lowerEmbeddingOp(spec, k) || c.lowerElementwiseOp(spec, k) || c.lowerLayoutOp(spec, k))
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
	at := c.scratchStart + c.scratchUsed
	c.scratchUsed += (bytes + 255) &^ 255
	return c.scratchBase + driver.Pointer(at)
}

// constant is memory that holds x for the machine's life; equal contents share
// it.
func (c *compiler) constant(x []int32) driver.Pointer { return c.constantBytes(bytesOf(x)) }

func (c *compiler) constantBytes(content []byte) driver.Pointer {
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

// sharedMemory is memory in which one instruction leaves something for later ones, such
// as the cells that maxima came from, which then run one after the other. Known tells
// whether an earlier instruction asked for it, and so writes it.
func (c *compiler) sharedMemory(key any, bytes int) (p driver.Pointer, known bool) {
	p, ok := c.shared[key]
	if !ok {
		var err error
		if p, err = c.alloc(bytes); err != nil && c.err == nil {
			c.err = err
		}
		c.shared[key] = p
	}
	c.access.writes = append(c.access.writes, bytesAt(p, bytes))
	known = c.written[key]
	c.written[key] = true
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
