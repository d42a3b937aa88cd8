package accountant

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// choices is a history of choices, each with this ε.
func choices(epsilon float64, count int) ledger.History {
	return ledger.History{Header: ledger.Header{Records: 100, Adjacency: ledger.AddRemove}, Lots: []ledger.RepeatedLot{{
		Lot:   ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Queries: []ledger.Query{choiceQuery(epsilon)}},
		Count: count,
	}}}
}

func choiceQuery(epsilon float64) ledger.Query {
	return ledger.Query{Group: "choice", Mechanism: ledger.PermuteAndFlip, Sensitivity: 1, Noise: 2 / epsilon}
}

// choicesAndGaussian adds releases with Gaussian noise of this multiplier to choices.
func choicesAndGaussian(epsilon float64, count int, multiplier float64, releases int) ledger.History {
	h := choices(epsilon, count)
	h.Lots = append(h.Lots, ledger.RepeatedLot{
		Lot:   ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Queries: []ledger.Query{{Group: "g", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: multiplier}}},
		Count: releases,
	})
	return h
}

// exactChoiceDelta returns the δ at ε of one Gaussian release that is shifted by shift standard
// deviations (0: no release) and count answers of randomised response, each with the given loss. The
// record takes part in all of them with probability rate, or in none. Randomised response is the worst mechanism with its ε, so
// no accountant may state less (Kairouz, Oh and Viswanath 2015; without the Gaussian and sampling
// this is their theorem 3.3). The number of answers that point to the record is binomial, and δ
// given the number is a Gaussian tail.
func exactChoiceDelta(epsilon, loss float64, count int, shift, rate float64) float64 {
	tail := func(x float64) float64 { return math.Erfc(x/math.Sqrt2) / 2 }
	likely, unlikely := 1/(1+math.Exp(-loss)), 1/(1+math.Exp(loss))
	side := func(threshold, sign float64, of func(with, without float64) float64) float64 {
		total, binomial := 0.0, 1.0
		for k := 0; k <= count; k++ {
			with := binomial * math.Pow(likely, float64(k)) * math.Pow(unlikely, float64(count-k))
			without := binomial * math.Pow(unlikely, float64(k)) * math.Pow(likely, float64(count-k))
			binomial *= float64(count-k) / float64(k+1)
			rest := threshold - loss*float64(2*k-count) // the Gaussian's loss must exceed it
			if shift == 0 {
				if sign*rest < 0 {
					total += of(with, without)
				}
				continue
			}
			x := rest/shift + shift/2
			total += of(with*tail(sign*(x-shift)), without*tail(sign*x))
		}
		return total
	}
	// With the record against without it: the likelihood ratio 1 + rate·(e^y - 1) exceeds e^ε.
	threshold := math.Log1p(math.Expm1(epsilon) / rate)
	delta := side(threshold, 1, func(with, without float64) float64 {
		return rate*with + (1-rate-math.Exp(epsilon))*without
	})
	if ratio := math.Expm1(-epsilon) / rate; ratio > -1 { // without the record against with it
		delta = max(delta, side(math.Log1p(ratio), -1, func(with, without float64) float64 {
			return without*(1-(1-rate)*math.Exp(epsilon)) - rate*math.Exp(epsilon)*with
		}))
	}
	return delta
}

