package rundir

import (
	"errors"
	"io/fs"
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
)

// run.json has no confusion matrix for many classes or for the next token of a text.
func TestSetTestResult_Confusion(t *testing.T) {
	for classes, kept := range map[int]bool{MaxConfusionClasses: true, MaxConfusionClasses + 1: false} {
		for _, next := range []bool{false, true} {
			var s Summary
			s.SetTestResult(&engine.Evaluation{Labels: 1, Confusion: make([][]int, classes)}, &data.Task{Schema: data.Schema{PredictNext: next}})
			if (s.Confusion != nil) != (kept && !next) {
				t.Errorf("of %d classes, of the next token %v: %d rows are kept", classes, next, len(s.Confusion))
			}
		}
	}
}

func TestValidation_Print(t *testing.T) {
	half := 0.5
	var one strings.Builder
	(&Validation{Accuracy: &half, Deviation: 0.1, Records: 1}).Print(&one, "")
	if want := "validation\t50.00% ± 10.00% (noise) on 1 private record held out; ε includes its cost\n"; one.String() != want {
		t.Errorf("%q, want %q", &one, want)
	}
}

// What a summary states is read again: numbers that JSON cannot write, and parts that are absent.
func TestRead_ReturnsWhatWasWritten(t *testing.T) {
	half, dir := 0.5, t.TempDir()
	s := &Summary{Epsilon: number.Float(math.Inf(1)), TestAccuracy: number.Float(math.NaN()), Validation: &Validation{Accuracy: &half, Records: 3},
		Lots: Lots{Steps: 7, LocalTraining: LocalTraining{LocalSteps: 2}}, Settings: Settings{Optimizer: "sgd"}}
	if err := s.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil || !math.IsInf(float64(got.Epsilon), 1) || !math.IsNaN(float64(got.TestAccuracy)) || got.Steps != 7 || got.LocalSteps != 2 || got.Optimizer != "sgd" {
		t.Errorf("%+v, %v", got, err)
	}
	if got.Validation == nil || *got.Validation.Accuracy != half || got.Projection != nil || got.RegressionMetrics != nil || got.Measures != nil {
		t.Errorf("the parts are %+v, %v, %v, %v", got.Validation, got.Projection, got.RegressionMetrics, got.Measures)
	}
	if _, err := Read(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}
