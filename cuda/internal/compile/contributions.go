//go:build gpu

package compile

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"gorgonia.org/tensor"
)

// contributions is the memory that the sums of an exact program share. The promise of
// plan.Contributions holds for the integers that the kernels add: choose_rounding of
// kernels/lattice.h takes the squared norm of every part of a contribution, determined in
// integers, from the record's budget before the part is added.
type contributions struct {
	*plan.Contributions
	device   *driver.Device
	input    driver.Pointer // a microbatch's seeds, then the parameters' steps and groups
	host     []byte         // page-locked memory for input
	budgets  driver.Pointer // [group][record] of struct Budget of kernels/lattice.h
	counters *lotCounters
}

func newContributions(p *plan.Program, m *deviceMemory, counters *lotCounters) (c *contributions, err error) {
	c = &contributions{Contributions: plan.NewContributions(p), device: m.device, counters: counters}
	alloc := func(bytes int) driver.Pointer {
		x, e := m.alloc(bytes)
		err = cmp.Or(err, e)
		return x
	}
	pinned := func(bytes int) []byte {
		b, e := m.allocPinned(bytes)
		err = cmp.Or(err, e)
		return b
	}
	c.input, c.host = alloc(c.inputBytes()), pinned(c.inputBytes())
	c.budgets = alloc(c.budgetBytes()) // there are at most as many groups as parameters
	return c, err
}

func (c *contributions) inputBytes() int {
	return 8*len(c.Seeds) + 8*len(c.Steps) + 4*len(c.Group)
}

// budgetSize is the size of struct Budget.
const budgetSize = 16

func (c *contributions) budgetBytes() int { return budgetSize * len(c.Seeds) * len(c.Group) }

// seeds, steps and groups are places in input.
func (c *contributions) seeds(record int) driver.Pointer { return c.input + driver.Pointer(8*record) }

func (c *contributions) steps(parameter int) driver.Pointer {
	return c.input + driver.Pointer(8*(len(c.Seeds)+parameter))
}

func (c *contributions) group(parameter int) driver.Pointer {
	return c.input + driver.Pointer(8*(len(c.Seeds)+len(c.Steps))+4*parameter)
}

// write writes the input of a microbatch.
func (c *contributions) write(to []byte) {
	at := to
	for _, s := range c.Seeds {
		binary.LittleEndian.PutUint64(at, s)
		at = at[8:]
	}
	for _, s := range c.Steps {
		binary.LittleEndian.PutUint64(at, math.Float64bits(s))
		at = at[8:]
	}
	for _, g := range c.Group {
		binary.LittleEndian.PutUint32(at, uint32(g))
		at = at[4:]
	}
}

// copyIn is a step that copies an input from page-locked memory.
func (c *contributions) copyIn(from []byte) step {
	return copyInStep(bytesAt(c.input, c.inputBytes()), func() error { return c.device.CopyIn(c.input, from[:c.inputBytes()]) })
}

// addCounts adds the counts of a lot that the host has copied.
func (c *contributions) addCounts() {
	c.Reduced += c.counters.readPart(0)
	c.Omitted += c.counters.readPart(1)
}

// beginContributions gives every record its budget.
func (c *compiler) beginContributions() {
	budgets := c.contributions.budgets
	n := c.contributions.budgetBytes() / budgetSize
	c.name, c.access = "contributions", &access{writes: []span{bytesAt(budgets, budgetSize*n)}}
	c.launch("begin_contributions", blocks(n), threads, budgets, int32(n))
}

// contributionArgs is struct Contribution of kernels/lattice.h.
type contributionArgs struct {
	Factors, Seeds, Steps, Group, Budgets, Counts, Roundings driver.Pointer
	Records, Number                                          int32
}

// roundingBytes is the size of struct RecordRounding of kernels/lattice.h.
const roundingBytes = 16

// contributionSum is an instruction that adds the contributions of some records to a parameter.
type contributionSum struct {
	*compiler
	call
	records int            // of the instruction
	at      driver.Pointer // where elements of the contribution belong; 0: the parameter's order
	all     contributionArgs

	// Only the kernels that admit parts take from the budgets, and only those that add write
	// the sum. So sums of other parameters, and gradients that are built, need not wait for each
	// other.
	rounding, admitting, adding *access
}

// lowerContribution queues the kernels of a sum of an exact program.
func lowerContribution(c *compiler, i plan.Instruction, k call) {
	last, shared := len(k.in)-1, c.contributions
	s := contributionSum{compiler: c, call: k, records: k.size(last)}
	parameter := c.program.Buffers[i.Out].Index
	s.all = contributionArgs{
		Factors: k.in[last], Seeds: shared.seeds(i.FirstRecord), Steps: shared.steps(parameter), Group: shared.group(parameter),
		Budgets: shared.budgets + driver.Pointer(budgetSize*i.FirstRecord), Counts: shared.counters.parts().from,
		Roundings: c.allocScratch(roundingBytes * s.records),
		Records:   int32(c.program.Records), Number: int32(i.Use),
	}
	if i.At != nil {
		s.at = c.constant(i.At.At)
	}
	operands := c.access.reads
	s.admitting = &access{
		reads:  append(slices.Clone(operands), bytesAt(shared.input, shared.inputBytes())),
		writes: []span{bytesAt(shared.budgets, shared.budgetBytes()), shared.counters.parts()},
	}
	s.rounding = &access{reads: slices.Clone(s.admitting.reads)}
	s.adding = &access{reads: slices.Clone(operands), writes: c.access.writes}
	c.access = &access{reads: operands} // of the kernels that build gradients
	s.lower(i.Contribution, i.Spec)
	s.rounding.writes = append(s.rounding.writes, c.scratch.current())
	s.admitting.writes = append(s.admitting.writes, c.scratch.current())
	s.adding.reads = append(s.adding.reads, c.scratch.current())
}

