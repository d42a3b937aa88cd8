package accountant

import (
	"math"
	"testing"
	"time"
)

// What is left out of the integrals where noise is next to nothing is nothing.
func TestIntegralsOfLittleNoise(t *testing.T) {
	for _, rate := range []float64{1e-8, 0.01, 0.9} {
		for _, shift := range []float64{60, 95, 240} {
			for _, order := range []float64{1.001, 1.5, 2, 4.3, 8} {
				var logs []float64 // of the integrand, added up from below
				step := 0.5 / shift
				for x := -12.; x <= max(order, 2)*shift+12; x += step {
					if y := shift*x - shift*shift/2; y > 0 {
						logs = append(logs, order*(math.Log(rate)+y+math.Log1p((1-rate)/rate*math.Exp(-y)))-x*x/2)
					}
				}
				total := 0. // what lies below, of the order of rate², adds less than 1
				for _, l := range logs {
					total = logAdd(total, l+math.Log(step)-math.Log(2*math.Pi)/2)
				}
				want := total / (order - 1)
				if got := rdpSampledGaussian(rate, shift, order); math.Abs(got-want) > 1e-9*want+2/(order-1) {
					t.Errorf("rate %v, shift %v, order %v: %v, and in full %v", rate, shift, order, got, want)
				}
			}
		}
	}
}

// A budget that protects nobody is answered in a moment, or refused.
func TestAbsurdTargets(t *testing.T) {
	began := time.Now()
	for _, accountant := range []string{"rdp", "pld"} {
		for _, s := range []Sampling{{Policy: Poisson, Rate: 0.01}, {Policy: Fixed, Records: 60000, Lot: 600}} {
			p := Plan{Sampling: s, Steps: 100, Adjacency: AddRemove}
			if s.Policy == Fixed {
				p.Adjacency = ReplaceOne
			}
			noise, err := CalibrateNoise(p, 1e9, 1e-5, accountant)
			if err != nil {
				continue
			}
			p.Noise = noise
			if spent, err := p.epsilon(1e-5, accountant); err != nil || spent > 1e9 {
				t.Errorf("%s, %s: noise %v spends %v of 1e9, %v", accountant, s.Policy, noise, spent, err)
			}
		}
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("four calibrations took %v", took)
	}
}
