package adversary

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/accountant/internal/gaussian"
)

func laplace(random *rand.Rand) float64 {
	return random.ExpFloat64() * float64(2*random.IntN(2)-1)
}

// The δ and the mean log likelihood ratio of an ε-DP contribution are at most those of randomized
// response, and at least those of the Laplace mechanism with one weight.
func TestContribution_WorstPureMechanism(t *testing.T) {
	if got, want := NewLaplace(3).profile(1), (math.Exp(3)-math.E)/(math.Exp(3)+1); math.Abs(got-want) > 1e-14 {
		t.Errorf("δ(1) = %g at ε = 3, want %g", got, want)
	}
	for _, e := range []float64{0.1, 1, 3, 12} {
		c := NewLaplace(e)
		p, q := 1/(1+math.Exp(-e)), 1/(1+math.Exp(e))
		for _, x := range []float64{0, 0.3 * e, 0.9 * e, e, 2 * e} {
			if got, want := c.profile(x), max(0, p-math.Exp(x)*q); got > want+1e-14 {
				t.Errorf("ε = %g: δ(%g) = %g, want %g", e, x, got, want)
			}
			if laplace := max(0, 1-math.Exp((x-e)/2)); c.profile(x) < laplace-1e-14 && x > 0 || c.profile(0) < 1-math.Exp(-e/2) {
				t.Errorf("ε = %g: δ(%g) = %g is below %g of the Laplace mechanism", e, x, c.profile(x), laplace)
			}
		}
		if got, want := c.ExpectedLoss(), (p-q)*math.Log(p/q); got > want*(1+1e-12) {
			t.Errorf("ε = %g: mean loss %g, want %g", e, got, want)
		}
		if laplace := e + math.Expm1(-e); c.ExpectedLoss() < laplace {
			t.Errorf("ε = %g: mean loss %g is below %g of the Laplace mechanism", e, c.ExpectedLoss(), laplace)
		}
	}
}

// The Gaussian contribution covers every noise that is (ε, δ)-DP, in particular that of Kenthapadi
// et al. 2013, σ = Δ·√(2(ln(1/(2δ))+ε))/ε.
func TestNewGaussian_CoversLargerNoise(t *testing.T) {
	for _, e := range []float64{0.3, 1, 8} {
		for _, delta := range []float64{1e-3, 1e-9} {
			c := NewGaussian(e, delta)
			if got := gaussian.Epsilon(c.shift, delta); math.Abs(got-e) > 1e-9 {
				t.Errorf("ε = %g, δ = %g: the assumed noise has ε = %g", e, delta, got)
			}
			if other := e / math.Sqrt(2*(math.Log(1/(2*delta))+e)); other > c.shift {
				t.Errorf("ε = %g, δ = %g: Kenthapadi's noise has shift %g, above %g", e, delta, other, c.shift)
			}
		}
	}
}

// The Rényi divergence of a Laplace value that moves by x is at most αx²/2 (scale 1): compared with
// its closed form (Mironov 2017, proposition 6).
func TestNewLaplace_RenyiDivergenceIsCovered(t *testing.T) {
	for _, x := range []float64{0.01, 0.3, 1, 4} {
		rho := NewLaplace(x).rho
		for _, a := range []float64{1.01, 1.5, 2, 5, 30, 200} {
			divergence := (x*(a-1) + math.Log(a/(2*a-1)+(a-1)/(2*a-1)*math.Exp(-x*(2*a-1)))) / (a - 1)
			if divergence > a*rho*(1+1e-12) {
				t.Errorf("shift %g, order %g: divergence %g is above %g", x, a, divergence, a*rho)
			}
		}
	}
}

func TestLater_OneModelClosedForm(t *testing.T) {
	for _, k := range []int{1, 3, 100} {
		l := Later{NewLaplace(2), k, 50}
		for _, delta := range []float64{1e-9, 1e-4, 0.1, 0.9} {
			want := math.Log(max(1, math.Exp(2)-float64(k)*delta*(math.Exp(2)+1)))
			if got := l.Epsilon(l.OneModelDelta, delta); math.Abs(got-want) > 1e-9 || got < want-1e-14 {
				t.Errorf("k = %d, δ = %g: ε = %.12g, want %.12g", k, delta, got, want)
			}
		}
	}
}

