package plan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/plan/stepbits"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/perexample"
)

// private lowers the training step of a model.
func private(t *testing.T, model string, e models.DataSpec, records, each int) *plan.Program {
	build, err := models.Parse(model, e, 1)
	if err != nil {
		t.Fatal(err)
	}
	network, err := perexample.Compile(build, records, each)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.LowerTraining(network, plan.TrainingOptions{Norms: true, Output: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// step returns the bits of all results of a step.
func step(t *testing.T, p *plan.Program, e models.DataSpec) []uint32 {
	m, err := cpu.New(p, plan.Optimizer{Kind: plan.SGD}, false, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := rand.New(rand.NewPCG(7, 8))
	for k := range 2 {
		in := m.Input(k)
		for i := range in {
			switch {
			case k == 1:
				in[i] = float32(r.IntN(e.Classes))
			case e.Vocabulary > 0:
				in[i] = float32(r.IntN(e.Vocabulary))
			default:
				in[i] = float32(r.NormFloat64())
			}
		}
	}
	for i := range m.ExampleWeights() {
		m.ExampleWeights()[i] = 0.5
	}
	return stepbits.Of(t, p, m)
}

// compareBits ends the test where results of a rewritten program differ.
func compareBits(t *testing.T, program string, got, want []uint32) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", program, len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%s: number %d is %v, want %v", program, i, math.Float32frombits(got[i]), math.Float32frombits(want[i]))
		}
	}
}

// Results that are computed again keep their bits in every round, and the program takes
// less memory in the end.
func TestRematerialize_KeepsBits(t *testing.T) {
	picture := models.DataSpec{Shape: []int{3, 32, 32}, Classes: 4}
	text := models.DataSpec{Shape: []int{9}, Vocabulary: 20, Classes: 20, LabelShape: []int{9}}
	for _, c := range []struct {
		model   string
		example models.DataSpec
		each    int
		saves   float64 // share of the arena
	}{
		{"wrn16-4", picture, 1, 0.3},
		{"wrn16-4:standardized", picture, 2, 0.1},
		{"transformer", text, 1, 0.05},
		{"transformer:tied", text, 1, 0.05},
		{"cifar-tanh", picture, 1, 0},
		{"mlp:30", models.DataSpec{Shape: []int{12}, Classes: 4}, 2, 0},
	} {
		t.Run(c.model, func(t *testing.T) {
			p := private(t, c.model, c.example, 4, c.each)
			want, least, rounds := step(t, p, c.example), p.Arena, 0
			for q := p.RematerializeAtPeak(); q != nil; q = q.RematerializeAtPeak() {
				if rounds++; rounds > 200 {
					t.Fatal("no end")
				}
				least = min(least, q.Arena)
				if rounds > 6 && q.RematerializeAtPeak() != nil {
					continue
				}
				compareBits(t, fmt.Sprintf("round %d", rounds), step(t, q, c.example), want)
			}
			if float64(least) > (1-c.saves)*float64(p.Arena) {
				t.Errorf("after %d rounds %d elements, of %d", rounds, least, p.Arena)
			}
		})
	}
}

// A program changes if its arena becomes smaller by an eighth. It stays as it is if it is
// small or saves less.
func TestRematerialize_SavesAnEighth(t *testing.T) {
	for _, c := range []struct {
		model   string
		shape   []int
		records int
		less    bool
	}{
		{"wrn16-4", []int{3, 32, 32}, 2, true},
		{"wrn16-4", []int{3, 4, 4}, 1, false},
		{"cifar-tanh", []int{3, 32, 32}, 16, false},
		{"mlp:1000", []int{784}, 1024, false},
		{"digits-cnn", []int{1, 28, 28}, 4, false},
	} {
		p := private(t, c.model, models.DataSpec{Shape: c.shape, Classes: 10}, c.records, 1)
		before, code := p.Arena, len(p.Front)+len(p.Back)
		p.Rematerialize(8 << 20)
		if less := p.Arena <= before-before/8; less != c.less || less != (len(p.Front)+len(p.Back) > code) {
			t.Errorf("%s, %d records: %d elements of %d, %d instructions of %d", c.model, c.records, p.Arena, before, len(p.Front)+len(p.Back), code)
		}
	}
}
