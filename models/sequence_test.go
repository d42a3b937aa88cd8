package models

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

var sequenceModels = []string{"embbag:4", "lstm:7", "gru:7", "transformer"}

// predict returns the network's outputs for examples with the given number of steps.
func predict(t *testing.T, spec string, steps int, ids ...[]float32) [][]float32 {
	t.Helper()
	build, err := Parse(spec, DataSpec{Shape: []int{steps}, Vocabulary: 20, Padded: true, Classes: 3}, 1)
	if err != nil {
		t.Fatal(err)
	}
	net, err := build(len(ids))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range net.Params {
		if p.Name() == "position.weight" { // positions have the same values in networks of any length
			v := make([]float32, p.Shape().TotalSize())
			for i := range v {
				v[i] = float32(math.Sin(float64(i)))
			}
			if err := G.Let(p, tensor.New(tensor.WithShape(p.Shape()...), tensor.WithBacking(v))); err != nil {
				t.Fatal(err)
			}
		}
	}
	program, err := plan.LowerEvaluation(net)
	if err != nil {
		t.Fatal(err)
	}
	m, err := cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	copy(m.Input(0), slices.Concat(ids...))
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(slices.Chunk(slices.Clone(m.Output()), 3))
}

// The output for an example does not depend on the amount of padding. The output for padding
// only is that of the head for zeros.
func TestSequenceModels_IndependentOfPadding(t *testing.T) {
	pad := func(ids []float32, steps int) []float32 {
		for len(ids) < steps {
			ids = append(slices.Clip(ids), -1)
		}
		return ids
	}
	text, other := []float32{3, 1, 4, 1, 5}, []float32{9, 2}
	for _, spec := range sequenceModels {
		short := predict(t, spec, 5, text, pad(other, 5), pad(nil, 5))
		long := predict(t, spec, 40, pad(text, 40), pad(other, 40), pad(nil, 40))
		for i := range short {
			for j, v := range short[i] {
				if !(math.Abs(float64(v-long[i][j])) <= 1e-5) {
					t.Errorf("%s: the output for example %d is %v and, with more padding, %v", spec, i, short[i], long[i])
					break
				}
			}
		}
		if alone := predict(t, spec, 2, other)[0]; !(math.Abs(float64(alone[0]-short[1][0])) <= 1e-5) {
			t.Errorf("%s: the output for an example is %v and, with padding, %v", spec, alone, short[1])
		}
	}
}

// If no example has padding, DataSpec.Padded does not change any bit of training.
func TestSequenceModels_PaddedWithoutPaddingIsIdentical(t *testing.T) {
	for _, spec := range sequenceModels {
		sums := func(padded bool) (all [][]float32) {
			data := DataSpec{Shape: []int{13}, Vocabulary: 20, Padded: padded, Classes: 3}
			p, err := perexample.Compile(modelCase(t, spec, data).build, 3, 1)
			if err != nil {
				t.Fatal(err)
			}
			program, err := plan.LowerTraining(p, plan.TrainingOptions{Norms: true, Output: true})
			if err != nil {
				t.Fatal(err)
			}
			m, err := cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			r := rand.New(rand.NewPCG(1, 1))
			for i := range m.Input(0) {
				m.Input(0)[i] = float32(r.IntN(20))
			}
			copy(m.Input(1), []float32{0, 1, 2})
			if err := m.Forward(); err != nil {
				t.Fatal(err)
			}
			for v := range p.Parameters {
				all = append(all, slices.Clone(m.SquaredNorms(v)))
				copy(m.ClipFactors(v), []float32{0.5, 0.75, 1})
			}
			if err := m.AddClippedSums(); err != nil {
				t.Fatal(err)
			}
			for v := range p.Parameters {
				all = append(all, slices.Clone(m.Sum(v)))
			}
			return append(all, slices.Clone(m.Output()))
		}
		if !slices.EqualFunc(sums(true), sums(false), slices.Equal[[]float32]) {
			t.Errorf("%s: norms, sums or outputs differ", spec)
		}
	}
}