// More updates never reveal more, all instances reveal at least as much as one, and no view reveals
// more than the returned model.
func TestLater_Ordered(t *testing.T) {
	for _, c := range []Contribution{NewLaplace(1.5), NewGaussian(1.5, 1e-5)} {
		for _, k := range []int{1, 2, 20, 300} {
			previous := [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)}
			for _, updates := range []float64{0, 1, 10, 1000, 1e5, 1e9} {
				l := Later{c, k, updates}
				for _, x := range []float64{0, 0.2, 1} {
					one, all, iterated := l.OneModelDelta(x), l.AllInstancesDelta(x), l.IteratedDelta()(x)
					if all > c.profile(x) || one > all*(1+1e-9) || iterated > one*(1+1e-12) {
						t.Errorf("k = %d, %g updates, ε = %g: δ %g of one, %g of all, %g iterated, %g of the contribution", k, updates, x, one, all, iterated, c.profile(x))
					}
					if x == 0.2 {
						if one > previous[0] || all > previous[1]*(1+1e-12) || iterated > previous[2]*(1+2*roundingUp) {
							t.Errorf("k = %d, %g updates: δ grows to %g, %g, %g", k, updates, one, all, iterated)
						}
						previous = [3]float64{one, all, iterated}
					}
				}
			}
		}
	}
}

// TestLater_AttackStaysBelowBounds plays the strongest adversary against the process itself: one
// weight, identity steps with Laplace noise, and an adversary who also knows the indices that the
// server drew. The contribution moves the weight by 0 or 1. The adversary guesses 1 if a seen
// instance descends from it and is above the middle. The advantage must stay below the bounds, and
// reach most of them where they are nearly tight. False-alarm rate: 1e-7.
func TestLater_AttackStaysBelowBounds(t *testing.T) {
	const k, runs = 3, 300_000
	random := rand.New(rand.NewPCG(3, 4))
	margin := 2 * hoeffding(runs, 1e-7/12)
	for _, epsilon := range []float64{1, 3} {
		for _, updates := range []int{0, 4, 40} {
			l := Later{NewLaplace(epsilon), k, float64(updates)}
			var one, all [2]float64 // rates of guessing 1 for each value of the data
			for bit := range 2 {
				for range runs {
					var w [k]float64
					var descends [k]bool
					w[0], descends[0] = float64(bit)+laplace(random)/epsilon, true
					for range updates {
						i, j := random.IntN(k), random.IntN(k)
						w[j], descends[j] = w[i]+laplace(random)/epsilon, descends[i]
					}
					if seen := random.IntN(k); descends[seen] && w[seen] > 0.5 {
						one[bit] += 1.0 / runs
					}
					sum, n := 0.0, 0.0
					for i := range w {
						if descends[i] {
							sum, n = sum+w[i], n+1
						}
					}
					if n > 0 && sum/n > 0.5 {
						all[bit] += 1.0 / runs
					}
				}
			}
			gotOne, gotAll := one[1]-one[0], all[1]-all[0]
			if bound := l.IteratedDelta()(0); gotOne > bound+margin || bound > l.OneModelDelta(0) {
				t.Errorf("ε = %g, %d updates: advantage %.4f of one instance is above %.4f", epsilon, updates, gotOne, bound)
			}
			if bound := l.AllInstancesDelta(0); gotAll > bound+margin {
				t.Errorf("ε = %g, %d updates: advantage %.4f of all instances is above %.4f", epsilon, updates, gotAll, bound)
			}
			if updates == 0 && (gotOne < 0.8*l.OneModelDelta(0) || gotAll < 0.8*l.AllInstancesDelta(0)) {
				t.Errorf("ε = %g: advantages %.4f and %.4f are far below the bounds; the attack is weak", epsilon, gotOne, gotAll)
			}
		}
	}
}

