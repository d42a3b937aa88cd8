package models_test

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/models"
)

// The prediction of a target stays within its bounds, whatever the weights are; within them it is
// that of the network, and the loss keeps its slope outside.
func TestParse_PredictionsStayWithinBounds(t *testing.T) {
	build, err := models.Parse("logistic", models.DataSpec{Shape: []int{1}, Targets: 1}, 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.NewEvaluator(build, engine.DeviceOptions{Name: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	set, err := data.NewTable([]data.Column{{Name: "x", Shape: []int{1}}, {Name: "y", Kind: data.Target}},
		[][]float32{{-1, -0.5, 0, 0.25, 1}, {0, 0, 0, 0, 0}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	weights := [][]float32{{3}, {0.125}} // weight and bias
	predicted, err := e.Predictions(weights, set)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{-1, -1, 0.125, 0.875, 1} {
		if got := float64(predicted[i][0]); math.Abs(got-want) > 1e-6 || got < -1 || got > 1 {
			t.Errorf("example %d: %v, want %v", i, got, want)
		}
	}
	score, err := e.Score(weights, set)
	if err != nil {
		t.Fatal(err)
	}
	if want := math.Sqrt((1 + 1 + 0.125*0.125 + 0.875*0.875 + 1) / 5); score.Targets != 5 || math.Abs(score.RMSE-want) > 1e-6 {
		t.Errorf("RMSE %v of %d targets, want %v", score.RMSE, score.Targets, want)
	}
	if want := (2.875*2.875 + 1.375*1.375 + 0.125*0.125 + 0.875*0.875 + 3.125*3.125) / 5; math.Abs(score.Loss-want) > 1e-5 {
		t.Errorf("loss %v, want %v, that of the unlimited output", score.Loss, want)
	}
}
