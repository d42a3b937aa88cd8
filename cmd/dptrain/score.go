package main

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/number"
)

// score measures weights on the test set.
func score(j *job, parameters []engine.Parameter) (engine.Evaluation, error) {
	e, err := engine.NewEvaluator(j.config.Network, j.set.place())
	if err != nil {
		return engine.Evaluation{}, err
	}
	defer e.Close()
	got, err := e.Score(engine.Values(parameters), j.task.Test)
	if err == nil && got.Labels == 0 && got.Targets == 0 {
		err = errNoScore
	}
	return got, err
}

// errNoScore is what settings cannot be compared without.
var errNoScore = errors.New("the network gives no scores for a label, so no accuracy can be compared")

// merit is what settings are compared by, the more the better: the accuracy, or the negative
// RMSE. One that is no number is worse than all that are.
func merit(e *engine.Evaluation) float64 {
	switch {
	case e.Targets == 0:
		return e.Accuracy
	case math.IsNaN(e.RMSE):
		return -math.MaxFloat64
	}
	return max(-e.RMSE, -math.MaxFloat64)
}

// meritWords are the same in words.
func meritWords(e *engine.Evaluation) string {
	if m := missedOf(e); m != nil {
		return "RMSE " + number.Short(e.RMSE)
	}
	return fmt.Sprintf("%.2f%%", 100*e.Accuracy)
}

// missed is by how much a regression misses the public test data's targets, as run.json
// and metrics.jsonl have it.
type missed struct {
	RMSE number.Float `json:"test_rmse"`
	MAE  number.Float `json:"test_mae"`
	R2   number.Float `json:"test_r2"` // null where the targets do not vary
}

// finite is a number, or null in place of one beyond all bounds.
func finite(x float64) number.Float {
	if math.IsInf(x, 0) {
		return number.Float(math.NaN())
	}
	return number.Float(x)
}

// missedOf is nil where nothing was to be predicted but a class.
func missedOf(e *engine.Evaluation) *missed {
	if e == nil || e.Targets == 0 {
		return nil
	}
	return &missed{finite(e.RMSE), finite(e.MAE), finite(e.R2)}
}

// print writes the rows of a table.
func (m *missed) print(w io.Writer, of string) {
	fmt.Fprintf(w, "RMSE\t%s%s\nMAE\t%s\n", number.Short(float64(m.RMSE)), of, number.Short(float64(m.MAE)))
	if r := float64(m.R2); !math.IsNaN(r) {
		fmt.Fprintf(w, "R²\t%s\n", number.Short(r))
	}
}
