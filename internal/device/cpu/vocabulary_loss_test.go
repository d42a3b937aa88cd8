package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/plan/plantest"
	"github.com/dptrain/dptrain/internal/device/plan/stepbits"
)

// vocabularyStep returns the bits of the results of a step.
func vocabularyStep(t *testing.T, p *plan.Program, threads int) []uint32 {
	t.Helper()
	m, err := New(p, plan.Optimizer{Kind: plan.SGD}, false, threads)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := rand.New(rand.NewPCG(3, 4))
	for k := range 2 {
		in := m.Input(k)
		for i := range in {
			in[i] = float32(r.IntN(plantest.VocabularyClasses+k) - k) // some labels are −1
		}
	}
	m.Input(1)[2] = plantest.VocabularyClasses // not a label
	return stepbits.Of(t, p, m)
}

// countVocabularyLosses counts the fused instructions, and those that compute whole logits.
func countVocabularyLosses(p *plan.Program) (fused, whole int) {
	for _, i := range p.Front {
		switch i.Spec.(type) {
		case op.VocabularyLoss, op.VocabularyLossGrad:
			fused++
		case op.CrossEntropy, op.CrossEntropyGrad:
			whole++
		}
	}
	return fused, whole
}

// Logits that are computed some rows at a time give the bits of whole logits, for each size of a block and number of threads.
// A block may contain parts of several records.
func TestVocabularyLoss_KeepsBits(t *testing.T) {
	defer func(block int) { blockLogits = block }(blockLogits)
	for _, tied := range []bool{true, false} {
		for _, records := range []int{1, 5} {
			want := vocabularyStep(t, plantest.VocabularyProgram(t, tied, true, records, false), 1)
			p := plantest.VocabularyProgram(t, tied, true, records, false)
			arena := p.Arena
			p.FuseVocabularyLoss(1)
			if fused, whole := countVocabularyLosses(p); fused != 2 || whole != 0 {
				t.Fatalf("tied %v: %d instructions are fused, %d are not", tied, fused, whole)
			}
			if least := 2 * records * plantest.VocabularySteps * (plantest.VocabularyClasses - 2*20); p.Arena > arena-least {
				t.Errorf("tied %v, %d records: the arena has %d elements, before %d", tied, records, p.Arena, arena)
			}
			for _, block := range []int{1, 3 * plantest.VocabularyClasses, 1 << 20} {
				blockLogits = block
				for threads := 1; threads <= 3; threads++ {
					if got := vocabularyStep(t, p, threads); !slices.Equal(got, want) {
						t.Errorf("tied %v, %d records, blocks of %d, %d threads: other bits", tied, records, block, threads)
					}
				}
			}
		}
	}
}

// A head that is trained needs the gradient of its logits, and small logits stay as they are.
func TestVocabularyLoss_OtherPrograms(t *testing.T) {
	for _, tied := range []bool{true, false} {
		p := plantest.VocabularyProgram(t, tied, false, 2, false)
		p.FuseVocabularyLoss(1)
		if fused, _ := countVocabularyLosses(p); fused > 0 {
			t.Errorf("tied %v: a trained head is fused", tied)
		}
		p = plantest.VocabularyProgram(t, tied, true, 2, false)
		p.FuseVocabularyLoss(2*plantest.VocabularySteps*plantest.VocabularyClasses + 1)
		if fused, _ := countVocabularyLosses(p); fused > 0 {
			t.Errorf("tied %v: small logits are fused", tied)
		}
	}
}
