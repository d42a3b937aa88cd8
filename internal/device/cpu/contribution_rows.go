package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/device/lattice"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// rowInts bounds the memory of rows that are rounded together.
const rowInts = 3 << 19

// recordsAtOnce is how many records, with some numbers each, are rounded and multiplied together. A
// product reads and writes the sum for every 256 rows, so fewer records of one row take more time,
// and more records take more memory. If a microbatch needs the sum to be settled, every second product
// settles it.
func (s *rowSum) recordsAtOnce(records, numbers, workers int) int {
	n := rowInts / numbers
	if s.rows == 1 {
		n = max(128, rowInts/6/numbers)
	}
	if n = max(n, 2*workers); records > 256 {
		n = min(n, lattice.MaxUnsettled/2)
	}
	return min(n, records, lattice.MaxUnsettled)
}

// rowSum adds Σ_t a_t ⊗ δ_t of rows that are rounded to 16 bits. The gradient of a record with
// several rows is built only if they cancel: if the rows are too long for 16 bits, or if the record's
// budget does not cover them or the errors of their rounding (plan.Admission).
type rowSum struct {
	part
	op.Product // of the rows
	rows       int
	a, delta   rowRounder
	aspect     float64 // 4·In/Out
	overlap    float64 // an upper bound on Σ_t ‖a_t‖²‖δ_t‖² ÷ ‖A‖²‖Δ‖²
	windows    bool    // the rows are windows of what is rounded, not all of it
	errors     plan.RowErrors
	squares    []float64 // squared norms of the records' A and Δ, in turn; nil: not saved
	build      func(dst []float32, r int, w *worker)
	lookup     *tiedLookup // of a table that is also looked up in; nil for other parameters

	base     int        // the record in the first slot
	cancels  []bool     // [slot] whether the gradient is built; of records whose rows are not rounded together
	adds     []bool     // [slot] whether the rows add something
	together *roundings // [slot] of records of one row, which are rounded together; nil for others
}

// roundings determine how the rows of some records are rounded together: A and Δ. Rows of scale 0 become
// zeros.
type roundings struct {
	how     []plan.Rounding
	scales  [2][]float32
	keys    [2][]lattice.Key
	squares [2][]int64 // the results
}

func newRoundings(n, sides int) *roundings {
	t := &roundings{how: make([]plan.Rounding, n)}
	for side := range sides {
		t.scales[side], t.keys[side], t.squares[side] = make([]float32, n), make([]lattice.Key, n), make([]int64, n)
	}
	return t
}

// set sets the rounding of a slot's row.
func (t *roundings) set(side, slot int, scale float32, row lattice.Key) {
	t.scales[side][slot], t.keys[side][slot] = scale, row
}

// rowRounder rounds one operand of a record to rows of integers.
type rowRounder struct {
	x    []float32
	size int // numbers of a record
	// round writes the rows and returns the squared norm of the integers from which the rows are
	// taken: no row is longer. It is not ok if a row has a norm above lattice.MaxRowNorm.
	round func(rows []int16, x []float32, scale float32, seed uint64, w *worker) (squares int64, ok bool)
}

func (o rowRounder) record(r int) []float32 { return o.x[r*o.size : (r+1)*o.size] }

// newDenseRounder rounds rows of numbers. side is 0 for A and 1 for Δ.
func newDenseRounder(x []float32, records, width, side int) rowRounder {
	return rowRounder{x, len(x) / records, func(rows []int16, x []float32, scale float32, seed uint64, _ *worker) (total int64, ok bool) {
		for t := 0; t*width < len(x); t++ {
			squares, ok := lattice.QuantizeInt16(rows[t*width:(t+1)*width], x[t*width:(t+1)*width], scale, lattice.RowKey(seed, side, t))
			if !ok {
				return 0, false
			}
			total += squares
		}
		return total, true
	}}
}

func (l *lowering) lowerProductContribution(p part, f op.Product, in [][]float32, k call) func() {
	records := len(p.Factors)
	s := &rowSum{part: p, Product: f, rows: len(in[1]) / f.Out / records, overlap: 1,
		a: newDenseRounder(in[0], records, f.In, 0), delta: newDenseRounder(in[1], records, f.Out, 1),
		squares: l.saved.squares[rowsKeys(k, f)],
		build:   newSharedBuild(l, f, records, in)}
	return l.lowerRowSum(s)
}

