package report

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// ErrOtherLedger is what an error unwraps to where a run's summary names another
// ledger than the one beside it.
var ErrOtherLedger = errors.New("the ledger is not the one of this run")

// account is what a ledger says about a run.
type account struct {
	history ledger.History
	answer  accountant.Guarantee
	seal    ledger.Summary
	curves  []curve
	groups  []Group
}

// curve is ε after each of some numbers of lots, by one accountant.
type curve struct {
	accountant string
	at         []int
	epsilon    []float64
	bound      float64 // of the last: what is proven for any data, where that is more
	why        string  // there is no curve, where it is not empty
}

func (c curve) last() float64 { return c.epsilon[len(c.epsilon)-1] }

// Group is what a ledger says about one group of vectors.
type Group struct {
	Name                  string
	Mechanism             ledger.Mechanism
	LeastS, MostS         float64 // sensitivity
	LeastNoise, MostNoise float64
	Lots                  int
	Share                 float64 // of Σ(S/σ)²; NaN where that is not what adds up
}

// epsilonPoints is at how many numbers of lots ε is computed for a curve.
const epsilonPoints = 40

// readAccount verifies the ledger and accounts for it. head is what the run's
// summary says it ends with.
func readAccount(path, head string, delta float64, name string) (*account, error) {
	h, err := ledger.Read(path)
	if err != nil {
		return nil, err
	}
	a := &account{history: h}
	if a.seal, err = ledger.Verify(path); err != nil {
		return nil, err
	}
	if a.seal.Head != head {
		if later, err := ledger.ContainsHead(path, head); err == nil && later {
			return nil, fmt.Errorf("%s has lines after the one that the summary names: the run went on, and writes its report when it ends; if it was killed, go on with it by dptrain train --resume", path)
		}
		return nil, fmt.Errorf("%w: %s ends with %s, the summary names %q", ErrOtherLedger, path, a.seal.Head, head)
	}
	if a.answer, err = accountant.Epsilon(h, delta, name); err != nil {
		return nil, err
	}
	a.curves = curvesOf(h, delta, accountant.Names(), epsilonPoints)
	a.groups = Groups(h)
	return a, nil
}

// secondMoments is the query that a projection is found from: no gradient's, even where
// a run was stopped before its first lot.
const secondMoments = "second moments"

// apart parts a history into training lots and sums that were released beside
// them, over all records of their own, where lots were drawn.
func apart(h ledger.History) (training ledger.History, beside []ledger.RepeatedLot) {
	training.Header = h.Header
	sampled := slices.ContainsFunc(h.Lots, func(s ledger.RepeatedLot) bool { return s.Lot.Sampling.Policy != ledger.FullBatch })
	for _, spent := range h.Lots {
		to := &training.Lots
		if lot := spent.Lot; lot.Sampling.Policy == ledger.FullBatch && (sampled || lot.Queries[0].Group == secondMoments) {
			to = &beside
		}
		*to = append(*to, spent)
	}
	return training, beside
}

// prefix is the history of the first n lots.
func prefix(h ledger.History, n int) ledger.History {
	begun := ledger.History{Header: h.Header}
	for _, spent := range h.Lots {
		if n == 0 {
			break
		}
		spent.Count = min(spent.Count, n)
		n -= spent.Count
		begun.Lots = append(begun.Lots, spent)
	}
	return begun
}

// Spread is at most points numbers of lots, close together where curves of ε are steep.
// The last is all of them.
func Spread(all, points int) []int {
	var at []int
	for i := 1; i <= points; i++ {
		part := float64(i) / float64(points)
		n := int(math.Ceil(float64(all) * part * part))
		if n > 0 && (len(at) == 0 || n > at[len(at)-1]) {
			at = append(at, n)
		}
	}
	return at
}

// curvesOf computes ε after at most points numbers of lots.
func curvesOf(h ledger.History, delta float64, accountants []string, points int) []curve {
	all := h.LotCount()
	curves := make([]curve, len(accountants))
	for i, name := range accountants {
		curves[i].accountant = name
		if all == 0 {
			curves[i].why = "no lot was released"
		}
	}
	for _, n := range Spread(all, points) {
		begun := accountant.Compose(prefix(h, n))
		for i := range curves {
			c := &curves[i]
			if c.why != "" {
				continue
			}
			epsilon, err := begun.PublishedEpsilon(delta, c.accountant)
			if err == nil && n == all {
				c.bound, err = begun.EpsilonUpperBound(delta, c.accountant)
			}
			if err != nil {
				c.why = err.Error()
				continue
			}
			c.at, c.epsilon = append(c.at, n), append(c.epsilon, epsilon)
		}
	}
	return curves
}

// noiseMultipliers are the least and the largest noise over sensitivity of a
// training lot, its groups together: (Σ(S/σ)²)^(-1/2) (McMahan et al. 2019, section 3). It is not
// ok where noise that is not Gaussian was added.
func noiseMultipliers(h ledger.History) (low, high float64, ok bool) {
	low = math.Inf(1)
	h, _ = apart(h)
	for _, spent := range h.Lots {
		squares := 0.0
		for _, q := range spent.Lot.Queries {
			if q.Mechanism == ledger.Laplace {
				return 0, 0, false
			}
			squares += (q.Sensitivity / q.Noise) * (q.Sensitivity / q.Noise)
		}
		z := 1 / math.Sqrt(squares)
		low, high = min(low, z), max(high, z)
	}
	return low, high, len(h.Lots) > 0
}

// Groups adds up what each group took, in the order in which they appear.
func Groups(h ledger.History) []Group {
	type key struct {
		name      string
		mechanism ledger.Mechanism
	}
	at := map[key]int{}
	groups := []Group{}
	var all float64
	for _, spent := range h.Lots {
		for _, q := range spent.Lot.Queries {
			k := key{q.Group, q.Mechanism}
			i, seen := at[k]
			if !seen {
				i = len(groups)
				at[k] = i
				groups = append(groups, Group{Name: q.Group, Mechanism: q.Mechanism, LeastS: math.Inf(1), LeastNoise: math.Inf(1)})
			}
			g := &groups[i]
			g.Lots += spent.Count
			g.LeastS, g.MostS = min(g.LeastS, q.Sensitivity), max(g.MostS, q.Sensitivity)
			g.LeastNoise, g.MostNoise = min(g.LeastNoise, q.Noise), max(g.MostNoise, q.Noise)
			part := float64(spent.Count) * (q.Sensitivity / q.Noise) * (q.Sensitivity / q.Noise)
			g.Share += part
			all += part
		}
	}
	_, _, gaussian := noiseMultipliers(h)
	_, beside := apart(h)
	for i := range groups {
		if groups[i].Share /= all; !gaussian || len(beside) > 0 {
			groups[i].Share = math.NaN()
		}
	}
	return groups
}

// after is ε of the first n lots.
func (a *account) after(n int) (float64, error) {
	return accountant.Compose(prefix(a.history, n)).PublishedEpsilon(a.answer.Delta, a.answer.Accountant)
}
