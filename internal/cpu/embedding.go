package cpu

import (
	"math"
	"math/bits"

	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/simd"
)

// entry reads a number as one of n entries.
func entry(v float32, n int) (int, bool) {
	if !(v >= 0 && v < float32(n)) {
		return 0, false
	}
	i := int(v)
	return i, float32(i) == v && i < n
}

func (c compiler) embed(k call) func() {
	out, table, index := k.out, k.in[0], k.in[1]
	n, d := k.shapes[0][0], k.shapes[0][1]
	return c.over(len(index), d+8, func(from, to int, _ *worker) {
		for t := from; t < to; t++ {
			dst := out[t*d : (t+1)*d]
			if row, ok := entry(index[t], n); ok {
				copy(dst, table[row*d:])
			} else {
				clear(dst)
			}
		}
	})
}

// embedBag adds rows up in the order of the indices.
func (c compiler) embedBag(s op.EmbedBag, k call) func() {
	out, table, index := k.out, k.in[0], k.in[1]
	n, d, bag := k.shapes[0][0], k.shapes[0][1], k.shapes[1][1]
	return c.over(len(out)/d, bag*(d+8), func(from, to int, _ *worker) {
		for b := from; b < to; b++ {
			dst := out[b*d : (b+1)*d]
			clear(dst)
			for _, v := range index[b*bag : (b+1)*bag] {
				if row, ok := entry(v, n); ok {
					simd.Add(dst, dst, table[row*d:(row+1)*d])
				}
			}
			simd.Scale(dst, dst, float32(s.Scale))
		}
	})
}

// gatherSum adds rows of Δ to the rows of a table that indices name, each times
// the factor of its record where factors are given. A thread owns the rows of
// the table whose number leaves its own remainder, and goes through the indices
// in order: each row of the table is added up in one order however many threads
// there are, and frequent rows, which vocabularies list first, are spread.
func (c compiler) gatherSum(f op.Gather, k call, index, delta, factors []float32) func() {
	out := k.out
	each := len(index)
	if factors != nil {
		each /= len(factors)
	}
	return c.shards(len(index)*f.Dim+len(out), func(shard, shards int, _ *worker) {
		if !k.accumulate {
			for row := shard; row < f.Vocabulary; row += shards {
				clear(out[row*f.Dim : (row+1)*f.Dim])
			}
		}
		for t, v := range index {
			row, ok := entry(v, f.Vocabulary)
			if !ok || row%shards != shard {
				continue
			}
			dst, d := out[row*f.Dim:(row+1)*f.Dim], delta[t/f.Bag*f.Dim:][:f.Dim]
			switch {
			case factors == nil:
				simd.Add(dst, dst, d)
			case factors[t/each] != 0:
				simd.Axpy(dst, d, factors[t/each])
			}
		}
	})
}

// groupNorms adds up the rows of Δ of one record that share an index, then
// squares. Roundings in adding n rows are at most n·2⁻⁵³·Σ‖δ_t‖.
func (c compiler) groupNorms(f op.Gather, records int, k call) func() {
	out, index, delta := k.out, k.in[0], k.in[1]
	rows := len(index) / records
	for _, w := range c.pool.workers {
		w.groups = w.groups.sized(rows)
	}
	c.reserve(0, f.Dim)
	return c.over(records, 8*rows+rows*f.Dim, func(from, to int, w *worker) {
		for r := from; r < to; r++ {
			delta := delta[r*rows/f.Bag*f.Dim:]
			g := w.groups.sized(rows)
			g.find(index[r*rows:(r+1)*rows], f.Vocabulary)
			if rows == f.Bag {
				out[r] = float32(g.counts() * simd.SumSquares(delta[:f.Dim]))
				continue
			}
			total, length := g.squared(delta, f, w)
			norm := math.Sqrt(total) + float64(rows)*roundoff*(length+math.Sqrt(total))
			out[r] = float32(norm * norm)
		}
	})
}

// squared is the squared norm of the groups' sums, and the sizes of what had to be
// added up for them; single rows had not.
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
				length += math.Abs(float64(v))
			}
		}
		for _, v := range sum {
			total += v * v
		}
	}
	return total, length
}

// counts is the sum of the squared sizes of the groups.
func (g *groups) counts() (total float64) {
	for _, first := range g.first {
		n := 0
		for t := first; t >= 0; t = g.next[t] {
			n++
		}
		total += float64(n * n)
	}
	return total
}

// groups are the rows of a record, those of one index linked together.
type groups struct {
	first []int32 // the first row of each group
	next  []int32 // the row of the same group that follows a row, or -1
	last  []int32 // the last row of each group so far
	table []int32 // a hash table of groups by their index; -1 where empty
}

// sized is memory for the groups of some rows.
func (g groups) sized(rows int) groups {
	slots := 1 << bits.Len(uint(2*rows))
	if cap(g.table) < slots {
		g = groups{make([]int32, rows), make([]int32, rows), make([]int32, rows), make([]int32, slots)}
	}
	return groups{g.first[:0], g.next[:0], g.last[:0], g.table[:slots]}
}

// find links rows of equal index. Groups and rows are in the record's order. A
// row whose index is no entry of the table belongs to none.
func (g *groups) find(index []float32, entries int) {
	for i := range g.table {
		g.table[i] = -1
	}
	shift := 33 - bits.Len(uint(len(g.table)))
	for t, v := range index {
		g.next = append(g.next, -1)
		if _, ok := entry(v, entries); !ok {
			continue
		}
		at := uint32(int32(v)) * 2654435769 >> shift
		for g.table[at] >= 0 && index[g.first[g.table[at]]] != v {
			at = (at + 1) & uint32(len(g.table)-1)
		}
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
