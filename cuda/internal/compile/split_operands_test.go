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
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/plan/plantest"
	"gorgonia.org/tensor"
)

// splitting makes this device split operands where it can, for small Gram matrices too. It skips
// the test on a device that cannot.
func splitting(t *testing.T) {
	t.Helper()
	device(t)
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if !splitsOperandsOn(d.Arch(), TF32) {
		t.Skip("this GPU does not split operands")
	}
	before := minSplitGram
	minSplitGram = 0
	t.Cleanup(func() { minSplitGram = before })
}

// Only a precision that allows tensor cores splits operands, and only where it pays.
func TestSplitOperands_WherePrecisionAllows(t *testing.T) {
	splitting(t)
	o := gramOf(rand.New(rand.NewPCG(1, 7)), 2, 20, 40, 30)
	for precision, want := range []int{2, 4, 4} {
		if got := len(o.machine(t, Options{Precision: Precision(precision)}).(*Executable).front.steps); got != want {
			t.Errorf("%v: a norm takes %d launches, want %d", Precision(precision), got, want)
		}
	}
	minSplitGram = 2*20*20/2*(40+30) + 1
	if got := len(o.machine(t, Options{Precision: TF32}).(*Executable).front.steps); got != 2 {
		t.Errorf("a norm of little work takes %d launches, want 2", got)
	}
}

func TestSplitOperands_WhereFaster(t *testing.T) {
	for arch, want := range map[int]bool{75: false, 80: true, 86: false, 89: false, 90: true, 100: true, 103: true, 120: false} {
		for _, p := range []Precision{FP32, TF32, BF16} {
			if got := splitsOperandsOn(arch, p); got != (want && p != FP32) {
				t.Errorf("%v on %d: %v", p, arch, got)
			}
		}
	}
}

// truncated returns operands of a product of n terms for which truncation has the largest error: the
// first term of each slice is 1, and each other is less than its last bit. slice returns the number of
// the slice that contains term k.
func truncated(n int, slice func(k int) int) []float32 {
	seen := map[int]bool{}
	x := make([]float32, n)
	for k := range x {
		if x[k] = 0x1p-12 * (2 - 0x1p-10) / math.Sqrt2; !seen[slice(k)] {
			x[k] = 1
		}
		seen[slice(k)] = true
	}
	return x
}

// The error of a product of split operands is within its bound, and tensor cores that truncate as
// those of a V100 use more than half of it.
func TestSplitProducts_ErrorBound(t *testing.T) {
	splitting(t)
	list, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(2, 7))
	for _, rows := range []int{1, 3, 9, 16, 17, 70, 256} {
		const in, out = 35, 40
		o := given(r, op.RecordGradients{Form: op.Product{In: in, Out: out}, Records: 1}, tensor.Shape{rows, in}, tensor.Shape{rows, out})
		for i := range o.in {
			width := len(o.in[i]) / rows
			for j := range o.in[i] {
				switch column := j % width; {
				case column%4 == 0: // of any size
					o.in[i][j] *= float32(math.Pow(2, float64(r.IntN(40)-20)))
				case column%4 == 1: // just over half of a unit of TF32, whose low part is as large as can be
					o.in[i][j] = float32(1-2*(r.IntN(2))) * (1 + 0x1p-11 - 0x1p-23*float32(r.IntN(3)))
				case column == 2: // one, then products that are lost
					o.in[i][j] = 1
					if j >= width {
						o.in[i][j] = 0x1p-12
						if i == 1 {
							o.in[i][j] = 0x1p-12 * (2 - 0x1p-10)
						}
					}
				}
			}
		}
		got := o.run(t, Options{Precision: TF32})
		want, _ := o.reference()
		sizes := operation{o.spec, o.shapes, [][]float32{absolute(o.in[0]), absolute(o.in[1])}}
		scale, _ := sizes.reference()
		bound := float64(splitRoundings(rows)) * op.SingleRoundoff
		worst := 0.0
		for i, w := range want {
			if scale[i] > 0 {
				worst = max(worst, math.Abs(float64(got[i])-w)/scale[i]/bound)
			}
		}
		if worst > 1 {
			t.Errorf("%d rows: an error is %.3g of the bound", rows, worst)
		}
		if list[0].Emulated() && rows >= 70 && worst < 0.5 {
			t.Errorf("%d rows: the largest error is %.3g of the bound; the device loses too little, or the bound is too large", rows, worst)
		}
	}
}

