package accountant

import (
	"fmt"
	"math"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// discreteLaplace is the distribution of discrete Laplace noise of scale t, moved by shift, on
// -reach … reach, where the ends get the tails.
func discreteLaplace(t float64, shift, reach int) []float64 {
	q := math.Exp(-1 / t)
	p := make([]float64, 2*reach+1)
	for i := range p {
		x := i - reach - shift
		p[i] = math.Pow(q, math.Abs(float64(x))) * (1 - q) / (1 + q)
	}
	p[0], p[2*reach] = math.Pow(q, float64(reach+shift))/(1+q), math.Pow(q, float64(reach-shift))/(1+q)
	return p
}

// convolveLosses returns the hockey-stick divergence at ε of the product of pairs of
// distributions, each of which is given by its probabilities under both data sets, by enumeration.
func convolveLosses(epsilon float64, pairs ...[2][]float64) float64 {
	p, q := []float64{1}, []float64{1}
	for _, pair := range pairs {
		var np, nq []float64
		for i := range p {
			for k := range pair[0] {
				np, nq = append(np, p[i]*pair[0][k]), append(nq, q[i]*pair[1][k])
			}
		}
		p, q = np, nq
	}
	delta := 0.0
	for i := range p {
		delta += max(0, p[i]-math.Exp(epsilon)*q[i])
	}
	return delta
}

// The accounted δ of integer vectors with discrete Laplace noise is at least the exact one, for one
// and for several coordinates, alone, sampled and composed, in both directions. Scales of a few
// lattice steps show the difference to Laplace noise over the reals, which a scale of 2^22 hides.
func TestDiscreteLaplace_AccountedDeltaIsAtLeastExact(t *testing.T) {
	const reach = 12
	tight := false
	for _, scale := range []int64{1, 2, 3} {
		for _, moves := range [][]int{{1}, {3}, {1, 1}, {2, 1}} {
			lattice := 0
			var pairs [][2][]float64
			for _, d := range moves {
				lattice += d
				pairs = append(pairs, [2][]float64{discreteLaplace(float64(scale), 0, reach), discreteLaplace(float64(scale), d, reach)})
			}
			for _, rate := range []float64{1, 0.3} {
				for _, steps := range []int{1, 2} {
					if steps*len(moves) > 2 {
						continue // too many outcomes to enumerate
					}
					without, with := []float64{1}, []float64{1}
					for _, p := range pairs {
						without, with = outer(without, p[0]), outer(with, p[1])
					}
					mixed := make([]float64, len(with))
					for i := range mixed {
						mixed[i] = (1-rate)*without[i] + rate*with[i]
					}
					all, back := [][2][]float64{}, [][2][]float64{}
					for range steps {
						all, back = append(all, [2][]float64{mixed, without}), append(back, [2][]float64{without, mixed})
					}
					h := ledger.History{Header: ledger.Header{Records: 100, Adjacency: ledger.AddRemove}, Lots: []ledger.RepeatedLot{{
						Lot:   ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: rate}, Queries: []ledger.Query{ledger.DiscreteLaplaceQuery("all", 0.7, scale, int64(lattice))}},
						Count: steps,
					}}}
					for _, epsilon := range []float64{0, 0.05, 0.2, 0.5, 0.9, 1.4} {
						exact := max(convolveLosses(epsilon, all...), convolveLosses(epsilon, back...))
						got, err := Delta(h, epsilon, "pld")
						if err != nil {
							t.Fatal(err)
						}
						if got.Delta < exact*(1-1e-9) {
							t.Errorf("scale %d, moves %v, rate %v, %d steps, ε = %v: δ = %v, exact %v", scale, moves, rate, steps, epsilon, got.Delta, exact)
						}
						tight = tight || exact > 0.01 && got.Delta < 1.02*exact
					}
				}
			}
		}
	}
	if !tight {
		t.Error("no accounted δ is within 2% of the exact one")
	}
}

func outer(a, b []float64) (all []float64) {
	for _, x := range a {
		for _, y := range b {
			all = append(all, x*y)
		}
	}
	return all
}

// Laplace noise over the reals with the same ratio has a smaller δ than discrete noise of a few
// lattice steps: the correction in the accounting is needed.
func TestDiscreteLaplace_CostsMoreThanLaplace(t *testing.T) {
	exact := convolveLosses(0.5, [2][]float64{discreteLaplace(1, 0, 12), discreteLaplace(1, 1, 12)})
	real := 1 - math.Exp((0.5-1)/2)
	if !(exact > 1.1*real) {
		t.Errorf("δ = %v of discrete noise and %v of real noise", exact, real)
	}
}

// Every accountant that has a result for Laplace noise has one for discrete noise, at least as large
// and, at the scale of a run, the same.
func TestDiscreteLaplace_EveryAccountant(t *testing.T) {
	for _, policy := range []ledger.Sampling{{Policy: ledger.Poisson, Rate: 0.01}, {Policy: ledger.FixedSize, LotSize: 10, Records: 1000}, {Policy: ledger.Shuffle, LotSize: 100, Records: 1000}, {Policy: ledger.FullBatch}} {
		adjacency := ledger.AddRemove
		if policy.Policy == ledger.FixedSize {
			adjacency = ledger.ReplaceOne
		}
		history := func(q ledger.Query) ledger.History {
			return ledger.History{Header: ledger.Header{Records: 1000, Adjacency: adjacency}, Lots: []ledger.RepeatedLot{{Lot: ledger.Lot{Sampling: policy, Queries: []ledger.Query{q}}, Count: 20}}}
		}
		for _, name := range Names() {
			real, errReal := Epsilon(history(ledger.Query{Group: "all", Mechanism: ledger.Laplace, Sensitivity: 1, Noise: 8}), 1e-6, name)
			discrete, err := Epsilon(history(ledger.DiscreteLaplaceQuery("all", 1, 8<<22, 1<<22)), 1e-6, name)
			if fmt.Sprint(errReal) != fmt.Sprint(err) {
				t.Errorf("%s, %s: %v for Laplace noise, %v for discrete noise", policy.Policy, name, errReal, err)
			}
			if err == nil && !(discrete.Epsilon >= real.Epsilon*(1-1e-9) && discrete.Epsilon <= real.Epsilon*(1+1e-5)) {
				t.Errorf("%s, %s: ε = %v for Laplace noise, %v for discrete noise", policy.Policy, name, real.Epsilon, discrete.Epsilon)
			}
		}
	}
}
