package accountant

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/pld"
)

// TradeOff bounds the error rates of every attack on one record. The attack sees all releases and
// decides which of two neighbouring data sets was used, for example whether a person's record is in
// the data. Its false-positive rate is the probability of the answer "in the data" for a record that
// is not, and its true-positive rate that for a record that is.
//
// (ε, δ)-differential privacy for one pair (ε, δ) bounds these rates by two lines:
//
//	TPR ≤ e^ε·FPR + δ    and    TPR ≤ 1 - e^-ε·(1 - FPR - δ)
//
// The bound here is the least of such lines for many ε, with δ(ε) by privacy-loss distributions.
// For all ε it is exactly the trade-off function of the mechanism (Dong, Roth and Su 2022, "Gaussian
// Differential Privacy", proposition 6). For a part of them it is an upper bound.
type TradeOff struct {
	lines    []detectionLine // in increasing order of their slopes
	shift    float64         // µ of the one Gaussian mechanism that all releases together are
	gaussian bool            // they are one
}

// detectionLine is the bound TPR ≤ slope·FPR + intercept.
type detectionLine struct{ slope, intercept float64 }

func (l detectionLine) at(falsePositive float64) float64 { return l.slope*falsePositive + l.intercept }

// TradeOffOf bounds the error rates by one pair (ε, δ) alone.
func TradeOffOf(epsilon, delta float64) TradeOff {
	var t TradeOff
	t.add(epsilon, delta)
	return t
}

// tradeOffRates are the false-positive rates at which the bound is sharpest.
var tradeOffRates = [...]float64{1e-1, 1e-2, 1e-3}

// TradeOff returns the bound of the error rates for the history. It is sharpest at false-positive
// rates of 0.1%, 1% and 10%: there it is within 0.5% of the bound by all ε.
func (p *Composition) TradeOff() (TradeOff, error) {
	if p.err != nil {
		return TradeOff{}, p.err
	}
	s := p.composed.asSymmetric() // lots of a fixed size: the proven curve
	curve, err := pld.NewCurve(s.Events, s.symmetric)
	if err != nil {
		return TradeOff{}, err
	}
	t := newTradeOff(curve.Delta, pld.MaxLoss(s.Events))
	t.shift, t.gaussian = dpevent.EquivalentGaussian(s.Events)
	return t, nil
}

// newTradeOff returns the bound for a function that bounds δ(ε) and is 0 from maxLoss on.
func newTradeOff(delta func(epsilon float64) float64, maxLoss float64) TradeOff {
	b := tradeOffBuilder{delta: delta, known: map[float64]bool{}}
	b.add(0)
	b.add(maxLoss)
	mu := -2 * normalQuantile((1-b.envelope(0))/2) // the total variation distance of N(0, 1) and N(µ, 1) is 2Φ(µ/2) - 1
	for _, rate := range tradeOffRates {
		b.refine(mu, rate)
		mu = b.muAt(rate)
	}
	b.fillGaps()
	return b.TradeOff
}

// TruePositiveRate bounds the true-positive rate of every attack with this false-positive rate.
func (t TradeOff) TruePositiveRate(falsePositive float64) float64 {
	if t.gaussian {
		return normalProbability(normalQuantile(falsePositive) + t.shift)
	}
	return t.envelope(falsePositive)
}

// Mu returns µ of Gaussian differential privacy (Dong, Roth and Su 2022): no attack has a higher
// true-positive rate than the best attack on one Gaussian release whose mean moves by µ standard
// deviations. exact reports whether the history is such a release for every false-positive rate, as
// a composition of lots without sampling is. Otherwise the statement covers attacks whose
// false-positive rate and false-negative rate are both at least least, and µ is an upper bound.
func (t TradeOff) Mu(least float64) (mu float64, exact bool) {
	if t.gaussian {
		return t.shift, true
	}
	// The Gaussian curve is concave and the envelope has straight pieces, so that the curve is
	// above a piece if it is above both of its ends.
	for _, rate := range append(t.corners(), least) {
		if detected := t.envelope(rate); rate >= least && detected <= 1-least {
			mu = max(mu, normalQuantile(detected)-normalQuantile(rate))
		}
	}
	if rate, ok := t.rateOf(1 - least); ok && rate > 0 {
		mu = max(mu, normalQuantile(1-least)-normalQuantile(max(rate, least)))
	}
	if t.envelope(least) > 1-least {
		mu = math.Inf(1)
	}
	return mu, false
}

// envelope is the least of the lines.
func (t TradeOff) envelope(falsePositive float64) float64 {
	least := 1.0
	for _, l := range t.lines {
		least = min(least, l.at(falsePositive))
	}
	return max(least, falsePositive)
}

