package cpu

import (
	"math"
	"math/bits"

	"github.com/dptrain/dptrain/internal/device/lattice"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// lowerEmbeddingOp makes the step of lookups in tables.
func lowerEmbeddingOp(l *lowering, spec op.Operation, k call) func() {
	switch s := spec.(type) {
	case op.Embed:
		return lowerEmbed(l, k)
	case op.EmbedBag:
		return lowerEmbedBag(l, s, k)
	case op.EmbedGrad:
		return lowerGatherSum(l, op.Gather(s), k, k.in[0], k.in[1], nil)
	}
	return nil
}

// parseIndex reads a number as the index of one of n rows of a table.
func parseIndex(v float32, n int) (int, bool) {
	i := int32(v) // undefined for NaN and large numbers; the comparisons reject the result
	return int(i), float32(i) == v && uint32(i) < uint32(n)
}

func lowerEmbed(l *lowering, k call) func() {
	out, table, bits, index := k.out, k.in[0], k.halves[0], k.in[1]
	n, d := k.shapes[0][0], k.shapes[0][1]
	return l.pool.forRanges(len(index), d+8, func(from, to int, _ *worker) {
		for t := from; t < to; t++ {
			dst := out[t*d : (t+1)*d]
			switch row, ok := parseIndex(index[t], n); {
			case !ok:
				clear(dst)
			case bits.Bits != nil:
				simd.Widen(dst, bits.From(row*d))
			default:
				copy(dst, table[row*d:])
			}
		}
	})
}

// ownRows lists the rows that indices name of those that the shard owns, in a table of n
// rows. It leaves invalid indices out.
func (w *worker) ownRows(index []float32, n, shard, shards int) []int32 {
	rows, k := w.rows[:len(index)], 0
	for _, v := range index {
		row, ok := parseIndex(v, n)
		rows[k] = int32(row)
		own := 0 // added without a branch, which would be mispredicted
		if owner(row, shards) == shard {
			own = 1
		}
		if ok {
			k += own
		}
	}
	return rows[:k]
}

// owner returns the shard that owns a row of a table. A hash spreads the frequent rows,
// which vocabularies list first.
func owner(row, shards int) int {
	return int(uint64(uint32(row)*2654435769) * uint64(shards) >> 32)
}

// lowerEmbedBag adds rows in the order of the indices.
func lowerEmbedBag(l *lowering, s op.EmbedBag, k call) func() {
	out, table, index := k.out, k.in[0], k.in[1]
	n, d, bag := k.shapes[0][0], k.shapes[0][1], k.shapes[1][1]
	l.pool.reserveRows(bag)
	return l.pool.forRanges(len(out)/d, bag*(d/2+4), func(from, to int, w *worker) {
		for b := from; b < to; b++ {
			dst := out[b*d : (b+1)*d]
			simd.SumRows(dst, table, w.ownRows(index[b*bag:(b+1)*bag], n, 0, 1))
			simd.Scale(dst, dst, float32(s.Scale))
		}
	})
}

// lowerGatherSum adds rows of Δ to the rows of a table that indices name. If factors is not
// nil, each row is multiplied by the factor of its record. A thread owns some rows of the
// table and reads the indices in order, so that the order in which a row of the table is
// summed does not depend on the number of threads.
func lowerGatherSum(l *lowering, f op.Gather, k call, index, delta, factors []float32) func() {
	out := k.out
	perRecord := len(index)
	if factors != nil {
		perRecord /= len(factors)
	}
	l.pool.reserveRows(f.Bag)
	l.pool.reserve(f.Dim, 0)
	return l.pool.forShards(len(index)*f.Dim+len(out), func(shard, shards int, w *worker) {
		if !k.accumulate {
			for row := range f.Vocabulary {
				if owner(row, shards) == shard {
					clear(out[row*f.Dim : (row+1)*f.Dim])
				}
			}
		}
		for t := 0; t < len(index); t += f.Bag {
			rows := w.ownRows(index[t:t+f.Bag], f.Vocabulary, shard, shards)
			d := delta[t/f.Bag*f.Dim:][:f.Dim]
			if factors != nil {
				if len(rows) == 0 || factors[t/perRecord] == 0 {
					continue
				}
				if len(rows) == 1 {
					simd.Axpy(out[int(rows[0])*f.Dim:][:f.Dim], d, factors[t/perRecord])
					continue
				}
				simd.Scale(w.floats(f.Dim), d, factors[t/perRecord])
				d = w.floats(f.Dim)
			}
			simd.AddToRows(out, rows, d)
		}
	})
}

// lowerGatherNorms adds the rows of Δ of one record that share an index, then squares the
// sums, in float64.
func lowerGatherNorms(l *lowering, f op.Gather, records int, k call) func() {
	out, index, delta := k.out, k.in[0], k.in[1]
	rows := len(index) / records
	l.pool.reserveGroups(rows)
	l.pool.reserve(0, f.Dim)
	var saved []float64
	if l.program.Exact && rows == f.Bag {
		saved, _ = saveFor(l.saved.pairs, pairsKey{&index[0], f}, records)
	}
	return l.pool.forRanges(records, 8*rows+rows*f.Dim, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			delta := delta[r*rows/f.Bag*f.Dim:]
			g := w.groups.sized(rows)
			if rows == f.Bag {
				pairs, repeated := g.pairs(index[r*rows:(r+1)*rows], f.Vocabulary)
				if saved != nil {
					saved[r] = pairs
				}
				square := simd.SumSquares(delta[:f.Dim])
				out[r] = float32(addRounding(pairs*square, sequentialRoundings(rows), float64(repeated)*math.Sqrt(square)))
				continue
			}
			g.find(index[r*rows:(r+1)*rows], f.Vocabulary)
			total, length := g.squared(delta, f, w)
			out[r] = float32(addRounding(total*(1+float64(rows)*4*op.Roundoff), sequentialRoundings(rows), length))
		}
	})
}

