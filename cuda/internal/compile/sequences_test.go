//go:build gpu

package compile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"gorgonia.org/tensor"
)

// few is an operation on the first records of inputs that belong to records.
func (o operation) few(records int, shared ...int) operation {
	all := 0
	few := operation{spec: o.spec}
	for i, s := range o.shapes {
		s, x := s.Clone(), o.in[i]
		if len(shared) > 0 && shared[0] == i {
			shared = shared[1:]
		} else {
			all = s[0]
			s[0] = records
			x = x[:len(x)/all*records]
		}
		few.shapes, few.in = append(few.shapes, s), append(few.in, x)
	}
	return few
}

// A record has the same bits with every number of other records: alone in its block, with
// some, and if hidden units are divided among blocks and every step is a launch.
func TestRecurrent_StepRanges(t *testing.T) {
	device(t)
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	const steps = 3
	r := rand.New(rand.NewPCG(1, 6))
	for _, hidden := range []int{17, 128, 150} {
		blocks := d.Multiprocessors()
		if hidden > 128 {
			blocks /= 3
		}
		if hidden == 128 && testing.Short() {
			continue
		}
		records := 4*blocks + 1 // eight a block
		state := tensor.Shape{records, steps, hidden}
		of := func(n int) tensor.Shape { return tensor.Shape{records, steps, n * hidden} }
		weight := func(gates int) tensor.Shape { return tensor.Shape{hidden, gates * hidden} }
		for _, reverse := range []bool{false, true} {
			for _, x := range []struct {
				operation
				shared []int
			}{
				{given(r, op.LSTMTrace{Reverse: reverse}, of(4), weight(4)), []int{1}},
				{given(r, op.LSTMGrad{Reverse: reverse}, weight(4), of(5), state), []int{0}},
				{given(r, op.GRUTrace{Reverse: reverse}, of(3), weight(3), tensor.Shape{hidden}), []int{1, 2}},
				{given(r, op.GRUGrad{Reverse: reverse}, weight(3), of(4), state, state), []int{0}},
			} {
				t.Run(fmt.Sprint(x.spec, hidden), func(t *testing.T) {
					got := x.run(t, Options{})
					x.compare(t, got, allowed[FP32].functions)
					for _, n := range []int{1, blocks + 1, 2*blocks + 1} {
						same(t, fmt.Sprint(n, " records"), x.few(n, x.shared...).run(t, Options{}), got[:len(got)/records*n])
					}
				})
			}
		}
	}
}

// Sequences of several tiles, and heads of several chunks and parts of columns.
func TestAttention_LongSequences(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(2, 6))
	for _, x := range []struct{ steps, heads, size int }{{130, 2, 40}, {65, 1, 70}, {64, 1, 150}} {
		width := x.heads * x.size
		packed, out := tensor.Shape{2, x.steps, 3 * width}, tensor.Shape{2, x.steps, width}
		marks := tensor.Shape{2, x.steps}
		for _, causal := range []bool{false, true} {
			a := op.Attention{Heads: x.heads, Causal: causal}
			for _, o := range []operation{
				given(r, a, packed), given(r, a, packed, marks),
				given(r, op.AttentionGrad(a), packed, out), given(r, op.AttentionGrad(a), packed, out, marks),
			} {
				t.Run(fmt.Sprint(o.spec, o.shapes), func(t *testing.T) {
					for i := range o.in[0] {
						o.in[0][i] *= 10 // weights that differ
					}
					o.compare(t, o.run(t, Options{}), allowed[FP32].functions)
					if testing.Short() || causal != (len(o.in)%2 == 0) { // tensor cores are slow to emulate
						return
					}
					for _, precision := range []Precision{TF32, BF16} {
						got := o.run(t, Options{Precision: precision})
						o.compare(t, got, allowed[precision].functions)
						same(t, "a record alone", o.few(1).run(t, Options{Precision: precision}), got[:len(got)/2])
					}
				})
			}
		}
	}
}

// Windows, capped scores and blocks over several tiles. Windows and blocks end within tiles and at their ends.
func TestAttention_WindowsCapsAndBlocks(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(2, 7))
	const steps, heads, size = 200, 2, 20
	packed, out, marks := tensor.Shape{2, steps, 3 * heads * size}, tensor.Shape{2, steps, heads * size}, tensor.Shape{2, steps}
	for _, a := range []op.Attention{
		{Causal: true, Window: 1}, {Causal: true, Window: 64}, {Causal: true, Window: 65}, {Causal: true, Window: 500}, {Cap: 2},
		{Causal: true, Window: 70, Cap: 3, Scale: 0.3}, {Blocks: true}, {Causal: true, Blocks: true}, {Causal: true, Blocks: true, Window: 40, Cap: 2},
	} {
		a.Heads = heads
		for _, o := range []operation{given(r, a, packed, marks), given(r, op.AttentionGrad(a), packed, out, marks)} {
			t.Run(fmt.Sprint(o.spec), func(t *testing.T) {
				for i := range o.in[0] {
					o.in[0][i] *= 10 // weights that differ
				}
				numbers := o.in[len(o.in)-1]
				clear(numbers)
				for _, begin := range []int{3, 64, 100, 191} {
					numbers[begin] = 1
				}
				for _, begin := range []int{0, 1, 127, 128, 199} {
					numbers[steps+begin] = 1
				}
				for padded := 180; padded < 191; padded++ {
					numbers[padded] = -1
				}
				o.compare(t, o.run(t, Options{}), allowed[FP32].functions)
			})
		}
	}
}

// Tables whose rows occur more often than a block's list has room for, and records that
// are too long to sort in shared memory.
func TestEmbedding_LongTables(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(3, 6))
	const records = 2
	for _, x := range []struct{ steps, vocabulary, dim, bag int }{{4500, 3, 70, 1}, {6000, 900, 3, 1}, {3000, 1, 5, 50}, {300, 20, 130, 3}} {
		f := op.Gather{Vocabulary: x.vocabulary, Dim: x.dim, Bag: x.bag}
		index, delta := tensor.Shape{records, x.steps}, tensor.Shape{records, x.steps / x.bag, x.dim}
		for _, o := range []operation{
			given(r, op.EmbedGrad(f), index, delta),
			given(r, op.ClippedSum{Form: f, Records: records}, index, delta, tensor.Shape{records}),
			given(r, op.RecordGradients{Form: f, Records: records}, index, delta),
			given(r, op.SquaredNorms{Form: f, Records: records, Method: op.Group}, index, delta),
		} {
			t.Run(fmt.Sprint(o.spec), func(t *testing.T) {
				for i := range o.in[0] {
					o.in[0][i] = float32(r.IntN(x.vocabulary+2) - 1)
				}
				got := o.run(t, Options{})
				if _, norms := o.spec.(op.SquaredNorms); norms {
					o.checkUpperBounds(t, got, 0.02) // thousands of rows that are summed in float
				} else {
					o.compare(t, got, allowed[FP32].products)
				}
				same(t, "again", o.run(t, Options{}), got)
			})
		}
	}
}
