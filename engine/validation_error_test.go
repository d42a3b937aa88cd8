package engine

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/internal/score"
	"github.com/dptrain/dptrain/models/layer"
)

// targetBounds contain most of the targets.
var targetBounds = data.Bounds{10, 90}

// targetsOfUsers returns features and targets in their own units, of three examples per owner.
func targetsOfUsers(count, in, out int, seed uint64) (x, y []float32, users []int32) {
	r := rand.New(rand.NewPCG(seed, 6))
	x, y, users = make([]float32, count*in), make([]float32, count*out), make([]int32, count)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	for i := range y {
		y[i] = float32(50 + 30*r.NormFloat64())
	}
	for i := range users {
		users[i] = int32(i / 3)
	}
	return x, y, users
}

// newScaledTargets returns a set of features and scaled targets.
func newScaledTargets(t *testing.T, in, out int, x, y []float32, users []int32) data.Set {
	t.Helper()
	numbers := make([]float32, len(y))
	for i, v := range y {
		numbers[i] = targetBounds.Scale(float64(v))
	}
	set, err := data.NewTable([]data.Column{
		{Name: "x", Shape: []int{in}}, {Name: "y", Kind: data.Target, Shape: []int{out}, Bounds: targetBounds},
	}, [][]float32{x, numbers}, users)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// targetValidationConfig is a run that predicts two targets, with a validation.
func targetValidationConfig(t *testing.T, sigma float64) Config {
	t.Helper()
	const in, out = 3, 2
	set := func(count int, seed uint64) data.Set {
		x, y, users := targetsOfUsers(count, in, out, seed)
		return newScaledTargets(t, in, out, x, y, users)
	}
	c := testConfig(t)
	c.Network, c.Train = newRegressionNetwork(in, out, layer.SquaredError), set(60, 1)
	c.Validation = Validation{Set: set(40, 2), Noise: sigma}
	return c
}

// The released error of targets is the records' mean absolute error in their own units, as
// float64 computes it from the predictions one by one. Predictions beyond the bounds count as
// the bound; NaN counts as an error of the whole width.
func TestValidate_MeanAbsoluteError(t *testing.T) {
	const in, out, count, tiny = 3, 2, 40, 1e-9
	x, y, _ := targetsOfUsers(count, in, out, 2)
	width := targetBounds[1] - targetBounds[0]
	for name, weight := range map[string]float32{"near": 0.3, "far": 40, "no number": float32(math.NaN()), "beyond": float32(math.Inf(1))} {
		for _, records := range []Records{{}, {Examples: 7}, {Users: true, Examples: 2}} {
			c := targetValidationConfig(t, tiny)
			c.Records, c.Sampling.Lot = records, 4
			r := trainedRun(t, c)
			w := flatWeights(t, r)
			parameters, err := r.BorrowParameters()
			if err != nil {
				t.Fatal(err)
			}
			k := 0
			for _, p := range parameters {
				for i := range p.Values {
					p.Values[i] = weight * float32(1+k%3)
					w[k], k = p.Values[i], k+1
				}
			}
			step, most := max(1, records.Examples), count // examples of a record, and examples that take part
			if records.Users {
				step, most = 3, records.Examples
			}
			var sum float64
			owners := 0
			for first := 0; first < count; first += step {
				n := min(step, most, count-first)
				for row := first; row < first+n; row++ {
					for k := range out {
						answer := float64(w[in*out+k])
						for i := range in {
							answer += float64(x[row*in+i]) * float64(w[i*out+k])
						}
						missed := width
						if !math.IsNaN(answer) {
							held := func(v float64) float64 { return min(max(v, targetBounds[0]), targetBounds[1]) }
							missed = math.Abs(held(targetBounds.Unscale(answer)) - held(float64(y[row*out+k])))
						}
						sum += missed / float64(out*n)
					}
				}
				owners++
			}
			got, err := r.Validate()
			if err != nil {
				t.Fatal(err)
			}
			want := sum / float64(owners)
			if !(math.Abs(got.MAE-want) <= 1e-4) || got.Records != owners || got.Accuracy != 0 || math.Abs(got.Score-(1-want/width)) > 1e-5 || math.Abs(got.Deviation*float64(owners)-tiny*width) > 1e-15 {
				t.Errorf("%s, %+v: %+v, want %v of %d records", name, records, got, want, owners)
			}
			if name == "no number" && got.MAE < 0.999*width {
				t.Errorf("answers that are no numbers miss by %v of %v", got.MAE, width)
			}
			last := readLedger(t, c.Files.Ledger).Lots
			query := r.config.arithmetic().Query("validation error", 1, tiny, release.StatisticLattice, owners)
			if lot := last[len(last)-1].Lot; lot.Sampling.Policy != ledger.FullBatch || lot.Sampling.Records != owners || len(lot.Queries) != 1 || lot.Queries[0] != query {
				t.Errorf("%s, %+v: the ledger ends with %+v", name, records, lot)
			}
		}
	}
}

// The errors of an evaluation on scaled targets are in the targets' own units.
func TestEvaluator_ErrorsOfScaledTargets(t *testing.T) {
	const in, out, count = 3, 2, 20
	x, y, _ := targetsOfUsers(count, in, out, 3)
	set := newScaledTargets(t, in, out, x, y, nil)
	numbers := [][]float32{make([]float32, len(x)), make([]float32, len(y))}
	rows := make([]int, count)
	for i := range rows {
		rows[i] = i
	}
	if err := set.Read(numbers, rows); err != nil {
		t.Fatal(err)
	}
	plain, err := data.NewTable([]data.Column{{Name: "x", Shape: []int{in}}, {Name: "y", Kind: data.Target, Shape: []int{out}}}, numbers, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := newTestEvaluator(t, newRegressionNetwork(in, out, layer.SquaredError))
	got, err := e.Score(e.Weights(), set)
	if err != nil {
		t.Fatal(err)
	}
	one, err := e.Score(e.Weights(), plain)
	if err != nil {
		t.Fatal(err)
	}
	if unit := targetBounds.ScaleFactor(); got.RMSE != unit*one.RMSE || got.MAE != unit*one.MAE || got.R2 != one.R2 || got.RMSE == 0 {
		t.Errorf("%+v, want %v times %+v", got, unit, one)
	}
}

// Adding, removing or replacing a record changes the sum over targets by at most the
// sensitivity, 1, before noise, for every content and all weights.
func TestValidate_SensitivityOfError(t *testing.T) {
	const in, out, count = 3, 2, 30
	r := rand.New(rand.NewPCG(8, 8))
	wild := func() float32 {
		return []float32{float32(r.NormFloat64()), float32(1e3 * r.NormFloat64()), 1e38, -1e38, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[r.IntN(7)]
	}
	e := newTestEvaluator(t, newRegressionNetwork(in, out, layer.SquaredError))
	most := 0.0
	for range 60 {
		w := [][]float32{make([]float32, in*out), make([]float32, out)}
		for _, part := range w {
			for i := range part {
				part[i] = float32(r.NormFloat64())
				if r.IntN(4) == 0 {
					part[i] = wild()
				}
			}
		}
		x, y, users := targetsOfUsers(count, in, out, r.Uint64())
		for records, size := range map[Records]int{{}: 1, {Examples: 5}: 5, {Users: true, Examples: 2}: 3} {
			sum := func(x, y []float32, users []int32) float64 {
				s := newScaledTargets(t, in, out, x, y, users)
				shares, err := e.exampleScores(w, s)
				if err != nil {
					t.Fatal(err)
				}
				all, err := sumOfRecordMeans(shares, s, records)
				if err != nil {
					t.Fatal(err)
				}
				return all
			}
			rest := count - size // without the last record
			otherX, otherY := slices.Clone(x), slices.Clone(y)
			for i := rest * in; i < count*in; i++ {
				otherX[i] = float32(100 * r.NormFloat64())
			}
			for i := rest * out; i < count*out; i++ {
				y[i], otherY[i] = -1e4, 1e4
			}
			whole, less, other := sum(x, y, users), sum(x[:rest*in], y[:rest*out], users[:rest]), sum(otherX, otherY, users)
			for what, moved := range map[string]float64{"less": whole - less, "another": math.Abs(whole - other)} {
				if !(moved >= -1e-9 && moved <= 1+1e-9) {
					t.Errorf("%+v: one record %s changes the sum by %v", records, what, moved)
				}
				most = max(most, moved)
			}
		}
	}
	if most < 0.99 {
		t.Errorf("no record changed the sum by more than %v: the test has little power", most)
	}
	for range 1000 { // targets, too, for any values of a custom set
		if n := score.TargetScore([]float32{wild(), wild()}, []float32{wild(), wild()}); !(n >= 0 && n <= 1) {
			t.Fatalf("an example counts %v", n)
		}
	}
}

// A budget includes the validation error, which is released once and never without payment.
func TestValidate_ErrorIsInBudget(t *testing.T) {
	c := targetValidationConfig(t, 2)
	c.Steps, c.Budget.StopAtEpsilon, c.Budget.Delta, c.Files.CheckpointFolder = 1000, 8, 1e-5, t.TempDir()
	r := trainedRun(t, c)
	if r.StepsDone() < 1 || r.StepsDone() >= 1000 {
		t.Fatalf("%d lots", r.StepsDone())
	}
	if _, err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Validate(); err == nil || !strings.Contains(err.Error(), "the validation error was released already") {
		t.Errorf("a second release: %v", err)
	}
	r.Close()
	if spent, err := r.Spent("rdp"); err != nil || spent.Epsilon > 8 || spent.Epsilon < 7 {
		t.Errorf("ε = %v of 8 (%v)", spent.Epsilon, err)
	}
	c.Steps = r.StepsDone()
	again, err := Resume(c)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got, err := again.Validate(); !errors.Is(err, ErrBudget) || got != (ValidationResult{}) || !strings.Contains(fmt.Sprint(err), "the validation error would") {
		t.Errorf("beyond the budget: %+v, %v", got, err)
	}

	// Runs whose errors the noise moves to a limit remain distinguishable. A score between 0
	// and 1 has a chance of 2e-5 (and the seed is fixed).
	r = trainedRun(t, targetValidationConfig(t, 1e6))
	if got, err := r.Validate(); err != nil || got.Score >= 0 && got.Score <= 1 || got.MAE != 0 && got.MAE != targetBounds[1]-targetBounds[0] {
		t.Errorf("behind much noise: %+v, %v", got, err)
	}

	r = trainedRun(t, targetValidationConfig(t, 2))
	r.account.Ledger.Close() // later writes fail
	if got, err := r.Validate(); err == nil || got != (ValidationResult{}) {
		t.Errorf("without a ledger entry: %+v, %v", got, err)
	}
}

func TestValidate_ErrorRefuses(t *testing.T) {
	const in, out = 3, 2
	for want, change := range map[string]func(c *Config){
		"have no bounds": func(c *Config) {
			c.Train, c.Validation.Set = newTargetTable(t, 60, in, out, 0), newTargetTable(t, 10, in, out, 0)
		},
		"differs in shape, classes or bounds": func(c *Config) { c.Validation.Set = newTargetTable(t, 10, in, out, 0) },
		"not a distance of its Output": func(c *Config) {
			c.Network = newRegressionNetwork(in, out, layer.PoissonLoss)
		},
		"standard deviation above 0": func(c *Config) { c.Validation.Noise = math.MaxFloat64 / 2 },
		"inputs and the data": func(c *Config) {
			c.Network = linearNetwork(2)
		},
	} {
		c := targetValidationConfig(t, 4)
		change(&c)
		r, err := New(c)
		if err == nil {
			r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want %q in one line", err, want)
		}
	}
}
