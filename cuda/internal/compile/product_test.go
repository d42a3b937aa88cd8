//go:build gpu

package compile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
	"gorgonia.org/tensor"
)

// matrices are products whose sums over k have more than one slice, with rows that start
// at multiples of 16 bytes and rows that do not.
func matrices(r *rand.Rand, m, n, d int) []operation {
	return []operation{
		given(r, op.Linear{Act: op.Tanh}, tensor.Shape{m, d}, tensor.Shape{d, n}, tensor.Shape{n}),
		given(r, op.MatMul{TransB: true}, tensor.Shape{m, d}, tensor.Shape{n, d}),
		given(r, op.MatMul{TransA: true}, tensor.Shape{d, m}, tensor.Shape{d, n}),
	}
}

func TestProductTiles_Agree(t *testing.T) {
	device(t)
	for precision := range productTiles {
		r := rand.New(rand.NewPCG(3, 6))
		apart, aligned := matrices(r, 133, 70, 290), matrices(r, 36, 132, 292)
		list := []operation{apart[0], aligned[0], aligned[1], apart[2]}
		if precision != FP32 { // slow to emulate
			apart, aligned = matrices(r, 19, 35, 258), matrices(r, 20, 36, 260)
			list = []operation{apart[0], aligned[1], aligned[2]}
		}
		for i, o := range list {
			t.Run(fmt.Sprint(precision, " ", o.spec, o.shapes), func(t *testing.T) {
				if precision != FP32 && testing.Short() && i > 0 {
					t.Skip("slow to emulate")
				}
				o.tilesAgree(t, productTiles, precision)
			})
		}
	}
}

// Tensor cores round operands, to nearest, and nothing else.
func TestTensorCores_RoundOnlyOperands(t *testing.T) {
	device(t)
	list, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	const m, n, d = 20, 36, 72
	for precision, dropped := range map[Precision]int{TF32: 13, BF16: 16} {
		o := given(rand.New(rand.NewPCG(4, 6)), op.MatMul{}, tensor.Shape{m, d}, tensor.Shape{d, n})
		got := o.run(t, Options{Precision: precision})
		if list[0].Arch < 80 { // no tensor cores that take TF32 or bfloat16
			same(t, "products of float32", got, o.run(t, Options{}))
			continue
		}
		for _, x := range o.in {
			for i, v := range x {
				bits := math.Float32bits(v)
				x[i] = math.Float32frombits((bits + 1<<(dropped-1)) >> dropped << dropped)
			}
		}
		o.compare(t, got, allowed[precision].rounded)
	}
}

// A row has the same bits among few rows, where a warp computes one, and among many.
func TestProduct_FewColumnsManyRows(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(5, 6))
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	rows := 16 * d.Multiprocessors()
	for _, columns := range []int{1, 4, 10, 27} {
		many := given(r, op.Linear{Act: op.Sigmoid}, tensor.Shape{rows, 150}, tensor.Shape{150, columns}, tensor.Shape{columns})
		few := many
		few.shapes = []tensor.Shape{{3, 150}, many.shapes[1], many.shapes[2]}
		few.in = [][]float32{many.in[0][:3*150], many.in[1], many.in[2]}
		got := many.run(t, Options{})
		many.compare(t, got, allowed[FP32].functions)
		same(t, fmt.Sprint(columns, " columns"), got[:3*columns], few.run(t, Options{}))
	}
}

// Tiles and slices change only the roundings of a clipped sum, and nothing of a record's
// gradient.
func TestGradientTiles_Agree(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(6, 6))
	const records, rows, in, out = 3, 67, 130, 37
	a, delta := tensor.Shape{records * rows, in}, tensor.Shape{records * rows, out}
	form := op.Product{In: in, Out: out}
	kept := given(r, op.RecordGradients{Form: form, Records: records}, a, delta)
	sum := given(r, op.ClippedSum{Form: form, Records: records}, a, delta, tensor.Shape{records})
	sum.in[2][1] = 0
	var first, total []float32
	for _, one := range productTiles[FP32] {
		for _, separate := range []bool{false, true} {
			got := forced(one, separate, func() []float32 { return kept.run(t, Options{}) })
			added := forced(one, separate, func() []float32 { return sum.run(t, Options{}) })
			if first == nil {
				kept.compare(t, got, allowed[FP32].products)
				sum.compare(t, added, allowed[FP32].products)
				first, total = got, added
			}
			same(t, "kept, tile "+one.name, got, first)
			same(t, "sum, tile "+one.name, added, total)
		}
	}
}

