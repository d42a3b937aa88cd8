package report

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// ErrOtherLedger is the error if a run's summary names another ledger than the one in the
// run's directory.
var ErrOtherLedger = errors.New("the ledger does not belong to this run")

// accounting is the result of accounting for a run's ledger.
type accounting struct {
	history ledger.History
	answer  accountant.Guarantee // of the whole plan, if the run ended before it
	spent   accountant.Guarantee // of the ledger
	seal    ledger.Summary
	curves  []epsilonCurve
	groups  []GroupReleases
}

// epsilonCurve is ε after increasing numbers of lots, by one accountant.
type epsilonCurve struct {
	accountant string
	lots       []int
	epsilon    []float64
	failure    string // why there is no curve; empty if there is one
}

func (c epsilonCurve) last() float64 { return c.epsilon[len(c.epsilon)-1] }

// GroupReleases summarises the releases of one group of parameters or statistics.
type GroupReleases struct {
	Name                           string
	Mechanism                      ledger.Mechanism
	MinSensitivity, MaxSensitivity float64
	MinNoise, MaxNoise             float64
	Lots                           int
	Share                          float64 // of Σ(S/σ)²; NaN if the costs do not add up that way

	squares float64 // Σ(S/σ)² of the group
}

// NoiseMultiplier returns the multiplier z with which each of the group's releases would cost
// as much: 1/z² is the mean of (S/σ)².
func (g GroupReleases) NoiseMultiplier() float64 { return math.Sqrt(float64(g.Lots) / g.squares) }

// curvePoints is the number of points at which ε is computed for a curve.
const curvePoints = 40

// accountFor verifies a ledger and accounts for it. head is the hash of the ledger's last
// line according to the run's summary. planned is the ε of the whole plan of a run that ended
// before it, or 0. The answer is then that of the plan, and never less than the ledger's.
func accountFor(path, head string, delta float64, name string, planned float64) (*accounting, error) {
	h, err := ledger.Read(path)
	if err != nil {
		return nil, err
	}
	a := &accounting{history: h}
	if a.seal, err = ledger.Verify(path); err != nil {
		return nil, err
	}
	if a.seal.Head != head {
		if later, err := ledger.ContainsHead(path, head); err == nil && later {
			return nil, fmt.Errorf("%s has lines after the one that the summary names: the run was resumed, and writes its report when it ends; if it was killed, continue it with dptrain train --resume", path)
		}
		return nil, fmt.Errorf("%w: %s ends with %s, but the summary names %q", ErrOtherLedger, path, a.seal.Head, head)
	}
	if a.answer, err = accountant.Epsilon(h, delta, name); err != nil {
		return nil, err
	}
	a.spent = a.answer
	if planned > 0 {
		a.answer.Epsilon = max(planned, a.answer.Epsilon)
		a.answer.Published, a.answer.LowerBound, a.answer.Order = 0, 0, 0
		if a.spent.Published > 0 {
			a.answer.Note = "" // it describes the published figure
		}
	}
	a.curves = epsilonCurves(h, delta, accountant.Names(), curvePoints)
	a.groups = Groups(h)
	return a, nil
}

// secondMoments is the query of a projection. It is never a gradient, even if the run was
// stopped before its first lot.
const secondMoments = "second moments"

// splitTraining separates the training lots from the other releases: queries over all
// records in a run whose lots are sampled, and projections.
func splitTraining(h ledger.History) (training ledger.History, others []ledger.RepeatedLot) {
	training.Header = h.Header
	sampled := slices.ContainsFunc(h.Lots, func(s ledger.RepeatedLot) bool { return s.Lot.Sampling.Policy != ledger.FullBatch })
	for _, spent := range h.Lots {
		to := &training.Lots
		if lot := spent.Lot; lot.Sampling.Policy == ledger.FullBatch && (sampled || lot.Queries[0].Group == secondMoments) {
			to = &others
		}
		*to = append(*to, spent)
	}
	return training, others
}

// FirstLots is the history of the first n lots.
func FirstLots(h ledger.History, n int) ledger.History {
	first := ledger.History{Header: h.Header}
	for _, spent := range h.Lots {
		if n == 0 {
			break
		}
		spent.Count = min(spent.Count, n)
		n -= spent.Count
		first.Lots = append(first.Lots, spent)
	}
	return first
}

