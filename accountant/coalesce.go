package accountant

import (
	"cmp"
	"math"
	"slices"
)

// coalesce makes at most about limit different Gaussian events of any number, by
// giving neighbours in (rate, shift) one rate and one shift: the largest of them
// if up, else the least. A Gaussian event dominates another of no larger rate and
// no larger shift, so the result spends no less (up) or no more (not up).
func coalesce(events []counted, limit int, up bool) []counted {
	if len(events) <= limit {
		return events
	}
	var kept, gaussians []counted
	apart := min(16, limit/4) // so many sampling rates are not rounded
	rates := map[float64]bool{}
	least, most := math.Inf(1), 0.0
	for _, e := range events {
		if !e.pureGaussian() {
			kept = append(kept, e)
			continue
		}
		gaussians = append(gaussians, e)
		if len(rates) <= apart {
			rates[e.rate] = true
		}
		least, most = min(least, e.gaussian), max(most, e.gaussian)
	}
	merge := func(width float64) []counted {
		if len(rates) <= apart {
			return mergeNear(gaussians, 0, width, up)
		}
		return mergeNear(gaussians, width, width, up)
	}
	// The number of cells falls at most with the square of their width.
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

// mostKinds bounds the kinds of lots that are not rounded to fewer, each of which takes
// integrals of its own; several groups sampled together take those of manyKinds.
const (
	mostKinds = 400
	manyKinds = 20
)

// checkKinds refuses too many kinds, of those that take integrals.
func checkKinds(events []counted, takes func(event) bool) error {
	kinds := 0
	for _, e := range events {
		if e.pureGaussian() || !takes(e.event) {
			continue
		}
		groups := len(e.laplace) + len(e.lattice)
		if groups > 1 || e.gaussian > 0 {
			groups *= manyKinds
		}
		if kinds += groups; kinds > mostKinds {
			return InvalidArgument("lots of so many kinds with other than Gaussian noise: at most %d are summed, and %d groups that are sampled together; zcdp and naive take more", mostKinds, mostKinds/manyKinds)
		}
	}
	return nil
}

func mergeNear(events []counted, rateWidth, shiftWidth float64, up bool) []counted {
	type cell struct {
		rate    float64
		shift   int
		replace bool
		fixed   bool
	}
	index := map[cell]int{}
	var merged []counted
	var before cell
	at := 0 // of before: a schedule changes slowly
	for _, e := range events {
		c := cell{e.rate, int(math.Floor(math.Log(e.gaussian) / shiftWidth)), e.replace, e.fixed}
		if rateWidth > 0 && e.rate < 1 {
			c.rate = -1 - math.Floor(-math.Log(e.rate)/rateWidth)
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
		m.count += e.count
		if up {
			m.rate, m.gaussian = max(m.rate, e.rate), max(m.gaussian, e.gaussian)
		} else {
			m.rate, m.gaussian = min(m.rate, e.rate), min(m.gaussian, e.gaussian)
		}
	}
	slices.SortFunc(merged, func(a, b counted) int { return cmp.Compare(a.gaussian, b.gaussian) })
	return merged
}
