package adversary

import "math"

// span is an interval of outcomes of a binomial distribution with its probability.
type span struct{ first, probability float64 }

const (
	maxSpans   = 512
	outside    = 1e-30 // bounds the probability of all outcomes that no span contains
	roundingUp = 1e-5  // bounds the relative errors of the probabilities and of sums over them
)

// binomialSpans divides the outcomes of a binomial distribution into at most about maxSpans
// intervals, in increasing order. Outcomes further from the mean than t, where t solves
// 2·exp(-t²/(2(variance+t/3))) = outside (Bernstein's inequality), are in no interval.
func binomialSpans(trials, success float64) []span {
	if success == 1 {
		return []span{{trials, 1}}
	}
	mean := trials * success
	variance := mean * (1 - success)
	l := math.Log(2 / outside)
	t := l/3 + math.Sqrt(l*l/9+2*l*variance)
	first, last := math.Ceil(max(0, mean-t)), math.Floor(min(trials, mean+t))
	width := max(1, math.Ceil((last-first+1)/maxSpans))
	spans := make([]span, int((last-first)/width)+1)
	for i := range spans {
		spans[i].first = first + float64(i)*width
	}
	mode := min(max(math.Floor((trials+1)*success), first), last)
	total := 0.0
	add := func(outcome, weight float64) {
		spans[int((outcome-first)/width)].probability += weight
		total += weight
	}
	odds := success / (1 - success)
	for n, w := mode, 1.0; n <= last; n++ {
		add(n, w)
		w *= (trials - n) / (n + 1) * odds
	}
	for n, w := mode, 1.0; n > first; n-- {
		w *= n / ((trials - n + 1) * odds)
		add(n-1, w)
	}
	for i := range spans {
		spans[i].probability /= total
	}
	return spans
}