// squared returns the squared norm of the groups' sums, and the sum of the norms of the
// rows in groups of several rows.
func (g *groups) squared(delta []float32, f op.Gather, w *worker) (total, length float64) {
	row := func(t int32) []float32 { return delta[int(t)/f.Bag*f.Dim:][:f.Dim] }
	for _, first := range g.first {
		if g.next[first] < 0 {
			total += simd.SumSquares(row(first))
			continue
		}
		sum := w.doubles(f.Dim)
		clear(sum)
		for t := first; t >= 0; t = g.next[t] {
			for j, v := range row(t) {
				sum[j] += float64(v)
			}
			length += math.Sqrt(simd.SumSquares(row(t)))
		}
		for _, v := range sum {
			total += v * v
		}
	}
	return total, length
}

// groups are the rows of a record, grouped by index in linked lists.
type groups struct {
	first []int32 // the first row of each group
	next  []int32 // the row of the same group that follows a row, or -1
	last  []int32 // the last row of each group so far
	table []int32 // a hash table of groups by their index; -1 where empty
}

// sized returns empty groups with memory for this many rows.
func (g groups) sized(rows int) groups {
	slots := 1 << bits.Len(uint(2*rows))
	if cap(g.table) < slots {
		g = groups{make([]int32, rows), make([]int32, rows), make([]int32, rows), make([]int32, slots)}
	}
	return groups{g.first[:0], g.next[:0], g.last[:0], g.table[:slots]}
}

// slot returns the place of an index in the table, or the empty place for it.
func (g *groups) slot(index []float32, v float32) uint32 {
	shift := 33 - bits.Len(uint(len(g.table)))
	at := uint32(int32(v)) * 2654435769 >> shift
	for g.table[at] >= 0 && index[g.first[g.table[at]]] != v {
		at = (at + 1) & uint32(len(g.table)-1)
	}
	return at
}

// clear empties the table.
func (g *groups) clear() {
	for i := range g.table {
		g.table[i] = -1
	}
}

// pairs returns the number of pairs of rows with equal index, each row paired with itself
// too: the sum of the squared sizes of the groups. repeated is the number of rows whose
// index occurs in an earlier row. Rows with an invalid index do not count.
func (g *groups) pairs(index []float32, entries int) (pairs float64, repeated int) {
	g.clear()
	total := 0
	for t, v := range index {
		if _, ok := parseIndex(v, entries); !ok {
			continue
		}
		at := g.slot(index, v)
		group := g.table[at]
		if group < 0 {
			g.table[at] = int32(len(g.first))
			g.first = append(g.first, int32(t))
			g.last = append(g.last, 1) // in this method, the size of the group
			total++
			continue
		}
		total += 2*int(g.last[group]) + 1
		g.last[group]++
		repeated++
	}
	return float64(total), repeated
}

