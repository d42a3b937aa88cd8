package engine

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/forward"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/noise"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// newRegressionNetwork is a dense layer with a loss of its targets.
func newRegressionNetwork(in, out int, loss func(n *layer.Builder, prediction, target *G.Node) *G.Node) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		x, y := n.Input("x", in), n.Input("y", out)
		prediction := layer.Dense(n, x, "fc", out, layer.Identity)
		n.SetLoss(loss(n, prediction, y), prediction)
		return n.Network()
	}
}

// newTargetTable returns examples with normal features, and targets around base.
func newTargetTable(t *testing.T, count, in, out int, base float64) data.Set {
	t.Helper()
	r := rand.New(rand.NewPCG(4, 1))
	x, y := make([]float32, count*in), make([]float32, count*out)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for i := range y {
		y[i] = float32(base + float64(i%out) + 2*r.NormFloat64())
	}
	set, err := data.NewTable([]data.Column{
		{Name: "x", Shape: []int{in}}, {Name: "y", Kind: data.Target, Shape: []int{out}},
	}, [][]float32{x, y}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// The clipped sum of a lot moves the weights of a linear regression as a float64 computation by
// hand does, with records above the bound and below it.
func TestRegression_StepMatchesReference(t *testing.T) {
	const in, records, bound = 3, 60, 6
	c := floatConfig(t)
	c.Network = newRegressionNetwork(in, 1, layer.SquaredError)
	c.Mechanism.Clipping = clip.Flat(clip.Constant(bound), nil)
	c.Train, c.Steps, c.Microbatch, c.Optimization.Schedule = newTargetTable(t, records, in, 1, 0), 4, 5, optim.Schedule{Base: 0.2}
	run := newRun(t, c)
	disableNoise(run)
	var weight []float64
	for _, w := range flatWeights(t, run) {
		weight = append(weight, float64(w))
	}
	trainRun(t, run, nil)

	lots, err := sample.NewPoisson(float64(c.Sampling.Lot)/records, records, noise.NewSeeded(*c.Seed))
	if err != nil {
		t.Fatal(err)
	}
	members, x, y := make([]int, records), make([]float32, in), make([]float32, 1)
	clipped, whole := 0, 0
	for step := range c.Steps {
		if err := lots.StartLot(uint64(step)); err != nil {
			t.Fatal(err)
		}
		n, err := lots.Next(members)
		if err != nil {
			t.Fatal(err)
		}
		sum := make([]float64, in+1)
		for _, m := range members[:n] {
			if err := c.Train.Read([][]float32{x, y}, []int{m}); err != nil {
				t.Fatal(err)
			}
			one, off := [in + 1]float64{in: 1}, weight[in]-float64(y[0])
			for k, v := range x {
				one[k] = float64(v)
				off += float64(v) * weight[k]
			}
			var square float64
			for k := range one {
				one[k] *= 2 * off
				square += one[k] * one[k]
			}
			factor := min(1, bound/math.Sqrt(square))
			if factor < 1 {
				clipped++
			} else {
				whole++
			}
			for k, g := range one {
				sum[k] += factor * g
			}
		}
		for k, s := range sum {
			weight[k] -= c.Optimization.Schedule.Base / float64(c.Sampling.Lot) * s
		}
	}
	var want []float32
	for _, w := range weight {
		want = append(want, float32(w))
	}
	if d := relativeDistance(flatWeights(t, run), want); d > 1e-5 || clipped < 5 || whole < 5 {
		t.Errorf("off by %g, with %d gradients clipped and %d whole", d, clipped, whole)
	}
}

// The errors of predicted targets are those of a float64 computation in two passes, also for
// targets far from 0; there are none where the output is no prediction.
func TestEvaluator_ErrorsOfTargets(t *testing.T) {
	const in = 2
	w := []float32{1, -2, 3, 0.5, 7, 100}
	for _, c := range []struct {
		count, out int
		base       float64
	}{{1, 1, 0}, {3, 1, 0}, {forward.LargestBatch + 5, 2, 0}, {2 * forward.LargestBatch, 2, 1e6}} {
		weights := [][]float32{w[:in*c.out], w[4 : 4+c.out]}
		set := newTargetTable(t, c.count, in, c.out, c.base)
		e := newTestEvaluator(t, newRegressionNetwork(in, c.out, layer.SquaredError))
		got, err := e.Score(weights, set)
		if err != nil {
			t.Fatal(err)
		}
		answers, err := e.Predictions(weights, set)
		if err != nil {
			t.Fatal(err)
		}
		x, y := make([]float32, c.count*in), make([]float32, c.count*c.out)
		rows := make([]int, c.count)
		for i := range rows {
			rows[i] = i
		}
		if err := set.Read([][]float32{x, y}, rows); err != nil {
			t.Fatal(err)
		}
		mean := make([]float64, c.out)
		for i, v := range y {
			mean[i%c.out] += float64(v) / float64(c.count)
		}
		var squared, absolute, varied float64
		for i, v := range y {
			off := float64(answers[i/c.out][i%c.out]) - float64(v)
			squared += off * off
			absolute += math.Abs(off)
			varied += (float64(v) - mean[i%c.out]) * (float64(v) - mean[i%c.out])
		}
		n := float64(len(y))
		want := Evaluation{RMSE: math.Sqrt(squared / n), MAE: absolute / n, R2: 1 - squared/varied}
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }
		if got.Targets != len(y) || got.Labels != 0 || !near(got.RMSE, want.RMSE) || !near(got.MAE, want.MAE) || c.count > 1 && !near(got.R2, want.R2) {
			t.Errorf("%+v: %d targets, %+v; want %+v", c, got.Targets, got, want)
		}
		if c.count == 1 && !math.IsNaN(got.R2) {
			t.Errorf("R² of one target is %v", got.R2)
		}
	}
	for name, loss := range map[string]func(n *layer.Builder, prediction, target *G.Node) *G.Node{
		"absolute": layer.AbsoluteError,
		"Huber": func(n *layer.Builder, prediction, target *G.Node) *G.Node {
			return layer.HuberLoss(n, prediction, target, 1)
		},
		"Poisson": layer.PoissonLoss,
	} {
		got, err := newTestEvaluator(t, newRegressionNetwork(in, 1, loss)).Score([][]float32{{1, 1}, {0}}, newTargetTable(t, 4, in, 1, 0))
		if err != nil {
			t.Fatal(err)
		}
		if hasTargets := got.Targets == 4; hasTargets == (name == "Poisson") || !hasTargets && (got.RMSE != 0 || got.MAE != 0 || got.R2 != 0) {
			t.Errorf("%s: %d targets, %+v", name, got.Targets, got)
		}
	}
}