// newSharedBuild builds the gradient of a record on all threads, for long records may all have rows that
// do not fit.
func newSharedBuild(l *lowering, f op.Product, records int, in [][]float32) func(dst []float32, r int, w *worker) {
	na, nd := len(in[0])/records, len(in[1])/records
	g := simd.Gemm{TransA: true, M: f.In, N: f.Out, K: nd / f.Out, LDA: f.In, LDB: f.Out, LDC: f.Out}
	var dst []float32
	var r int
	run := l.pool.forShards(g.M*g.N*g.K/8, func(shard, shards int, w *worker) {
		g.Run(dst, in[0][r*na:(r+1)*na], in[1][r*nd:(r+1)*nd], w.gemm, shard, shards)
	})
	return func(to []float32, record int, _ *worker) {
		dst, r = to, record
		run()
	}
}

// lowerConvolutionContribution adds a convolution's gradient, whose rows are the windows of the
// record's pictures. A picture is rounded once, not once for each window.
func (l *lowering) lowerConvolutionContribution(p part, v *convolution, in [][]float32, last []bool) func() {
	records := len(p.Factors)
	x, delta := in[0], in[1]
	pictures := len(delta) / (v.O * v.area) / records
	unfolding := lattice.NewUnfolding(v.window, 1, false)
	picture, result := v.C*v.H*v.W, v.O*v.area
	l.pool.reserveInt16s(pictures*max(picture, result) + unfolding.Scratch())
	s := &rowSum{part: p, Product: op.Product{In: v.O, Out: v.taps}, rows: pictures * v.area,
		overlap: float64(v.KernelH * v.KernelW), windows: true,
		build: newGradientBuilder(l, v.ConvWeight, records, in, last).build}
	s.a = rowRounder{delta, pictures * result, func(rows []int16, x []float32, scale float32, seed uint64, w *worker) (int64, bool) {
		planes := w.int16s[:len(x)]
		squares, ok := lattice.QuantizeInt16(planes, x, scale, lattice.RowKey(seed, 1, 0))
		for n := range pictures {
			lattice.Transpose(rows[n*result:(n+1)*result], planes[n*result:(n+1)*result], v.O, v.area)
		}
		return squares, ok
	}}
	s.delta = rowRounder{x, pictures * picture, func(rows []int16, x []float32, scale float32, seed uint64, w *worker) (int64, bool) {
		images, scratch := w.int16s[:len(x)], w.int16s[len(x):]
		squares, ok := lattice.QuantizeInt16(images, x, scale, lattice.RowKey(seed, 0, 0))
		for n := range pictures {
			unfolding.Rows(rows[n*v.patches():(n+1)*v.patches()], images[n*picture:(n+1)*picture], scratch, 0)
		}
		return squares, ok
	}}
	return l.lowerRowSum(s)
}

func (l *lowering) lowerRowSum(s *rowSum) func() {
	f, records := s.Product, len(s.Factors)
	nA, nD := s.rows*f.In, s.rows*f.Out
	n := s.recordsAtOnce(records, nA+nD, len(l.pool.workers))
	turns := (records + n - 1) / n
	n = (records + turns - 1) / turns
	s.cancels, s.adds = make([]bool, n), make([]bool, n)
	scratch := &l.contributions.scratch
	ordered := 0
	if s.at != nil {
		ordered = f.Size()
	}
	scratch.reserve(n*(nA+nD), 0, ordered, 0)
	if s.rows > 1 {
		l.pool.reserveGrams(2 * s.rows * s.rows)
	}
	if s.rows == 1 && !s.windows && s.lookup == nil {
		s.together = newRoundings(n, 2)
	} else {
		scratch.reserve(0, 0, 0, f.Size())
	}
	s.aspect = 4 * float64(f.In) / float64(f.Out)
	s.errors = plan.NewRowErrors(f.In, f.Out, s.overlap)
	admit := l.pool.forRanges(n, nA+nD+s.rows*s.rows*(f.In+f.Out)/32, func(from, to int, w *worker) {
		a, delta := scratch.int16s[:n*nA], scratch.int16s[n*nA:n*(nA+nD)]
		if s.together != nil {
			s.admitTogether(from, to, a, delta, w)
			return
		}
		for i := from; i < to; i++ {
			s.admit(i, a[i*nA:(i+1)*nA], delta[i*nD:(i+1)*nD], w)
		}
	})
	product := lattice.Product{M: f.In, N: f.Out, K: n * s.rows, LDC: f.Out}
	add := l.pool.forShards(product.M*product.N*product.K/8, func(shard, shards int, w *worker) {
		sum := s.sum()
		if s.at != nil {
			sum = scratch.ordered[:f.Size()]
		}
		product.Run(sum, scratch.int16s[:n*nA], scratch.int16s[n*nA:n*(nA+nD)], w.lattice, shard, shards)
	})
	reserve, addLookups := l.lowerReserve(&s.part, n), func() {}
	if s.lookup != nil {
		addLookups = l.lowerLookups(s, n)
	}
	return func() {
		for s.base = 0; s.base < records; s.base += n {
			admit()
			reserve()
			add()
			if s.at != nil {
				ordered := scratch.ordered[:f.Size()]
				s.addFrom(0, ordered)
				clear(ordered)
			}
			addLookups()
			for i, cancels := range s.cancels {
				if cancels {
					s.addBuilt(s.base+i, scratch.floats[:f.Size()], l.pool.workers[0])
				}
			}
		}
	}
}

