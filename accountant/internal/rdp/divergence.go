package rdp

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/numerics"
)

// Divergence is the Rényi divergence, at the given order, between the releases of an event
// on two neighbouring data sets, or an upper bound of it. It is the larger one of the two
// directions.
//
// When a record is added or removed, the larger direction is the one with the mixture
// first (Mironov, Talwar and Zhang 2019, "Rényi Differential Privacy of the
// Sampled Gaussian Mechanism", theorem 5; it needs only that a reflection swaps
// the two outputs, which holds for every noise here).
func Divergence(e dpevent.Event, order float64) float64 {
	switch {
	case e.Truncation.Probability > 0:
		return truncatedDivergence(e, order)
	case !e.Subsampled():
		return UnsampledDivergence(e, order)
	case e.IsPoissonReplaceOne():
		return poissonReplaceOneDivergence(e.Rate, e.GaussianShift/2, order)
	case e.GaussianOnly() && e.ReplaceOne:
		return symmetricDivergence(dpevent.MixturePair{Rate: e.Rate, Far: e.GaussianShift}, order)
	case e.GaussianOnly():
		return sampledGaussianDivergence(e.Rate, e.GaussianShift, order)
	default:
		return sampledDivergence(e, order)
	}
}

// truncatedDivergence is that of a mixture whose release shows which pair it is from: the moments
// e^((order-1)·divergence) of the pairs are averaged.
func truncatedDivergence(e dpevent.Event, order float64) float64 {
	t := e.Truncation
	pair := dpevent.MixturePair{Rate: t.Rate, Far: t.Far * e.GaussianShift, Near: t.Near * e.GaussianShift}
	e.Truncation = dpevent.Truncation{}
	poisson, truncated := Divergence(e, order), 0.0
	if t.Symmetric {
		truncated = symmetricDivergence(pair, order)
	} else {
		truncated = sampledGaussianDivergence(pair.Rate, pair.Far, order)
	}
	poisson, truncated = (order-1)*poisson, (order-1)*truncated
	without, with := t.Weights(true)
	if max(poisson, truncated) < 500 {
		return math.Log1p(without*math.Expm1(poisson)+with*math.Expm1(truncated)) / (order - 1)
	}
	return logAddExp(math.Log(without)+poisson, math.Log(with)+truncated) / (order - 1)
}

func UnsampledDivergence(e dpevent.Event, order float64) float64 {
	total := order * e.GaussianShift * e.GaussianShift / 2
	for _, d := range e.DiscreteGaussians {
		total += order * d.SquaredRatio() / 2 // Canonne et al. 2020, theorem 4
	}
	for _, ratio := range e.LaplaceShifts {
		total += laplaceDivergence(ratio, order)
	}
	for _, loss := range e.PureLosses {
		total += pureDivergence(loss, order)
	}
	return total
}

// laplaceDivergence is proposition 6 of Mironov, "Rényi Differential Privacy" (2017).
func laplaceDivergence(ratio, order float64) float64 {
	up, down := order/(2*order-1), (order-1)/(2*order-1)
	if grow := (order - 1) * ratio; grow > 600 {
		return ratio + math.Log(up)/(order-1)
	}
	return math.Log1p(up*math.Expm1((order-1)*ratio)+down*math.Expm1(-order*ratio)) / (order - 1)
}

// pureDivergence is that of randomised response with the loss ε, which dominates every mechanism
// that satisfies ε-differential privacy (Kairouz, Oh and Viswanath 2015, theorem 2.1):
// log(1 + (e^((order-1)·ε) - 1)·(1 - e^(-order·ε))/(1 + e^-ε))/(order - 1).
func pureDivergence(loss, order float64) float64 {
	part := -math.Expm1(-order*loss) / (1 + math.Exp(-loss))
	if grow := (order - 1) * loss; grow > 600 {
		return loss + math.Log(part)/(order-1)
	}
	return math.Log1p(math.Expm1((order-1)*loss)*part) / (order - 1)
}

// sampledGaussianDivergence is the Rényi divergence of (1-q)N(0,1) + qN(shift,1) from
// N(0,1), for any order above 1: the logarithm of
//
//	1 + ∫ φ(x) ((1+t)^order - 1 - order·t) dx,  t = q(e^(shift·x - shift²/2) - 1),
//
// whose integrand is never negative, so nothing cancels even if q is very small.
// The trapezoidal rule converges exponentially on it: the nearest singularity lies
// π/shift off the real line.
func sampledGaussianDivergence(rate, shift, order float64) float64 {
	const tail = 12
	step := min(0.5, 0.5/shift)
	end := max(order, 2)*shift + tail
	if end/step > 1e6 { // such an order is never the best
		return math.Inf(1)
	}
	skipFrom, skipTo := negligibleInterval(shift, order)
	var all scaledSum
	for x := -float64(tail); x <= end; x += step {
		if x > skipFrom && x < skipTo {
			continue
		}
		t := rate * math.Expm1(shift*x-shift*shift/2)
		gauss := -x * x / 2
		if math.Abs(t)*order < 1e-3 {
			all.sum += binomialRemainder(t, order) * math.Exp(gauss-all.logScale)
			continue
		}
		grown := order*math.Log1p(t) + gauss
		if rate == 1 || math.IsInf(t, 1) {
			grown = order*(math.Log(rate)+shift*x-shift*shift/2) + gauss
		}
		all.rescale(grown)
		value := math.Exp(grown - all.logScale)
		if t < 1e300 { // otherwise 1 + order·t is negligible
			value = max(0, value-(1+order*t)*math.Exp(gauss-all.logScale))
		}
		all.sum += value
	}
	return all.divergence(step/math.Sqrt(2*math.Pi), order)
}

