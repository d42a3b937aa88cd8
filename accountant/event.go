package accountant

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// event is what one lot does to the one record in which two data sets differ:
// the record takes part with probability rate, and then every group's sum moves
// by its sensitivity, or by twice that if the record is replaced.
//
// The Gaussian groups are one Gaussian: the joint release of N(x_g, σ_g²) with
// ‖x_g‖ ≤ S_g is, by rotation and scaling, one unit Gaussian moved by at most
// (Σ (S_g/σ_g)²)^(1/2) (McMahan et al. 2019, section 3).
type event struct {
	rate     float64   // 1: no sampling
	replace  bool      // the record is replaced, not added or removed
	fixed    bool      // replaced in a lot of a fixed size, drawn without replacement
	gaussian float64   // (Σ (S/σ)²)^(1/2) over the Gaussian groups
	laplace  []float64 // S/scale of every Laplace group
	lattice  []lattice // the discrete Gaussian groups
}

// lattice is a discrete Gaussian group: integers, moved by shift.
type lattice struct{ shift, sigma float64 }

// squared is (shift/σ)², without the squares of either, which may be out of range.
func (d lattice) squared() float64 { return d.shift / d.sigma * (d.shift / d.sigma) }

// pureGaussian tells that the lot has Gaussian noise alone.
func (e event) pureGaussian() bool { return len(e.laplace) == 0 && len(e.lattice) == 0 }

// sampled tells that the record may miss the lot.
func (e event) sampled() bool { return e.rate < 1 }

func (e event) key() string {
	return fmt.Sprint(e.rate, e.replace, e.fixed, e.gaussian, e.laplace, e.lattice)
}

// counted is an event that happened count times.
type counted struct {
	event
	count int
}

// spending is a history as the accountants see it.
type spending struct {
	events    []counted
	adjacency Adjacency
	proven    bool // lots of a fixed size by the symmetric curve: see fixed.go
	shuffled  bool // some lots were a shuffled pass and got no amplification
	note      string
	answered  map[pldQuestion]Answer
}

// unsampled tells that no event is amplified by sampling.
func (s spending) unsampled() bool {
	return !slices.ContainsFunc(s.events, func(e counted) bool { return e.sampled() })
}

// pureGaussian tells that every event is a Gaussian.
func (s spending) pureGaussian() bool {
	return !slices.ContainsFunc(s.events, func(e counted) bool { return !e.pureGaussian() })
}

// spend reads a history. The adjacency of the result is the header's (add or
// remove one, if it says none), made the one that holds for the weakest lot:
//
//   - a fixed-size lot without replacement is accounted under replace-one, as the
//     size of the data is public: every sensitivity counts twice;
//   - shuffled passes are accounted under zero-out: one unsampled mechanism a
//     pass, whose noise is the least of that pass.
func spend(h History) (spending, error) {
	s := spending{adjacency: h.Header.Adjacency, answered: map[pldQuestion]Answer{}}
	switch s.adjacency {
	case "":
		s.adjacency = AddRemove
	case AddRemove, ReplaceOne, ZeroOut:
	default:
		return s, badArgument("adjacency %q is unknown: use %s, %s or %s", s.adjacency, AddRemove, ReplaceOne, ZeroOut)
	}
	fixed, left := false, mostLots
	for i, run := range h.Spent {
		if err := checkLot(run); err != nil {
			return s, fmt.Errorf("entry %d: %w", i+1, err)
		}
		each := max(1, len(run.Lot.Queries)) // equal ones count together
		if run.Count > left/each {           // counts are added up: they must not wrap around
			return s, badArgument("entry %d: a run of %d lots: with those before it there are more than 2^53 lots, or queries", i+1, run.Count)
		}
		left -= run.Count * each
		fixed = fixed || run.Lot.Sampling.Policy == Fixed && run.Lot.Sampling.Lot < run.Lot.Sampling.Records
		s.shuffled = s.shuffled || run.Lot.Sampling.Policy == Shuffle
	}
	switch {
	case fixed && s.adjacency != ReplaceOne:
		s.adjacency = ReplaceOne
		s.note = fixedNote
	case s.shuffled && s.adjacency == AddRemove:
		s.adjacency = ZeroOut
	}

	index := make(map[gaussianKey]int, len(h.Spent))
	s.events = make([]counted, 0, len(h.Spent))
	others := map[string]int{}
	add := func(e event, count int) {
		if count == 0 || e.gaussian == 0 && e.pureGaussian() {
			return
		}
		at, seen := 0, false
		if e.pureGaussian() {
			at, seen = index[keyOf(e)]
		} else {
			at, seen = others[e.key()]
		}
		if seen {
			s.events[at].count += count
			s.events[at].gaussian = max(s.events[at].gaussian, e.gaussian)
			return
		}
		if e.pureGaussian() {
			index[keyOf(e)] = len(s.events)
		} else {
			others[e.key()] = len(s.events)
		}
		s.events = append(s.events, counted{e, count})
	}

	scale := 1.0
	if s.adjacency == ReplaceOne {
		scale = 2
	}
	var pass shufflePass
	for _, run := range h.Spent {
		e := eventOf(run.Lot, scale)
		e.replace = s.adjacency == ReplaceOne
		e.fixed = run.Lot.Sampling.Policy == Fixed && e.sampled()
		if run.Lot.Sampling.Policy == Shuffle {
			pass.lots(e, run, add)
		} else {
			add(e, run.Count)
		}
	}
	pass.end(add)
	return s, nil
}

