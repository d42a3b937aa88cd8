package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// One step of an LSTM, forward and backward, agrees with the formulas in float64.
func TestLSTM_AgreesWithFloat64(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(21, 22))
		for _, n := range []int{1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 100, 128} {
			x, p, previousCell := random(rng, 4*n), random(rng, 4*n), random(rng, n)
			grad, recurrentGrad, cell := random(rng, n), random(rng, n), random(rng, n)
			trace, check1 := guarded(t, 5*n)
			hidden, check2 := guarded(t, n)
			cellTanh, check3 := guarded(t, n)
			d, check4 := guarded(t, 4*n)
			next, check5 := fill(t, cell)
			k.lstmStep(&trace[0], &hidden[0], &cellTanh[0], &x[0], &p[0], &previousCell[0], n)
			k.lstmSignals(&d[0], &next[0], &trace[0], &cellTanh[0], &previousCell[0], &grad[0], &recurrentGrad[0], n)
			for _, check := range []func(){check1, check2, check3, check4, check5} {
				check()
			}
			expectClose := func(what string, j int, got float32, want float64) {
				if !(math.Abs(float64(got)-want) <= 4e-6*(1+math.Abs(want))) {
					t.Fatalf("%d units: %s of unit %d is %v, want %v", n, what, j, got, want)
				}
			}
			sigmoid := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
			for j := range n {
				sum := func(gate int) float64 { return float64(x[gate*n+j]) + float64(p[gate*n+j]) }
				i, f, g, o := sigmoid(sum(0)), sigmoid(sum(1)), math.Tanh(sum(2)), sigmoid(sum(3))
				last := float64(previousCell[j])
				c := f*last + i*g
				tc := math.Tanh(c)
				for gate, want := range []float64{i, f, g, o, c} {
					expectClose("the trace", j, trace[gate*n+j], want)
				}
				expectClose("tanh of the cell", j, cellTanh[j], tc)
				expectClose("the hidden state", j, hidden[j], o*tc)
				v := float64(grad[j]) + float64(recurrentGrad[j])
				dc := float64(cell[j]) + v*o*(1-tc*tc)
				for gate, want := range []float64{dc * g * i * (1 - i), dc * last * f * (1 - f), dc * i * (1 - g*g), v * tc * o * (1 - o)} {
					expectClose("the signal", j, d[gate*n+j], want)
				}
				expectClose("the gradient of the cell", j, next[j], dc*f)
			}
		}
	})
}

// A product with panels has the bits of Gemm.
func TestPanels_AgreesWithGemm(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 24))
	old := active
	defer func() { active = old }()
	for _, active = range supported {
		for range 60 {
			m, n, k := 1+rng.IntN(40), 1+rng.IntN(80), 1+rng.IntN(40)
			if rng.IntN(4) == 0 {
				k += 500
			}
			g := Gemm{TransB: rng.IntN(2) == 0, M: m, N: n, K: k, LDA: k + rng.IntN(9), LDB: n + rng.IntN(9), LDC: n}
			if g.TransB {
				g.LDB += k - n + 80
			}
			a, b := random(rng, m*g.LDA), random(rng, max(n, k)*g.LDB)
			if rng.IntN(2) == 0 {
				g.ColBias = random(rng, n)
			}
			want := make([]float32, m*n)
			g.Run(want, a, b, NewWorkspace(), 0, 1)
			p := NewPanels(k, n)
			cut := rng.IntN(p.Count() + 1)
			p.Pack(b, g.LDB, g.TransB, cut, p.Count())
			p.Pack(b, g.LDB, g.TransB, 0, cut)
			ldc := n + rng.IntN(9)
			got := random(rng, m*ldc)
			p.Product(got, ldc, a, g.LDA, m, g.ColBias)
			for i := range m {
				compareBits(t, active.name, got[i*ldc:][:n], want[i*n:][:n])
			}
		}
	}
}
