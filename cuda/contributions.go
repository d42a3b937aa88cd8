//go:build gpu

package cuda

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/lattice"
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/plan"
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
	budgets  driver.Pointer // [group][record]: the rest of Bound²
	counts   driver.Pointer // parts that were reduced and omitted since readCounts
	counters []byte         // page-locked copy of counts
}

func newContributions(p *plan.Program, m *deviceMemory) (c *contributions, err error) {
	c = &contributions{Contributions: plan.NewContributions(p), device: m.device}
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
	c.counts, c.counters = alloc(8), pinned(8)
	if err != nil {
		return nil, err
	}
	return c, m.device.Zero(c.counts, 8)
}

func (c *contributions) inputBytes() int {
	return 8*len(c.Seeds) + 8*len(c.Steps) + 4*len(c.Group)
}

func (c *contributions) budgetBytes() int { return 8 * len(c.Seeds) * len(c.Group) }

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

// queueCounts copies the counts to the host and clears them; addCounts adds them after the device
// has finished.
func (c *contributions) queueCounts() error {
	return cmp.Or(c.device.CopyOut(c.counters[:8], c.counts), c.device.Zero(c.counts, 8))
}

func (c *contributions) addCounts() {
	c.Reduced += int(binary.LittleEndian.Uint32(c.counters))
	c.Omitted += int(binary.LittleEndian.Uint32(c.counters[4:]))
}

// beginContributions gives every record its budget.
func (c *compiler) beginContributions() {
	budgets := c.contributions.budgets
	n := c.contributions.budgetBytes() / 8
	c.name, c.access = "contributions", &access{writes: []span{bytesAt(budgets, 8*n)}}
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

	// Only the kernels that choose roundings take from the budgets, and only those that add write
	// the sum. So sums of other parameters, and gradients that are built, need not wait for each
	// other.
	admitting, adding *access
}

// lowerContribution queues the kernels of a sum of an exact program.
func lowerContribution(c *compiler, i plan.Instruction, k call) {
	if i.FirstRecord == 0 { // else the instruction continues a use for other records
		c.uses++
	}
	last, shared := len(k.in)-1, c.contributions
	s := contributionSum{compiler: c, call: k, records: k.size(last)}
	parameter := c.program.Buffers[i.Out].Index
	s.all = contributionArgs{
		Factors: k.in[last], Seeds: shared.seeds(i.FirstRecord), Steps: shared.steps(parameter), Group: shared.group(parameter),
		Budgets: shared.budgets + driver.Pointer(8*i.FirstRecord), Counts: shared.counts, Roundings: c.allocScratch(roundingBytes * s.records),
		Records: int32(c.program.Records), Number: int32(c.uses),
	}
	if i.At != nil {
		s.at = c.constant(i.At.At)
	}
	operands := c.access.reads
	s.admitting = &access{
		reads:  append(slices.Clone(operands), bytesAt(shared.input, shared.inputBytes())),
		writes: []span{bytesAt(shared.budgets, shared.budgetBytes()), bytesAt(shared.counts, 8)},
	}
	s.adding = &access{reads: slices.Clone(operands), writes: c.access.writes}
	c.access = &access{reads: operands} // of the kernels that build gradients
	s.lower(i.Spec)
	s.admitting.writes = append(s.admitting.writes, c.scratch.current())
	s.adding.reads = append(s.adding.reads, c.scratch.current())
}

