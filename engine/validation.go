package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/data"
)

// Validation is a set of private records that no lot draws from, to measure the
// trained weights on: see [HoldOut] and [Run.Validate].
type Validation struct {
	Set data.Set // of the columns of Config.Train; nil: nothing is held out
	// Noise is σ, the standard deviation added to the count of right answers or, where
	// targets are predicted, to the sum of errors in widths of their bounds.
	Noise float64

	width float64 // of these bounds; 0 where right answers are counted
}

// predicts reports whether answers are compared with targets, as there are no labels.
func (v *Validation) predicts() bool {
	return !slices.ContainsFunc(v.Set.Columns(), func(c data.Column) bool { return c.Kind == data.Label })
}

// released is the name of what is released, in the ledger and in errors.
func (v *Validation) released() string {
	if v.predicts() {
		return "validation error"
	}
	return "validation accuracy"
}

func (c *Config) checkValidation() error {
	v := &c.Validation
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
	if v.width, err = faceOf(net).compared(v); err != nil {
		return err
	}
	if !c.Mechanism.NonPrivate && (!(v.Noise > 0) || math.IsInf(v.Noise*max(1, v.width), 0)) {
		return fmt.Errorf("validation noise %v: it must be a positive number; without noise the count would be private data", v.Noise)
	}
	return nil
}

// compared is the width of the bounds of the targets that answers are compared with; 0
// where these are compared with labels. It says why they can be with neither.
func (f face) compared(v *Validation) (width float64, err error) {
	columns := v.Set.Columns()
	if err := f.check(columns); err != nil {
		return 0, err
	}
	label, _ := f.scored(columns)
	switch {
	case !v.predicts() && label < 0:
		return 0, fmt.Errorf("validation counts right answers, and this network gives no scores for a label")
	case !v.predicts():
		return 0, nil
	case f.target < 0:
		return 0, fmt.Errorf("validation compares answers with labels or targets: the data have no label, and this network's loss is no distance of its Output from a target, as layer.SquaredError is")
	case columns[f.target].Bounds == data.Bounds{}:
		return 0, fmt.Errorf("validation on targets in column %s, which have no bounds, so that one record could decide the error: scale them by public ones (data.Bounds.Scaled) and set Column.Bounds", columns[f.target].Name)
	}
	return 2 * columns[f.target].ScaleFactor(), nil
}

func sameColumns(train, held data.Set) error {
	a, b := train.Columns(), held.Columns()
	if len(a) != len(b) {
		return fmt.Errorf("validation data has %d columns where training data has %d", len(b), len(a))
	}
	for i := range a {
		if a[i].Size() != b[i].Size() || a[i].Classes != b[i].Classes || a[i].Bounds != b[i].Bounds {
			return fmt.Errorf("column %s of the validation data differs in shape, classes or bounds from the training data's %s", b[i].Name, a[i].Name)
		}
	}
	return nil
}

func (c *Config) validationLot() ledger.Lot {
	v := &c.Validation
	return ledger.Lot{
		Sampling: ledger.Sampling{Policy: ledger.FullBatch, Records: RecordCount(v.Set, c.Records)},
		Queries:  []ledger.Query{{Group: v.released(), Mechanism: ledger.Gaussian, Sensitivity: 1, Noise: v.Noise}},
	}
}

// ValidationResult is the released accuracy on the records that were held out, or the error.
type ValidationResult struct {
	Accuracy  float64 // between 0 and 1; 0 of targets
	MAE       float64 // of targets the mean absolute error, in their own units: between 0 and the width of their bounds
	Score     float64 // to compare runs by, the more the better: the share of right answers as the noise left it, beyond 0 and 1 too
	Deviation float64 // the standard deviation of the noise in Accuracy or MAE; 0 where the run is not private
	Records   int     // held out
}

