//go:build gpu

package compile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"gorgonia.org/tensor"
)

func square(kernel, stride, pad int) op.Window {
	return op.Window{KernelH: kernel, KernelW: kernel, StrideH: stride, StrideW: stride, PadH: pad, PadW: pad, DilationH: 1, DilationW: 1}
}

// long are convolutions, and their gradients with respect to the images, whose sums over k
// have more than one slice; the second has enough phases for two launches.
func long(r *rand.Rand) []operation {
	f := op.ConvWeight{Window: square(5, 1, 2), Groups: 1, C: 42, H: 5, W: 6, O: 42}
	apart := op.ConvWeight{Window: square(5, 5, 0), Groups: 2, C: 84, H: 10, W: 10, O: 6}
	return []operation{
		given(r, op.Conv2D{Window: f.Window, Groups: 1, Act: op.Tanh}, tensor.Shape{1, 42, 5, 6}, tensor.Shape{42, 42, 5, 5}, tensor.Shape{42}),
		given(r, op.ConvGradInput(f), tensor.Shape{1, 42, 5, 6}, tensor.Shape{42, 42, 5, 5}),
		given(r, op.Conv2D{Window: apart.Window, Groups: 2, Act: op.ReLU}, tensor.Shape{2, 84, 10, 10}, tensor.Shape{6, 42, 5, 5}, tensor.Shape{6}),
		given(r, op.ConvGradInput(apart), tensor.Shape{2, 6, 2, 2}, tensor.Shape{6, 42, 5, 5}),
	}
}

// One operation is enough on tensor cores, which are slow to emulate.
func TestConvolutionTiles_Agree(t *testing.T) {
	device(t)
	for precision := range convolutionTiles {
		for i, o := range long(rand.New(rand.NewPCG(1, 6))) {
			if precision != FP32 && (i > 0 || testing.Short()) {
				continue
			}
			t.Run(fmt.Sprint(precision, " ", o.spec), func(t *testing.T) { o.tilesAgree(t, convolutionTiles, precision) })
		}
	}
}

// A record's gradient has the same bits for every tile, with slices in separate blocks or
// not, and the sum over records is right: for images whose row length is a multiple of
// four, whose area is, and for neither.
func TestWeightGradientTiles_Agree(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(2, 6))
	const records = 3
	for _, side := range [][2]int{{20, 16}, {18, 18}, {17, 19}} {
		f := op.ConvWeight{Window: square(3, 1, 1), Groups: 1, C: 15, H: side[0], W: side[1], O: 33}
		x, y := tensor.Shape{records, 15, side[0], side[1]}, tensor.Shape{records, 33, side[0], side[1]}
		kept := given(r, op.RecordGradients{Form: f, Records: records}, x, y)
		sum := given(r, op.ClippedSum{Form: f, Records: records}, x, y, tensor.Shape{records})
		sum.in[2][1] = 0
		var first []float32
		for _, one := range floatWeightTiles {
			for _, separate := range []bool{false, true} {
				got := forced(one, separate, func() []float32 { return kept.run(t, Options{}) })
				if first == nil {
					kept.compare(t, got, allowed[FP32].products)
					first = got
				}
				same(t, fmt.Sprintf("%v: tile %s", kept.spec, one.name), got, first)
				sum.compare(t, forced(one, separate, func() []float32 { return sum.run(t, Options{}) }), allowed[FP32].products)
			}
		}
	}
}

// Groups times phases above the grid's height take several launches; with more groups than
// that, the host computes the reference.
func TestConvolution_WithManyGroups(t *testing.T) {
	device(t)
	for groups, want := range map[int]int{5000: 2, 1 << 16: 0} {
		f := op.ConvWeight{Window: square(4, 4, 0), Groups: groups, C: groups, H: 4, W: 4, O: groups}
		o := given(rand.New(rand.NewPCG(3, 6)), op.ConvGradInput(f), tensor.Shape{1, groups, 1, 1}, tensor.Shape{groups, 1, 4, 4})
		if got := len(o.machine(t, Options{}).(*Executable).front.steps); want > 0 && got != want {
			t.Errorf("%d groups: %d launches, want %d", groups, got, want)
		}
	}
}

// If a sum has more slices than a grid is deep, a convolution takes several launches, and
// a matrix product computes them in one block; the host computes a sum in which a single
// record has more.
func TestSums_DeeperThanGrid(t *testing.T) {
	device(t)
	defer func(n int) { maxGridDepth = n }(maxGridDepth)
	maxGridDepth = 3
	r := rand.New(rand.NewPCG(4, 6))
	f := op.ConvWeight{Window: square(3, 1, 1), Groups: 2, C: 4, H: 5, W: 7, O: 6}
	x, y := tensor.Shape{7, 4, 5, 7}, tensor.Shape{7, 6, 5, 7}
	large := op.ConvWeight{Window: square(3, 1, 1), Groups: 1, C: 1, H: 20, W: 20, O: 1}
	for _, each := range []struct {
		operation
		launches int
	}{
		{given(r, op.ConvGradWeight(f), x, y), 4}, // two launches, each with the sum of its slices
		{given(r, op.ClippedSum{Form: f, Records: 7}, x, y, tensor.Shape{7}), 4},
		{given(r, op.ClippedSum{Form: large, Records: 2}, tensor.Shape{2, 1, 20, 20}, tensor.Shape{2, 1, 20, 20}, tensor.Shape{2}), 1},
		{given(r, op.ClippedSum{Form: op.Product{In: 5, Out: 40}, Records: 300}, tensor.Shape{300, 5}, tensor.Shape{300, 40}, tensor.Shape{300}), 1},
	} {
		if got := len(each.machine(t, Options{}).(*Executable).front.steps); got != each.launches {
			t.Errorf("%v: %d steps, want %d", each.spec, got, each.launches)
		}
		each.compare(t, each.run(t, Options{}), allowed[FP32].products)
	}
}

// The slices of a convolution's sum take no more memory than maxSliceBytes, or that of one record.
func TestSums_FitScratch(t *testing.T) {
	device(t)
	defer func(n int) { maxSliceBytes = n }(maxSliceBytes)
	r := rand.New(rand.NewPCG(5, 6))
	f := op.ConvWeight{Window: square(3, 1, 1), Groups: 1, C: 3, H: 16, W: 16, O: 5}
	slice := 4 * f.Size()
	o := given(r, op.ClippedSum{Form: f, Records: 9}, tensor.Shape{9, 3, 16, 16}, tensor.Shape{9, 5, 16, 16}, tensor.Shape{9})
	for _, memory := range []int{1, 20 * slice, 1 << 30} {
		maxSliceBytes = memory
		e := o.machine(t, Options{}).(*Executable)
		launches := len(e.front.steps) / 2
		if got, most := e.scratchBytes, max(memory, 5*slice); got > most+256 || launches == 1 != (memory == 1<<30) {
			t.Errorf("with %d bytes the sum takes %d bytes and %d launches", memory, got, launches)
		}
		o.compare(t, o.run(t, Options{}), allowed[FP32].products)
	}
}