func (s *contributionSum) lower(how plan.ContributionForm, spec op.Operation) {
	switch f := spec.(type) {
	case op.WeightedRows:
		s.addBuilt(s.in[0], s.size(0)/s.records, 0, s.records)
	case op.MultiUseSum:
		if how == plan.TiedRows {
			s.lowerTied(op.MultiUseNorms(f))
			return
		}
		s.lowerMultiUse(op.MultiUseNorms(f))
	case op.ClippedSum:
		switch form := f.Form.(type) {
		case op.Gather:
			s.lowerGather(form)
			return
		case op.Product:
			s.lowerProduct(form)
			return
		case op.ConvWeight:
			if how == plan.ProductRows && newConvGeometry(form).supported() {
				s.lowerConvolution(form)
				return
			}
		}
		s.lowerBuilt(f.Form)
	default:
		panic("cuda: no rule for the contributions of " + spec.String())
	}
}

// admit queues a kernel that chooses roundings, and add one that adds to the sum.
func (s *contributionSum) admit(kernel string, grid, block dim, args ...any) {
	s.launchWith(s.admitting, func() { s.launch(kernel, grid, block, args...) })
}

func (s *contributionSum) add(kernel string, grid, block dim, args ...any) {
	s.launchWith(s.adding, func() { s.launch(kernel, grid, block, args...) })
}

// launchWith queues launches of kernels that access a.
func (s *contributionSum) launchWith(a *access, launch func()) {
	building := s.access
	s.access = a
	launch()
	s.access = building
}

// from is the argument for the records from one on.
func (s *contributionSum) from(record int) contributionArgs {
	a := s.all
	a.Factors += driver.Pointer(4 * record)
	a.Seeds += driver.Pointer(8 * record)
	a.Budgets += driver.Pointer(budgetSize * record)
	a.Roundings += driver.Pointer(roundingBytes * record)
	return a
}

// chunk is how many records fit the memory for built gradients, with this many bytes each.
func (s *contributionSum) chunk(bytes int) int {
	return max(1, min(s.records, maxGridDepth, maxGradientBytes/max(bytes, 1)))
}

// admission is struct Admission of kernels/lattice.h.
type admission struct {
	Contribution             contributionArgs
	Rows, Gradients, Squares driver.Pointer
	Size, Chunks             int32
}

// A block of admit handles at most admitRecords records, a warp each. No multiprocessor has several
// blocks while another one has none, because a block handles the records that do not fit one after the
// other. A lane of a warp handles a part of a record, so a launch has at most admitParts parts.
const admitRecords, admitParts = 8, 32

// admitPart queues the admission of a part of n records. The parts of different parameters share
// launches, also where rows and built gradients alternate.
func (s *contributionSum) admitPart(a admission, n int) {
	s.launchWith(s.admitting, func() {
		s.launchPart("admit", dim{uint32(n), 1, 1}, threads, a).budgets = a.Contribution.Budgets
	})
}

// addBuilt adds gradients that are built in float32: n rows, those of the records from first on.
func (s *contributionSum) addBuilt(rows driver.Pointer, size, first, n int) {
	chunks := min(ceil(size, plan.BuiltBlock), ceil(4*s.device.Multiprocessors(), n), 256) // a lane of admit adds them
	part := admission{Contribution: s.from(first), Gradients: rows, Squares: s.allocScratch(8 * n * chunks),
		Size: int32(size), Chunks: int32(chunks)}
	s.launchWith(s.rounding, func() { s.launchPart("built_squares", dim{uint32(chunks), uint32(n), 1}, dim{512, 1, 1}, part) })
	s.admitPart(part, n)
	across := ceil(size, 256)
	each := ceil(n, min(ceil(n, 16), ceil(8*s.device.Multiprocessors(), across)))
	s.launchWith(s.adding, func() {
		s.launchPart("add_built", dim{uint32(across), uint32(ceil(n, each)), 1}, threads,
			s.out, s.at, part.Contribution.Roundings, rows, int32(size), int32(n), int32(each))
	})
}

// lowerBuilt builds the gradients of as many records as fit the memory, and adds them.
func (s *contributionSum) lowerBuilt(form op.Form) {
	size := form.Size()
	n := s.chunk(4 * size)
	rows := s.allocScratch(4 * n * size)
	for first := 0; first < s.records; first += n {
		n := min(n, s.records-first)
		k := call{out: rows, shape: tensor.Shape{n, size}}
		for i := range s.in[:len(s.in)-1] {
			width := s.size(i) / s.records
			k.in = append(k.in, s.in[i]+driver.Pointer(4*first*width))
			k.shapes = append(k.shapes, tensor.Shape{n, width})
			k.bases = append(k.bases, s.bases[i])
		}
		spec := op.RecordGradients{Form: form, Records: n}
		if !lowerRecordGradients(s.compiler, spec, k) {
			runReference(s.compiler, spec, k)
		}
		s.addBuilt(rows, size, first, n)
	}
}

// lowerMultiUse builds the gradients of a parameter with several uses in float64.
func (s *contributionSum) lowerMultiUse(m op.MultiUseNorms) {
	b := newMultiUseBuilder(s.compiler, m, s.call)
	rows := s.allocScratch(4 * b.records * m.Size)
	for first := 0; first < s.records; first += b.records {
		n := min(b.records, s.records-first)
		b.build(first, n)
		s.launch("narrow_gradients", blocks(n*m.Size), threads, rows, b.sum, int64(n*m.Size))
		s.addBuilt(rows, m.Size, first, n)
	}
}
