//go:build gpu

package compile

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/cuda/internal/timing"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/half"
	"gorgonia.org/tensor"
)

type dim = driver.Dim

// compiler turns a program's instructions into kernel launches over fixed memory. It
// compiles the program twice: first to measure the scratch memory of each instruction,
// then with that memory allocated. Lowering functions, one family of operations a file,
// queue launches through it. Compiling may overwrite the buffers, weights included: it
// initializes the buffers again, and the caller loads the weights afterwards.
type compiler struct {
	program *plan.Program
	device  *driver.Device
	memory  *deviceMemory
	buffers *bufferLayout
	options Options

	contributions *contributions // nil unless the program is exact

	front, back stepSequence
	calls       []*driver.PreparedCall // of libraries
	scratch     scratchPlanner

	steps     *[]step // receives what is queued
	name      string  // of the current instruction
	access    *access // of the current instruction
	err       error   // the first failure of a lowering function
	constants map[string]driver.Pointer
	shared    map[any]driver.Pointer
	written   map[any]bool // shared memory that an earlier instruction of the program writes
	prepared  map[libraryTask]*driver.PreparedCall

	choices     *timing.Table // nil: nothing is measured
	overwritten bool          // a measurement or a test of a library has overwritten buffers
}

func newCompiler(p *plan.Program, m *deviceMemory, l *bufferLayout, o Options) *compiler {
	return &compiler{
		program: p.Annotated(), device: m.device, memory: m, buffers: l, options: o,
		constants: map[string]driver.Pointer{}, shared: map[any]driver.Pointer{}, written: map[any]bool{},
		prepared: map[libraryTask]*driver.PreparedCall{}, choices: choices(o.Ordinal),
	}
}

// newStepCompiler is a compiler for single launches outside a program's instructions.
func newStepCompiler(d *driver.Device, name string) *compiler {
	return &compiler{device: d, name: name, steps: new([]step)}
}

func (c *compiler) compile() error {
	c.scratch.measuring = true
	if err := c.compileProgram(); err != nil {
		return err
	}
	if err := c.scratch.allocate(c.memory, c.buffers.guarded); err != nil {
		return err
	}
	if c.choices != nil {
		if err := c.buffers.fillClipFactors(c.memory); err != nil {
			return err
		}
	}
	if err := c.compileProgram(); err != nil {
		return err
	}
	if c.choices != nil {
		_ = c.choices.Save() // without the file, the next process measures again
	}
	if c.overwritten {
		return c.buffers.initialize(c.memory)
	}
	return nil
}

func (c *compiler) compileProgram() error {
	clear(c.written)
	c.scratch.restart()
	c.front, c.back = stepSequence{}, stepSequence{}
	c.steps = &c.front.steps
	if err := c.compileInstructions(c.program.Front); err != nil {
		return err
	}
	c.steps = &c.back.steps
	if c.program.Exact {
		c.beginContributions()
	}
	return c.compileInstructions(c.program.Back)
}

// call is one instruction with its memory.
type call struct {
	plan.Annotation
	bases      []int // of the inputs: the buffers whose memory they are
	in         []driver.Pointer
	formats    []half.Format // of the inputs with numbers of 16 bits: see plan.Program.KeepHalf
	shapes     []tensor.Shape
	out        driver.Pointer
	shape      tensor.Shape
	accumulate bool
}

// size is the number of elements of input i.
func (k call) size(i int) int { return k.shapes[i].TotalSize() }

// results is the number of elements of the result.
func (k call) results() int { return k.shape.TotalSize() }

func (c *compiler) compileInstructions(list []plan.Instruction) error {
	for _, i := range list {
		c.access = &access{writes: []span{c.buffers.span(i.Out)}}
		c.fail(c.scratch.begin(c.memory))
		k := call{Annotation: i.Annotation, out: c.buffers.address[i.Out], shape: c.program.Buffers[i.Out].Shape, accumulate: i.Accumulate}
		for _, id := range i.In {
			c.access.reads = append(c.access.reads, c.buffers.span(id))
			k.in = append(k.in, c.buffers.address[id])
			k.formats = append(k.formats, c.buffers.format(id))
			k.shapes = append(k.shapes, c.program.Buffers[id].Shape)
			k.bases = append(k.bases, c.program.Buffers[id].Base)
		}
		c.lowerInstruction(i, k)
		if c.err != nil {
			return fmt.Errorf("cuda: %s: %w", c.name, c.err)
		}
		c.access.writes = append(c.access.writes, c.scratch.end())
	}
	return nil
}

// lowerInstruction queues the steps of an instruction on the path that the plan chose.
func (c *compiler) lowerInstruction(i plan.Instruction, k call) {
	if i.Path == plan.ByGorgonia {
		c.name = i.Foreign.String()
		runGorgoniaOp(c, i.Foreign, k)
		return
	}
	c.name = i.Spec.String()
	switch {
	case i.Path == plan.ByContribution:
		lowerContribution(c, i, k)
	case i.Path == plan.ByReference || !lower(c, i.Spec, k):
		runReference(c, i.Spec, k)
	}
}

// lower queues the kernels for an operation. It returns false if there is no kernel for
// these shapes; the host then computes the reference. One family handles each operation.
func lower(c *compiler, spec op.Operation, k call) bool {
	switch s := spec.(type) { // these can add to the result's previous value
	case op.ClippedSum:
		return lowerClippedSum(c, s, k)
	case op.WeightedRows:
		lowerWeightedRows(c, k)
		return true
	}
	return lowerRecordOp(c, spec, k) || lowerProductOp(c, spec, k) || lowerConvolutionOp(c, spec, k) ||
		lowerChannelOp(c, spec, k) || lowerLossOp(c, spec, k) || lowerSequenceOp(c, spec, k) || lowerEmbeddingOp(c, spec, k) ||
		lowerElementwiseOp(c, spec, k) || lowerLayoutOp(c, spec, k)
}