// CurvePoints returns at most limit numbers of lots between 1 and total. They are closer
// together at the start, where curves of ε are steep. The last one is total.
func CurvePoints(total, limit int) []int {
	var lots []int
	for i := 1; i <= limit; i++ {
		part := float64(i) / float64(limit)
		n := int(math.Ceil(float64(total) * part * part))
		if n > 0 && (len(lots) == 0 || n > lots[len(lots)-1]) {
			lots = append(lots, n)
		}
	}
	return lots
}

// epsilonCurves computes a curve with at most limit points for each accountant.
func epsilonCurves(h ledger.History, delta float64, accountants []string, limit int) []epsilonCurve {
	total := h.LotCount()
	curves := make([]epsilonCurve, len(accountants))
	for i, name := range accountants {
		curves[i].accountant = name
		if total == 0 {
			curves[i].failure = "no lot was released"
		}
	}
	for _, n := range CurvePoints(total, limit) {
		prepared := accountant.Compose(FirstLots(h, n))
		for i := range curves {
			c := &curves[i]
			if c.failure != "" {
				continue
			}
			epsilon, err := prepared.ProvenEpsilon(delta, c.accountant)
			if err != nil {
				c.failure = err.Error()
				continue
			}
			c.lots, c.epsilon = append(c.lots, n), append(c.epsilon, epsilon)
		}
	}
	return curves
}

// noiseMultipliers returns the smallest and the largest noise multiplier of a training lot.
// Several groups of one lot have the multiplier (Σ(S/σ)²)^(-1/2) (McMahan et al. 2019,
// section 3), which holds for Gaussian noise; one group has a multiplier for every noise. ok is
// false where there is none.
func noiseMultipliers(h ledger.History) (low, high float64, ok bool) {
	low = math.Inf(1)
	h, _ = splitTraining(h)
	for _, spent := range h.Lots {
		squares := 0.0
		for _, q := range spent.Lot.Queries {
			laplace := q.Mechanism == ledger.Laplace || q.Mechanism == ledger.DiscreteLaplace
			if q.Mechanism == ledger.PermuteAndFlip || laplace && len(spent.Lot.Queries) > 1 {
				return 0, 0, false
			}
			squares += (q.Sensitivity / q.Noise) * (q.Sensitivity / q.Noise)
		}
		z := 1 / math.Sqrt(squares)
		low, high = min(low, z), max(high, z)
	}
	return low, high, len(h.Lots) > 0
}

// Groups summarises the releases of each group, in the order in which groups appear.
func Groups(h ledger.History) []GroupReleases {
	type key struct {
		name      string
		mechanism ledger.Mechanism
	}
	indices := map[key]int{}
	groups := []GroupReleases{}
	var total float64
	for _, spent := range h.Lots {
		for _, q := range spent.Lot.Queries {
			k := key{q.Group, q.Mechanism}
			i, seen := indices[k]
			if !seen {
				i = len(groups)
				indices[k] = i
				groups = append(groups, GroupReleases{Name: q.Group, Mechanism: q.Mechanism,
					MinSensitivity: math.Inf(1), MinNoise: math.Inf(1)})
			}
			g := &groups[i]
			g.Lots += spent.Count
			g.MinSensitivity, g.MaxSensitivity = min(g.MinSensitivity, q.Sensitivity), max(g.MaxSensitivity, q.Sensitivity)
			g.MinNoise, g.MaxNoise = min(g.MinNoise, q.Noise), max(g.MaxNoise, q.Noise)
			part := float64(spent.Count) * (q.Sensitivity / q.Noise) * (q.Sensitivity / q.Noise)
			g.squares += part
			total += part
		}
	}
	_, _, gaussian := noiseMultipliers(h)
	_, others := splitTraining(h)
	for i := range groups {
		if groups[i].Share = groups[i].squares / total; !gaussian || len(others) > 0 {
			groups[i].Share = math.NaN()
		}
	}
	return groups
}

// epsilonAfter is the ε of the first n lots.
func (a *accounting) epsilonAfter(n int) (float64, error) {
	return accountant.Compose(FirstLots(a.history, n)).ProvenEpsilon(a.answer.Delta, a.answer.Accountant)
}

// guessProbability bounds the probability that an adversary guesses correctly which of two
// neighbouring data sets was used, if a fair coin chose it. It is the point of the region
// of Kairouz et al. (2015, "The Composition Theorem for Differential Privacy", section 2)
// at which both error rates are equal.
func guessProbability(epsilon, delta float64) float64 {
	if math.IsInf(epsilon, 1) {
		return 1
	}
	// (e^ε + δ)/(1 + e^ε), without overflow.
	return min(1, (1+delta*math.Exp(-epsilon))/(1+math.Exp(-epsilon)))
}