// Sums in several parts: long rows, many rows, large parameters.
func TestSums_InParts(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(7, 6))
	for _, o := range []operation{
		given(r, op.RowSquares{}, tensor.Shape{3, 8192*2 + 5}),
		given(r, op.WeightedRows{}, tensor.Shape{321, 37}, tensor.Shape{321}),
		given(r, op.Dot{}, tensor.Shape{10001}, tensor.Shape{10001}),
	} {
		o.compare(t, o.run(t, Options{}), allowed[FP32].products)
	}
}

// Squares beyond the range of float, of a row whose Δ is small.
func TestRankOne_HugeValues(t *testing.T) {
	device(t)
	o := operation{
		spec:   op.SquaredNorms{Form: op.Product{In: 3, Out: 2}, Records: 1, Method: op.RankOne},
		shapes: []tensor.Shape{{1, 3}, {1, 2}}, in: [][]float32{{1e20, 1e20, -1e20}, {1e-3, -1e-3}},
	}
	o.compare(t, o.run(t, Options{}), allowed[FP32].products)
}

// A table that is looked up and multiplied: by Gram matrices if records have few rows, and
// built, some records at a time, if they have many.
func TestMultiUse_Methods(t *testing.T) {
	device(t)
	defer func(n int) { maxGradientBytes = n }(maxGradientBytes)
	maxGradientBytes = 1
	r := rand.New(rand.NewPCG(9, 6))
	const records, d, v = 3, 30, 200
	at := make([]int32, d*v)
	for i := range at {
		at[i] = int32(i%v*d + i/v)
	}
	for _, way := range []struct{ rows, bag int }{{40, 1}, {150, 1}, {40, 5}} {
		parts := []op.MappedForm{{Form: op.Gather{Vocabulary: v, Dim: d, Bag: way.bag}}, {Form: op.Product{In: d, Out: v}, Map: op.NewMap(at)}}
		o := given(r, op.MultiUseNorms{Uses: &parts, Size: v * d, Records: records},
			tensor.Shape{records, way.rows}, tensor.Shape{records, way.rows / way.bag, d},
			tensor.Shape{records * way.rows, d}, tensor.Shape{records * way.rows, v})
		for i := range o.in[0] {
			o.in[0][i] = float32(r.IntN(v+2) - 1)
		}
		o.checkUpperBounds(t, o.run(t, Options{}), believed)
	}
}

// If terms cancel so far that double loses the rest, the computed norm is not below the
// true one.
func TestMultiUseNorms_AreNotTooSmall(t *testing.T) {
	device(t)
	ones, delta := []float32{1, 1, 1}, []float32{1e17, 1, -1e17} // 1e17 + 1 is 1e17 in double
	for _, form := range []op.Form{
		op.Product{In: 1, Out: 1}, op.Scale{Channels: 1, Inner: 1}, op.Shift{Channels: 1, Inner: 1}, op.Gather{Vocabulary: 2, Dim: 1, Bag: 1},
	} {
		o := operation{
			spec:   op.MultiUseNorms{Uses: &[]op.MappedForm{{Form: form}}, Size: form.Size(), Records: 1},
			shapes: []tensor.Shape{{3, 1}, {3, 1}}, in: [][]float32{ones, delta},
		}
		if !op.NeedsA(form) {
			o.shapes, o.in = o.shapes[1:], o.in[1:]
		}
		if got := o.run(t, Options{})[0]; !(float64(got) >= 1-1e-5) {
			t.Errorf("%v: squared norm %v, and it is 1", form, got)
		}
	}
}