// scaledSum is a sum times e^logScale. Its terms may exceed the range of float64.
type scaledSum struct{ sum, logScale float64 }

// rescale raises the scale if necessary, so that terms of about e^log divided by it are in
// range.
func (g *scaledSum) rescale(log float64) {
	if log > g.logScale+500 {
		g.sum *= math.Exp(g.logScale - log)
		g.logScale = log
	}
}

// divergence is log(1 + part·sum·e^logScale)/(order - 1).
func (g *scaledSum) divergence(part, order float64) float64 {
	sum := g.sum * part
	if g.logScale == 0 {
		return math.Log1p(sum) / (order - 1)
	}
	return (g.logScale + math.Log(sum+math.Exp(-g.logScale))) / (order - 1)
}

// negligibleInterval returns the ends of an interval in which φ(x)·r^order adds less to its
// integral than float64 resolves. The interval is empty if from is not below to. There r is
// at most twice the larger of 1 and rate·e^(shift·x - shift²/2), so the integrand is at most
// 2^order times the larger of φ(x) and the second part, which decreases like a normal
// density on both sides of its peak at order·shift. Both are then below e^-1012.
func negligibleInterval(shift, order float64) (from, to float64) {
	const far = 45
	if order > 300 {
		return 0, 0
	}
	return far, order*shift - far
}

// binomialRemainder is (1+t)^a - 1 - a·t for small a·t, by its series.
func binomialRemainder(t, a float64) float64 {
	sum, term := 0.0, a*t
	for k := 2.0; k < 8; k++ {
		term *= (a - k + 1) * t / k
		sum += term
	}
	return sum
}

// symmetricDivergence bounds the Rényi divergence when one record is replaced and
// the lot is one of fixed size without replacement, or a Poisson sample. For every
// ε ≥ 0 the hockey-stick divergence of the two releases is then at most that of
// the sampled Gaussian pair whose sensitivity is the distance of the two records'
// contributions, in the direction with the mixture first, whichever data set comes
// first (Balle, Barthe and Gaboardi 2018, theorems 10 and 11). The divergence is
// that of the pair with this curve on both sides:
//
//	1 + ∫ over x > far/2 of φ(x) (r^order + r^(1-order) - 1 - r) dx,  r = 1 + t.
//
// If Near is not 0, both distributions are mixtures: φ(x) is that of the second one, and the
// integral begins where they are equal (see dpevent.Truncation).
func symmetricDivergence(p dpevent.MixturePair, order float64) float64 {
	rate, shift := p.Rate, p.Far
	start := p.EqualAt()
	end := max(order, 2)*shift + 12
	width := min(0.5, 0.5/shift)
	panels := math.Ceil((end - start) / width)
	if panels > 1e6 {
		return math.Inf(1)
	}
	var all scaledSum
	skipFrom, skipTo := negligibleInterval(shift, order)
	if p.Near != 0 {
		skipTo = 0 // the interval is derived for a normal density
	}
	for panel := 0.0; panel < panels; panel++ {
		if x := start + width*panel; x > skipFrom && x+width < skipTo {
			continue
		}
		for i, node := range numerics.Nodes {
			x := start + width*(panel+(1+node)/2)
			y := shift*x - shift*shift/2
			t := rate * math.Expm1(y)
			l := math.Log1p(t)
			if math.IsInf(t, 1) {
				l = math.Log(rate) + y
			}
			gauss := -x * x / 2
			if p.Near != 0 {
				base := p.LogBase(y)
				l, gauss = l-base, gauss+base
			}
			weight := numerics.Weights[i]
			if order*l < 1 { // (r^a - 1)(1 - r^(1-a))... as a product, which does not cancel
				all.sum += weight * math.Expm1(order*l) * -math.Expm1((1-order)*l) * math.Exp(gauss-all.logScale)
				continue
			}
			all.rescale(order*l + gauss)
			all.sum += weight * math.Exp(order*l+gauss-all.logScale) * -math.Expm1(-order*l) * -math.Expm1((1-order)*l)
		}
	}
	return all.divergence(width/2/math.Sqrt(2*math.Pi), order)
}

// sampledDivergence bounds the divergence of any sampled event from the divergences of
// the unsampled one at whole orders, by the binomial theorem; between whole orders
// (order-1)·divergence is convex (Wang, Balle and Kasiviswanathan 2019, corollary
// 10). A replaced record at most doubles the moment less one: see
// symmetricDivergence, where e^(-order·ε) ≤ e^((order-1)·ε).
func sampledDivergence(e dpevent.Event, order float64) float64 {
	if order > 512 {
		return math.Inf(1)
	}
	below := math.Floor(order)
	low := logSampledMoment(e, below)
	if order == below {
		return low / (order - 1)
	}
	high := logSampledMoment(e, below+1)
	part := order - below
	return ((1-part)*low + part*high) / (order - 1)
}

func logSampledMoment(e dpevent.Event, order float64) float64 {
	excess := math.Inf(-1)
	for k := 2.0; k <= order; k++ {
		moment := (k - 1) * UnsampledDivergence(e, k)
		term := logChoose(order, k) + (order-k)*math.Log1p(-e.Rate) + k*math.Log(e.Rate) + logExpm1(moment)
		excess = logAddExp(excess, term)
	}
	if e.ReplaceOne {
		excess += math.Ln2
	}
	return logAddExp(0, excess)
}

func logChoose(n, k float64) float64 {
	a, _ := math.Lgamma(n + 1)
	b, _ := math.Lgamma(k + 1)
	c, _ := math.Lgamma(n - k + 1)
	return a - b - c
}

// logAddExp is log(e^a + e^b).
func logAddExp(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}

// logExpm1 is log(e^x - 1).
func logExpm1(x float64) float64 {
	if x > 30 {
		return x
	}
	return math.Log(math.Expm1(x))
}