// find links rows of equal index. Groups and rows are in the record's order. A row with an
// invalid index belongs to no group.
func (g *groups) find(index []float32, entries int) {
	g.clear()
	for t, v := range index {
		g.next = append(g.next, -1)
		if _, ok := parseIndex(v, entries); !ok {
			continue
		}
		at := g.slot(index, v)
		if group := g.table[at]; group >= 0 {
			g.next[g.last[group]] = int32(t)
			g.last[group] = int32(t)
			continue
		}
		g.table[at] = int32(len(g.first))
		g.first = append(g.first, int32(t))
		g.last = append(g.last, int32(t))
	}
}

// gatherSum adds rows of Δ that are rounded to 32 bits to the rows of the table that indices
// name. A record's squared norm is that of its sums of rows of equal index. If they exceed the record's
// budget, the rows of equal index are added up first, and the sums are rounded: rows that cancel can be
// far longer than their sum, and too long for their integers.
type gatherSum struct {
	part
	op.Gather
	index, delta   []float32
	lookups, width int // of a record; width are numbers of Δ
	pairs          []float64

	base    int    // the record in the first slot
	adds    []bool // [slot] whether the rows add something
	cancels []bool // [slot] whether sums of rows are rounded
	rows    []int32
	merged  []float32
}

func (l *lowering) lowerGatherContribution(p part, f op.Gather, in [][]float32) func() {
	records := len(p.Factors)
	s := &gatherSum{part: p, Gather: f, index: in[0], delta: in[1], lookups: len(in[0]) / records,
		width: len(in[1]) / records, pairs: l.saved.pairs[pairsKey{&in[0][0], f}]}
	n := min(records, lattice.MaxUnsettled, max(2*len(l.pool.workers), rowInts/s.width))
	s.adds, s.cancels = make([]bool, n), make([]bool, n)
	scratch := &l.contributions.scratch
	scratch.reserve(0, n*s.width, 0, s.lookups*f.Dim)
	l.pool.reserveGroups(s.lookups)
	l.pool.reserveRowSquares(s.lookups / f.Bag)
	l.pool.reserveRows(f.Bag)
	l.pool.reserve(0, f.Dim)
	admit := l.pool.forRanges(n, s.width+8*s.lookups, s.admit)
	add := l.pool.forShards(n*s.width+f.Size(), s.add)
	reserve := l.lowerReserve(&s.part, n)
	return func() {
		s.rows, s.merged = scratch.int32s, scratch.floats
		for s.base = 0; s.base < records; s.base += n {
			admit()
			reserve()
			add()
			for i, cancels := range s.cancels {
				if cancels {
					s.addMerged(s.base+i, l.pool.workers[0])
				}
			}
		}
	}
}

func (s *gatherSum) record(r int) (index, delta []float32) {
	return s.index[r*s.lookups : (r+1)*s.lookups], s.delta[r*s.width : (r+1)*s.width]
}

// admit rounds the rows of the records in slots from … to-1.
func (s *gatherSum) admit(from, to int, w *worker) {
	for i := from; i < to; i++ {
		r := s.base + i
		s.adds[i], s.cancels[i] = false, false
		if r >= len(s.Factors) || s.Factors[r] == 0 {
			continue
		}
		how := s.Rounding(r)
		if how.Scale == 0 {
			continue
		}
		index, delta := s.record(r)
		pairs := -1.0
		if s.pairs != nil {
			pairs = s.pairs[r]
		}
		try := func(how plan.Rounding) (int64, bool) {
			return roundGathered(s.rows[i*s.width:(i+1)*s.width], gathered{s.Gather, index, delta, pairs}, how, w)
		}
		squares, ok := try(how)
		switch {
		case s.Take(r, squares, ok):
			s.adds[i] = true
		case s.lookups > 1:
			s.cancels[i] = true
		default:
			s.adds[i] = s.ChooseSmaller(r, how, squares, ok, try).Scale > 0
		}
	}
}

// add adds the rows of the records that add something to the rows of the table that the shard owns.
func (s *gatherSum) add(shard, shards int, w *worker) {
	for i, adding := range s.adds {
		if !adding {
			continue
		}
		index, _ := s.record(s.base + i)
		rows := s.rows[i*s.width : (i+1)*s.width]
		for t := 0; t < s.lookups; t += s.Bag {
			s.addRows(w.ownRows(index[t:t+s.Bag], s.Vocabulary, shard, shards), rows[t/s.Bag*s.Dim:][:s.Dim])
		}
	}
}

