package simulation

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/engine/data"
)

// blobs are examples of three classes around different points of the unit cube.
func blobs(t testing.TB, count int, seed uint64) data.Set {
	t.Helper()
	r := stream(seed, 9, 0)
	var x, y []float32
	for range count {
		class := r.IntN(3)
		for i := range 3 {
			v := 0.3 + 0.1*r.NormFloat64()
			if i == class {
				v += 0.4
			}
			x = append(x, float32(min(1, max(0, v))))
		}
		y = append(y, float32(class))
	}
	set, err := data.NewTable([]data.Column{{Name: "x", Shape: []int{3}}, {Name: "y", Kind: data.Label, Classes: 3}}, [][]float32{x, y}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func blobTask(t testing.TB) *data.Task {
	return &data.Task{Name: "blobs", Train: blobs(t, 900, 1), Test: blobs(t, 300, 2), Classes: 3}
}

func blobSettings(t testing.TB) Settings {
	return Settings{Clients: 80, Records: 10, Passes: 5, Clip: 1, Instances: []int{1, 4}, Batches: []int{4, 16}, Epsilons: []float64{math.Inf(1), 2},
		Rates: []float64{0.5}, Seed: 7, Threads: 1, Ledgers: filepath.Join(t.TempDir(), "ledgers")}
}

func run(t testing.TB, s Settings) *report.Simulation {
	t.Helper()
	r, err := Run(context.Background(), s, blobTask(t), func(int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The results depend on the seed and not on the number of threads, and the progress ends at its total.
func TestRun_ReproducibleBySeed(t *testing.T) {
	s := blobSettings(t)
	first := run(t, s)
	s.Threads, s.Ledgers = 3, filepath.Join(t.TempDir(), "ledgers")
	var most, total atomic.Int64
	second, err := Run(context.Background(), s, blobTask(t), func(done, all int) {
		for m := most.Load(); int64(done) > m && !most.CompareAndSwap(m, int64(done)); m = most.Load() {
		}
		total.Store(int64(all))
	})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first.Rows, second.Rows) || !reflect.DeepEqual(first.Variance, second.Variance) {
		t.Error("one and three threads give other results")
	}
	if most.Load() != total.Load() || total.Load() != 10*80*5 {
		t.Errorf("the progress ends at %d of %d", most.Load(), total.Load())
	}
	s.Instances, s.Batches, s.Ledgers = []int{4}, nil, filepath.Join(t.TempDir(), "ledgers")
	if fewer := run(t, s); !reflect.DeepEqual(fewer.Rows[0], first.Rows[1]) {
		t.Error("a line depends on which others are simulated")
	}
	s = blobSettings(t)
	s.Seed, s.Ledgers = 8, filepath.Join(t.TempDir(), "ledgers")
	if third := run(t, s); reflect.DeepEqual(first.Rows, third.Rows) {
		t.Error("two seeds give equal results")
	}
}

// Every method learns the blobs without noise, and every row is complete.
func TestRun_EveryMethodLearns(t *testing.T) {
	s := blobSettings(t)
	s.Rates, s.Batches = []float64{2}, []int{1, 4}
	r := run(t, s)
	if len(r.Rows) != 10 || r.Clients != 80 || r.Weights != 12 || r.TestExamples != 300 {
		t.Fatalf("%d rows, %d clients, %d weights, %d test examples", len(r.Rows), r.Clients, r.Weights, r.TestExamples)
	}
	for _, row := range r.Rows {
		if first, last := row.TrainingLoss[0], row.TrainingLoss[s.Passes-1]; len(row.TrainingLoss) != s.Passes || math.IsInf(float64(row.Epsilon), 1) && !(last > 0 && last < 0.7 && last <= first) {
			t.Errorf("%s: training losses %v; that of guessing is ln 3", row.Name(), row.TrainingLoss)
		}
		if len(row.Accuracy) != s.Passes || row.Final != row.Accuracy[s.Passes-1] {
			t.Errorf("%s, ε = %v: accuracies %v, final %v", row.Name(), row.Epsilon, row.Accuracy, row.Final)
		}
		if math.IsInf(float64(row.Epsilon), 1) && row.Final < 0.95 {
			t.Errorf("%s without noise has accuracy %v", row.Name(), row.Final)
		}
		if private := !math.IsInf(float64(row.Epsilon), 1); row.Method == report.DrawAndDiscard && row.Instances > 1 && private && (row.Spread <= 0 || row.Stationary <= 0) {
			t.Errorf("%s: spread %v, stationary %v", row.Name(), row.Spread, row.Stationary)
		}
	}
}

// Draw and discard with one instance is a server batch of one client.
func TestDrawAndDiscard_OneInstanceIsBatchOfOne(t *testing.T) {
	for _, epsilon := range []float64{math.Inf(1), 3} {
		task, err := newTask(blobSettings(t), blobTask(t))
		if err != nil {
			t.Fatal(err)
		}
		var models [2][]float32
		keep := func(i int) observer {
			return func(_ int, w []float32) error { models[i] = append([]float32(nil), w...); return nil }
		}
		if _, _, err := task.drawAndDiscard(1, epsilon, 0.5, 5, keep(0)); err != nil {
			t.Fatal(err)
		}
		if err := task.serverBatch(1, epsilon, 0.5, 5, keep(1)); err != nil {
			t.Fatal(err)
		}
		for i, v := range models[0] {
			if math.Abs(float64(v-models[1][i])) > 1e-3*(1+math.Abs(float64(v))) {
				t.Errorf("ε = %v: weight %d is %v, and %v with a batch of one", epsilon, i, v, models[1][i])
			}
		}
	}
}

// The clients own different examples.
func TestDrawRows_ClientsShareNoExample(t *testing.T) {
	seen := map[int]bool{}
	for _, row := range drawRows([]int{3, 1, 4, 10, 5, 9, 2, 6}, 6, 1) {
		if seen[row] || row == 0 || row > 10 {
			t.Fatalf("row %d", row)
		}
		seen[row] = true
	}
}

// Updates that are noise alone keep the variance among k instances at k/2 (theorem 3.1 of Pihur et
// al. 2018), and move their average by 1/k in each update. The seed is fixed, so that the test does
// not fail by chance.
func TestMeasureVariance_MatchesTheory(t *testing.T) {
	for _, k := range []int{1, 2, 5, 10} {
		p, err := measureVariance(k, 100_000, 11)
		if err != nil {
			t.Fatal(err)
		}
		want := float64(k) / 2
		if k == 1 {
			want = 0
		}
		if p.Theory != want || math.Abs(p.Measured-want) > 0.06*want {
			t.Errorf("k = %d: variance %v, theory %v, want %v", k, p.Measured, p.Theory, want)
		}
		if p.Moved < 0.6 || p.Moved > 1.5 {
			t.Errorf("k = %d: the average moved by %v of a random walk", k, p.Moved)
		}
		last := p.Course[len(p.Course)-1]
		if last.Updates != 100_000 || len(p.Course) < 40 || p.Course[0].Updates != 1 {
			t.Errorf("k = %d: %d points to %d updates", k, len(p.Course), last.Updates)
		}
		for _, point := range p.Course { // one moment: the variance fluctuates by half of its mean
			low, high := want/6, 6*want
			if k == 1 {
				low, high = 0.5*float64(point.Updates), 2*float64(point.Updates)
			}
			if point.Variance < low || point.Variance > high {
				t.Errorf("k = %d: variance %v after %d updates, want %v to %v", k, point.Variance, point.Updates, low, high)
			}
		}
	}
}

// The ledger of a central run states at most the ε of its row.
func TestCentral_LedgerStatesEpsilon(t *testing.T) {
	s := blobSettings(t)
	r := run(t, s)
	row := r.Rows[len(r.Rows)-1]
	h, err := ledger.Read(filepath.Join(s.Ledgers, "central-epsilon-2.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	spent, err := accountant.Epsilon(h, row.Delta, accountant.Default)
	if err != nil || row.Method != report.Central || spent.Epsilon > 2 || spent.Epsilon < 1.99 {
		t.Errorf("%s spent ε = %v: %v", row.Name(), spent.Epsilon, err)
	}
	if h.Header.Records != 80 {
		t.Errorf("the ledger has %d records; the clients are the records", h.Header.Records)
	}
	if files, _ := os.ReadDir(s.Ledgers); len(files) != 1 {
		t.Errorf("%d ledgers for one private central run", len(files))
	}
}

func TestCompare_InterpolatesBatches(t *testing.T) {
	one, two := number.Float(1), number.Float(2)
	rows := []report.SimulationRow{
		{Method: report.DrawAndDiscard, Instances: 1, Epsilon: one, Final: 0.5},
		{Method: report.DrawAndDiscard, Instances: 4, Epsilon: one, Final: 0.61},
		{Method: report.DrawAndDiscard, Instances: 20, Epsilon: one, Final: 0.7},
		{Method: report.DrawAndDiscard, Instances: 4, Epsilon: two, Final: 0.7},
		{Method: report.ServerBatch, Batch: 16, Epsilon: one, Final: 0.6},
		{Method: report.ServerBatch, Batch: 64, Epsilon: one, Final: 0.9},
		{Method: report.ServerBatch, Batch: 4, Epsilon: two, Final: 0.71},
		{Method: report.ServerBatch, Batch: 256, Epsilon: two, Final: 0.8},
	}
	got := compare(rows, 0) // k = 20 has no batch of 400
	if len(got) != 2 {
		t.Fatalf("claims %+v", got)
	}
	if c := got[0]; c.Instances != 4 || c.AtSquare != 0.6 || math.Abs(c.AtSame-0.55) > 1e-12 || !c.SquareHolds || c.SameHolds {
		t.Errorf("ε = 1: %+v", c)
	}
	if c := got[1]; math.Abs(c.AtSquare-0.74) > 1e-12 || c.AtSame != 0.71 || c.SquareHolds || !c.SameHolds {
		t.Errorf("ε = 2: %+v", c)
	}
}

func TestRun_StopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("stop")
	s := blobSettings(t)
	s.Passes = 1000
	_, err := Run(ctx, s, blobTask(t), func(int, int) { cancel(stop) })
	if !errors.Is(err, stop) && !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestNewTask_RefusesUnsuitableData(t *testing.T) {
	good := blobTask(t)
	two, err := data.NewTable([]data.Column{{Name: "x", Shape: []int{1}}, {Name: "z", Shape: []int{1}}, {Name: "y", Kind: data.Target}},
		[][]float32{make([]float32, 20), make([]float32, 20), make([]float32, 20)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, task := range map[string]*data.Task{
		"no test data": {Name: "blobs", Train: good.Train},
		"two inputs":   {Name: "blobs", Train: two, Test: two},
		"too few rows": {Name: "blobs", Train: blobs(t, 5, 1), Test: good.Test},
	} {
		if _, err := newTask(blobSettings(t), task); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	s := blobSettings(t)
	s.Clients = 6000
	if task, err := newTask(s, good); err != nil || task.Clients != 90 {
		t.Errorf("900 examples: %v clients, %v", task, err)
	}
}

// targetTask has targets: a linear function of x, or counts with a mean of exp(1 + x).
func targetTask(t testing.TB, counts bool) *data.Task {
	t.Helper()
	set := func(count int, seed uint64) data.Set {
		r := stream(seed, 9, 0)
		var x, y []float32
		for range count {
			v := r.Float64()
			target := v - 0.5
			if counts {
				target = 0
				for p := r.Float64(); p > math.Exp(-math.Exp(1+v)); p *= r.Float64() {
					target++
				}
			}
			x, y = append(x, float32(v), float32(1-v)), append(y, float32(target))
		}
		table, err := data.NewTable([]data.Column{{Name: "x", Shape: []int{2}}, {Name: "y", Kind: data.Target}}, [][]float32{x, y}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	return &data.Task{Name: "targets", Train: set(900, 1), Test: set(300, 2)}
}

// Linear, logistic and Poisson models and networks learn by every method that has them. A smaller clip
// bound has less noise.
func TestRun_EveryModelLearns(t *testing.T) {
	two := blobTask(t)
	for i, set := range []*data.Set{&two.Train, &two.Test} {
		x, y := make([]float32, (*set).Len()*3), make([]float32, (*set).Len())
		rows := make([]int, (*set).Len())
		for r := range rows {
			rows[r] = r
		}
		if err := (*set).Read([][]float32{x, y}, rows); err != nil {
			t.Fatal(i, err)
		}
		for r := range y {
			y[r] = min(1, y[r])
		}
		table, err := data.NewTable([]data.Column{{Name: "x", Shape: []int{3}}, {Name: "y", Kind: data.Label, Classes: 2}}, [][]float32{x, y}, nil)
		if err != nil {
			t.Fatal(err)
		}
		*set = table
	}
	two.Classes = 2
	for _, c := range []struct {
		model string
		task  *data.Task
		rate  float64
		rows  int
		good  func(row *report.SimulationRow) bool
	}{
		{"linear", targetTask(t, false), 0.3, 3, func(r *report.SimulationRow) bool { return r.RMSE[len(r.RMSE)-1] < 0.15 }}, // 0.29 for the mean
		{"poisson", targetTask(t, true), 0.1, 2, func(r *report.SimulationRow) bool {
			last := len(r.RMSE) - 1
			return r.RMSE[last] < 2.4 && r.TrainingLoss[last] < 0.7 // the deviance of counts around their mean is about half
		}},
		{"logistic", two, 2, 3, func(r *report.SimulationRow) bool { return r.Final > 0.9 }},
		{"mlp:8", blobTask(t), 1, 3, func(r *report.SimulationRow) bool { return r.Final > 0.9 }},
	} {
		s := blobSettings(t)
		s.Model, s.Rates, s.Instances, s.Batches, s.Epsilons, s.Passes = c.model, []float64{c.rate}, []int{2}, []int{2}, []float64{math.Inf(1)}, 20
		if c.model == "poisson" {
			s.Clip = 5
		}
		r, err := Run(context.Background(), s, c.task, func(int, int) {})
		if err != nil {
			t.Fatalf("%s: %v", c.model, err)
		}
		if len(r.Rows) != c.rows || r.Model != c.model {
			t.Errorf("%s: %d rows of %s", c.model, len(r.Rows), r.Model)
		}
		for _, row := range r.Rows {
			if !c.good(&row) {
				t.Errorf("%s, %s: accuracy %v, RMSE %v, training loss %v", c.model, row.Name(), row.Accuracy, row.RMSE, row.TrainingLoss)
			}
		}
	}
	for _, clip := range []float64{1, 0.25} {
		task, err := newTask(Settings{Clients: 80, Records: 10, Passes: 1, Clip: clip, Seed: 7}, blobTask(t))
		if err != nil {
			t.Fatal(err)
		}
		m, err := task.localMechanism(2, 0.5)
		if err != nil || math.Abs(m.NoiseScale()-clip) > 1e-6 {
			t.Errorf("clip %v: noise of scale %v for ε = 2, want 2·clip/ε (%v)", clip, m.NoiseScale(), err)
		}
	}
}
