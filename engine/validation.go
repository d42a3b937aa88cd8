package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/forward"
	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/internal/score"
	"github.com/dptrain/dptrain/internal/setting"
)

// Validation is a set of private records from which no lot is drawn. It measures the trained
// weights: see [Records.HoldOut] and [Run.Validate].
type Validation struct {
	Set data.Set // with the columns of Config.Train; nil: no validation
	// Noise is σ, the standard deviation of the noise added to the number of correct
	// predictions or, where the data have targets, to the sum of errors in widths of their
	// bounds.
	Noise float64

	width float64 // of the targets' bounds; 0 where correct predictions are counted
}

// predictsTargets reports whether predictions are compared with targets, because there are no
// labels.
func (v *Validation) predictsTargets() bool {
	return !slices.ContainsFunc(v.Set.Columns(), func(c data.Column) bool { return c.Kind == data.Label })
}

// releaseName returns the name of the release in the ledger and in errors.
func (v *Validation) releaseName() string {
	if v.predictsTargets() {
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
		return fmt.Errorf("validation noise is %v, and no records are held out: set Config.Validation.Set", v.Noise)
	}
	if v.Set.Len() == 0 {
		return fmt.Errorf("the validation set is empty: hold out at least one record")
	}
	if err := sameColumns(c.Train, v.Set); err != nil {
		return err
	}
	if err := data.Check(v.Set); err != nil {
		return fmt.Errorf("validation data: %w", err)
	}
	net, _, err := network.LowerEvaluation(c.Network, 1)
	if err != nil {
		return err
	}
	if v.width, err = v.widthFor(network.SignatureOf(net)); err != nil {
		return err
	}
	return c.checkValidationNoise()
}

func (c *Config) checkValidationNoise() error {
	v := &c.Validation
	if c.Mechanism.NonPrivate || v.Set == nil || v.Noise > 0 && !math.IsInf(v.Noise*max(1, v.width), 1) {
		return nil
	}
	of := "the number of correct predictions"
	if v.predictsTargets() {
		of = "the sum of errors in widths of the target's bounds"
	}
	return setting.Errorf("Validation.Noise", "%v: give a finite standard deviation above 0, of %s; without noise the result would be private data",
		setting.With("Validation.Noise", v.Noise), of)
}

// HoldOut moves a share of the training records of c to its validation set: see [Records.HoldOut]. Their
// number follows from public numbers. Where Sampling.Population declares the number of records, it
// becomes that of the records that are left.
func (c *Config) HoldOut(share float64) error {
	if !(share > 0 && share < 1) {
		return setting.Errorf("Validation.Share", "%v: give a share above 0 and below 1, usually 0.1", setting.With("Validation.Share", share))
	}
	records := c.PublicRecordCount()
	n := int(math.Round(share * float64(records)))
	if n < 1 || n >= records {
		return setting.Errorf("Validation.Share", "%v of %d records holds out %d: at least one record is needed for validation and one for training; change the share",
			setting.With("Validation.Share", share), records, n)
	}
	if c.Sampling.Population > 0 {
		c.Sampling.Population -= n
	}
	var err error
	c.Train, c.Validation.Set, err = c.Records.HoldOut(c.Train, n)
	return err
}

