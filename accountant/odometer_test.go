package accountant

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/gaussian"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// unsampled is a lot of all records with this noise multiplier.
func unsampled(z float64) ledger.Lot {
	return ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Queries: []ledger.Query{{Group: "all", Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: z}}}
}

// adversary chooses the noise of each lot and the time of the stop, with the privacy loss so far in
// view. lots are the noise multipliers that it can choose; most bounds the number of lots.
type adversary struct {
	lots []float64
	most int
}

// value returns the largest expectation of payoff that a strategy reaches under P: of payoff(counts,
// loss) at the time of its stop, where counts are the numbers of lots of each kind. It is computed by backward induction: the loss of
// a Gaussian lot of multiplier z is N(μ²/2, μ²) under P, with μ = 1/z. admits reports whether a lot
// more is allowed.
func (a adversary) value(admits func(counts [2]int) bool, payoff func(counts [2]int) func(loss float64) float64) float64 {
	const least, most, step = -9.0, 14.0, 1.0 / 64
	size := int((most - least) / step)
	values := map[[2]int][]float64{}
	for total := a.most; total >= 0; total-- {
		for first := 0; first <= total; first++ {
			counts := [2]int{first, total - first}
			if !admits(counts) {
				continue
			}
			pay := payoff(counts)
			v := make([]float64, size)
			for i := range v {
				v[i] = pay(least + float64(i)*step)
			}
			for kind, z := range a.lots {
				next := counts
				next[kind]++
				after, ok := values[next]
				if !ok {
					continue
				}
				end := payoff(next)
				mu := 1 / z
				width := int(8 * mu / step)
				drift := int(math.Round(mu * mu / 2 / step))
				cell := func(k int) float64 { // the probability of a loss that rounds to k steps
					at := (float64(k+drift)*step - mu*mu/2) / mu
					half := step / 2 / mu
					return gaussian.TailProbability(at-half) - gaussian.TailProbability(at+half)
				}
				kernel := make([]float64, 2*width+1)
				for k := range kernel {
					kernel[k] = cell(k - width)
				}
				for i := range v {
					sum := 0.0
					for k, p := range kernel {
						switch j := i + drift + k - width; {
						case j < 0: // a loss so far below zero does not come back
						case j >= size:
							sum += p * end(least+float64(j)*step)
						default:
							sum += p * after[j]
						}
					}
					v[i] = max(v[i], sum)
				}
			}
			values[counts] = v
		}
	}
	return values[[2]int{}][int(-least/step)]
}

// exceeded is the payoff of an adversary that shows a bound of the privacy loss to be wrong.
func exceeded(bound float64) func(loss float64) float64 {
	return func(loss float64) float64 {
		if loss > bound {
			return 1
		}
		return 0
	}
}

// hockeyStick is the payoff whose expectation is the δ of a release at epsilon.
func hockeyStick(epsilon float64) func(loss float64) float64 {
	return func(loss float64) float64 { return max(0, -math.Expm1(epsilon-loss)) }
}

// With the best choices of noise and of the time to stop, the loss exceeds the odometer with a
// probability of at most δ. The same adversary exceeds the ε of the lots that ran, computed as if
// their number had been fixed, far more often: this ε is no guarantee at a time that depends on the
// releases. The strategies are enumerated, so the test is deterministic.
func TestOdometer_CoversOptimalStopping(t *testing.T) {
	const delta = 0.01
	a := adversary{lots: []float64{2, 5}, most: 10}
	always := func([2]int) bool { return true }
	odometer := func(counts [2]int) func(float64) float64 {
		o, err := NewOdometer(delta, "")
		if err != nil {
			t.Fatal(err)
		}
		for kind, n := range counts {
			if n > 0 {
				if err := o.Spend(unsampled(a.lots[kind]), n); err != nil {
					t.Fatal(err)
				}
			}
		}
		return exceeded(o.Epsilon())
	}
	if v := a.value(always, odometer); v > delta*1.001 || v < delta/40 {
		t.Errorf("the loss exceeds the odometer with probability %v, δ is %v", v, delta)
	}
	fixed := func(payoff func(float64) func(float64) float64) func(counts [2]int) func(float64) float64 {
		return func(counts [2]int) func(float64) float64 {
			squares := float64(counts[0])/(a.lots[0]*a.lots[0]) + float64(counts[1])/(a.lots[1]*a.lots[1])
			if squares == 0 {
				return payoff(0)
			}
			return payoff(gaussian.Epsilon(math.Sqrt(squares), delta))
		}
	}
	if v := a.value(always, fixed(hockeyStick)); v < 1.5*delta {
		t.Errorf("the ε of the lots that ran has δ = %v at the best time to stop, so it would be a guarantee at δ = %v; either the theory or this test is wrong", v, delta)
	}
	if v := (adversary{lots: []float64{2}, most: 1}).value(always, fixed(hockeyStick)); math.Abs(v/delta-1) > 0.02 {
		t.Errorf("after one lot δ = %v, want %v: the induction is inexact", v, delta)
	}
}

