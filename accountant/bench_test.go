package accountant

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
)

func benchmarkEpsilon(b *testing.B, h ledger.History, accountant string) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Epsilon(h, 1e-5, accountant); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEpsilonPLD1e4(b *testing.B) { benchmarkEpsilon(b, poisson(.01, 1.1, 1e4), "pld") }
func BenchmarkEpsilonPLD1e7(b *testing.B) { benchmarkEpsilon(b, poisson(.01, 1.1, 1e7), "pld") }
func BenchmarkEpsilonRDP(b *testing.B)    { benchmarkEpsilon(b, poisson(.01, 1.1, 1e4), "rdp") }

func BenchmarkCalibrateNoise_PLD(b *testing.B) {
	plan := Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: .04}, Steps: 2000}
	for b.Loop() {
		if _, err := CalibrateNoise(plan, 8, 1e-5, "pld"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEpsilon_Schedule computes the ε of 100,000 different lots.
func BenchmarkEpsilon_Schedule(b *testing.B) {
	const lots = 100000
	var h ledger.History
	for i := range lots {
		h.Lots = append(h.Lots, poisson(.005, 1+float64(i)/lots, 1).Lots...)
	}
	for b.Loop() {
		if _, err := Epsilon(h, 1e-5, "pld"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEpsilon_Slowest10000Steps reports the slowest of 100 random runs of 10,000 steps: q from
// 0.001 to 0.1, σ from 0.7 to 4, δ from 1e-8 to 1e-5.
func BenchmarkEpsilon_Slowest10000Steps(b *testing.B) {
	for _, accountant := range []string{"pld", "rdp"} {
		b.Run(accountant, func(b *testing.B) {
			worst := time.Duration(0)
			for b.Loop() {
				worst = 0
				r := rand.New(rand.NewPCG(41, 42))
				for range 100 {
					h := poisson(between(r.Float64(), 1e-3, .1), between(r.Float64(), .7, 4), 10000)
					delta := between(r.Float64(), 1e-8, 1e-5)
					least := time.Hour
					for range 3 {
						start := time.Now()
						if _, err := Epsilon(h, delta, accountant); err != nil {
							b.Fatal(err)
						}
						least = min(least, time.Since(start))
					}
					worst = max(worst, least)
				}
			}
			b.ReportMetric(worst.Seconds()*1e3, "ms-worst")
		})
	}
}