// admit rounds the rows of the record in a slot to a and delta, which are zeros if its rows add
// nothing.
func (s *rowSum) admit(slot int, a, delta []int16, w *worker) {
	r := s.base + slot
	s.cancels[slot], s.adds[slot] = false, false
	if r < len(s.Factors) && s.Factors[r] > 0 {
		if how := s.Rounding(r); how.Scale > 0 {
			s.adds[slot] = s.tryRows(slot, a, delta, how, w)
			s.cancels[slot] = !s.adds[slot]
		}
	}
	if !s.adds[slot] {
		clear(a)
		clear(delta)
	}
}

// tryRows rounds the rows of the record in a slot and reports whether its budget covers them.
func (s *rowSum) tryRows(slot int, a, delta []int16, how plan.Rounding, w *worker) bool {
	r := s.base + slot
	squares, errors, ok := s.roundRows(a, delta, r, how, w)
	if ok && s.lookup != nil {
		squares, ok = s.lookup.join(squares, s, slot, [2][]int16{a, delta}, how, w)
	}
	return s.TakeRows(r, squares, errors, ok)
}

// admitTogether is admit for the slots from … to-1, where each record has one row.
func (s *rowSum) admitTogether(from, to int, a, delta []int16, w *worker) {
	t := s.together
	end := min(to, len(s.Factors)-s.base)
	for i := from; i < end; i++ {
		r := s.base + i
		how, scaleA, scaleD := plan.Rounding{}, float32(0), float32(0)
		if s.Factors[r] > 0 {
			how = s.Rounding(r)
		}
		if how.Scale > 0 {
			if squaresA, squaresD := s.squaresOf(r); squaresA != 0 && squaresD != 0 {
				scaleA, scaleD = s.splitScale(how.Scale, squaresA, squaresD)
			}
		}
		t.how[i] = how
		t.set(0, i, scaleA, lattice.RowKey(how.Seed, 0, 0))
		t.set(1, i, scaleD, lattice.RowKey(how.Seed, 1, 0))
	}
	if end > from {
		for side, o := range []rowRounder{s.a, s.delta} {
			rows := [2][]int16{a, delta}[side]
			lattice.QuantizeRows(rows[from*o.size:end*o.size], o.x[(s.base+from)*o.size:(s.base+end)*o.size],
				t.scales[side][from:end], t.keys[side][from:end], t.squares[side][from:end])
		}
	}
	for i := from; i < to; i++ {
		a, delta := a[i*s.a.size:(i+1)*s.a.size], delta[i*s.delta.size:(i+1)*s.delta.size]
		if s.adds[i] = i < end && t.how[i].Scale > 0; !s.adds[i] {
			clear(a) // the slots after the last record
			clear(delta)
			continue
		}
		r, ok := s.base+i, t.squares[0][i] >= 0 && t.squares[1][i] >= 0
		if squares := t.squares[0][i] * t.squares[1][i]; !s.Take(r, squares, ok) {
			how := s.ChooseSmaller(r, t.how[i], squares, ok, func(how plan.Rounding) (int64, bool) {
				squares, _, ok := s.roundRows(a, delta, r, how, w)
				return squares, ok
			})
			if s.adds[i] = how.Scale > 0; !s.adds[i] {
				clear(a)
				clear(delta)
			}
		}
	}
}