// What a filter admits satisfies its (ε, δ), with the best choices of noise and of the time to stop.
func TestFilter_CoversOptimalChoices(t *testing.T) {
	const delta = 0.01
	a := adversary{lots: []float64{2, 5}, most: 12}
	planned := epsilonOf(t, ledger.History{Lots: []ledger.RepeatedLot{{Lot: unsampled(2), Count: 6}}}, delta, "rdp")
	admits := func(counts [2]int) bool {
		f, err := NewFilter(planned.Epsilon, delta, planned.Order, "")
		if err != nil {
			t.Fatal(err)
		}
		for kind, n := range counts {
			if n == 0 {
				continue
			}
			if ok, err := f.Admit(unsampled(a.lots[kind]), n); err != nil || !ok {
				return false
			}
		}
		return true
	}
	if !admits([2]int{6, 0}) || admits([2]int{7, 0}) || !admits([2]int{2, 10}) {
		t.Fatal("the filter does not admit what its budget allows")
	}
	v := a.value(admits, func([2]int) func(float64) float64 { return hockeyStick(planned.Epsilon) })
	if v > delta || v < delta/20 {
		t.Errorf("δ = %v at ε = %v, the filter promises %v", v, planned.Epsilon, delta)
	}
}

// The odometer is at least the ε of a fixed number of lots, and exceeds it by what a bound at all
// times costs. Each order of the mixture alone would give a filter that admits the same lots.
func TestOdometer_AgainstFilterAndAccountant(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, lot := range []ledger.Lot{poisson(0.01, 1.1, 1).Lots[0].Lot, poisson(0.001, 0.7, 1).Lots[0].Lot, unsampled(30)} {
		o, err := NewOdometer(1e-5, "")
		if err != nil {
			t.Fatal(err)
		}
		h := ledger.History{}
		previous := 0.0
		for range 6 {
			next := lot
			next.Queries = []ledger.Query{lot.Queries[0]}
			next.Queries[0].Noise *= 1 + rng.Float64()
			n := 1 + rng.IntN(400)
			if err := o.Spend(next, n); err != nil {
				t.Fatal(err)
			}
			h.Lots = append(h.Lots, ledger.RepeatedLot{Lot: next, Count: n})
			epsilon := o.Epsilon()
			if fixed := epsilonOf(t, h, 1e-5, "rdp").Epsilon; !(epsilon > fixed && epsilon < 2.1*fixed) || epsilon < previous {
				t.Errorf("%v: the odometer shows %v after %v, a fixed number of lots costs %v", next, epsilon, previous, fixed)
			}
			previous = epsilon
			read, err := OdometerOf(h, 1e-5)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "read from a history", read.Epsilon(), epsilon, 1e-9)
			admitted := false
			for _, order := range odometerOrders {
				f, err := NewFilter(epsilon, 1e-5, order, "")
				if err != nil {
					continue // the order leaves no budget
				}
				all := true
				for _, l := range h.Lots {
					ok, err := f.Admit(l.Lot, l.Count)
					all = all && ok && err == nil
				}
				admitted = admitted || all
			}
			if !admitted {
				t.Errorf("no filter with ε = %v admits the lots that the odometer states to cost it", epsilon)
			}
		}
		most, err := o.MaxLots(lot, 2*previous)
		if err != nil || most < 1 {
			t.Fatalf("%d lots more, %v", most, err)
		}
		if err := o.Spend(lot, most); err != nil || o.Epsilon() > 2*previous {
			t.Errorf("%d lots more show %v, above %v: %v", most, o.Epsilon(), 2*previous, err)
		}
		if err := o.Spend(lot, 1); err != nil || o.Epsilon() <= 2*previous {
			t.Errorf("one lot more shows %v, within %v", o.Epsilon(), 2*previous)
		}
	}
}

func TestOdometer_Refuses(t *testing.T) {
	for _, delta := range []float64{0, 1, math.NaN()} {
		if _, err := NewOdometer(delta, ""); !errors.Is(err, ErrArgument) {
			t.Errorf("δ = %v: %v", delta, err)
		}
	}
	o, err := NewOdometer(1e-5, ledger.ZeroOut)
	if err != nil || o.Epsilon() != 0 {
		t.Fatalf("ε = %v before the first lot, %v", o.Epsilon(), err)
	}
	fixed := ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FixedSize, LotSize: 10, Records: 100}, Queries: unsampled(4).Queries}
	if err := o.Spend(fixed, 1); !errors.Is(err, ErrArgument) {
		t.Errorf("a lot under another adjacency: %v", err)
	}
	if _, err := o.MaxLots(unsampled(1), math.Inf(1)); !errors.Is(err, ErrArgument) {
		t.Errorf("an infinite budget: %v", err)
	}
	if err := o.Spend(unsampled(1e-200), 1); err != nil || !math.IsInf(o.Epsilon(), 1) {
		t.Errorf("without noise to speak of: %v, %v", o.Epsilon(), err)
	}
}

func ExampleOdometer() {
	o, err := NewOdometer(1e-5, ledger.ZeroOut)
	if err != nil {
		panic(err)
	}
	lot := Plan{Sampling: ledger.Sampling{Policy: ledger.Poisson, Rate: 0.01}, Noise: 1, Steps: 1}.History().Lots[0].Lot
	for range 500 { // whether the next lot runs may depend on the previous ones
		if err := o.Spend(lot, 1); err != nil {
			panic(err)
		}
	}
	fmt.Printf("privacy loss at most %.2f\n", o.Epsilon())
	// Output: privacy loss at most 2.77
}
