package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/engine"
)

// validationShare is what the validation accuracy may cost alone, as a share of
// the run's ε, where its noise is not given. Composed with the lots it costs less.
const validationShare = 0.05

// validated is the released accuracy on the private records that were held out, as
// run.json has it.
type validated struct {
	ValidationAccuracy  float64 `json:"validation_accuracy"`
	ValidationDeviation float64 `json:"validation_deviation"` // of the noise in it
	ValidationNoise     float64 `json:"validation_noise"`     // σ on the count of right answers
	ValidationRecords   int     `json:"validation_records"`
}

// holdOut sets private records aside: a number of them that follows from public
// ones, whatever they hold.
func (j *job) holdOut() error {
	s, c := j.set, &j.config
	j.records = engine.RecordCount(c.Train, c.Records)
	if !s.given["validation-split"] {
		if s.given["validation-noise"] {
			return wrong("--validation-noise %v: nothing is held out that it could hide; give --validation-split too", s.validationNoise)
		}
		return nil
	}
	switch {
	case j.example.Targets > 0:
		return wrong("--validation-split %v: what is released of held-out records is their count of right answers, and a number is never predicted right: leave it out, and test on public rows", s.validationSplit)
	case !(s.validationSplit > 0 && s.validationSplit < 1):
		return wrong("--validation-split %v: give a share above 0 and below 1, usually 0.1", s.validationSplit)
	case s.given["validation-noise"] && (!(s.validationNoise > 0) || math.IsInf(s.validationNoise, 0)):
		return wrong("--validation-noise %v: give a standard deviation above 0, in right answers", s.validationNoise)
	case j.records == 0: // New says why
		return nil
	}
	held := int(math.Round(s.validationSplit * float64(j.records)))
	if held < 1 || held >= j.records {
		return wrong("--validation-split %v of %d records is %d: at least one is needed to validate on, and one to train on", s.validationSplit, j.records, held)
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

func (j *job) validationSampling() accountant.Sampling {
	return accountant.Sampling{Policy: accountant.Every, Records: engine.RecordCount(j.config.Validation.Set, j.config.Records)}
}

// validate releases the accuracy on the held-out records of a run that ended; nil
// where none are held out. A run that was resumed with nothing left to do keeps
// the accuracy that was released for the same weights.
func (s *screen) validate(j *job, run *engine.Run, lots int) (*validated, error) {
	if j.config.Validation.Set == nil {
		return nil, nil
	}
	if lots == 0 {
		if known := readValidated(j.out, run.Steps()); known != nil {
			return known, nil
		}
	}
	got, err := run.Validate()
	if errors.Is(err, engine.ErrBudget) {
		s.note("No validation accuracy: %v.", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &validated{got.Accuracy, got.Deviation, j.config.Validation.Noise, got.Records}, nil
}

// readValidated is the accuracy that a run's summary has for the weights after so
// many lots.
func readValidated(dir string, steps int) *validated {
	text, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil {
		return nil
	}
	var saved struct {
		validated
		Steps    int      `json:"steps"`
		Accuracy *float64 `json:"validation_accuracy"`
	}
	if json.Unmarshal(text, &saved) != nil || saved.Accuracy == nil || saved.Steps != steps {
		return nil
	}
	saved.ValidationAccuracy = *saved.Accuracy
	return &saved.validated
}

func (v *validated) print(w io.Writer) {
	if v.ValidationDeviation == 0 {
		fmt.Fprintf(w, "validation\t%.2f%% on %d records held out\n", 100*v.ValidationAccuracy, v.ValidationRecords)
		return
	}
	fmt.Fprintf(w, "validation\t%.2f%% ± %.2f%% (noise) on %d private records held out; paid for\n",
		100*v.ValidationAccuracy, 100*v.ValidationDeviation, v.ValidationRecords)
}