// If uses, or positions of one use, cancel completely, the norm is exactly the bound on
// the roundings of their float sum that the proof requires. The operands are ones.
func TestMultiUse_AddsErrorBound(t *testing.T) {
	device(t)
	window := op.Window{KernelH: 2, KernelW: 2, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1}
	const own = 1 + 256 // roundings of a product's sum in addition to its rows: sumRoundings
	ones := func(shape tensor.Shape) []float32 { return slices.Repeat([]float32{1}, shape.TotalSize()) }
	for _, c := range []struct {
		part      op.MappedForm
		size      int
		a, delta  tensor.Shape
		uses      int     // each the opposite of the one before
		terms     float64 // roundings of one use: its own, those of others' rows meanwhile, and of places
		sizes     float64 // the terms' sizes add up to at most so much of ‖A‖‖Δ‖, or ‖Δ‖
		unbounded bool    // in A
	}{
		{op.MappedForm{Form: op.Product{In: 2, Out: 3}}, 6, tensor.Shape{40, 2}, tensor.Shape{40, 3}, 2, 40 + own + 2 + 1, 1, false},
		{op.MappedForm{Form: op.ConvWeight{Window: window, Groups: 1, C: 1, H: 3, W: 3, O: 1}}, 4,
			tensor.Shape{1, 1, 3, 3}, tensor.Shape{1, 1, 2, 2}, 2, 4 + own + 1 + 1, 2, false},
		{op.MappedForm{Form: op.Shift{Channels: 2, Inner: 3}}, 2, nil, tensor.Shape{5, 2, 3}, 2, 15 + 1 + 1, math.Sqrt(15), false},
		{op.MappedForm{Form: op.Scale{Channels: 2, Inner: 3}}, 2, tensor.Shape{5, 2, 3}, tensor.Shape{5, 2, 3}, 2, 15 + 1 + 1, 1, false},
		{op.MappedForm{Form: op.Gather{Vocabulary: 4, Dim: 2, Bag: 3}}, 8, tensor.Shape{1, 6}, tensor.Shape{1, 2, 2}, 2,
			6 + (1 + 256 + 512) + 1, math.Sqrt(18), true},
		{op.MappedForm{Form: op.Product{In: 1, Out: 2}, Map: &op.Map{At: []int32{0, 0}}}, 1,
			tensor.Shape{5, 1}, tensor.Shape{5, 2}, 1, 5 + own + 1 + 2, math.Sqrt2, false},
	} {
		var parts []op.MappedForm
		var o operation
		var bound, operands float64
		for use := range c.uses {
			parts = append(parts, c.part)
			delta := ones(c.delta)
			for i := range delta {
				if use == 1 || c.uses == 1 && i%2 == 1 {
					delta[i] = -1
				}
			}
			length := math.Sqrt(float64(len(delta)))
			operands += float64(len(delta))
			if c.a != nil {
				a := ones(c.a)
				o.shapes, o.in = append(o.shapes, c.a), append(o.in, a)
				if !c.unbounded {
					length *= math.Sqrt(float64(len(a)))
					operands += float64(len(a))
				}
			}
			o.shapes, o.in = append(o.shapes, c.delta), append(o.in, delta)
			bound += (float64(c.uses)*c.terms + 8) * 0x1p-24 * c.sizes * length
		}
		o.spec = op.MultiUseNorms{Uses: &parts, Size: c.size, Records: 1}
		want := bound*bound + op.OperandNormShare*operands
		if got := float64(o.run(t, Options{})[0]); !(math.Abs(got-want) <= 1e-6*want) {
			t.Errorf("%v: squared norm %v, want %v", o.spec, got, want)
		}
	}
}

// The norm of a weight with two uses includes a share of the operands of both, also if the
// other operands and the gradient are zero.
func TestMultiUse_CountsOperandsOfEveryUse(t *testing.T) {
	device(t)
	p := op.MappedForm{Form: op.Product{In: 1, Out: 1}}
	for k := range 4 {
		o := operation{spec: op.MultiUseNorms{Uses: &[]op.MappedForm{p, p}, Size: 1, Records: 1}}
		for i := range 4 {
			o.shapes, o.in = append(o.shapes, tensor.Shape{1, 1}), append(o.in, []float32{0})
			if i == k {
				o.in[i][0] = 0x1p70
			}
		}
		if got, want := float64(o.run(t, Options{})[0]), op.OperandNormShare*0x1p140; !(math.Abs(got-want) <= 1e-6*want) {
			t.Errorf("operand %d is 2⁷⁰: squared norm %v, want %v", k, got, want)
		}
	}
}

// For every number of rows, the slices of a sum need no more memory than the rows; slices
// that need little memory get blocks of their own.
func TestSlices_FitInMemoryOfRows(t *testing.T) {
	device(t)
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	c := newStepCompiler(d, "")
	for _, tiles := range [][]tile{productTiles[FP32], productTiles[BF16], {narrowTile}} {
		for _, rows := range []int{16, 64, 256, 1024, 4096} {
			for _, columns := range []int{16, 64, 256, 1024, 4096} {
				for depth := 1 << 8; depth <= 1<<24; depth *= 4 {
					_, count := splitByRows(rows, columns, depth)
					list, unmeasured := schedules(c, tiles, rows, columns, depth, count)
					s := list[unmeasured]
					if taken, of := 4*rows*columns*count, 4*depth*(rows+columns); s.separate && taken > max(of, concurrentScratch) {
						t.Errorf("%d by %d over %d rows: slices of %d MB, and the rows have %d", rows, columns, depth, taken>>20, of>>20)
					}
					if rows*columns <= 256*32 && depth == 1<<20 && !s.separate {
						t.Errorf("%d by %d over %d rows: the slices share blocks", rows, columns, depth)
					}
				}
			}
		}
	}
}