func (s *contributionSum) lower(spec op.Spec) {
	switch f := spec.(type) {
	case op.WeightedRows:
		s.addBuilt(s.in[0], s.size(0)/s.records, 0, s.records)
	case op.MultiUseSum:
		s.lowerMultiUse(op.MultiUseNorms(f))
	case op.ClippedSum:
		switch form := f.Form.(type) {
		case op.Gather:
			s.lowerGather(form)
			return
		case op.Product:
			s.lowerRows(form)
			return
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
	a.Budgets += driver.Pointer(8 * record)
	a.Roundings += driver.Pointer(roundingBytes * record)
	return a
}

// chunk is how many records fit the memory for built gradients, with this many bytes each.
func (s *contributionSum) chunk(bytes int) int {
	return max(1, min(s.records, maxGridDepth, maxGradientBytes/max(bytes, 1)))
}

// addBuilt adds gradients that are built in float32: n rows, those of the records from first on.
func (s *contributionSum) addBuilt(rows driver.Pointer, size, first, n int) {
	args := s.from(first)
	s.launchWith(s.admitting, func() {
		admitted := s.launchPart("admit_built", dim{uint32(n), 1, 1}, dim{512, 1, 1}, args, rows, int32(size))
		admitted.budgets = args.Budgets
	})
	across := ceil(size, 256)
	each := ceil(n, min(ceil(n, 16), ceil(8*s.device.Multiprocessors(), across)))
	s.launchWith(s.adding, func() {
		s.launchPart("add_built", dim{uint32(across), uint32(ceil(n, each)), 1}, threads,
			s.out, s.at, args.Roundings, rows, int32(size), int32(n), int32(each))
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

// rowSumArgs is struct RowSum of kernels/rounded_rows.cu.
type rowSumArgs struct {
	A, Delta          roundedOperand
	Sums, At          driver.Pointer
	Aspect            float64
	Rows, FromProduct int32
}

// roundedOperand is struct Operand of kernels/rounded_rows.cu.
type roundedOperand struct {
	X, Rounded    driver.Pointer
	Width, Stride int32
}

// integerSide and integerDepth are the sides of a block's tile and the elements of a step of
// kernels/integer.h.
const integerSide, integerDepth = 64, 32

// lowerRows adds products of the rows of each record, rounded to 16 bits, for as many records at a
// time as fit the memory. The scales of the rows are powers of two, up to the product of both scales,
// that follow from the lengths of a record's rows together. The CPU adds these up in another order:
// the integers could differ from the CPU's where a length is within a rounding error of a power of
// two. Where the rows of a record cancel so much that 16 bits do not suffice, its gradient is built
// in another order than the CPU's.
func (s *contributionSum) lowerRows(f op.Product) {
	rows := s.size(0) / s.records / f.In
	operand := func(x driver.Pointer, width, n int) roundedOperand {
		stride := ceil(width, 4) * 4
		return roundedOperand{x, s.allocScratch(2 * n * rows * stride), int32(width), int32(stride)}
	}
	n := s.chunk(2 * rows * (f.In + f.Out))
	args := rowSumArgs{
		A: operand(s.in[0], f.In, n), Delta: operand(s.in[1], f.Out, n), Sums: s.out, At: s.at,
		Aspect: math.Sqrt(float64(f.In) / float64(f.Out)), Rows: int32(rows), FromProduct: boolArg(normFromProduct(f, rows)),
	}
	kernel := "admit_rows"
	if rows == 1 {
		kernel = "round_rank_one"
	} else {
		s.admitting.writes = append(s.admitting.writes, s.adding.writes...) // of records whose rows cancel
	}
	tiles := ceil(f.In, integerSide) * ceil(f.Out, integerSide)
	for first := 0; first < s.records; first += n {
		n := min(n, s.records-first)
		s.admit(kernel, dim{uint32(n), 1, 1}, threads, s.from(first), args)
		slices := max(ceil(n, lattice.MaxRecords), min(n, ceil(n*rows, 4*integerDepth), ceil(2*s.device.Multiprocessors(), tiles)))
		each := ceil(n, slices)
		s.add("add_rows", dim{uint32(tiles), uint32(ceil(n, each)), 1}, threads, args, int32(n), int32(each))
		args.A.X += driver.Pointer(4 * n * rows * f.In)
		args.Delta.X += driver.Pointer(4 * n * rows * f.Out)
	}
}

// normFromProduct reports whether the squared norm of a product of integer rows is less work from the
// product than from Gram matrices, in steps of kernels/integer.h.
func normFromProduct(f op.Product, rows int) bool {
	product := ceil(f.In, integerSide) * ceil(f.Out, integerSide) * ceil(rows, integerDepth)
	pairs := ceil(rows, integerSide) * (ceil(rows, integerSide) + 1) / 2
	return product < pairs*(ceil(f.In, integerDepth)+ceil(f.Out, integerDepth))
}

// lowerGather adds rows of Δ that are rounded to 32 bits to the rows of the table that indices
// name.
func (s *contributionSum) lowerGather(f op.Gather) {
	lookups, slots := s.size(0)/s.records, 1
	for slots < lookups {
		slots *= 2
	}
	width := lookups / f.Bag * f.Dim
	n := s.chunk(4 * width)
	rounded := s.allocScratch(4 * n * width)
	var keys driver.Pointer
	if slots > gatherRoom {
		keys = s.allocScratch(8 * n * slots)
	}
	for first := 0; first < s.records; first += n {
		n, args := min(n, s.records-first), s.from(first)
		index, delta := s.in[0]+driver.Pointer(4*first*lookups), s.in[1]+driver.Pointer(4*first*width)
		s.admit("round_gathered", dim{uint32(n), 1, 1}, threads,
			args, rounded, index, delta, keys, int32(lookups), int32(slots), int32(f.Vocabulary), int32(f.Dim), int32(f.Bag))
		all := n * lookups * f.Dim
		s.add("add_gathered", blocks(all), threads,
			s.out, s.at, args.Roundings, rounded, index, int64(all), int32(lookups), int32(f.Vocabulary), int32(f.Dim), int32(f.Bag))
	}
}
