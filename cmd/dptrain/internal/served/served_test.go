package served

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/engine/drawdiscard/server"
	"github.com/dptrain/dptrain/internal/modelfile"
)

const visits = `age,joined,sex,visits,clicked
17,2020-01-01,F,3,no
44,2024-06-30,M,0,yes
,2021-02-03,F,50,no
93,2023-12-31,other,17,yes
`

func readVisits(t *testing.T, schema data.Schema) *data.Task {
	t.Helper()
	file := filepath.Join(t.TempDir(), "visits.csv")
	if err := os.WriteFile(file, []byte(visits), 0o600); err != nil {
		t.Fatal(err)
	}
	task, err := data.Open(file, data.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func visitsSchema() data.Schema {
	return data.Schema{
		Label: "clicked", Classes: data.Classes{"no", "yes"}, Bounds: map[string]data.Bounds{"age": {0, 120}, "visits": {0, 50}},
		Vocabulary: map[string][]string{"sex": {"F", "M"}}, Missing: map[string]data.Missing{"age": data.MissingIndicator},
		Dates: map[string]data.DateBounds{"joined": dates()},
	}
}

func dates() data.DateBounds {
	parsed, err := data.ParseDates("joined=2019-01-01:2025-01-01")
	if err != nil {
		panic(err)
	}
	return parsed["joined"]
}

func randomWeights(n int) []float32 {
	r := rand.New(rand.NewPCG(3, uint64(n)))
	w := make([]float32, n)
	for i := range w {
		w[i] = float32(r.NormFloat64())
	}
	return w
}

// outputs are the outputs of a model of a run on a set.
func outputs(t *testing.T, m *modelfile.Model, set data.Set) [][]float32 {
	t.Helper()
	e, err := engine.NewEvaluator(m.Build, engine.DeviceOptions{Name: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	all, err := e.Predictions(e.Weights(), set)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The network of a run predicts from a table scaled to [-1, 1] what the clients' model predicts from
// the records that LoadRecords scales to [0, 1].
func TestModel_PredictsAsClients(t *testing.T) {
	for _, family := range []drawdiscard.Family{drawdiscard.Logistic, drawdiscard.Multinomial, drawdiscard.Linear} {
		schema := visitsSchema()
		classes := 2
		if family == drawdiscard.Linear {
			schema.Label, schema.Classes, schema.Target, classes = "", nil, "visits", 0
			schema.Ignore = []string{"clicked"}
		}
		task := readVisits(t, schema)
		width := task.Train.Columns()[0].Size()
		a := &server.Averaged{Spec: drawdiscard.Spec{Model: string(family), Inputs: drawdiscard.Shape{width}, Classes: classes}}
		glm, err := drawdiscard.NewGLM(family, width, classes)
		if err != nil {
			t.Fatal(err)
		}
		a.Weights = randomWeights(glm.Weights())
		records, err := drawdiscard.LoadRecords(task, a.Spec)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]float32, len(records.Labels)*max(1, glm.Weights()/(width+1)))
		glm.Predict(want, a.Weights, records.Features)
		m, err := Model(a, task.Schema)
		if err != nil {
			t.Fatal(family, err)
		}
		for i, got := range outputs(t, m, task.Train) {
			var p float64
			switch family {
			case drawdiscard.Linear:
				if p = float64(want[i]); math.Abs(p) > 1 { // within the bounds of the target
					p = math.Copysign(1, p)
				}
				if math.Abs(float64(got[0])-p) > 1e-5 {
					t.Errorf("%s, record %d: %v, want %v", family, i, got[0], p)
				}
				continue
			case drawdiscard.Logistic:
				p = float64(want[i])
			default:
				p = float64(want[2*i+1])
			}
			if q := 1 / (1 + math.Exp(float64(got[0]-got[1]))); math.Abs(q-p) > 1e-5 {
				t.Errorf("%s, record %d: probability %v, want %v", family, i, q, p)
			}
		}
	}
}

// A network's first dense layer is rescaled alike: its outputs on the table are those of the unchanged
// network on records in [0, 1].
func TestModel_RescalesDenseNetworks(t *testing.T) {
	task := readVisits(t, visitsSchema())
	width := task.Train.Columns()[0].Size()
	a := &server.Averaged{Spec: drawdiscard.Spec{Model: "mlp:5", Inputs: drawdiscard.Shape{width}, Classes: 2}}
	shapes, err := a.Tensors()
	if err != nil {
		t.Fatal(err)
	}
	a.Weights = randomWeights(drawdiscard.CountWeights(shapes, 1<<20))
	records, err := drawdiscard.LoadRecords(task, a.Spec)
	if err != nil {
		t.Fatal(err)
	}
	scaled, err := data.NewTable(task.Train.Columns(), [][]float32{records.Features, records.Labels}, nil)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Model(a, data.Schema{})
	if err != nil {
		t.Fatal(err)
	}
	rescaled, err := Model(a, task.Schema)
	if err != nil {
		t.Fatal(err)
	}
	want := outputs(t, plain, scaled)
	for i, got := range outputs(t, rescaled, task.Train) {
		for o := range got {
			if math.Abs(float64(got[o]-want[i][o])) > 1e-5 {
				t.Errorf("record %d, output %d: %v, want %v", i, o, got[o], want[i][o])
			}
		}
	}
}

func TestModel_RefusesOtherSchemas(t *testing.T) {
	for want, c := range map[string]struct {
		spec   drawdiscard.Spec
		schema data.Schema
	}{
		"exp(w·x)":  {drawdiscard.Spec{Model: "poisson", Inputs: drawdiscard.Shape{2}}, data.Schema{}},
		"2 classes": {drawdiscard.Spec{Model: "multinomial", Inputs: drawdiscard.Shape{2}, Classes: 3}, visitsSchema()},
	} {
		if _, err := Model(&server.Averaged{Spec: c.spec, Weights: make([]float32, 9)}, c.schema); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", c.spec, err, want)
		}
	}
}

// A server's model that starts from a run's weights predicts what the run predicts: InitialWeights is
// the inverse of Model, up to a constant that softmax cancels.
func TestInitialWeights_AreInverseOfModel(t *testing.T) {
	task := readVisits(t, visitsSchema())
	width := task.Train.Columns()[0].Size()
	for _, name := range []string{"logistic", "multinomial", "mlp:5"} {
		a := &server.Averaged{Spec: drawdiscard.Spec{Model: name, Inputs: drawdiscard.Shape{width}, Classes: 2}}
		shapes, err := a.Tensors()
		if err != nil {
			t.Fatal(err)
		}
		a.Weights = randomWeights(drawdiscard.CountWeights(shapes, 1<<20))
		m, err := Model(a, task.Schema)
		if err != nil {
			t.Fatal(err)
		}
		network, err := m.Build(1)
		if err != nil {
			t.Fatal(err)
		}
		var parameters []engine.Parameter
		for _, p := range network.Params {
			parameters = append(parameters, engine.Parameter{Name: p.Name(), Shape: p.Shape(), Values: p.Value().Data().([]float32)})
		}
		dir := t.TempDir()
		if err := modelfile.Write(dir, m.Manifest, modelfile.Weights{Trained: parameters}); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{dir, filepath.Join(dir, modelfile.WeightsFile)} {
			got, err := InitialWeights(a.Spec, path)
			if err != nil {
				t.Fatal(name, err)
			}
			for i := range got {
				if math.Abs(float64(got[i]-a.Weights[i])) > 1e-5 {
					t.Fatalf("%s: weight %d is %v, want %v", name, i, got[i], a.Weights[i])
				}
			}
		}
	}
	if _, err := InitialWeights(drawdiscard.Spec{Model: "logistic", Inputs: drawdiscard.Shape{3}, Classes: 2}, t.TempDir()); err == nil {
		t.Error("an empty folder has weights")
	}
}
