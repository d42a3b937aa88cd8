// Package choice chooses among public candidates by private scores: the most frequent category, a
// threshold, a model. It releases the candidate and nothing else.
//
// # Guarantee
//
// Let one record change the score of each candidate by at most Sensitivity, for all data: a count
// of records has the sensitivity 1. Then a choice satisfies ε-differential privacy for the ε of
// its [Query], without δ, under the adjacency of the ledger: permute-and-flip (McKenna and Sheldon
// 2020, theorem 1) with integer scores and an exact sampler, so that the guarantee holds for the
// probabilities of what is released (noise.Source.PermuteAndFlip). It requires that the source was
// keyed by the operating system. It does not cover the duration of a choice, which depends on the
// scores.
//
// The ledger states a choice on disk before it is made. Accountants compose it with everything
// else in the ledger, where it costs at most its ε.
package choice

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/noise"
)

// Query is a choice among candidates. Everything but Scores is public.
type Query struct {
	Name        string  // of the choice, in the ledger
	Scores      []int64 // of each candidate; larger is better
	Sensitivity int64   // largest change of a score by one record that is added, removed or blanked, for all data
	Epsilon     float64 // ε of the choice, between neighbours of the ledger's adjacency
}

// Chooser makes choices and states them in a ledger. It serves one goroutine.
type Chooser struct {
	ledger *ledger.Writer
	source *noise.Source
	made   uint64
}

// New returns a chooser that states its choices in a ledger, which the caller closes. The source
// must be used for nothing else.
func New(w *ledger.Writer, source *noise.Source) (*Chooser, error) {
	if !source.Secure() {
		if err := w.MarkInsecure(); err != nil {
			return nil, err
		}
	}
	return &Chooser{ledger: w, source: source}, nil
}

// scaleBits is the number of binary digits of a scale after the point.
const scaleBits = 20

// Limits of a query: the numerator of a scale fits 52 bits, so that the ledger's float64 is exact.
const (
	MinEpsilon     = 1e-6
	MaxEpsilon     = 1e3
	maxSensitivity = 1 << 10
)

// lot returns the ledger entry of a choice, and the scale in units of 2^-scaleBits.
func (q Query) lot(h ledger.Header) (lot ledger.Lot, scale uint64, err error) {
	switch {
	case q.Name == "":
		return lot, 0, fmt.Errorf("choice: the query has no name: give it one for the ledger")
	case len(q.Scores) == 0:
		return lot, 0, fmt.Errorf("choice: query %q has no candidates: give at least one score", q.Name)
	case q.Sensitivity < 1 || q.Sensitivity > maxSensitivity:
		return lot, 0, fmt.Errorf("choice: query %q has the sensitivity %d: use 1 to %d; divide the scores by a public number if it is larger", q.Name, q.Sensitivity, maxSensitivity)
	case !(q.Epsilon >= MinEpsilon && q.Epsilon <= MaxEpsilon):
		return lot, 0, fmt.Errorf("choice: query %q has ε = %v: use a number from %v to %v", q.Name, q.Epsilon, MinEpsilon, MaxEpsilon)
	}
	change := 2 * float64(q.Sensitivity)
	if h.Adjacency == ledger.ReplaceOne {
		change *= 2
	}
	steps := math.Ceil(math.Ldexp(change/q.Epsilon*(1+0x1p-50), scaleBits)) // rounded up, the quotient included
	return ledger.Lot{
		Sampling: ledger.Sampling{Policy: ledger.FullBatch, Records: h.Records},
		Queries: []ledger.Query{{Group: q.Name, Mechanism: ledger.PermuteAndFlip,
			Sensitivity: float64(q.Sensitivity), Noise: math.Ldexp(steps, -scaleBits)}},
	}, uint64(steps), nil
}

// Choose states a choice in the ledger, makes it, and returns the index of a candidate. No error
// depends on the scores.
func (c *Chooser) Choose(q Query) (int, error) {
	lot, scale, err := q.lot(c.ledger.History().Header)
	if err != nil {
		return 0, err
	}
	c.ledger.LimitReservations(1)
	if err := c.ledger.Spend(lot); err != nil {
		return 0, err
	}
	stream := noise.Stream{Purpose: noise.Release, Lot: c.made}
	c.made++ // also after an error: a stream is used once
	return c.source.PermuteAndFlip(q.Scores, stream, scale, 1<<scaleBits)
}
