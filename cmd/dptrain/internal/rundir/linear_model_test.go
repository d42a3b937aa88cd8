package rundir

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/engine/optim"
)

// The noise in a shown weight is that of the matrix, moved to its units. 3,000 matrices of noise alone
// have the stated deviation: its relative error is 1.3%, and a correct result is off by 7% with a
// probability below 10^-6.
func TestNewLinearModel_NoiseOfShownWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for outputs, unit := range map[int]float64{1: 25, 2: 1, 5: 1} {
		squares, count := 0.0, 0
		var stated float64
		for range 3000 {
			matrix := make([]float32, outputs)
			for i := range matrix {
				matrix[i] = float32(0.3 * r.NormFloat64())
			}
			m := NewLinearModel([]string{"age"}, matrix, unit, &optim.WeightNoise{All: 0.3, Last: 0.1})
			for _, w := range m.Weights {
				squares += w.Value * w.Value
				count++
			}
			stated = m.Noise.All
			if math.Abs(m.Noise.Last-stated/3) > 1e-9*stated {
				t.Fatalf("%+v", m.Noise)
			}
		}
		if measured := math.Sqrt(squares / float64(count)); math.Abs(stated/measured-1) > 0.07 {
			t.Errorf("%d outputs: noise %v, measured %v", outputs, stated, measured)
		}
	}
}

// The largest weights are listed, and the others counted.
func TestNewLinearModel_LargestFirst(t *testing.T) {
	features, matrix := make([]string, 70), make([]float32, 140)
	for i := range features {
		features[i] = fmt.Sprint("f", i)
		matrix[2*i+1] = float32(i%35) - 10
	}
	m := NewLinearModel(features, matrix, 1, nil)
	if len(m.Weights) != maxLinearWeights || m.Omitted != 10 || m.Noise != nil || m.Weights[0].Feature != "f34" || m.Weights[0].Value != 24 {
		t.Errorf("%d weights, %d omitted, the first %+v", len(m.Weights), m.Omitted, m.Weights[0])
	}
}