// Sums of Gaussian noise have a closed form: n+1 identity steps divide the shift by √(n+1). With one
// instance the bound is that of the Rényi divergence, slightly above.
func TestIteratedDelta_CoversGaussianSums(t *testing.T) {
	c := NewGaussian(2, 1e-5)
	for _, n := range []float64{0, 3, 99} {
		bound := Later{c, 1, n}.IteratedDelta()
		for _, x := range []float64{0.05, 0.5, 1.5} {
			exact := gaussian.Delta(c.shift/math.Sqrt(n+1), x)
			if got := bound(x); got < exact || exact > 1e-12 && got > 40*exact {
				t.Errorf("%g further steps, ε = %g: δ ≤ %g, exact %g", n, x, got, exact)
			}
		}
	}
}

func TestBinomialSpans_MatchDistribution(t *testing.T) {
	for _, n := range []float64{0, 1, 17, 300} {
		for _, p := range []float64{0.05, 0.5, 1} {
			total := 0.0
			for _, s := range binomialSpans(n, p) {
				total += s.probability
				want := choose(n, s.first) * math.Pow(p, s.first) * math.Pow(1-p, n-s.first)
				if math.Abs(s.probability-want) > 1e-12 {
					t.Errorf("%g trials of %g: outcome %g has probability %g, want %g", n, p, s.first, s.probability, want)
				}
			}
			if math.Abs(total-1) > 1e-12 {
				t.Errorf("%g trials of %g: total %g", n, p, total)
			}
		}
	}
	// Many trials: the spans keep the mean up to their width, and nothing overflows.
	spans := binomialSpans(1e12, 0.05)
	mean := 0.0
	for _, s := range spans {
		mean += s.first * s.probability
	}
	if width := spans[1].first - spans[0].first; len(spans) > maxSpans || mean > 5e10 || mean < 5e10-width {
		t.Errorf("1e12 trials: %d spans with mean %g", len(spans), mean)
	}
}

// laplaceSumDelta is the exact δ, rounded down, of independent Laplace values that move by shift each.
// Under one data set the loss of a value is shift with probability 1/2, -shift with probability
// e^-shift/2, and otherwise shift-2y with y exponential on (0, shift), halved.
func laplaceSumDelta(shift float64, count int, epsilon float64) float64 {
	const cells = 400 // of the interval [-shift, shift]
	one := make([]float64, cells+1)
	one[0], one[cells] = math.Exp(-shift)/2, 0.5
	for i := range cells { // losses from -shift+2·shift·i/cells on are rounded down to that
		most, least := shift*(1-float64(i)/cells), shift*(1-float64(i+1)/cells) // of y
		one[i] += (math.Exp(-least) - math.Exp(-most)) / 2
	}
	total := []float64{1}
	for range count {
		next := make([]float64, len(total)+cells)
		for i, a := range total {
			for j, b := range one {
				next[i+j] += a * b
			}
		}
		total = next
	}
	delta := 0.0
	for i, mass := range total {
		loss := -shift*float64(count) + 2*shift*float64(i)/cells
		delta += mass * max(0, -math.Expm1(epsilon-loss))
	}
	return delta
}

// The Rényi bound of many weights with Laplace noise covers the exact δ of their sum of losses.
func TestNewBoxLaplace_CoversExactComposition(t *testing.T) {
	for _, weights := range []int{1, 4, 30} {
		for _, e := range []float64{0.5, 2, 6} {
			c := NewBoxLaplace(e, weights)
			for _, part := range []float64{0, 0.1, 0.3, 0.8} {
				exact := laplaceSumDelta(e/float64(weights), weights, part*e)
				if got := c.profile(part * e); got < exact*(1-1e-9) {
					t.Errorf("%d weights, ε = %g: δ(%g) = %g is below %g", weights, e, part*e, got, exact)
				}
				if loose := NewLaplace(e).profile(part * e); part == 0 && weights == 30 && c.profile(0) > 0.6*loose {
					t.Errorf("%d weights, ε = %g: δ(0) = %g is not far below %g", weights, e, c.profile(0), loose)
				}
			}
		}
	}
}
