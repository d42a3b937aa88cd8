package dpevent

import (
	"cmp"
	"math"
	"slices"
)

// RoundEvents reduces the number of different Gaussian events to about limit: it gives
// neighbours in (rate, shift) one rate and one shift, the largest of them if up and the
// least otherwise. A Gaussian event dominates every event whose rate and shift are not
// larger, so the result costs at least as much (up) or at most as much (not up).
func RoundEvents(events []RepeatedEvent, limit int, up bool) []RepeatedEvent {
	if len(events) <= limit {
		return events
	}
	var kept, gaussians []RepeatedEvent
	maxExactRates := min(16, limit/4) // up to this number of different rates, rates are not rounded
	rates := map[float64]bool{}
	least, most := math.Inf(1), 0.0
	for _, e := range events {
		if !e.GaussianOnly() {
			kept = append(kept, e)
			continue
		}
		gaussians = append(gaussians, e)
		if len(rates) <= maxExactRates {
			rates[e.Rate] = true
		}
		least, most = min(least, e.GaussianShift), max(most, e.GaussianShift)
	}
	merge := func(width float64) []RepeatedEvent {
		if len(rates) <= maxExactRates {
			return mergeNeighbours(gaussians, 0, width, up)
		}
		return mergeNeighbours(gaussians, width, width, up)
	}
	// The number of cells is at most inversely proportional to the square of their width.
	width := max(1e-9, math.Log(most/least)/float64(20*limit))
	for {
		if gaussians = merge(width); len(gaussians) <= 20*limit {
			break
		}
		width *= 2
	}
	for merged := gaussians; ; merged = merge(width) {
		if len(merged) <= limit {
			return append(kept, merged...)
		}
		width *= max(1.1, math.Sqrt(float64(len(merged))/float64(limit)))
	}
}

// maxIntegratedGroups bounds the number of different groups that RoundEvents does not merge:
// each takes separate numerical integrals. A group of a sampled lot with several groups
// counts as jointGroupCost groups.
const (
	maxIntegratedGroups = 400
	jointGroupCost      = 20
)

// CheckIntegratedEvents returns an error if too many different events take integrals.
func CheckIntegratedEvents(events []RepeatedEvent, needsIntegral func(Event) bool) error {
	kinds := 0
	for _, e := range events {
		if e.GaussianOnly() || !needsIntegral(e.Event) {
			continue
		}
		groups := len(e.LaplaceShifts) + len(e.PureLosses) + len(e.DiscreteGaussians)
		if groups > 1 || e.GaussianShift > 0 {
			groups *= jointGroupCost
		}
		if kinds += groups; kinds > maxIntegratedGroups {
			return InvalidArgument("too many different lots with noise other than Gaussian: the limit is %d groups, or %d groups in sampled lots of several groups; the zcdp and naive accountants have no limit", maxIntegratedGroups, maxIntegratedGroups/jointGroupCost)
		}
	}
	return nil
}

func mergeNeighbours(events []RepeatedEvent, rateWidth, shiftWidth float64, up bool) []RepeatedEvent {
	type cell struct {
		rate    float64
		shift   int
		replace bool
		fixed   bool
		cut     Truncation
	}
	index := map[cell]int{}
	var merged []RepeatedEvent
	var before cell
	at := 0 // index of before; consecutive events of a schedule are similar
	for _, e := range events {
		c := cell{e.Rate, int(math.Floor(math.Log(e.GaussianShift) / shiftWidth)), e.ReplaceOne, e.FixedSize, e.Truncation}
		if rateWidth > 0 && e.Rate < 1 {
			c.rate = -1 - math.Floor(-math.Log(e.Rate)/rateWidth)
		}
		if c != before || len(merged) == 0 {
			i, seen := index[c]
			if !seen {
				i = len(merged)
				index[c] = i
				merged = append(merged, e)
			}
			before, at = c, i
			if !seen {
				continue
			}
		}
		m := &merged[at]
		m.Count += e.Count
		if up {
			m.Rate, m.GaussianShift = max(m.Rate, e.Rate), max(m.GaussianShift, e.GaussianShift)
		} else {
			m.Rate, m.GaussianShift = min(m.Rate, e.Rate), min(m.GaussianShift, e.GaussianShift)
		}
	}
	slices.SortFunc(merged, func(a, b RepeatedEvent) int { return cmp.Compare(a.GaussianShift, b.GaussianShift) })
	return merged
}