type gaussianKey struct {
	rate, gaussian float64
	fixed          bool
}

// keyOf is one for shifts that differ by rounding, as they do where a bound moves and its
// noise with it: what was planned as one event is accounted as one, that of the largest.
func keyOf(e event) gaussianKey {
	const unsure = 12 // bits
	bits := math.Float64bits(e.gaussian) + 1<<(unsure-1)
	return gaussianKey{e.rate, math.Float64frombits(bits >> unsure << unsure), e.fixed}
}

// shufflePass gathers the lots of a pass over disjoint batches: a record is in
// one of them, and which one is not accounted, so it is taken to be in the one
// that tells most.
type shufflePass struct {
	sampling Sampling
	left     int // lots still to come in this pass
	worst    event
}

func (p *shufflePass) end(add func(event, int)) {
	if p.left > 0 {
		add(p.worst, 1)
	}
	*p = shufflePass{}
}

func (p *shufflePass) lots(e event, run Spent, add func(event, int)) {
	if run.Lot.Sampling != p.sampling {
		p.end(add)
		p.sampling = run.Lot.Sampling
	}
	inPass := (p.sampling.Records + p.sampling.Lot - 1) / p.sampling.Lot
	count := run.Count
	if p.left > 0 {
		p.worst = worse(p.worst, e)
		took := min(count, p.left)
		p.left -= took
		count -= took
		if p.left == 0 {
			add(p.worst, 1)
		}
	}
	add(e, count/inPass)
	if rest := count % inPass; rest > 0 {
		p.left, p.worst = inPass-rest, e
	}
}

// worse is an event that tells at least as much as a and as b.
func worse(a, b event) event {
	if a.key() == b.key() {
		return a
	}
	w := event{rate: max(a.rate, b.rate), replace: a.replace || b.replace, gaussian: max(a.gaussian, b.gaussian)}
	for i := range max(len(a.laplace), len(b.laplace)) {
		w.laplace = append(w.laplace, max(at(a.laplace, i), at(b.laplace, i)))
	}
	if slices.Equal(a.lattice, b.lattice) {
		w.lattice = a.lattice
	} else {
		w.lattice = slices.Concat(a.lattice, b.lattice)
	}
	return w
}

func at(values []float64, i int) float64 {
	if i < len(values) {
		return values[i]
	}
	return 0
}

func eventOf(lot Lot, scale float64) event {
	e := event{rate: 1}
	switch lot.Sampling.Policy {
	case Poisson:
		e.rate = lot.Sampling.Rate
	case Fixed:
		e.rate = float64(lot.Sampling.Lot) / float64(lot.Sampling.Records)
	}
	squares := 0.0
	for _, q := range lot.Queries {
		ratio := scale * q.Sensitivity / q.Noise
		switch {
		case ratio == 0:
		case q.Mechanism == Gaussian:
			squares += ratio * ratio
		case q.Mechanism == Laplace:
			e.laplace = append(e.laplace, ratio)
		case q.Mechanism == DiscreteGaussian:
			e.lattice = append(e.lattice, lattice{scale * q.Sensitivity, q.Noise})
		}
	}
	e.gaussian = math.Sqrt(squares)
	slices.Sort(e.laplace)
	return e
}

func checkLot(run Spent) error {
	if run.Count < 0 {
		return badArgument("a run of %d lots: the count cannot be negative", run.Count)
	}
	s := run.Lot.Sampling
	switch s.Policy {
	case Poisson:
		if !(s.Rate > 0 && s.Rate <= 1) {
			return badArgument("sampling rate %v: must be above 0 and at most 1", s.Rate)
		}
	case Fixed, Shuffle:
		if s.Records < 1 || s.Lot < 1 || s.Lot > s.Records {
			return badArgument("%s lots of %d from %d records: the lot must be between 1 and the number of records", s.Policy, s.Lot, s.Records)
		}
	case Every:
	default:
		names := []string{string(Poisson), string(Fixed), string(Shuffle), string(Every)}
		return badArgument("sampling %q is unknown: use one of %s", s.Policy, strings.Join(names, ", "))
	}
	for _, q := range run.Lot.Queries {
		if !(q.Sensitivity >= 0) || math.IsInf(q.Sensitivity, 0) {
			return badArgument("group %q: sensitivity %v must be a finite number, 0 or more", q.Group, q.Sensitivity)
		}
		if !(q.Noise > 0) || math.IsInf(q.Noise, 0) {
			return badArgument("group %q: noise %v must be a finite number above 0", q.Group, q.Noise)
		}
		switch q.Mechanism {
		case Gaussian, Laplace, DiscreteGaussian:
		default:
			return badArgument("group %q: mechanism %q is unknown: use %s, %s or %s", q.Group, q.Mechanism, Gaussian, DiscreteGaussian, Laplace)
		}
	}
	return nil
}
