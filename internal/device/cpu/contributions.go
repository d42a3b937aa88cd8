package cpu

import (
	"unsafe"

	"github.com/dptrain/dptrain/internal/device/lattice"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// contributions is the state that the sums of an exact program share.
type contributions struct {
	plan.Admission
	sums    []*lattice.Sum // [parameter]; nil for a parameter that is not trained
	scratch contributionScratch
}

// contributionScratch is memory that one step after the other uses.
type contributionScratch struct {
	int16s  []int16
	int32s  []int32
	ordered []int32 // zeros between steps
	floats  []float32

	sizes [4]int // of the slices above
}

// reserve makes the slices at least this long. They exist after allocate.
func (s *contributionScratch) reserve(int16s, int32s, ordered, floats int) {
	for i, n := range [4]int{int16s, int32s, ordered, floats} {
		s.sizes[i] = max(s.sizes[i], n)
	}
}

func (s *contributionScratch) allocate() {
	s.int16s, s.int32s = make([]int16, s.sizes[0]), make([]int32, s.sizes[1])
	s.ordered, s.floats = make([]int32, s.sizes[2]), make([]float32, s.sizes[3])
}

func (s *contributionScratch) bytes() int {
	return 2*s.sizes[0] + 4*s.sizes[1] + 4*s.sizes[2] + 4*s.sizes[3]
}

// part is one instruction that adds contributions to a parameter.
type part struct {
	plan.Contribution
	sums []*lattice.Sum // [parameter]
	at   *op.Map        // where elements of the contribution belong; nil: the parameter's order
}

// sum returns the parameter's sum modulo 2^32.
func (p *part) sum() []int32 { return p.sums[p.Parameter].Low() }

// addFrom adds integers to the parameter's sum: the elements of a contribution from an index on.
func (p *part) addFrom(from int, x []int32) {
	sum := p.sum()
	if p.at == nil {
		lattice.Add(sum[from:from+len(x)], x)
		return
	}
	for i, to := range p.at.At[from : from+len(x)] {
		sum[to] += x[i]
	}
}

// settleBlock is how many elements of a sum a task settles.
const settleBlock = 1 << 14

// lowerReserve makes the step before a step that adds the contributions of at most n records to the
// parameter's sum.
func (l *lowering) lowerReserve(p *part, n int) func() {
	sum := p.sums[p.Parameter]
	settle := l.pool.forRanges((sum.Len()+settleBlock-1)/settleBlock, settleBlock, func(from, to int, _ *worker) {
		sum.Settle(from*settleBlock, min(to*settleBlock, sum.Len()))
	})
	return func() {
		if sum.Reserve(n) {
			settle()
		}
	}
}

// builtSum adds gradients that exist in float32, one row per record. Rows are rounded once: in
// place if the sum builds them itself, else to memory for integers.
type builtSum struct {
	part
	size  int
	build func(row []float32, r int, w *worker) // nil: the rows exist
	rows  []float32                             // of the records from base on
	ints  []int32                               // the same rows as integers
	base  int

	// [slot] Short rows that are not built are rounded together. For other rows only roundings.how is set.
	*roundings
	together bool
}

// builtFloats and roundedInts bound the memory of the rows that are built or rounded together. They
// stay in a cache near the cores between the two times that they are read.
const (
	builtFloats = 1 << 20
	roundedInts = 1 << 18
)

// lowerBuilt adds the gradients of some records, one per thread at least, then those of others. rows
// are the gradients of all records; if it is nil, g builds them.
func (l *lowering) lowerBuilt(p part, size int, rows []float32, g gradientBuilder) func() {
	records, scratch, limit := len(p.Factors), &l.contributions.scratch, builtFloats
	if rows != nil {
		limit = roundedInts
	}
	n := min(records, lattice.MaxUnsettled, max(2*len(l.pool.workers), limit/size))
	turns := (records + n - 1) / n
	n = (records + turns - 1) / turns
	if rows == nil {
		scratch.reserve(0, 0, 0, n*size)
	} else {
		scratch.reserve(0, n*size, 0, 0)
	}
	s := &builtSum{part: p, size: size, build: g.build, roundings: newRoundings(n, 1),
		together: rows != nil && size <= plan.BuiltBlock && !p.L1}
	admit := l.pool.forRanges(n, size+g.cost, s.admit)
	blocks := (size + plan.BuiltBlock - 1) / plan.BuiltBlock
	l.pool.reserveSum(min(size, plan.BuiltBlock))
	add := l.pool.forRanges(blocks, n*plan.BuiltBlock/4, s.add)
	reserve := l.lowerReserve(&s.part, n)
	return func() {
		for s.base = 0; s.base < records; s.base += n {
			if rows == nil {
				s.rows = scratch.floats[:n*size]
				s.ints = asInts(s.rows)
			} else {
				s.rows, s.ints = rows[s.base*size:], scratch.int32s
			}
			admit()
			reserve()
			add()
		}
	}
}

// admit rounds rows from … to-1.
func (s *builtSum) admit(from, to int, w *worker) {
	if s.together {
		s.admitTogether(from, to)
		return
	}
	for i := from; i < to; i++ {
		r := s.base + i
		if s.how[i] = (plan.Rounding{}); r >= len(s.Factors) || s.Factors[r] == 0 {
			continue
		}
		s.how[i] = s.chooseBuilt(r, s.ints[i*s.size:(i+1)*s.size], s.rows[i*s.size:(i+1)*s.size], s.build, w)
	}
}

// admitTogether is admit for rows of one key each. Records that add nothing have rows of zeros.
func (s *builtSum) admitTogether(from, to int) {
	end := min(to, len(s.Factors)-s.base)
	for i := from; i < end; i++ {
		r := s.base + i
		s.how[i] = plan.Rounding{}
		if s.Factors[r] != 0 {
			s.how[i] = s.Rounding(r)
		}
		s.set(0, i, float32(s.how[i].Scale), lattice.RowKey(s.how[i].Seed, 0, 0))
	}
	if end > from {
		lattice.RoundRows(s.ints[from*s.size:end*s.size], s.rows[from*s.size:end*s.size],
			s.scales[0][from:end], s.keys[0][from:end], s.squares[0][from:end])
	}
	for i := from; i < to; i++ {
		ints := s.ints[i*s.size : (i+1)*s.size]
		if i >= end {
			s.how[i] = plan.Rounding{}
			clear(ints)
			continue
		}
		r, squares := s.base+i, s.squares[0][i]
		if s.how[i].Scale == 0 || s.Take(r, squares, squares >= 0) {
			continue
		}
		s.how[i] = s.ChooseSmaller(r, s.how[i], squares, squares >= 0, func(how plan.Rounding) (int64, bool) {
			return s.Round(ints, s.rows[i*s.size:(i+1)*s.size], how)
		})
		if s.how[i].Scale == 0 {
			clear(ints)
		}
	}
}

// add adds blocks from … to-1 of the rows that were admitted. In another order than the parameter's, it
// adds them up first.
func (s *builtSum) add(from, to int, w *worker) {
	for b := from; b < to; b++ {
		lo, hi := b*plan.BuiltBlock, min(s.size, (b+1)*plan.BuiltBlock)
		sum := w.sum[:hi-lo]
		if s.at == nil {
			sum = s.sum()[lo:hi]
		}
		if s.together {
			lattice.AddRows(sum, s.ints[:len(s.how)*s.size])
		} else {
			for i, how := range s.how {
				if how.Scale > 0 {
					lattice.Add(sum, s.ints[i*s.size+lo:i*s.size+hi])
				}
			}
		}
		if s.at != nil {
			s.addFrom(lo, sum)
			clear(sum)
		}
	}
}

// chooseBuilt chooses the rounding of a record's gradient and writes its integers, which may take
// the place of the row if build writes the row.
func (p *part) chooseBuilt(r int, ints []int32, row []float32, build func(row []float32, r int, w *worker), w *worker) plan.Rounding {
	return p.Choose(r, func(how plan.Rounding) (int64, bool) {
		if build != nil {
			build(row, r, w)
		}
		return p.Round(ints, row, how)
	})
}

// asInts returns the memory of floats as memory for integers.
func asInts(x []float32) []int32 { return unsafe.Slice((*int32)(unsafe.Pointer(&x[0])), len(x)) }

// newPart describes the part that an instruction adds.
func (l *lowering) newPart(i plan.Instruction, k call) part {
	c := l.contributions
	return part{plan.Contribution{Admission: &c.Admission, Parameter: l.program.Buffers[i.Out].Index,
		Number: i.Use, First: i.FirstRecord, Factors: k.in[len(k.in)-1]}, c.sums, i.At}
}

// lowerContribution makes the step of a sum of an exact program.
func (l *lowering) lowerContribution(i plan.Instruction, k call) func() {
	p := l.newPart(i, k)
	in := k.in[:len(k.in)-1]
	switch s := i.Spec.(type) {
	case op.WeightedRows:
		return l.lowerBuilt(p, len(in[0])/len(p.Factors), in[0], gradientBuilder{})
	case op.MultiUseSum:
		m := op.MultiUseNorms(s)
		if i.Contribution == plan.TiedRows {
			return l.lowerTiedContribution(p, m, in)
		}
		return l.lowerBuilt(p, m.Size, nil, newMultiUseBuilder(l, m, in))
	case op.ClippedSum:
		return l.lowerFormContribution(p, i.Contribution, s, k)
	}
	panic("cpu: no rule for the contributions of " + i.Spec.String())
}

// lowerFormContribution adds the contributions of one use of a parameter.
func (l *lowering) lowerFormContribution(p part, how plan.ContributionForm, s op.ClippedSum, k call) func() {
	in := k.in[:len(k.in)-1]
	f, convolves := s.Form.(op.ConvWeight)
	switch {
	case how == plan.GatheredRows:
		return l.lowerGatherContribution(p, s.Form.(op.Gather), in)
	case how == plan.ProductRows && convolves:
		return l.lowerConvolutionContribution(p, newConvolution(f), in, k.inChannelsLast)
	case how == plan.ProductRows:
		return l.lowerProductContribution(p, s.Form.(op.Product), in, k)
	case convolves && !p.L1:
		if saved := l.savedContribution(p, f, k); saved != nil {
			return saved
		}
	}
	return l.lowerBuilt(p, s.Form.Size(), nil, newGradientBuilder(l, s.Form, s.Records, in, k.inChannelsLast))
}

// newMultiUseBuilder builds the gradients of a parameter with several uses, in float64.
func newMultiUseBuilder(l *lowering, s op.MultiUseNorms, in [][]float32) gradientBuilder {
	m := newMultiUse(l, s, in)
	return gradientBuilder{func(dst []float32, r int, w *worker) {
		gradient, _ := m.build(r, w)
		for i, v := range gradient {
			dst[i] = float32(v)
		}
	}, m.cost}
}

// savedContribution adds the gradients that the norms of a convolution saved; nil if they
// saved none.
func (l *lowering) savedContribution(p part, f op.ConvWeight, k call) func() {
	saved := l.saved.gradients[gradientKey{k.bases[0], k.bases[1], f}]
	if saved == nil {
		return nil
	}
	v := newConvolution(f)
	if kernel := f.KernelH * f.KernelW; v.cg > 1 { // taps are in the order of memory: see patched
		at := make([]int32, f.Size())
		for i := range at {
			o, tap := i/v.taps, i%v.taps
			to := o*v.taps + tap%v.cg*kernel + tap/v.cg
			if p.at != nil {
				to = int(p.at.At[to])
			}
			at[i] = int32(to)
		}
		p.at = op.NewMap(at)
	}
	return l.lowerBuilt(p, f.Size(), saved, gradientBuilder{})
}