// fail keeps the first error.
func (c *compiler) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// queue adds a step for the device.
func (c *compiler) queue(name string, f func() error) {
	*c.steps = append(*c.steps, step{name: name, access: c.access, queue: f})
}

// launch adds a kernel launch. The arguments are laid out as in C.
func (c *compiler) launch(kernel string, grid, block dim, args ...any) {
	k, err := c.device.Kernel(kernel)
	if err != nil {
		c.fail(err)
		return
	}
	packed := driver.Pack(args...)
	c.queue(c.name+" ("+kernel+")", func() error { return c.device.Launch(k, grid, block, packed) })
}

// launchPart adds a launch that can become part of a batch: of a kernel whose argument is a
// table. The arguments of the part are laid out as a struct in C.
func (c *compiler) launchPart(kernel string, grid, block dim, args ...any) *part {
	k, err := c.device.Kernel(kernel)
	c.fail(err)
	p := &part{kernel: k, name: kernel, grid: grid, block: block, arguments: driver.Pack(args...)}
	c.queue(c.name+" ("+kernel+")", func() error { return launchBatch(c.device, []*part{p}) })
	steps := *c.steps
	steps[len(steps)-1].part = p
	return p
}

// zero adds a step that sets memory to zero.
func (c *compiler) zero(p driver.Pointer, bytes int) {
	c.queue(c.name+" (zeros)", func() error { return c.device.Zero(p, bytes) })
}

// allocScratch is scratch memory for the current instruction.
func (c *compiler) allocScratch(bytes int) driver.Pointer { return c.scratch.alloc(bytes) }

// constant is memory that contains x until the executable is closed. Equal contents share
// memory.
func (c *compiler) constant(x []int32) driver.Pointer { return c.constantBytes(bytesOf(x)) }

func (c *compiler) constantBytes(content []byte) driver.Pointer {
	if p, ok := c.constants[string(content)]; ok {
		return p
	}
	p, err := c.memory.alloc(len(content))
	if err == nil {
		err = c.memory.upload(p, content)
	}
	c.fail(err)
	c.constants[string(content)] = p
	return p
}

// sharedMemory is memory through which one instruction passes data to later ones, for
// example the positions of maxima; these instructions depend on each other. known reports
// whether an earlier instruction of the program has asked for it, and so writes it.
func (c *compiler) sharedMemory(key any, bytes int) (p driver.Pointer, known bool) {
	p, ok := c.shared[key]
	if !ok {
		var err error
		p, err = c.memory.alloc(bytes)
		c.fail(err)
		c.shared[key] = p
	}
	c.access.writes = append(c.access.writes, bytesAt(p, bytes))
	known = c.written[key]
	c.written[key] = true
	return p, known
}

// concurrentScratch is the scratch memory that is allocated, if the instructions together
// use so much, so that they can run at the same time.
var concurrentScratch = 32 << 20

// scratchPlanner gives each instruction scratch memory in one pool, after that of the
// instruction before it, and from the pool's start again where the pool ends. While
// measuring, it only adds up sizes.
type scratchPlanner struct {
	measuring bool
	guarded   bool  // every instruction has an allocation of its own
	sizes     []int // bytes of each instruction
	bytes     int   // of the pool
	pool      driver.Pointer
	next      int // index of the next instruction
	start     int // offset of the current instruction's memory
	used      int // bytes of it
}

// allocate ends measuring and allocates the pool.
func (s *scratchPlanner) allocate(m *deviceMemory, guarded bool) (err error) {
	for _, bytes := range s.sizes {
		s.bytes += bytes
	}
	s.bytes = max(min(s.bytes, concurrentScratch), slices.Max(append(s.sizes, 0)))
	s.measuring, s.guarded = false, guarded
	if !guarded {
		s.pool, err = m.alloc(s.bytes)
	}
	return err
}

func (s *scratchPlanner) restart() { s.next, s.start, s.used = 0, 0, 0 }

// begin starts the next instruction.
func (s *scratchPlanner) begin(m *deviceMemory) (err error) {
	s.start, s.used = s.start+s.used, 0
	switch {
	case s.measuring:
	case s.guarded:
		s.start = 0
		s.pool, err = m.alloc(s.sizes[s.next])
	case s.start+s.sizes[s.next] > s.bytes:
		s.start = 0
	}
	s.next++
	return err
}

func (s *scratchPlanner) alloc(bytes int) driver.Pointer {
	at := s.start + s.used
	s.used += (bytes + 255) &^ 255
	return s.pool + driver.Pointer(at)
}

// current is the memory of the current instruction so far.
func (s *scratchPlanner) current() span { return bytesAt(s.pool+driver.Pointer(s.start), s.used) }

// end returns the memory of the current instruction.
func (s *scratchPlanner) end() span {
	if s.measuring {
		s.sizes = append(s.sizes, s.used)
	}
	return s.current()
}

// blocks is a grid of one thread per element, in blocks of 256. Kernels stride by the
// grid, so the grid need not cover every element.
func blocks(elements int) dim {
	const most = 1 << 20
	return dim{uint32(max(1, min(ceil(elements, 256), most))), 1, 1}
}

// threads is the block size for grids of blocks.
var threads = dim{256, 1, 1}
