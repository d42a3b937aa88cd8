package rdp

import (
	"math"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
)

// withoutReplacement bounds the Rényi divergence of a Gaussian lot of a fixed size, drawn
// without replacement, under replace-one. It is theorem 27 of Wang, Balle and Kasiviswanathan 2019, "Subsampled Rényi
// Differential Privacy and Analytical Moments Accountant", in its strengthened form
// for Gaussians, whose terms are moments of the likelihood ratio minus one.
type withoutReplacement struct {
	rate, shift float64
	evenMoments map[int]float64
}

// divergence interpolates (order-1)·divergence between integer orders (corollary 10).
func (w *withoutReplacement) divergence(order float64) float64 {
	below := math.Floor(order)
	low := w.logMoment(int(below))
	if order == below {
		return low / (order - 1)
	}
	part := order - below
	return ((1-part)*low + part*w.logMoment(int(below)+1)) / (order - 1)
}

// logMoment is (order-1) times the bound on the divergence.
func (w *withoutReplacement) logMoment(order int) float64 {
	base := func(j int) float64 { return float64(j) * float64(j-1) * w.shift * w.shift / 2 }
	sum := math.Inf(-1)
	for j := 2; j <= order; j++ {
		term := math.Ln2 + base(j)
		switch {
		case j == 2:
			term = min(term, math.Log(4)+logExpm1(base(2)))
		case order <= 256:
			even := (w.logEvenMoment(j/2*2) + w.logEvenMoment((j+1)/2*2)) / 2
			term = min(term, math.Log(4)+even)
		}
		sum = logAddExp(sum, term+logChoose(float64(order), float64(j))+float64(j)*math.Log(w.rate))
	}
	return logAddExp(0, sum)
}

// logEvenMoment is log E (e^y - 1)^power for an even power, y the loss of the Gaussian, or
// infinite where the shift is too large to integrate.
func (w *withoutReplacement) logEvenMoment(power int) float64 {
	if value, seen := w.evenMoments[power]; seen {
		return value
	}
	total := math.Inf(-1)
	step := min(0.5, 0.5/w.shift)
	if (float64(power)*w.shift+26)/step > 1e6 { // too many points; the other bound suffices
		return math.Inf(1)
	}
	for x := -13.0; x <= float64(power)*w.shift+13; x += step {
		y := w.shift*x - w.shift*w.shift/2
		one := y // log |e^y - 1|
		if y < 30 {
			one = math.Log(math.Abs(math.Expm1(y)))
		}
		total = logAddExp(total, float64(power)*one-x*x/2)
	}
	total += math.Log(step) - math.Log(2*math.Pi)/2
	w.evenMoments[power] = total
	return total
}

// PublishedDivergence returns a function like Divergence that uses the bound of Wang, Balle
// and Kasiviswanathan for Gaussian lots of a fixed size, at the sensitivity of one record as
// published. The function caches moments.
func PublishedDivergence() func(dpevent.Event, float64) float64 {
	known := map[[2]float64]*withoutReplacement{}
	return func(e dpevent.Event, order float64) float64 {
		if !e.FixedSize || !e.Subsampled() || !e.GaussianOnly() || order > 1024 {
			return Divergence(e, order)
		}
		key := [2]float64{e.Rate, e.GaussianShift}
		if known[key] == nil {
			known[key] = &withoutReplacement{rate: e.Rate, shift: e.GaussianShift / 2, evenMoments: map[int]float64{}}
		}
		return known[key].divergence(order)
	}
}