func absolute(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(math.Abs(float64(v)))
	}
	return y
}

// A squared norm from Gram matrices of split operands is not too small where tensor cores lose as
// much as they can, and its bound is needed: without 45% of it the norm would be too small. The
// norm is what remains of the result without the other terms that are added to it.
func TestSplitGram_AddsErrorBound(t *testing.T) {
	splitting(t)
	list, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	const rows, n = 2, 512
	o := gramOf(rand.New(rand.NewPCG(3, 7)), 1, rows, n, n)
	// A warp adds 16 of 64 neighbouring elements; the elements of two such groups are a slice.
	cut := truncated(n, func(k int) int { return k/128*4 + k%64/16 })
	halfway := slices.Repeat([]float32{1 + 0x1p-11 - 0x1p-23}, n) // the low part is as large as can be
	lost := 0.0                                                   // the share of the bound that is needed
	for _, row := range [][]float32{cut, halfway} {
		for i := range o.in {
			copy(o.in[i], row)
			copy(o.in[i][n:], row)
		}
		want, _ := o.reference()
		a := 0.0
		for _, v := range o.in[0] {
			a += float64(v) * float64(v)
		}
		ku := float64(splitRoundings(splitGramSlice)+n/(4*splitGramSlice)+1) * op.SingleRoundoff
		gamma := ku / (1 - ku) / (1 - ku/(1-ku))
		length := 1.001 * a * (1 + gamma)
		got := math.Sqrt(float64(o.run(t, Options{Precision: TF32})[0])) - (rows+1+25*33)*op.SingleRoundoff*length
		square := got * got * (1 + 0x1p-22) // the result and its square root are rounded
		if square < want[0] {
			t.Errorf("rows of %v, %v, …: the squared norm is %v, and %v was found", row[0], row[1], want[0], square)
		}
		bound := 1.001 * 2 * gamma * a * a
		lost = max(lost, 1-(square-want[0])/bound)
	}
	if list[0].Emulated() && lost < 0.45 {
		t.Errorf("only %.2g of the bound is needed; the device loses too little, or the bound is too large", lost)
	}
}

