package engine

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/noise"
)

// Validation is a set of private records that no lot draws from, to measure the
// trained weights on: see [HoldOut] and [Run.Validate].
type Validation struct {
	Set   data.Set // of the columns of Config.Train; nil: nothing is held out
	Noise float64  // σ, the standard deviation added to the count of right answers
}

// validationGroup is the query's name in the ledger.
const validationGroup = "validation accuracy"

func (c *Config) checkValidation() error {
	v := c.Validation
	if v.Set == nil && v.Noise == 0 {
		return nil
	}
	if v.Set == nil {
		return fmt.Errorf("validation noise %v, and no records are held out: set Config.Validation.Set", v.Noise)
	}
	if v.Set.Len() == 0 {
		return fmt.Errorf("validation on no records: hold out at least one")
	}
	if err := sameColumns(c.Train, v.Set); err != nil {
		return err
	}
	if err := data.Check(v.Set); err != nil {
		return fmt.Errorf("validation data: %w", err)
	}
	net, _, err := evaluation(c.Network, 1)
	if err != nil {
		return err
	}
	if label, _ := faceOf(net).scored(v.Set.Columns()); label < 0 {
		return fmt.Errorf("validation counts right answers, and this network gives no scores for a label")
	}
	if !c.NonPrivate && (!(v.Noise > 0) || math.IsInf(v.Noise, 0)) {
		return fmt.Errorf("validation noise %v: it must be a positive number; without noise the count would be private data", v.Noise)
	}
	return nil
}

func sameColumns(train, held data.Set) error {
	a, b := train.Columns(), held.Columns()
	if len(a) != len(b) {
		return fmt.Errorf("validation data has %d columns where training data has %d", len(b), len(a))
	}
	for i := range a {
		if a[i].Size() != b[i].Size() || a[i].Classes != b[i].Classes {
			return fmt.Errorf("column %s of the validation data differs in shape or classes from the training data's %s", b[i].Name, a[i].Name)
		}
	}
	return nil
}

func (c *Config) validationLot() accountant.Lot {
	v := &c.Validation
	return accountant.Lot{
		Sampling: accountant.Sampling{Policy: accountant.Every, Records: RecordCount(v.Set, c.Records)},
		Queries:  []accountant.Query{{Group: validationGroup, Mechanism: accountant.Gaussian, Sensitivity: 1, Noise: v.Noise}},
	}
}

// Validated is the released accuracy on the records that were held out.
type Validated struct {
	Accuracy  float64 // between 0 and 1
	Deviation float64 // the standard deviation of its noise; 0 where the run is not private
	Records   int     // held out
}

// Validate releases the accuracy of the run's weights on Config.Validation, once:
// the number of right answers, a record counting as the mean of its labels,
// through the Gaussian mechanism.
//
// A record counts between 0 and 1, so adding, removing or replacing one moves the
// count by at most 1, the sensitivity. The query is in the ledger before it is
// released, as a lot of its own that every held-out record takes part in. It is
// composed with the training lots, though their records are others, which holds
// for whichever way the records were parted (see [HoldOut]). A budget given by
// StopAtEpsilon has room for one validation from the start; where a resumed run
// has used that up, the error unwraps to [ErrBudget] and nothing is released.
func (r *Run) Validate() (Validated, error) {
	v := &r.config.Validation
	switch {
	case v.Set == nil:
		return Validated{}, fmt.Errorf("no records were held out: set Config.Validation")
	case r.fault != nil:
		return Validated{}, r.fault
	case r.validated:
		return Validated{}, fmt.Errorf("the validation accuracy was released already; keep what was returned")
	}
	count, err := r.rightAnswers()
	if err != nil {
		return Validated{}, err
	}
	records := float64(RecordCount(v.Set, r.config.Records))
	out := Validated{Records: int(records)}
	if r.ledger != nil {
		if err := r.affordValidation(); err != nil {
			return Validated{}, err
		}
		r.validated = true
		r.ledger.ReserveAtMost(1)
		if err := r.ledger.Spend(r.config.validationLot()); err != nil {
			return Validated{}, err
		}
		drawn, err := r.validationNoise()
		if err != nil {
			return Validated{}, err
		}
		count += drawn
		out.Deviation = v.Noise / records
	}
	out.Accuracy = min(max(count/records, 0), 1)
	return out, nil
}

// validationNoise is the noise on the count of right answers, of deviation σ.
func (r *Run) validationNoise() (float64, error) {
	var normal [1]float64
	number := len(r.program.Vectors) + len(r.config.Clipping) + len(r.config.Statistics) // above all that lots use
	stream := noise.Stream{Purpose: noise.Release, Lot: uint64(r.step), Vector: uint32(number)}
	err := r.source.Normals64(normal[:], stream, 0)
	return r.config.Validation.Noise * normal[0], err
}

func (r *Run) affordValidation() error {
	budget := r.config.StopAtEpsilon
	if budget == 0 {
		return nil
	}
	all, err := r.meter.cost(r.meter.done)
	if err == nil && all > budget {
		err = fmt.Errorf("%w: the validation accuracy would bring ε to %.4g, above %g; raise the budget", ErrBudget, all, budget)
	}
	return err
}

// rightAnswers adds up the held-out records. It is private.
func (r *Run) rightAnswers() (float64, error) {
	s := r.config.Validation.Set
	parameters, err := r.Standing()
	if err != nil {
		return 0, err
	}
	e, err := NewEvaluator(r.config.Network, r.place())
	if err != nil {
		return 0, err
	}
	defer e.Close()
	shares, err := e.shares(Values(parameters), s)
	if err != nil {
		return 0, err
	}
	return perRecord(shares, s, r.config.Records)
}

// perRecord adds up the records' means of their examples' shares.
func perRecord(shares []float64, s data.Set, r Records) (float64, error) {
	d, err := newDeck(s, r)
	if err != nil {
		return 0, err
	}
	rows, weights := make([]int, d.per), make([]float32, d.per)
	var sum float64
	for record := range d.count {
		d.deal(record, rows, weights)
		var right, taken float64
		for i, row := range rows {
			if weights[i] > 0 {
				right += shares[row]
				taken++
			}
		}
		sum += right / taken
	}
	return sum, nil
}

// shares is, for each example of a set, the share of its labels that were right;
// 0 where all of them are data.Pad.
func (e *Evaluator) shares(weights [][]float32, s data.Set) ([]float64, error) {
	if err := e.readyFor(weights, s, e.network); err != nil {
		return nil, err
	}
	columns := s.Columns()
	label, scores := e.network.scored(columns)
	if label < 0 {
		return nil, fmt.Errorf("the network gives no scores for a label")
	}
	size, output := columns[label].Size(), e.machine.Output()
	all := make([]float64, 0, s.Len())
	for from := 0; from < s.Len(); from += e.network.batch {
		n := min(e.network.batch, s.Len()-from)
		if err := e.forward(s, from, n); err != nil {
			return nil, err
		}
		for i := range n {
			labels := e.used[label][i*size : (i+1)*size]
			answers := output[i*size*scores : (i+1)*size*scores]
			asked := size
			for _, l := range labels {
				if l == data.Pad {
					asked--
				}
			}
			all = append(all, float64(right(labels, answers))/float64(max(1, asked)))
		}
	}
	return all, nil
}
