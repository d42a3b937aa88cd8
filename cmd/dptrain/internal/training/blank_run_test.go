package training

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/models"
)

// newBlankDigits makes a blank run with lots of all digits, in microbatches of one.
func newBlankDigits(t *testing.T) *BlankRun {
	digits := data.Digits()
	build, err := models.Parse("mlp:16", models.DataSpec{Shape: digits.Train.Columns()[0].Shape, Classes: digits.Train.Columns()[1].Classes}, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewBlankRun(engine.Config{Network: build, Train: digits.Train, Sampling: engine.Sampling{Rate: 1}, Steps: 1000, Microbatch: 1,
		Mechanism:    engine.Mechanism{Clipping: clip.Flat(clip.Constant(1), nil), NoiseMultiplier: 1},
		Budget:       engine.Budget{Delta: 1e-6},
		Optimization: engine.Optimization{Optimizer: optim.Optimizer{Kind: optim.KindSGD}, Schedule: optim.Schedule{Base: 1}},
		Device:       engine.DeviceOptions{Name: "cpu", Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// A lot that takes long is not computed whole, and its duration follows from its first records.
func TestBlankRun_EstimatesFromPartOfLot(t *testing.T) {
	part, whole := newBlankDigits(t), newBlankDigits(t)
	estimated, err := part.EstimateDuration(1, 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	expected := part.Describe().ExpectedLot
	if n := part.LoadedRecords(); part.StepsDone() > 0 || n == 0 || float64(n) > expected/2 {
		t.Fatalf("%d lots and %d of %v records were computed in a few milliseconds", part.StepsDone(), n, expected)
	}
	began := time.Now()
	if err := whole.Train(context.Background(), func(*engine.Progress) error { return engine.ErrStop }); err != nil {
		t.Fatal(err)
	}
	measured := time.Since(began).Seconds()
	if math.Abs(math.Log(estimated/measured)) > math.Log(10) { // other programs use the processor as well
		t.Errorf("a lot is to take %v s, and takes %v s", estimated, measured)
	}
}