// The error of a clipped sum of split operands is within the bound that norms add. Tensor cores that
// truncate as those of a V100 use more than 0.4 of the bound for a slice of so few rows. A record of
// factor 0 is not read.
func TestSplitSums_ErrorBound(t *testing.T) {
	splitting(t)
	list, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(6, 7))
	product := op.Product{In: 35, Out: 40}
	conv := op.ConvWeight{Window: square(3, 1, 1), Groups: 1, C: 2, H: 8, W: 8, O: 20}
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	tf32 := &compiler{device: d, options: Options{Precision: TF32}}
	for _, c := range []struct {
		form     op.Form
		a, delta tensor.Shape // of a record
		records  int
	}{
		{product, tensor.Shape{1, 35}, tensor.Shape{1, 40}, 256},
		{product, tensor.Shape{50, 35}, tensor.Shape{50, 40}, 12},
		{conv, tensor.Shape{1, 2, 8, 8}, tensor.Shape{1, 20, 8, 8}, 9},
	} {
		c.a[0] *= c.records
		c.delta[0] *= c.records
		o := given(r, op.ClippedSum{Form: c.form, Records: c.records}, c.a, c.delta, tensor.Shape{c.records})
		a, delta, factors := o.in[0], o.in[1], o.in[2]
		length, _ := splitByRows(product.In, product.Out, len(delta)/product.Out)
		for i := range factors {
			factors[i] = 1
		}
		const bits = 2 - 0x1p-10 // products of 2⁻²⁴ times this are lost where the sum is 1
		if c.form == op.Form(product) {
			for i := range a {
				if a[i] *= float32(math.Pow(2, float64(r.IntN(20)-10))); i%product.In == 0 {
					a[i] = 0x1p-12
				}
			}
			for i := range delta {
				if i%product.Out == 0 {
					delta[i] = 0x1p-12 * bits
				}
			}
			for row := 0; row < len(a)/product.In; row += length {
				a[row*product.In], delta[row*product.Out] = 1, 1
			}
			factors[1] = 0.7
		}
		size, width := len(a)/c.records, len(delta)/c.records
		last := c.records - 1
		factors[last] = 0
		for i := range size {
			a[last*size+i] = float32(math.NaN())
		}
		for i := range width {
			delta[last*width+i] = float32(math.Inf(1))
		}

		got := o.run(t, Options{Precision: TF32})
		want, _ := o.reference()
		sizes := operation{o.spec, o.shapes, [][]float32{absolute(a), absolute(delta), factors}}
		scale, _ := sizes.reference()
		bound := float64(tf32.sumRoundings(width/product.Out)) * op.SingleRoundoff
		worst := 0.0
		for i, w := range want {
			if off := math.Abs(float64(got[i]) - w); !(off <= bound*scale[i]) {
				t.Fatalf("%v: element %d of %d is %v, want %v", o.spec, i, len(got), got[i], w)
			}
			worst = max(worst, math.Abs(float64(got[i])-w)/scale[i])
		}
		if worst /= float64(splitRoundings(length)) * op.SingleRoundoff; c.form == op.Form(product) && list[0].Emulated() && worst < 0.4 {
			t.Errorf("%v: the largest error is %.3g of a slice's bound; the device loses too little, or the bound is too large", o.spec, worst)
		}
	}
}

// A record with a number that rounds to infinity as TF32 has no finite norm, so its factor is 0. In a
// product it would give NaN.
func TestSplitOperands_OmitWhatOverflows(t *testing.T) {
	splitting(t)
	const least = 0x1.ffep127 // that rounds to infinity
	for _, rows := range []int{1, 2} {
		form := op.Product{In: 20, Out: 30}
		conv := op.ConvWeight{Window: square(1, 1, 0), Groups: 1, C: 20, H: 1, W: rows, O: 30}
		for _, spec := range []op.Operation{
			op.SquaredNorms{Form: form, Records: 1, Method: map[bool]op.Method{true: op.RankOne, false: op.Gram}[rows == 1]},
			op.SquaredNorms{Form: conv, Records: 1, Method: op.Gram},
			op.MultiUseNorms{Uses: &[]op.MappedForm{{Form: form}}, Size: form.Size(), Records: 1},
		} {
			a, delta := tensor.Shape{rows, 20}, tensor.Shape{rows, 30}
			if s, ok := spec.(op.SquaredNorms); ok && s.Form == op.Form(conv) {
				a, delta = tensor.Shape{1, 20, 1, rows}, tensor.Shape{1, 30, 1, rows}
			}
			for large := range 2 {
				o := given(rand.New(rand.NewPCG(7, 7)), spec, a, delta)
				for i := range o.in[1-large] {
					o.in[1-large][i] = 0x1p-126
				}
				o.in[large][1] = least
				if got := o.run(t, Options{Precision: TF32})[0]; !math.IsInf(float64(got), 1) {
					t.Errorf("%v: a record with %v has the squared norm %v", spec, o.in[large][1], got)
				}
			}
		}
	}
}

