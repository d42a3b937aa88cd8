package inference_test

import (
	"crypto/sha256"
	"errors"
	"log"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/dptrain/dptrain/models/inference"
)

var people = data.Schema{
	Bounds: map[string]data.Bounds{"age": {0, 100}}, Vocabulary: map[string][]string{"sex": {"Female", "Male"}},
	Inputs: []string{"age", "sex"}, Label: "income", Classes: []string{"low", "high"},
	Missing: map[string]data.Missing{"age": data.MissingMiddle},
}

// weight is [features][outputs] of a linear model whose features are age in [-1, 1], Female, Male and other
// words.
var weight, bias = []float32{-1, 1, 0.5, 0, 0, 0.5, 0, 0}, []float32{0, 0.25}

// writeModel writes the folder of a linear model.
func writeModel(dir string, m modelfile.Manifest, weight, bias []float32) error {
	m.Model, m.Data, m.Elements = "logistic", "people.csv", data.Numbers
	m.Shape = []int{len(weight) / len(bias)}
	return modelfile.Write(dir, m, modelfile.Weights{Trained: []engine.Parameter{
		{Name: "fc.weight", Shape: []int{m.Shape[0], len(bias)}, Values: weight}, {Name: "fc.bias", Shape: []int{len(bias)}, Values: bias},
	}})
}

func exampleRun() string {
	dir, err := os.MkdirTemp("", "dptrain")
	if err == nil {
		err = writeModel(dir, modelfile.Manifest{Classes: 2, ClassNames: people.Classes, Schema: people}, weight, bias)
	}
	if err != nil {
		log.Fatal(err)
	}
	return dir
}

func loadExample(t *testing.T) *inference.Model {
	t.Helper()
	dir := t.TempDir()
	if err := writeModel(dir, modelfile.Manifest{Classes: 2, ClassNames: people.Classes, Schema: people}, weight, bias); err != nil {
		t.Fatal(err)
	}
	m, err := inference.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// The oracle is the logistic function, written out.
func TestModel_PredictsClasses(t *testing.T) {
	m := loadExample(t)
	answers, err := m.Predict([]inference.Row{
		{"age": 39, "sex": "Female", "unused": []int{1}},
		{"sex": "Male", "age": 61.5},
		{"age": nil, "sex": nil},
		{"age": 1000, "sex": "other"},
	})
	if err != nil || len(answers) != 4 {
		t.Fatal(answers, err)
	}
	for i, logit := range []float64{
		2*(0.39*2-1) + 0.25 - 0.5,
		2*(0.615*2-1) + 0.25 + 0.5,
		0.25,
		2 + 0.25, // outside the bounds
	} {
		high := 1 / (1 + math.Exp(-logit))
		class := people.Classes[0]
		if high > 0.5 {
			class = people.Classes[1]
		}
		a := answers[i]
		if math.Abs(a.Probabilities[1]-high) > 1e-6 || a.Class != class || a.Probability != max(a.Probabilities[0], a.Probabilities[1]) {
			t.Errorf("row %d: %+v, want %v of %s", i, a, high, class)
		}
	}
}

func TestModel_PredictsNumbersWithinTheirUnits(t *testing.T) {
	schema := people
	schema.Label, schema.Classes, schema.Target = "", nil, "income"
	schema.Bounds = map[string]data.Bounds{"age": {0, 100}, "income": {0, 90}}
	dir := t.TempDir()
	if err := writeModel(dir, modelfile.Manifest{Targets: 1, Schema: schema}, []float32{0.5, 0, 0, 0}, []float32{0.1}); err != nil {
		t.Fatal(err)
	}
	m, err := inference.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	answers, err := m.Predict([]inference.Row{{"age": 75, "sex": "Male"}})
	if err != nil || m.Target() != "income" || m.Classes() != nil || math.Abs(answers[0].Value-90*(1+0.35)/2) > 1e-4 || answers[0].Class != "" {
		t.Errorf("%+v, %v", answers, err)
	}
}

func TestModel_NamesWhatIsWrongWithARow(t *testing.T) {
	m := loadExample(t)
	for want, row := range map[string]inference.Row{
		`has no key "sex"`: {"age": 3},
		"is not a number":  {"age": "x", "sex": "Male"},
		"row 0":            {"age": math.NaN(), "sex": "Male"},
	} {
		if answers, err := m.Predict([]inference.Row{row}); err == nil || answers != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, %v lacks %q", row, answers, err, want)
		}
	}
	if answers, err := m.Predict(nil); answers != nil || err != nil {
		t.Errorf("no rows: %v, %v", answers, err)
	}
}

func TestModel_AnswersConcurrentCalls(t *testing.T) {
	m := loadExample(t)
	want, err := m.Predict([]inference.Row{{"age": 20, "sex": "Male"}})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				got, err := m.Predict([]inference.Row{{"age": 80, "sex": "Female"}, {"age": 20, "sex": "Male"}})
				if err != nil || got[1].Probability != want[0].Probability {
					t.Errorf("%v, %v", got, err)
				}
			}
		})
	}
	all.Wait()
}

func TestLoad_RefusesWeightsThatTheLedgerDoesNotState(t *testing.T) {
	dir := t.TempDir()
	m := modelfile.Manifest{Classes: 2, ClassNames: people.Classes, Schema: people}
	if err := writeModel(dir, m, weight, bias); err != nil {
		t.Fatal(err)
	}
	w, err := ledger.Create(filepath.Join(dir, "ledger.jsonl"), ledger.Header{Records: 100, Unit: "example", Adjacency: ledger.ZeroOut})
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(dir, modelfile.WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	w.SetWeights(sha256.Sum256(file))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := inference.Load(dir); err != nil {
		t.Errorf("the released weights: %v", err)
	}
	if err := writeModel(dir, m, weight, []float32{0, 0.5}); err != nil {
		t.Fatal(err)
	}
	if _, err := inference.Load(dir); !errors.Is(err, inference.ErrWeights) {
		t.Errorf("other weights: %v", err)
	}
}

func TestLoad_RefusesWhatHasNoAnswer(t *testing.T) {
	steps := people
	steps.PredictNext = true
	target := people
	target.Target = "y"
	for want, m := range map[string]modelfile.Manifest{
		"predicts every step": {Classes: 2, ClassNames: people.Classes, Schema: steps},
		`no bounds of "y"`:    {Targets: 2, Schema: target},
	} {
		dir := t.TempDir()
		if err := writeModel(dir, m, weight, bias); err != nil {
			t.Fatal(err)
		}
		if _, err := inference.Load(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if _, err := inference.Load("nowhere"); err == nil || !strings.Contains(err.Error(), "nowhere contains no model") {
		t.Errorf("no folder: %v", err)
	}
}

func TestModel_RefusesOutputsThatAreNotFinite(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		dir := t.TempDir()
		if err := writeModel(dir, modelfile.Manifest{Classes: 2, ClassNames: people.Classes, Schema: people}, weight, []float32{0, float32(v)}); err != nil {
			t.Fatal(err)
		}
		m, err := inference.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if answers, err := m.Predict([]inference.Row{{"age": 1, "sex": "Male"}}); !errors.Is(err, inference.ErrNotFinite) {
			t.Errorf("%v: %v, %v", v, answers, err)
		}
		m.Close()
	}
}
