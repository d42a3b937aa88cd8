package drawdiscard

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dptrain/dptrain/noise"
)

// BenchmarkUpdate measures the whole update of a logistic model of 1,000 weights in one process:
// draw, gradient of one record, noise, step, replacement.
func BenchmarkUpdate(b *testing.B) {
	for _, distribution := range []Distribution{NoNoise, Gaussian, Laplace} {
		b.Run(string(distribution), func(b *testing.B) {
			model, err := NewGLM(Logistic, 999, 2)
			if err != nil {
				b.Fatal(err)
			}
			m := newMechanism(b, Settings{Distribution: distribution, Level: FeatureLevel, Epsilon: 1, Delta: deltaFor(distribution), Clip: 1, LearningRate: 0.01}, model.Weights())
			bank, err := NewNoiseBank(distribution, model.Weights(), 1)
			if err != nil {
				b.Fatal(err)
			}
			all, err := NewInstances(model.Initial(), 20, m.NoiseVariance(), noise.NewSeeded(1))
			if err != nil {
				b.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, 2))
			records := Records{Features: make([]float32, 999), Labels: []float32{1}}
			for i := range records.Features {
				records.Features[i] = r.Float32()
			}
			gradient := make([]float32, model.Weights())
			next := &Instance{Weights: make([]float32, model.Weights()), Born: time.Time{}}
			b.ResetTimer()
			for range b.N {
				drawn := all.At(r.IntN(20)).Weights
				if err := model.AverageGradient(gradient, drawn, records); err != nil {
					b.Fatal(err)
				}
				m.Simulate(next.Weights, drawn, gradient, bank)
				next = all.Swap(r.IntN(20), next)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
		})
	}
}

// BenchmarkRelease measures the exact noise of a client.
func BenchmarkRelease(b *testing.B) {
	for _, distribution := range []Distribution{Laplace, Gaussian} {
		b.Run(fmt.Sprint(distribution), func(b *testing.B) {
			m := newMechanism(b, Settings{Distribution: distribution, Level: ModelLevel, Epsilon: 1, Delta: deltaFor(distribution), Clip: 1, LearningRate: 0.01}, 1000)
			w := make([]float32, 1000)
			src := noise.NewSeeded(1)
			for i := range b.N {
				if err := m.Release(w, w, w, src, noise.Stream{Purpose: noise.Release, Lot: uint64(i)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func deltaFor(d Distribution) float64 {
	if d == Gaussian {
		return 1e-6
	}
	return 0
}

func newMechanism(t testing.TB, s Settings, weights int) *Mechanism {
	t.Helper()
	m, err := NewMechanism(s, weights)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