// Validate releases how well the run's weights do on Config.Validation, once, through
// the Gaussian mechanism: how many answers are right or, where the data have targets and
// no labels, how right all are together. An answer to a target is as right as it is near:
// 1 less its distance as a share of the width of the target's bounds. One beyond the bounds
// counts as the nearest limit, and one that is no number as wholly wrong. A record counts
// as the mean of its labels or targets.
//
// A record counts between 0 and 1, whatever it holds and whatever the weights are, so
// adding, removing or replacing one moves the count by at most 1, the sensitivity. The
// accuracy and the error are that count, with its noise, in other units. The query is
// in the ledger before it is released, as a lot of its own that every held-out record
// takes part in. It is composed with the training lots, though their records are others,
// which holds for whichever way the records were parted (see [HoldOut]). A budget given by
// StopAtEpsilon has room for one validation from the start; where a resumed run
// has used that up, the error unwraps to [ErrBudget] and nothing is released.
func (r *Run) Validate() (ValidationResult, error) {
	v := &r.config.Validation
	switch {
	case v.Set == nil:
		return ValidationResult{}, fmt.Errorf("no records were held out: set Config.Validation")
	case r.fault != nil:
		return ValidationResult{}, r.fault
	case r.validated:
		return ValidationResult{}, fmt.Errorf("the %s was released already; keep what was returned", v.released())
	}
	count, err := r.rightAnswers()
	if err != nil {
		return ValidationResult{}, err
	}
	records := float64(RecordCount(v.Set, r.config.Records))
	out := ValidationResult{Records: int(records)}
	if r.ledger != nil {
		if err := r.affordValidation(); err != nil {
			return ValidationResult{}, err
		}
		r.validated = true
		r.ledger.LimitReservations(1)
		if err := r.ledger.Spend(r.config.validationLot()); err != nil {
			return ValidationResult{}, err
		}
		normal, err := r.normal(r.validationStream())
		if err != nil {
			return ValidationResult{}, err
		}
		count += v.Noise * normal
		out.Deviation = v.Noise / records
	}
	out.Score = count / records
	out.Accuracy = min(max(out.Score, 0), 1)
	if v.predicts() {
		out.Accuracy, out.MAE, out.Deviation = 0, (1-out.Accuracy)*v.width, out.Deviation*v.width
	}
	return out, nil
}

func (r *Run) affordValidation() error {
	budget := r.config.Budget.StopAtEpsilon
	if budget == 0 {
		return nil
	}
	all, err := r.meter.cost(r.meter.done)
	if err == nil && all > budget {
		err = fmt.Errorf("%w: the %s would bring ε to %.4g, above %g; raise the budget", ErrBudget, r.config.Validation.released(), all, budget)
	}
	return err
}

// rightAnswers adds up the held-out records. It is private.
func (r *Run) rightAnswers() (float64, error) {
	s := r.config.Validation.Set
	parameters, err := r.BorrowParameters()
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

// shares is, for each example of a set, the share of it that was answered rightly. The set
// has labels or targets that the network answers: see compared.
func (e *Evaluator) shares(weights [][]float32, s data.Set) ([]float64, error) {
	if err := e.readyFor(weights, s, e.network); err != nil {
		return nil, err
	}
	columns := s.Columns()
	asked, scores := e.network.scored(columns)
	share := rightShare
	if asked < 0 {
		asked, scores, share = e.network.target, 1, nearness
	}
	size, output := columns[asked].Size(), e.machine.Output()
	all := make([]float64, 0, s.Len())
	err := e.each(s, func(_, n int) error {
		for i := range n {
			all = append(all, share(e.used[asked][i*size:(i+1)*size], output[i*size*scores:(i+1)*size*scores]))
		}
		return nil
	})
	return all, err
}

// rightShare is the share of labels that were answered rightly; 0 where all are data.Pad.
func rightShare(labels, answers []float32) float64 {
	asked := len(labels)
	for _, l := range labels {
		if l == data.Pad {
			asked--
		}
	}
	return float64(right(labels, answers)) / float64(max(1, asked))
}

// nearness is the mean of how right the answers to scaled targets are, between 0 and 1
// whatever both are.
func nearness(targets, answers []float32) float64 {
	held := func(x float32) float64 { return min(max(float64(x), -1), 1) }
	var sum float64
	for i, t := range targets {
		if near := 1 - math.Abs(held(answers[i])-held(t))/2; near > 0 { // which no NaN is
			sum += near
		}
	}
	return sum / float64(len(targets))
}