// pld states the δ of choices, alone and with Gaussian noise, with and without sampling: at least the
// exact one of randomised response and, for ε below 15, at most 1% more.
func TestChoices_DeltaIsThatOfRandomizedResponse(t *testing.T) {
	for _, loss := range []float64{0.01, 0.1, 0.5, 2, 5, 20} {
		for _, count := range []int{1, 3, 8} {
			for _, gaussian := range []struct {
				multiplier float64
				releases   int
			}{{0, 0}, {0.8, 1}, {3, 9}, {40, 10}} {
				h, shift := choices(loss, count), 0.0
				if gaussian.releases > 0 {
					h = choicesAndGaussian(loss, count, gaussian.multiplier, gaussian.releases)
					shift = math.Sqrt(float64(gaussian.releases)) / gaussian.multiplier
				}
				for _, share := range []float64{0, 0.2, 0.5, 0.8, 0.99} {
					epsilon := share * (loss*float64(count) + shift)
					checkChoiceDelta(t, h, epsilon, exactChoiceDelta(epsilon, loss, count, shift, 1))
				}
			}
		}
	}
	for _, rate := range []float64{0.01, 0.3} {
		for _, loss := range []float64{0.1, 1, 4} {
			for _, queries := range [][]ledger.Query{{choiceQuery(loss)}, {choiceQuery(loss), {Group: "g", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: 1.5}}} {
				shift := float64(len(queries)-1) / 1.5
				h := choices(loss, 1)
				h.Lots[0].Lot = ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: rate}, Queries: queries}
				for _, share := range []float64{0, 0.2, 0.5, 0.8} {
					epsilon := share * math.Log1p(rate*math.Expm1(loss+shift))
					checkChoiceDelta(t, h, epsilon, exactChoiceDelta(epsilon, loss, 1, shift, rate))
				}
			}
		}
	}
}

func checkChoiceDelta(t *testing.T, h ledger.History, epsilon, exact float64) {
	t.Helper()
	got, err := Delta(h, epsilon, "pld")
	if err != nil {
		t.Fatal(err)
	}
	if !(got.Delta >= exact*(1-1e-9)) || exact > 1e-9 && !(got.Delta <= exact*1.01) && epsilon < 15 {
		t.Errorf("%+v at ε = %v: δ = %v, exact %v", h.Lots, epsilon, got.Delta, exact)
	}
}

// References are upper bounds of dp-accounting 0.6.0 for the same lots and for its dominating pair of
// a mechanism with a pure ε, in steps of 1e-4 at δ = 1e-5. naive adds ε without a part of δ.
func TestChoices_EpsilonOfReference(t *testing.T) {
	for _, test := range []struct {
		rate, multiplier float64
		lots             int
		loss             float64
		choices          int
		reference        float64
	}{
		{1, 20, 100, 2, 1, 3.977824961349493},
		{1, 4.22468, 1, 2, 1, 2.864984093184385},
		{0.01, 1.1, 1000, 2, 1, 3.501743620082446},
		{0.01, 1.1, 1000, 0.5, 3, 2.858699797576231},
		{0.01, 1.1, 1000, 8, 1, 9.515334324444023},
		{0.002, 0.8, 5000, 0.1, 10, 1.6541143670096552},
	} {
		h := choicesAndGaussian(test.loss, test.choices, test.multiplier, test.lots)
		if test.rate < 1 {
			h.Lots[1].Lot.Sampling = ledger.Sampling{Policy: ledger.Poisson, Rate: test.rate}
		}
		alone := h
		alone.Lots = h.Lots[1:]
		for _, name := range []string{"pld", "rdp", "naive"} {
			joint, err := Epsilon(h, 1e-5, name)
			if err != nil {
				t.Fatal(err)
			}
			rest, err := Epsilon(alone, 1e-5, name)
			if err != nil {
				t.Fatal(err)
			}
			if sum := rest.Epsilon + float64(test.choices)*test.loss; !(joint.Epsilon <= sum*(1+1e-9)) || name == "naive" && !(joint.Epsilon >= sum*(1-1e-9)) {
				t.Errorf("%+v: %s states ε = %v, of the parts %v", test, name, joint.Epsilon, sum)
			}
			if name == "pld" && !(math.Abs(joint.Epsilon/test.reference-1) < 5e-4) {
				t.Errorf("%+v: ε = %v", test, joint.Epsilon)
			}
		}
	}
	h := choices(0.5, 1)
	h.Header.Adjacency = ledger.ReplaceOne
	if g, err := Epsilon(h, 1e-12, "naive"); err != nil || math.Abs(g.Epsilon-1) > 1e-9 {
		t.Errorf("a replaced record costs %v, %v", g.Epsilon, err)
	}
}