// squaresOf returns the squared norms of a record's operands.
func (s *rowSum) squaresOf(r int) (a, delta float64) {
	if s.squares != nil {
		return s.squares[2*r], s.squares[2*r+1]
	}
	return simd.SumSquares(s.a.record(r)), simd.SumSquares(s.delta.record(r))
}

// roundRows rounds the rows of record r. It returns the squared norm of Σ_t â_t ⊗ δ̂_t, and the estimate
// of its errors. It is not ok if the rows are too long.
func (s *rowSum) roundRows(a, delta []int16, r int, how plan.Rounding, w *worker) (squares, errors int64, ok bool) {
	squaresA, squaresD := s.squaresOf(r)
	if squaresA == 0 || squaresD == 0 {
		clear(a)
		clear(delta)
		return 0, 0, true
	}
	scaleA, scaleD := s.splitScale(how.Scale, squaresA, squaresD)
	roundedA, okA := s.a.round(a, s.a.record(r), scaleA, how.Seed, w)
	roundedD, okD := s.delta.round(delta, s.delta.record(r), scaleD, how.Seed, w)
	if !okA || !okD {
		return 0, 0, false
	}
	if s.rows == 1 {
		if squares = roundedA * roundedD; s.windows { // at most 2⁵⁶
			squares = lattice.SumSquares(a) * lattice.SumSquares(delta)
		}
		return squares, s.errors.Of(roundedA, roundedD, squares), true
	}
	// Σ_tu |⟨â_t, â_u⟩⟨δ̂_t, δ̂_u⟩| ≤ (Σ_t ‖â_t‖‖δ̂_t‖)² ≤ overlap·‖Â‖²‖Δ̂‖². Below 2⁶² no sum of
	// 64 bits overflows; the rounding of this product is far below its distance from 2⁶².
	if s.overlap*float64(roundedA)*float64(roundedD) > 0x1p60 {
		return 0, 0, false
	}
	n := s.rows * s.rows
	gramA, gramD := w.grams[:n], w.grams[n:2*n]
	lattice.Gram(gramA, a, s.rows, s.In, w.lattice)
	lattice.Gram(gramD, delta, s.rows, s.Out, w.lattice)
	squares = lattice.InnerProduct(gramA, gramD, s.rows)
	return squares, s.errors.Of(roundedA, roundedD, squares), true
}

// tiedLookup is the lookup of a table that is also multiplied with: its rows are added to those
// of the product.
type tiedLookup struct {
	op.Gather
	index, delta []float32
	rows         *[]int32 // the rounded rows of Δ, slot by slot
	lookups      int      // of a record
}

// lowerTiedContribution adds the gradient P + G of a table that is multiplied with and looked up
// in, without building it: see lowerTiedNorms.
func (l *lowering) lowerTiedContribution(p part, m op.MultiUseNorms, in [][]float32) func() {
	t, _ := m.TiedTable()
	d, v := t.Table.Dim, t.Table.Vocabulary
	byDim, byEntry := in[t.RowsByDim], in[t.RowsByEntry]
	s := &rowSum{part: p, Product: op.Product{In: v, Out: d}, rows: len(byDim) / d / m.Records, overlap: 1,
		a: newDenseRounder(byEntry, m.Records, v, 1), delta: newDenseRounder(byDim, m.Records, d, 0),
		build:  newMultiUseBuilder(l, m, in).build,
		lookup: &tiedLookup{t.Table, in[t.Index], in[t.Delta], &l.contributions.scratch.int32s, len(in[t.Index]) / m.Records}}
	return l.lowerRowSum(s)
}

