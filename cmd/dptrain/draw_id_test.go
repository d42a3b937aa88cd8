package main

import (
	"cmp"
	"math"
	mathrand "math/rand/v2"
	"slices"
	"testing"
)

// The ids that are drawn have the probabilities of a computation that sorts all of them. A test has 600 draws of each of
// 40 vocabularies; the statistic is a sum of squared deviations of at most 8 ids, and exceeds 40 with a probability of less
// than 10⁻⁵.
func TestDrawID_Probabilities(t *testing.T) {
	r := mathrand.New(mathrand.NewPCG(5, 6))
	var d idDrawer
	for range 40 {
		logits := make([]float32, 1+r.IntN(8))
		for i := range logits {
			logits[i] = float32(math.Round(4*r.NormFloat64()) / 2) // with ties
		}
		temperature, topP := 0.5+r.Float64(), []float64{1, 0.9, 0.5, 1e-9}[r.IntN(4)]
		want := sortedProbabilities(logits, temperature, topP)
		counts := make([]float64, len(logits))
		const draws = 600
		for range draws {
			counts[d.draw(logits, temperature, topP, r)]++
		}
		deviation := 0.0
		for id, p := range want {
			if p == 0 && counts[id] > 0 {
				t.Fatalf("logits %v, temperature %v, top-p %v: id %d is drawn", logits, temperature, topP, id)
			}
			if p > 0 {
				deviation += (counts[id] - draws*p) * (counts[id] - draws*p) / (draws * p)
			}
		}
		if deviation > 40 {
			t.Errorf("logits %v, temperature %v, top-p %v: ids %v of %d draws, want probabilities %v", logits, temperature, topP, counts, draws, want)
		}
		if got, want := d.draw(logits, 0, topP, r), slices.Index(logits, slices.Max(logits)); got != want {
			t.Errorf("logits %v: the most probable id is %d, and %d is drawn", logits, want, got)
		}
	}
}

func sortedProbabilities(logits []float32, temperature, topP float64) []float64 {
	order, p := make([]int, len(logits)), make([]float64, len(logits))
	total := 0.0
	for i, v := range logits {
		order[i], p[i] = i, math.Exp(float64(v)/temperature)
		total += p[i]
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[j], p[i]) })
	sum := 0.0
	for at, id := range order {
		if sum += p[id] / total; sum >= topP-1e-12 {
			for _, rest := range order[at+1:] {
				p[rest] = 0
			}
			break
		}
	}
	kept := 0.0
	for _, v := range p {
		kept += v
	}
	for i := range p {
		p[i] /= kept
	}
	return p
}

// Logits that are not finite do not stop the program. An infinite logit is drawn, and a NaN is not.
func TestDrawID_NotFinite(t *testing.T) {
	r := mathrand.New(mathrand.NewPCG(7, 8))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	var d idDrawer
	for range 100 {
		for _, topP := range []float64{1, 0.5} {
			if id := d.draw([]float32{nan, 1, -inf, 1}, 1, topP, r); id != 1 && id != 3 {
				t.Fatalf("id %d is drawn", id)
			}
			if id := d.draw([]float32{0, inf, 1}, 1, topP, r); id != 1 {
				t.Fatalf("id %d is drawn, and another logit is infinite", id)
			}
			d.draw([]float32{nan, nan}, 1, topP, r)
			d.draw([]float32{-inf, -inf}, 1, topP, r)
		}
	}
}

func BenchmarkDrawID(b *testing.B) {
	r := mathrand.New(mathrand.NewPCG(1, 2))
	logits := make([]float32, 50257)
	for i := range logits {
		logits[i] = float32(3 * r.NormFloat64())
	}
	var d idDrawer
	for name, settings := range map[string][2]float64{"temperature 0": {0, 1}, "all": {1, 1}, "top-p 0.9": {1, 0.9}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				d.draw(logits, settings[0], settings[1], r)
			}
		})
	}
}
