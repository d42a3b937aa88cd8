package dpevent

import (
	"math"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// Truncated Poisson sampling (Ganesh 2025, "Tighter Privacy Analysis for Truncated Poisson
// Sampling", arXiv 2508.15089): each of N records is drawn with probability q. If more than B
// were drawn, a uniformly random set of B of them is the lot.
//
// The pair below dominates a lot at every ε, so it may represent each lot of an adaptive
// composition (Zhu, Dong and Wang 2022, theorem 10). Let a record contribute a vector of length
// at most a, in units of the noise. Consider the record in which the data sets differ, and let
// S be the set of the other records that were drawn. The adversary learns more than the
// release: S has fewer than B records, and the sum m of S; or S has at least B. In the second
// case, R is a uniform set of B records of S and j a uniform record of R. If the record is in
// the lot, it takes the place of j. The adversary learns R, without the number of records in S,
// and j. By exchangeability R does not depend on that number. So, given what the adversary
// learns, the record is in the lot with probability
//
//   - q in the first case, as in a Poisson lot;
//   - c = P(the record is in the lot | S has at least B) = (B/N)·P(Bin(N, q) > B)/τ in the
//     second one, which occurs with probability τ = P(Bin(N-1, q) ≥ B).
//
// τ, S, R and j have the same distribution for both data sets, and the hockey-stick divergence
// is jointly convex. So it is at most (1-τ)·H₁ + τ·H₂, where H₁ is that of a Poisson lot, and H₂ is
// that of (1-c)·N(0) + c·N(g-x) and (1-c)·N(0) + c·N(h-x). Here x is the contribution of j, and
// g and h those of the record in the two data sets. For e^ε ≥ 1, H₂ is the maximum, over all
// sets A of outputs, of
//
//	c·N(g-x)(A) - (e^ε - 1)(1-c)·N(0)(A) - e^ε·c·N(h-x)(A).
//
// Let N(h-x)(A) = Φ(u) and use the lemma of Neyman and Pearson: N(g-x)(A) is at most
// Φ(u + ‖g-h‖), and N(0)(A) is at least Φ(u - ‖h-x‖).
//
//   - zero-out, h = 0: ‖g-h‖ and ‖h-x‖ are at most a. Half-lines attain both with g = a and
//     x = -a. H₂ is the curve of (1-c)·N(0) + c·N(2a) and (1-c)·N(0) + c·N(a).
//   - zero-out, g = 0: let N(-x)(A) = Φ(v). Then N(h-x)(A) and N(0)(A) are at least Φ(v - a). So
//     H₂ is at most the curve of (1-c)·N(0) + c·N(a) and N(0). This is less than the curve of
//     h = 0 (u = v - a), which the pair has on both sides.
//   - replace-one: ‖g-h‖, ‖g-x‖ and ‖h-x‖ are at most 2a. Let N(0)(A) = Φ(t). Then N(g-x)(A) is at
//     most Φ(min(t, u) + 2a), so t = u is best: the curve of (1-c)·N(0) + c·N(2a) and N(0), on both
//     sides. This is the pair of lots of a fixed size (Zhu, Dong and Wang 2022, proposition 30).
//   - add-or-remove-one: without the record, j stays and nothing moves. So the pair is
//     (1-c)·N(0) + c·N(2a) and N(0). The number of records is then not N but private, and the
//     guarantee is for all numbers up to N. c is at most q for every number, H₂ increases with
//     c, and with c = q it is at least H₁. τ increases with the number. So τ of N records
//     and c = q dominate.

// Truncation describes the lots that are truncated. The zero value means that none is.
type Truncation struct {
	Probability float64 // τ
	Error       float64 // bound of the relative error of Probability
	Rate        float64 // c, rounded up
	Far, Near   float64 // the components of the pair, as multiples of Event.GaussianShift
	Symmetric   bool    // the pair has its curve on both sides
}

// Weights are bounds of the probabilities that a lot is not truncated and that it is.
func (t Truncation) Weights(up bool) (without, with float64) {
	off := t.Probability * t.Error
	if !up {
		off = -off
	}
	return min(1, max(0, 1-t.Probability+off)), min(1, t.Probability+off)
}

// newTruncation computes the truncation of a lot.
func newTruncation(s ledger.Sampling, adjacency ledger.Adjacency) Truncation {
	if s.LotSize >= s.Records {
		return Truncation{}
	}
	t := Truncation{Rate: s.Rate, Far: 2}
	t.Probability, t.Error = BinomialTail(s.Records-1, s.Rate, s.LotSize)
	// A probability this small is rounded up: it costs nothing.
	t.Probability = max(t.Probability, 1e-290)
	if adjacency == ledger.AddRemove {
		return t
	}
	t.Symmetric = true
	if more, off := BinomialTail(s.Records, s.Rate, s.LotSize+1); t.Probability > 1e-280 {
		c := float64(s.LotSize) / float64(s.Records) * more / t.Probability
		t.Rate = min(s.Rate, c*(1+off+2*t.Error+8*RoundingUnit))
	}
	switch adjacency {
	case ledger.ReplaceOne:
		t.Far = 1 // the shift is twice the sensitivity
	case ledger.ZeroOut:
		t.Near = 1
	}
	return t
}

// Untruncated returns an event without truncation whose dominating pair, with its curve on both
// sides, dominates e: the record always moves the sum as far as in a truncated lot.
func (e Event) Untruncated() Event {
	if e.Truncation.Probability > 0 {
		e.GaussianShift = MultiplyUp(e.GaussianShift, e.Truncation.Far)
		e.ReplaceOne, e.FixedSize, e.Truncation = true, true, Truncation{}
	}
	return e
}

// Untruncated replaces each event by Event.Untruncated.
func Untruncated(events []RepeatedEvent) []RepeatedEvent {
	if !AnyTruncated(events) {
		return events
	}
	list := make([]RepeatedEvent, len(events))
	for i, e := range events {
		list[i] = RepeatedEvent{e.Event.Untruncated(), e.Count}
	}
	return list
}

// BinomialTail is P(Bin(n, q) ≥ k) for 0 < q < 1 and 1 ≤ k, and a bound of its relative error.
// It adds the terms on the side of k that the mean is not on, where they decrease.
func BinomialTail(n int, q float64, k int) (probability, relativeError float64) {
	if k > n {
		return 0, 0
	}
	odds := q / (1 - q)
	upper := float64(k) > float64(n)*q
	at := k
	if !upper {
		at = k - 1
	}
	first, off := logBinomial(n, q, at)
	sum, term, terms := 1.0, 1.0, 0
	for i := at; term > 1e-20*sum; terms++ {
		if upper {
			term *= float64(n-i) / float64(i+1) * odds
			i++
		} else {
			term *= float64(i) / (float64(n-i+1) * odds)
			i--
		}
		sum += term
	}
	// A term has four roundings for each term before it. What is left after the last one is at
	// most the last term divided by the distance of its ratio from 1.
	relativeError = off + RoundingUnit*float64(8+4*terms) + 1e-15
	probability = sum * math.Exp(first)
	if upper {
		return min(1, probability), relativeError
	}
	return max(0, 1-probability), relativeError
}

// logBinomial is log P(Bin(n, q) = k) and a bound of its error.
func logBinomial(n int, q float64, k int) (value, off float64) {
	for i, x := range [5]float64{logFactorial(n), -logFactorial(k), -logFactorial(n - k),
		float64(k) * math.Log(q), float64(n-k) * math.Log1p(-q)} {
		value += x
		off += RoundingUnit * float64(8+5-i) * math.Abs(x)
	}
	return value, off
}

func logFactorial(n int) float64 {
	l, _ := math.Lgamma(float64(n) + 1)
	return l
}
