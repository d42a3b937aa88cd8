package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/terminal"
)

// validationShare is what the validation may cost alone, as a share of
// the run's ε, where its noise is not given. Composed with the lots it costs less.
const validationShare = 0.05

// validated is the released accuracy on the private records that were held out, or the
// error, as run.json has it.
type validated struct {
	ValidationAccuracy  *float64 `json:"validation_accuracy,omitempty"`
	ValidationMAE       *float64 `json:"validation_mae,omitempty"` // in place of it, of a target in its own units
	ValidationDeviation float64  `json:"validation_deviation"`     // of the noise in either
	ValidationNoise     float64  `json:"validation_noise"`         // σ on what job.hidden says
	ValidationRecords   int      `json:"validation_records"`
}

// measure is what is released of records held out.
func (j *job) measure() string {
	if j.example.Targets > 0 {
		return "error"
	}
	return "accuracy"
}

// holdOut sets private records aside: a number of them that follows from public
// ones, whatever they hold.
func (j *job) holdOut() error {
	s, c := j.set, &j.config
	j.records = engine.RecordCount(c.Train, c.Records)
	if !s.given["validation-split"] {
		if s.given["validation-noise"] {
			return exitcode.Usagef("--validation-noise %v: nothing is held out that it could hide; give --validation-split too", s.validationNoise)
		}
		return nil
	}
	switch {
	case !(s.validationSplit > 0 && s.validationSplit < 1):
		return exitcode.Usagef("--validation-split %v: give a share above 0 and below 1, usually 0.1", s.validationSplit)
	case s.given["validation-noise"] && (!(s.validationNoise > 0) || math.IsInf(s.validationNoise, 0)):
		return exitcode.Usagef("--validation-noise %v: give a standard deviation above 0, for their %s", s.validationNoise, j.hidden())
	}
	held := int(math.Round(s.validationSplit * float64(j.records)))
	if held < 1 || held >= j.records {
		return exitcode.Usagef("--validation-split %v of %d records is %d: at least one is needed to validate on, and one to train on", s.validationSplit, j.records, held)
	}
	var err error
	c.Train, c.Validation.Set, err = engine.HoldOut(c.Train, c.Records, held)
	return err
}

func (j *job) hideValidation(budget float64) (err error) {
	c := &j.config
	if c.Validation.Set == nil {
		return nil
	}
	if !j.set.given["validation-noise"] {
		if j.set.validationNoise, err = j.alone(j.validationShare, budget, j.validationSampling()); err != nil {
			return fmt.Errorf("--validation-split: %w; give --validation-noise", err)
		}
		j.set.given["validation-noise"] = true
	}
	c.Validation.Noise = j.set.validationNoise
	return nil
}

func (j *job) validationSampling() ledger.Sampling {
	return ledger.Sampling{Policy: ledger.FullBatch, Records: engine.RecordCount(j.config.Validation.Set, j.config.Records)}
}

// hidden is what of records held out gets noise.
func (j *job) hidden() string {
	if j.example.Targets > 0 {
		return "sum of errors in widths of the target's bounds"
	}
	return "count of right answers"
}

// validate releases the accuracy on the held-out records of a run that ended, or the
// error; nil where none are held out. A run that was resumed with nothing left to do
// keeps what was released for the same weights.
func validate(term *terminal.Terminal, j *job, run *engine.Run, lots int) (*validated, error) {
	if j.config.Validation.Set == nil {
		return nil, nil
	}
	if lots == 0 {
		if known := readValidated(j.out, run.StepsDone()); known != nil && (known.ValidationMAE != nil) == (j.example.Targets > 0) {
			return known, nil
		}
	}
	got, err := run.Validate()
	if errors.Is(err, engine.ErrBudget) {
		term.Note("No validation %s: %v.", j.measure(), err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := &validated{ValidationDeviation: got.Deviation, ValidationNoise: j.config.Validation.Noise, ValidationRecords: got.Records}
	if j.example.Targets > 0 {
		v.ValidationMAE = &got.MAE
	} else {
		v.ValidationAccuracy = &got.Accuracy
	}
	return v, nil
}

// readValidated is what a run's summary has of a validation of the weights after so
// many lots.
func readValidated(dir string, steps int) *validated {
	text, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil {
		return nil
	}
	var saved struct {
		validated
		Steps int `json:"steps"`
	}
	if json.Unmarshal(text, &saved) != nil || saved.ValidationAccuracy == nil && saved.ValidationMAE == nil || saved.Steps != steps {
		return nil
	}
	return &saved.validated
}

// print writes the row of a table; the target is "" where a class is predicted.
func (v *validated) print(w io.Writer, target string) {
	if target != "" {
		fmt.Fprintf(w, "validation\tMAE %s of %s, answers beyond its limits counting as these,", noisy(*v.ValidationMAE, v.ValidationDeviation), target)
	} else {
		fmt.Fprintf(w, "validation\t%s", noisyShare(*v.ValidationAccuracy, v.ValidationDeviation))
	}
	if v.ValidationDeviation == 0 {
		fmt.Fprintf(w, " on %s held out\n", number.Plural(v.ValidationRecords, "record"))
		return
	}
	fmt.Fprintf(w, " on %s held out; paid for\n", number.Plural(v.ValidationRecords, "private record"))
}

// noisy is a released number, and noisyShare a share, with the deviation of its noise.
func noisy(x, deviation float64) string {
	if deviation == 0 {
		return number.Short(x)
	}
	return fmt.Sprintf("%s ± %.2g (noise)", number.Short(x), deviation)
}

func noisyShare(x, deviation float64) string {
	if deviation == 0 {
		return fmt.Sprintf("%.2f%%", 100*x)
	}
	return fmt.Sprintf("%.2f%% ± %.2f%% (noise)", 100*x, 100*deviation)
}