// addMerged adds the sums of a record's rows of equal index.
func (s *gatherSum) addMerged(r int, w *worker) {
	index, delta := s.record(r)
	g := w.groups.sized(s.lookups)
	g.find(index, s.Vocabulary)
	merged := s.merged[:len(g.first)*s.Dim]
	ints := asInts(s.merged)
	how := s.Choose(r, func(how plan.Rounding) (squares int64, ok bool) {
		for k, first := range g.first {
			from, to := k*s.Dim, (k+1)*s.Dim
			g.sum(merged[from:to], first, delta, s.Gather, w)
			row, ok := lattice.Round(ints[from:to], merged[from:to], float32(how.Scale), lattice.RowKey(how.Seed, 0, int(first)))
			if squares += row; !ok || squares > plan.Bound*plan.Bound {
				return 0, false
			}
		}
		return squares, true
	})
	if how.Scale == 0 {
		return
	}
	for k, first := range g.first {
		s.addRows(w.ownRows(index[first:first+1], s.Vocabulary, 0, 1), ints[k*s.Dim:(k+1)*s.Dim])
	}
}

// sum writes the sum of a group's rows, which it computes in float64 in the order of the rows.
func (g *groups) sum(dst []float32, first int32, delta []float32, f op.Gather, w *worker) {
	sum := w.doubles(f.Dim)
	clear(sum)
	for t := first; t >= 0; t = g.next[t] {
		for j, v := range delta[int(t)/f.Bag*f.Dim:][:f.Dim] {
			sum[j] += float64(v)
		}
	}
	for j, v := range sum {
		dst[j] = float32(v)
	}
}

// addRows adds integers to rows of the parameter's sum, which is a table.
func (p *part) addRows(rows, x []int32) {
	sum := p.sum()
	if p.at == nil {
		lattice.AddToRows(sum, x, rows)
		return
	}
	for _, row := range rows {
		for j, v := range x {
			sum[p.at.At[int(row)*len(x)+j]] += v
		}
	}
}

// gathered are the lookups of a record in a table. pairs is that of groups.pairs, or negative if it is
// not known.
type gathered struct {
	op.Gather
	index, delta []float32
	pairs        float64
}

// roundGathered rounds a record's rows of Δ and returns the squared norm of what they add to
// the table. Rows that belong to no row of the table become zeros: their gradient is not a part of the
// record's, and it can be large, for a normalization magnifies it where its input is padding.
func roundGathered(rows []int32, f gathered, how plan.Rounding, w *worker) (squares int64, ok bool) {
	index, delta, pairs := f.index, f.delta, f.pairs
	lookups := len(index)
	rowSquares := w.rowSquares[:len(rows)/f.Dim]
	for t := range rowSquares {
		from, to, scale := t*f.Dim, (t+1)*f.Dim, float32(how.Scale)
		if !namesRow(index[t*f.Bag:(t+1)*f.Bag], f.Vocabulary) {
			scale = 0
		}
		if rowSquares[t], ok = lattice.Round(rows[from:to], delta[from:to], scale, lattice.RowKey(how.Seed, 0, t)); !ok {
			return 0, false
		}
	}
	g := w.groups.sized(lookups)
	if lookups == f.Bag { // all indices add the same row
		if pairs < 0 {
			pairs, _ = g.pairs(index, f.Vocabulary)
		}
		if pairs*float64(rowSquares[0]) > plan.Bound*plan.Bound { // both factors are integers below 2⁵³
			return 0, false
		}
		return int64(pairs) * rowSquares[0], true
	}
	g.find(index, f.Vocabulary)
	for _, first := range g.first {
		if g.next[first] < 0 {
			squares += rowSquares[int(first)/f.Bag]
		} else if more, ok := g.squaresOfSum(first, rows, f.Gather); !ok {
			return 0, false
		} else {
			squares += more
		}
		if squares > plan.Bound*plan.Bound {
			return 0, false
		}
	}
	return squares, true
}

// namesRow reports whether an index is that of one of n rows.
func namesRow(index []float32, n int) bool {
	for _, v := range index {
		if _, ok := parseIndex(v, n); ok {
			return true
		}
	}
	return false
}

// squaresOfSum returns the squared norm of the sum of a group's rows of integers. It is not ok if
// an element or the squared norm is out of range.
func (g *groups) squaresOfSum(first int32, rows []int32, f op.Gather) (squares int64, ok bool) {
	for j := range f.Dim {
		var v int64
		for t := first; t >= 0; t = g.next[t] {
			v += int64(rows[int(t)/f.Bag*f.Dim+j])
		}
		if v < -plan.Bound || v > plan.Bound {
			return 0, false
		}
		if squares += v * v; squares > plan.Bound*plan.Bound {
			return 0, false
		}
	}
	return squares, true
}