// corners returns the false-positive rates at which two lines meet, those of all corners of the
// envelope among them.
func (t TradeOff) corners() (rates []float64) {
	for i, a := range t.lines {
		for _, b := range t.lines[:i] {
			rate := (b.intercept - a.intercept) / (a.slope - b.slope)
			if rate > 0 && rate < 1 && t.envelope(rate) >= a.at(rate)*(1-1e-12) {
				rates = append(rates, rate)
			}
		}
	}
	return rates
}

// rateOf returns the least false-positive rate at which the envelope is detected.
func (t TradeOff) rateOf(detected float64) (rate float64, ok bool) {
	for _, l := range t.lines {
		if l.slope > 0 {
			rate, ok = max(rate, (detected-l.intercept)/l.slope), true
		}
	}
	return rate, ok
}

// add adds the two lines of (ε, δ).
func (t *TradeOff) add(epsilon, delta float64) {
	delta = min(max(delta, 0), 1)
	lines := []detectionLine{{math.Exp(-epsilon), 1 - math.Exp(-epsilon)*(1-delta)}}
	if slope := math.Exp(epsilon); epsilon > 0 && !math.IsInf(slope, 1) {
		lines = append(lines, detectionLine{slope, delta})
	}
	t.lines = append(t.lines, lines...)
	slices.SortFunc(t.lines, func(a, b detectionLine) int { return cmp.Compare(a.slope, b.slope) })
}

// tradeOffBuilder chooses the ε at which δ is computed.
type tradeOffBuilder struct {
	TradeOff
	delta func(epsilon float64) float64
	known map[float64]bool
}

// maxTradeOffEpsilon bounds the ε that are of interest: at a false-positive rate of 0.1% the line of a
// larger ε is above 1.
const maxTradeOffEpsilon = 8

// add computes δ at |ε|. The line of -ε bounds high true-positive rates.
func (b *tradeOffBuilder) add(epsilon float64) {
	epsilon = math.Abs(epsilon)
	if b.known[epsilon] || !(epsilon <= maxTradeOffEpsilon) {
		return
	}
	b.known[epsilon] = true
	b.TradeOff.add(epsilon, b.delta(epsilon))
}

// tangentLoss returns the loss ε at which the line of a Gaussian mechanism with mu touches its curve
// at a false-positive rate.
func tangentLoss(mu, rate float64) float64 { return -mu*normalQuantile(rate) - mu*mu/2 }

// bestLoss returns the ε, which may be negative, of the lowest line at a rate.
func (b *tradeOffBuilder) bestLoss(rate float64) float64 {
	best := slices.MinFunc(b.lines, func(x, y detectionLine) int { return cmp.Compare(x.at(rate), y.at(rate)) })
	return math.Log(best.slope)
}

// muAt returns µ of the Gaussian mechanism whose curve goes through the envelope at a rate.
func (b *tradeOffBuilder) muAt(rate float64) float64 {
	return normalQuantile(b.envelope(rate)) - normalQuantile(rate)
}

// refine adds lines that lower the envelope at a rate: two by the rule for Gaussian noise, the first
// for an estimate of µ, then neighbours of the best one, closer each time that they do not lower it
// by 0.1%.
func (b *tradeOffBuilder) refine(mu, rate float64) {
	b.add(tangentLoss(mu, rate))
	b.add(tangentLoss(b.muAt(rate), rate))
	distance := b.muAt(rate) / 6
	for range 6 {
		before, best := b.envelope(rate), b.bestLoss(rate)
		b.add(best - distance)
		b.add(best + distance)
		if b.envelope(rate) > before*(1-1e-3) {
			if distance /= 2; distance < b.muAt(rate)/13 {
				return
			}
		}
	}
}

// fillGaps adds lines between distant ones, so that the envelope follows the curve between the
// rates for which it was refined.
func (b *tradeOffBuilder) fillGaps() {
	largest := b.muAt(tradeOffRates[2]) / 3
	for range 8 {
		losses := slices.Sorted(maps.Keys(b.known))
		middle, widest := 0.0, largest
		for i := 1; i < len(losses); i++ {
			if gap := losses[i] - losses[i-1]; gap > widest {
				middle, widest = (losses[i]+losses[i-1])/2, gap
			}
		}
		if middle == 0 {
			return
		}
		b.add(middle)
	}
}

// normalProbability is Φ(x).
func normalProbability(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

// normalQuantile is Φ⁻¹(p).
func normalQuantile(p float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*p) }
