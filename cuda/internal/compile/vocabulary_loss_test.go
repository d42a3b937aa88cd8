//go:build gpu

package compile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/plan/plantest"
	"github.com/dptrain/dptrain/internal/half"
	"github.com/dptrain/dptrain/models"
	"gorgonia.org/tensor"
)

// inBlocks runs f with this number of logits at a time.
func inBlocks(logits int, f func() []float32) []float32 {
	defer func(before int) { blockLogits = before }(blockLogits)
	blockLogits = logits
	return f()
}

// vocabularyOperations are losses of seven rows of this width, with logits of 300 classes, and their gradients. Some labels are
// −1, one is not a class.
func vocabularyOperations(r *rand.Rand, width int) (losses, gradients []operation) {
	rows, each := tensor.Shape{7, width}, tensor.Shape{7}
	table, matrix, bias := tensor.Shape{300, width}, tensor.Shape{width, 300}, tensor.Shape{300}
	losses = []operation{
		given(r, op.VocabularyLoss{Trans: true}, rows, table, each),
		given(r, op.VocabularyLoss{Bias: true}, rows, matrix, bias, each),
	}
	for _, o := range losses {
		labels := o.in[len(o.in)-1]
		for i := range labels {
			labels[i] = float32(r.IntN(300))
		}
		labels[2], labels[5] = 300, -1
		gradient := given(r, op.VocabularyLossGrad(o.spec.(op.VocabularyLoss)), append(slices.Clone(o.shapes), each)...)
		copy(gradient.in, o.in)
		gradients = append(gradients, gradient)
	}
	return losses, gradients
}

// The number of rows that are computed at a time does not change a bit, in each precision and with each format of the matrix.
func TestVocabularyLoss_BlocksKeepBits(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(21, 6))
	for _, width := range []int{34, 36} {
		losses, gradients := vocabularyOperations(r, width)
		for _, o := range append(losses, gradients...) {
			for precision, tiles := range productTiles {
				run := func() []float32 {
					return forced(tiles[len(tiles)-1], true, func() []float32 { return o.run(t, Options{Precision: precision}) })
				}
				want := run()
				for _, rows := range []int{1, 3} { // the last block of three rows repeats two
					same(t, fmt.Sprint(o.spec, " of width ", width, ", ", precision, ", ", rows, " rows"), inBlocks(rows*300, run), want)
				}
			}
			for _, f := range []half.Format{half.BFloat16, half.Float16} {
				stored := o.roundedTo(f, 1)
				got := inBlocks(3*300, func() []float32 { return stored.runStored(t, f, 1, Options{}) })
				same(t, fmt.Sprint(o.spec, " of width ", width, ", ", f), got, stored.run(t, Options{}))
			}
		}
	}
}

// A library computes each block, or none: rows at other alignments could get other bits.
func TestVocabularyLoss_LibraryComputesEachBlock(t *testing.T) {
	blasStandIn.use(t, "")
	eager(t)
	for _, each := range []struct{ width, products int }{{36, 3 * 2}, {34, 0}} {
		_, gradients := vocabularyOperations(rand.New(rand.NewPCG(22, 6)), each.width)
		for _, o := range gradients {
			inBlocks(3*300, func() []float32 {
				m := o.machine(t, Options{})
				if n := blasStandIn.computes(m); n != each.products && m.(*Executable).device.Emulated() {
					t.Errorf("%v of width %d: the library computes %d products, want %d", o.spec, each.width, n, each.products)
				}
				if err := m.Forward(); err != nil {
					t.Fatal(err)
				}
				return nil
			})
		}
	}
}

// losses returns the losses of a program that has the network's inputs.
func (n network) losses(t *testing.T, p *plan.Program) []float32 {
	t.Helper()
	m, err := New(p, plan.Optimizer{Kind: plan.SGD}, false, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	n.fill(m)
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	return slices.Clone(m.Losses())
}

// A private step with logits in blocks has the bits of one with whole logits.
func TestVocabularyLoss_SameStep(t *testing.T) {
	device(t)
	n := network{example: models.DataSpec{Vocabulary: plantest.VocabularyClasses, Classes: plantest.VocabularyClasses}, batch: 5, steps: 3}
	open := func(p *plan.Program, o plan.Optimizer) (plan.Executable, error) { return New(p, o, false, Options{}) }
	for _, tied := range []bool{true, false} {
		for _, exact := range []bool{false, true} {
			whole := plantest.VocabularyProgram(t, tied, true, n.batch, exact)
			losses, want := n.losses(t, whole), n.trainProgram(t, whole, open)
			for _, rows := range []int{1, 9, 35} {
				p := plantest.VocabularyProgram(t, tied, true, n.batch, exact)
				p.FuseVocabularyLoss(1)
				if !slices.ContainsFunc(p.Front, func(i plan.Instruction) bool { _, is := i.Spec.(op.VocabularyLossGrad); return is }) {
					t.Errorf("tied %v: the logits exist whole", tied)
				}
				inBlocks(rows*plantest.VocabularyClasses, func() []float32 {
					what := fmt.Sprintf("tied %v, exact %v, %d rows", tied, exact, rows)
					same(t, what+", losses", n.losses(t, p), losses)
					for v, got := range n.trainProgram(t, p, open) {
						same(t, fmt.Sprint(what, ", vector ", v), got, want[v])
					}
					return nil
				})
			}
		}
	}
}