// join adds the lookups of the record in a slot to the squared norm of its product:
//
//	‖P + G‖² = ‖P‖² + ‖G‖² + 2⟨P, G⟩, ⟨P, G⟩ = Σ_s Σ_t δ̂_t[i_s]·⟨â_t, ε̂_s⟩
//
// byEntry are the rows δ̂ and byDim the rows â. It is not ok if a sum might leave 64 bits.
func (k *tiedLookup) join(product int64, s *rowSum, slot int, rounded [2][]int16, how plan.Rounding,
	w *worker) (squares int64, ok bool) {
	byEntry, byDim := rounded[0], rounded[1]
	r, width := s.base+slot, k.lookups*k.Dim
	rows, index := (*k.rows)[slot*width:(slot+1)*width], k.index[r*k.lookups:(r+1)*k.lookups]
	how.Seed = uint64(lattice.RowKey(how.Seed, 2, 0))
	ofLookups, ok := roundGathered(rows, gathered{k.Gather, index, k.delta[r*width : (r+1)*width], -1}, how, w)
	if !ok {
		return 0, false
	}
	var length float64 // Σ_s ‖ε̂_s‖
	for _, square := range w.rowSquares[:k.lookups] {
		length += math.Sqrt(float64(square))
	}
	lengthP := math.Sqrt(float64(lattice.SumSquares(byEntry)) * float64(lattice.SumSquares(byDim))) // at least Σ_t ‖â_t‖‖δ̂_t‖
	if length*lengthP > 0x1p60 || float64(product) > 0x1p60 {
		return 0, false
	}
	var cross int64
	for i, x := range index {
		entry, valid := parseIndex(x, k.Vocabulary)
		if !valid {
			continue
		}
		row := rows[i*k.Dim : (i+1)*k.Dim]
		for t := range s.rows {
			signal := int64(byEntry[t*k.Vocabulary+entry])
			if signal == 0 {
				continue
			}
			var inner int64
			for j, a := range byDim[t*k.Dim : (t+1)*k.Dim] {
				inner += int64(a) * int64(row[j])
			}
			cross += signal * inner
		}
	}
	return product + ofLookups + 2*cross, true
}

// lowerLookups adds the rounded rows of the records that add something.
func (l *lowering) lowerLookups(s *rowSum, slots int) func() {
	k := s.lookup
	width := k.lookups * k.Dim
	l.contributions.scratch.reserve(0, slots*width, 0, 0)
	l.pool.reserveGroups(k.lookups)
	l.pool.reserveRowSquares(k.lookups)
	l.pool.reserveRows(k.lookups)
	return l.pool.forShards(slots*width+k.Size(), func(shard, shards int, w *worker) {
		for slot, adding := range s.adds {
			if !adding {
				continue
			}
			index := k.index[(s.base+slot)*k.lookups:][:k.lookups]
			for i := range index {
				s.addRows(w.ownRows(index[i:i+1], k.Vocabulary, shard, shards), (*k.rows)[slot*width+i*k.Dim:][:k.Dim])
			}
		}
	})
}

// maxRowExponent bounds the length of the rows of a record together, before they are
// rounded, if the product of the scales permits it. It leaves room to lattice.MaxRowNorm.
const maxRowExponent = 13

// splitScale returns scales of a record's rows whose product is scale. Their ratio makes the
// rounding errors of A and of Δ contribute alike to the error of the gradient: with integer
// rows of lengths α and β, they are about √In·β and √Out·α. So the scale of A is
// √2·√(scale·‖Δ‖·√(In/Out)/‖A‖), rounded down to a power of two. Its exponent, and those of scale·‖Δ‖
// and ‖A‖, are read from fourth and second powers, which need no square root. The powers of these
// float32 numbers are in the range of float64.
func (s *rowSum) splitScale(scale, squaresA, squaresD float64) (scaleA, scaleD float32) {
	wide := scale * scale * squaresD
	exponent := binaryExponent(s.aspect*wide/squaresA) >> 2
	exponent = max(exponent, binaryExponent(wide)>>1+1-maxRowExponent)
	exponent = min(exponent, maxRowExponent-1-binaryExponent(squaresA)>>1)
	exponent = min(max(exponent, -120), 120)
	return float32(powerOfTwo(exponent)), float32(scale * powerOfTwo(-exponent))
}

// binaryExponent is math.Ilogb, inlined for normal numbers.
func binaryExponent(x float64) int {
	if e := int(math.Float64bits(x) >> 52 & 0x7ff); e > 0 && e < 0x7ff {
		return e - 1023
	}
	return math.Ilogb(x)
}

// powerOfTwo returns 2^exponent for a normal number.
func powerOfTwo(exponent int) float64 { return math.Float64frombits(uint64(exponent+1023) << 52) }

// addBuilt adds the gradient of a record instead of its rows.
func (s *rowSum) addBuilt(r int, gradient []float32, w *worker) {
	ints := asInts(gradient)
	if how := s.chooseBuilt(r, ints, gradient, s.build, w); how.Scale > 0 {
		s.addFrom(0, ints)
	}
}
