package rundir

import (
	"strings"
	"testing"

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