// The bits of a record's norm and gradient do not depend on its neighbours, on its place, or on the
// number of records.
func TestSplitOperands_OfRecordsAlone(t *testing.T) {
	splitting(t)
	r := rand.New(rand.NewPCG(4, 7))
	const records = 4
	conv := op.ConvWeight{Window: square(3, 1, 1), Groups: 1, C: 5, H: 7, W: 6, O: 20}
	product := op.Product{In: 70, Out: 45}
	for _, c := range []struct {
		form     op.Form
		a, delta tensor.Shape // of a record
	}{
		{product, tensor.Shape{37, 70}, tensor.Shape{37, 45}},
		{conv, tensor.Shape{1, 5, 7, 6}, tensor.Shape{1, 20, 7, 6}},
	} {
		of := func(n int, spec op.Operation) operation {
			a, delta := c.a.Clone(), c.delta.Clone()
			a[0] *= n
			delta[0] *= n
			return given(r, spec, a, delta)
		}
		for _, spec := range []func(n int) op.Operation{
			func(n int) op.Operation { return op.RecordGradients{Form: c.form, Records: n} },
			func(n int) op.Operation { return op.SquaredNorms{Form: c.form, Records: n, Method: op.Gram} },
		} {
			all := of(records, spec(records))
			width := len(all.in[0]) / records
			for i := range width { // a neighbour's NaN, Inf and huge numbers
				all.in[0][i] = []float32{float32(math.NaN()), float32(math.Inf(1)), 3e38}[i%3]
			}
			got := all.run(t, Options{Precision: TF32})
			size := len(got) / records
			for record := 1; record < records; record++ {
				alone := of(1, spec(1))
				for i, x := range all.in {
					alone.in[i] = x[record*len(x)/records : (record+1)*len(x)/records]
				}
				same(t, fmt.Sprintf("%v, record %d", all.spec, record), got[record*size:(record+1)*size], alone.run(t, Options{Precision: TF32}))
			}
		}
	}
}

// Records' gradients and sums have the same bits for every tile, with slices in separate blocks or not.
func TestGradientTiles_AgreeOfSplitOperands(t *testing.T) {
	splitting(t)
	r := rand.New(rand.NewPCG(5, 7))
	const records = 2
	product := given(r, op.RecordGradients{Form: op.Product{In: 130, Out: 37}, Records: records},
		tensor.Shape{records * 67, 130}, tensor.Shape{records * 67, 37})
	product.splitTilesAgree(t, splitProductTiles)
	sum := given(r, op.ClippedSum{Form: op.Product{In: 130, Out: 37}, Records: 5}, tensor.Shape{5 * 67, 130}, tensor.Shape{5 * 67, 37}, tensor.Shape{5})
	sum.splitTilesAgree(t, splitProductTiles)
	for _, side := range [][2]int{{12, 8}, {11, 7}} {
		f := op.ConvWeight{Window: square(3, 1, 1), Groups: 1, C: 15, H: side[0], W: side[1], O: 33}
		kept := given(r, op.RecordGradients{Form: f, Records: records},
			tensor.Shape{records, 15, side[0], side[1]}, tensor.Shape{records, 33, side[0], side[1]})
		kept.splitTilesAgree(t, splitWeightTiles)
		for _, sum := range []operation{
			given(r, op.ClippedSum{Form: f, Records: records}, kept.shapes[0], kept.shapes[1], tensor.Shape{records}),
			given(r, op.ConvGradWeight(f), kept.shapes[0], kept.shapes[1]),
		} {
			sum.splitTilesAgree(t, splitWeightTiles)
		}
	}
}

func (o operation) splitTilesAgree(t *testing.T, tiles []tile) {
	t.Helper()
	var first []float32
	for _, one := range tiles {
		for _, separate := range []bool{false, true} {
			got := forced(one, separate, func() []float32 { return o.run(t, Options{Precision: TF32}) })
			if first == nil {
				o.compare(t, got, allowed[TF32].split)
				first = got
			}
			same(t, fmt.Sprint(o.spec, " tile ", one.name), got, first)
		}
	}
}

// Norms of adversarial records are not underestimated.
func TestConformance_SplitOperands(t *testing.T) {
	splitting(t)
	plantest.Norms(t, func(p *plan.Program, o plan.Optimizer, average bool, _ int) (plan.Executable, error) {
		return New(p, o, average, Options{Precision: TF32})
	})
}
