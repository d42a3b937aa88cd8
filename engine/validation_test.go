package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/noise"
	"github.com/dptrain/dptrain/perexample"
)

// validationConfig is a testConfig with a validation.
func validationConfig(t *testing.T, sigma float64) Config {
	t.Helper()
	c := testConfig(t)
	c.Validation = Validation{Set: mlpExamples(400, 9), Noise: sigma}
	return c
}

func trainedRun(t *testing.T, c Config) *Run {
	t.Helper()
	r := newRun(t, c)
	if err := r.Train(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// The released accuracy is the count with noise of the stated deviation. Over 200 keys, the
// noise's mean and variance lie within 5.5 of their deviations: a false alarm in 1e7 (and the
// seeds are fixed).
func TestValidate_Noise(t *testing.T) {
	c := validationConfig(t, 8)
	c.Mechanism.NonPrivate, c.Files.Ledger = true, ""
	r := trainedRun(t, c)
	exact, err := r.Validate()
	if err != nil {
		t.Fatal(err)
	}
	parameters, err := r.Parameters()
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEvaluator(c.Network, DeviceOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	weights := make([][]float32, len(parameters))
	for i, p := range parameters {
		weights[i] = p.Values
	}
	want, err := e.Score(weights, c.Validation.Set)
	if err != nil {
		t.Fatal(err)
	}
	if exact.Accuracy != want.Accuracy || exact.Deviation != 0 || exact.Records != 400 {
		t.Errorf("without privacy: %+v, the evaluator gives %v", exact, want.Accuracy)
	}
	r.Close()

	const keys = 200
	c = validationConfig(t, 8)
	c.Mechanism.Arithmetic = FloatArithmetic
	r = trainedRun(t, c)
	parameters, err = r.BorrowParameters()
	if err != nil {
		t.Fatal(err)
	}
	base, err := sumOverHeldOut(&r.config, Values(parameters))
	if err != nil {
		t.Fatal(err)
	}
	var sum, squares float64
	for i := range keys {
		r.lot.Sums.Source = noise.NewSeeded(uint64(1000 + i))
		normal, err := firstNormal(r.lot.Sums.Source, r.lot.Sums.Stream(r.lot.Sums.Find(release.ScoreWeights), r.step))
		if err != nil {
			t.Fatal(err)
		}
		sum += normal
		squares += normal * normal
		if i%40 > 0 {
			continue
		}
		r.validated = false
		got, err := r.Validate()
		if err != nil {
			t.Fatal(err)
		}
		if want := (base + 8*normal) / 400; !(math.Abs(got.Accuracy-want) <= 1e-12) || got.Deviation != 8./400 {
			t.Errorf("%+v, want an accuracy of %v and a deviation of 0.02", got, want)
		}
	}
	if mean := sum / keys * math.Sqrt(keys); !(math.Abs(mean) <= 5.5) {
		t.Errorf("the noise's mean is %v deviations from 0", mean)
	}
	if v := (squares/keys - 1) * math.Sqrt(keys/2.); !(math.Abs(v) <= 5.5) {
		t.Errorf("the noise's variance is %v deviations from 1", v)
	}
}

// The ledger contains the query before the result is released, separate from the lots, and a
// second release is refused.
func TestValidate_IsInLedger(t *testing.T) {
	for _, policy := range []sample.Policy{sample.PolicyPoisson, sample.PolicyFixed, sample.PolicyShuffle} {
		c := validationConfig(t, 4)
		c.Sampling.Policy = policy
		r := trainedRun(t, c)
		if _, err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Validate(); err == nil {
			t.Error("the accuracy was released twice")
		}
		r.Close()
		h, err := ledger.Read(c.Files.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		last := h.Lots[len(h.Lots)-1]
		want := r.config.arithmetic().Query("validation accuracy", 1, 4, release.StatisticLattice, 400)
		if h.LotCount() != 6 || last.Count != 1 || last.Lot.Sampling.Policy != ledger.FullBatch || last.Lot.Sampling.Records != 400 || len(last.Lot.Queries) != 1 || last.Lot.Queries[0] != want {
			t.Errorf("%s: the ledger contains %d lots, the last is %+v", policy, h.LotCount(), last)
		}
	}

	c := validationConfig(t, 4)
	r := trainedRun(t, c)
	r.account.Ledger.Close() // later writes fail
	if got, err := r.Validate(); err == nil || got != (ValidationResult{}) {
		t.Errorf("without a ledger entry: %+v, %v", got, err)
	}
	r.Close()
}

// A budget includes the validation, and a resumed run whose budget is used up releases nothing.
func TestValidate_IsInBudget(t *testing.T) {
	c := validationConfig(t, 2)
	c.Steps, c.Budget.StopAtEpsilon, c.Budget.Delta = 1000, 8, 1e-5
	c.Files.CheckpointFolder = t.TempDir()
	r := trainedRun(t, c)
	if r.StepsDone() < 1 || r.StepsDone() >= 1000 {
		t.Fatalf("%d lots", r.StepsDone())
	}
	if _, err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	spent, err := r.Spent("rdp")
	if err != nil || spent.Epsilon > 8 || spent.Epsilon < 7.5 {
		t.Errorf("ε = %v of 8 (%v)", spent.Epsilon, err)
	}

	c.Steps = r.StepsDone()
	again, err := Resume(c)
	if err != nil {
		t.Fatal(err)
	}
	before := again.account.Ledger.History().LotCount()
	if got, err := again.Validate(); !errors.Is(err, ErrBudget) || got != (ValidationResult{}) {
		t.Errorf("a second validation beyond the budget: %+v, %v", got, err)
	}
	if n := again.account.Ledger.History().LotCount(); n != before {
		t.Errorf("%d lots after the refusal, %d before", n, before)
	}
	again.Close()
}

// An interrupted pass is completed, independently of releases in between.
func TestResume_CompletesPassAfterValidation(t *testing.T) {
	c := validationConfig(t, 4)
	c.Sampling.Policy, c.Sampling.Lot, c.Steps = sample.PolicyShuffle, 12, 7 // a pass has 5 lots
	c.Files.CheckpointFolder = t.TempDir()
	r := trainedRun(t, c)
	if _, err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	c.Steps = 10
	again, err := Resume(c)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	shuffled := 0
	for _, s := range again.account.Ledger.History().Lots {
		if s.Lot.Sampling.Policy == ledger.Shuffle {
			shuffled += s.Count
		}
	}
	if shuffled != 10 {
		t.Errorf("%d shuffled lots stated, want two whole passes of 5", shuffled)
	}
}

func TestValidate_RecordsCountAsMean(t *testing.T) {
	shares := []float64{1, 0, 0.5, 1, 1, 0}
	s := newTable(make([]float32, 6*features), make([]float32, 6), []int32{0, 0, 1, 1, 2, 1})
	for _, c := range []struct {
		records Records
		want    float64
	}{
		{Records{}, 3.5},
		{Records{Examples: 4}, 2.5/4 + 0.5},
		{Records{Users: true, Examples: 9}, 0.5 + 0.5 + 1},
		{Records{Users: true, Examples: 2}, 0.5 + 0.75 + 1},
	} {
		if got, err := sumOfRecordMeans(shares, s, c.records); err != nil || !(math.Abs(got-c.want) <= 1e-12) {
			t.Errorf("%+v: %v, want %v (%v)", c.records, got, c.want, err)
		}
	}
}

func TestValidate_Refuses(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"Validation.Noise 0":               func(c *Config) { c.Validation.Noise = 0 },
		"Validation.Noise +Inf":            func(c *Config) { c.Validation.Noise = math.Inf(1) },
		"Validation.Noise NaN":             func(c *Config) { c.Validation.Noise = math.NaN() },
		"has 1 columns":                    func(c *Config) { c.Validation.Set = newColumnTable(4, zeros, 2) },
		"x of the validation data differs": func(c *Config) { c.Validation.Set = newTable(make([]float32, 8), make([]float32, 4), nil) },
		"no records are held out":          func(c *Config) { c.Validation.Set = nil },
		"validation set is empty":          func(c *Config) { c.Validation.Set, _ = data.Subset(c.Train, nil) },
		"gives no scores for a label": func(c *Config) {
			c.Network = func(batch int) (*perexample.Network, error) {
				net, err := mlp(batch)
				net.Output = nil
				return net, err
			}
		},
		"needs labels or targets": func(c *Config) {
			c.Network, c.Train, c.Validation.Set = linearNetwork(2), newColumnTable(60, zeros, 2), newColumnTable(4, zeros, 2)
		},
	} {
		c := validationConfig(t, 4)
		change(&c)
		r, err := New(c)
		if err == nil {
			r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q in one line", err, want)
		}
	}
	c := validationConfig(t, 0)
	c.Mechanism.NonPrivate, c.Mechanism.NoiseMultiplier, c.Mechanism.Clipping, c.Files.Ledger = true, 0, nil, ""
	if _, err := newRun(t, c).Validate(); err != nil {
		t.Errorf("without privacy and noise: %v", err)
	}
	r := newRun(t, testConfig(t))
	defer r.Close()
	if _, err := r.Validate(); err == nil {
		t.Error("validated without a validation set")
	}
	r = newRun(t, validationConfig(t, 4))
	r.fault = errPanicked
	if got, err := r.Validate(); err != errPanicked {
		t.Errorf("validated after a lot was broken off: %+v, %v", got, err)
	}
}

// The scores of records are between 0 and 1 for every content, so a record changes their sum by at most
// 1; a blank record has none.
func TestRecordScores_AreBounded(t *testing.T) {
	for _, value := range []float32{0, 1, -1e30, math.MaxFloat32} {
		x, labels, users := make([]float32, 8*features), make([]float32, 8), []int32{0, 0, 0, 1, 1, 2, 3, 3}
		for i := range labels {
			labels[i] = float32(i % classes)
		}
		for i := range features {
			x[i] = value
		}
		blank := blankedSet{newTable(x, labels, users), []bool{false, false, false, false, false, true, true, false}}
		e, err := NewEvaluator(mlp, DeviceOptions{Name: "cpu"})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []Records{{}, {Examples: 3}, {Users: true, Examples: 2}} {
			var scores []float64
			if err := e.RecordScores(e.Weights(), blank, r, func(s float64) { scores = append(scores, s) }); err != nil {
				t.Fatal(err)
			}
			want := map[Records]int{{}: 6, {Examples: 3}: 3, {Users: true, Examples: 2}: 3}[r]
			if len(scores) != want || slices.ContainsFunc(scores, func(s float64) bool { return !(s >= 0 && s <= 1) }) {
				t.Errorf("features of %v, %+v: scores %v", value, r, scores)
			}
		}
		e.Close()
	}
	e, err := NewEvaluator(mlp, DeviceOptions{Name: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.RecordScores(e.Weights(), newColumnTable(3, zeros, features), Records{}, func(float64) {}); err == nil {
		t.Error("data without labels have scores")
	}
}