// widthFor returns the width of the bounds of the targets that validation compares
// predictions with; 0 where it compares labels. The error explains why it can compare neither.
func (v *Validation) widthFor(s network.Signature) (width float64, err error) {
	columns := v.Set.Columns()
	if err := s.Check(columns); err != nil {
		return 0, err
	}
	label, _ := s.ScoredLabel(columns)
	switch {
	case !v.predictsTargets() && label < 0:
		return 0, fmt.Errorf("validation counts correct predictions, and this network gives no scores for a label")
	case !v.predictsTargets():
		return 0, nil
	case s.TargetInput < 0:
		return 0, fmt.Errorf("validation needs labels or targets: the data have no label, and this network's loss is not a distance of its Output from a target, as layer.SquaredError is")
	case columns[s.TargetInput].Bounds == data.Bounds{}:
		return 0, fmt.Errorf("validation on targets in column %s, which have no bounds, so that one record could determine the error: scale the targets by public bounds (data.Bounds.Scaled) and set Column.Bounds", columns[s.TargetInput].Name)
	}
	return 2 * columns[s.TargetInput].ScaleFactor(), nil
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

// ValidationResult is the released accuracy on the held-out records, or the released error.
type ValidationResult struct {
	Accuracy  float64 // between 0 and 1; 0 for targets
	MAE       float64 // for targets the mean absolute error, in their own units: between 0 and the width of their bounds
	Score     float64 // for comparing runs, larger is better: the noised share of correct predictions, which may leave [0, 1]
	Deviation float64 // standard deviation of the noise in Accuracy or MAE; 0 where the run is not private
	Records   int     // held out
}

// Validate releases the quality of the run's weights on Config.Validation, once, through the
// Gaussian mechanism: the number of correct predictions or, where the data have targets and no
// labels, the sum of the scores of all predictions. The score of a prediction is 1 minus its
// distance from the target as a share of the width of the target's bounds. A prediction beyond
// the bounds counts as the nearest bound; NaN has score 0. A record counts as the mean of its
// labels or targets.
//
// A record counts between 0 and 1 for every content of the record and all weights, so adding,
// removing or replacing one changes the sum by at most 1, the sensitivity. The accuracy and the
// error are that sum, with its noise, in other units. The ledger contains the query before it is
// released, as a lot in which every held-out record takes part. It is composed with the training
// lots although their records differ: this holds however the records were divided (see
// [Records.HoldOut]). A budget given by StopAtEpsilon includes one validation from the start; where a
// resumed run has used that up, the error wraps [ErrBudget] and nothing is released.
func (r *Run) Validate() (ValidationResult, error) {
	v := &r.config.Validation
	switch {
	case v.Set == nil:
		return ValidationResult{}, fmt.Errorf("no records are held out: set Config.Validation")
	case r.fault != nil:
		return ValidationResult{}, r.fault
	case r.validated:
		return ValidationResult{}, fmt.Errorf("the %s was released already; use the result of the first call", v.releaseName())
	}
	parameters, err := r.BorrowParameters()
	if err != nil {
		return ValidationResult{}, err
	}
	number := r.lot.Sums.Find(release.ScoreWeights)
	entry := r.lot.Sums.List[number]
	var sum [1]float64
	noised := release.NewSum(entry.Query, entry.Size)
	err = r.config.scoreHeldOut(Values(parameters), func(score float64) {
		sum[0] += score
		noised.Add([]float64{score})
	})
	if err != nil {
		return ValidationResult{}, err
	}
	records := float64(entry.Records)
	out := ValidationResult{Records: entry.Records}
	if r.account != nil {
		if err := r.account.CheckSpent(v.releaseName()); err != nil {
			return ValidationResult{}, err
		}
		r.validated = true
		if err := r.account.SpendQuery(entry.Lot()); err != nil {
			return ValidationResult{}, err
		}
		if err := noised.Release(sum[:], r.lot.Sums.Source, r.lot.Sums.Stream(number, r.step)); err != nil {
			return ValidationResult{}, err
		}
		out.Deviation = v.Noise / records
	}
	out.Score = sum[0] / records
	out.Accuracy = min(max(out.Score, 0), 1)
	if v.predictsTargets() {
		out.Accuracy, out.MAE, out.Deviation = 0, (1-out.Accuracy)*v.width, out.Deviation*v.width
	}
	return out, nil
}

// scoreHeldOut calls add with the score of each held-out record with the given weights. The
// scores are private.
func (c *Config) scoreHeldOut(weights [][]float32, add func(score float64)) error {
	e, err := NewEvaluator(c.Network, c.Device)
	if err != nil {
		return err
	}
	defer e.Close()
	return e.RecordScores(weights, c.Validation.Set, c.Records, add)
}

// RecordScores calls add with the score of each record of a set, in their order: the share of correct
// predictions or, where the data have targets and no labels, 1 minus the error as a share of the
// width of the targets' bounds, as [Run.Validate] describes. A score is between 0 and 1 for every
// content of the record and all weights; a blank record has none. So a record changes the sum of the
// scores by at most 1, which is a sensitivity for package choice. Scores are private.
func (e *Evaluator) RecordScores(weights [][]float32, s data.Set, r Records, add func(score float64)) error {
	if _, err := (&Validation{Set: s}).widthFor(e.network.Signature); err != nil {
		return err
	}
	scores, err := e.exampleScores(weights, s)
	if err != nil {
		return err
	}
	index, err := r.index(s)
	if err != nil {
		return err
	}
	index.ForEachMean(scores, add)
	return nil
}

// exampleScores returns the score of each example of a set, which has labels or targets that
// the network predicts: see Validation.widthFor.
func (e *Evaluator) exampleScores(weights [][]float32, s data.Set) ([]float64, error) {
	if err := e.prepare(weights, s, e.network.Signature); err != nil {
		return nil, err
	}
	columns := s.Columns()
	column, outputs := e.network.Signature.ScoredLabel(columns)
	scoreOf := score.CorrectShare
	if column < 0 {
		column, outputs, scoreOf = e.network.Signature.TargetInput, 1, score.TargetScore
	}
	size := columns[column].Size()
	all := make([]float64, 0, s.Len())
	err := e.network.ForEachBatch(s, func(b *forward.Batch, _, n int) error {
		output := b.Executable.Output()
		for i := range n {
			all = append(all, scoreOf(b.Columns[column][i*size:(i+1)*size], output[i*size*outputs:(i+1)*size*outputs]))
		}
		return nil
	})
	return all, err
}

// HoldOut divides a private set into a training set and n held-out records: the last ones in the
// order of a public hash, so that neither the order of the data nor their classes decide. n must be
// a public number that does not depend on the records. Blank records come first in the order.
//
// The hash of another record is that of its digest and of the number of records before it with the
// same digest. The digest covers everything that determines what a record contributes: of each
// example whether it is blank and, if not, its numbers (of a window of a picture those of the whole
// picture), its weight and the states of its cells. So equal digests mean equal
// contributions, and it does not matter which of m equal records has which number: the division is
// a function of the set of the pairs (digest, number below m). Adding a record to m equal ones adds
// the pair with the number m and changes no other pair. Blank records have no number and no pair.
//
// Adding or removing a record therefore adds or removes one hash in the order. It changes the
// training set by at most that one record, and replaces at most one of the held-out records: where
// its hash is among the last n, the first of these changes sides. Replacing a record replaces at
// most one on each side. Blanking a record is like removing it, except that one more blank record is
// trained on, so that the sizes of both sides stay. Both sides may change at once, so their releases
// must be composed, in one ledger; parallel composition does not apply.
func (r Records) HoldOut(s data.Set, n int) (train, heldOut data.Set, err error) {
	d, err := r.index(s)
	if err != nil {
		return nil, nil, err
	}
	return d.Divide(s, n)
}
