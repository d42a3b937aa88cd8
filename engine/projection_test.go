package engine

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/projection"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/noise"
	"github.com/dptrain/dptrain/perexample"
)

// denseOnProjection is a network of one dense layer on a projection.
func denseOnProjection(directions []float32) (perexample.Build, error) {
	return denseOnProjectionOf(features, directions), nil
}

func denseOnProjectionOf(width int, directions []float32) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		x := layer.FixedProjection(n, n.Input("x", width), "projection.weight", directions)
		labels := n.Input("label")
		logits := layer.Dense(n, x, "fc", classes, layer.Identity)
		n.SetLoss(layer.CrossEntropy(n, logits, labels), logits)
		return n.Network()
	}
}

// projectionConfig is a run with three of five directions.
func projectionConfig(t testing.TB) Config {
	c := checkpointedConfig(t)
	c.Network, c.Projection = nil, Projection{Directions: 3, Noise: 4, Network: denseOnProjection}
	return c
}

// The directions are those of the exact sum plus the noise drawn for it; without privacy, of the
// sum alone. Training behind them is training on the products.
func TestProjection_ReleasesNoisedDirections(t *testing.T) {
	for _, private := range []bool{true, false} {
		c := projectionConfig(t)
		c.Mechanism.NonPrivate, c.Mechanism.Arithmetic = !private, FloatArithmetic
		r := newRun(t, c)
		if r.Directions() != nil {
			t.Fatal("directions before Train")
		}
		want := referenceMoments(t, c.Train, Records{}, private)
		if private {
			normals := make([]float64, features*(features+1)/2)
			if err := r.source.Normals64(normals, noise.Stream{Purpose: noise.Release, Vector: uint32(len(r.network.Program.Parameters) + 2)}, 0); err != nil {
				t.Fatal(err)
			}
			at := 0
			for i := range features {
				for j := i; j < features; j++ {
					sigma := 4.0
					if j > i {
						sigma = 4 / math.Sqrt2
					}
					want[i*features+j] += sigma * normals[at]
					at++
				}
			}
		}
		directions, err := projection.SearchDirections(t.Context(), want, features, 3)
		if err != nil {
			t.Fatal(err)
		}
		trainRun(t, r, nil)
		if d := relativeDistance(r.Directions(), directions); d > 1e-6 {
			t.Errorf("private %v: directions off by %v", private, d)
		}

		// The same lots on the products, computed beforehand.
		x, labels, rows := make([]float32, 60*features), make([]float32, 60), make([]int, 60)
		for i := range rows {
			rows[i] = i
		}
		if err := c.Train.Read([][]float32{x, labels}, rows); err != nil {
			t.Fatal(err)
		}
		products := make([]float32, 0, 60*3)
		for i := range rows {
			for k := range 3 {
				sum := 0.0
				for j := range features {
					sum += float64(x[i*features+j]) * float64(r.Directions()[k*features+j])
				}
				products = append(products, float32(sum))
			}
		}
		plain := projectionConfig(t)
		plain.Mechanism.Arithmetic = FloatArithmetic
		plain.Mechanism.NonPrivate, plain.Projection, plain.Train = !private, Projection{}, newTable(products, labels, nil)
		plain.Network = func(batch int) (*perexample.Network, error) {
			n := layer.NewBuilder(batch, 1)
			x, labels := n.Input("x", 3), n.Input("label")
			logits := layer.Dense(n, x, "fc", classes, layer.Identity)
			n.SetLoss(layer.CrossEntropy(n, logits, labels), logits)
			return n.Network()
		}
		other := newRun(t, plain)
		trainRun(t, other, nil)
		if d := relativeDistance(flatWeights(t, r), flatWeights(t, other)); d > 1e-4 {
			t.Errorf("private %v: trained otherwise than on the products, by %v", private, d)
		}
	}
}

// Every device trains with the same directions and has the same weights.
func TestProjection_DevicesAgree(t *testing.T) {
	var first *Run
	for _, device := range deviceNames() {
		c := projectionConfig(t)
		c.Device.Name, c.Steps, c.Mechanism.Arithmetic = device, 8, FloatArithmetic
		r := newRun(t, c)
		trainRun(t, r, nil)
		if first == nil {
			first = r
		}
		if !slices.Equal(r.Directions(), first.Directions()) {
			t.Errorf("other directions on %s", device)
		}
		if d := relativeDistance(flatWeights(t, r), flatWeights(t, first)); d > 1e-4 {
			t.Errorf("the weights of %s differ by %g", device, d)
		}
	}
}

// countProjections counts a ledger's releases of second moments, and the other lots.
func countProjections(h ledger.History) (moments, others int) {
	for _, s := range h.Lots {
		if s.Lot.Queries[0].Group == secondMomentsGroup {
			moments += s.Count
		} else {
			others += s.Count
		}
	}
	return moments, others
}

// ε is that of one query over all records and of the lots, and a budget includes both.
func TestProjection_IsInBudget(t *testing.T) {
	for _, policy := range []sample.Policy{sample.PolicyPoisson, sample.PolicyFixed, sample.PolicyShuffle} {
		c := projectionConfig(t)
		c.Sampling.Policy, c.Budget.Delta, c.Mechanism.NoiseMultiplier, c.Steps, c.Budget.StopAtEpsilon, c.Mechanism.Clipping = policy, 1e-5, 3, 1000, 6, nil
		r := newRun(t, c)
		trainRun(t, r, nil)
		r.Close()
		h := readLedger(t, c.Files.Ledger)
		first := h.Lots[0]
		if first.Count != 1 || first.Lot.Sampling != (ledger.Sampling{Policy: ledger.FullBatch, Records: 60}) ||
			!slices.Equal(first.Lot.Queries, []ledger.Query{r.config.arithmetic().Query(secondMomentsGroup, 1, 4, release.ProjectionLattice, 60)}) {
			t.Fatalf("%s: the ledger begins with %+v", policy, first)
		}
		if moments, others := countProjections(h); moments != 1 || others != r.StepsDone() || others == 0 || others == 1000 {
			t.Fatalf("%s: %d releases of moments and %d lots, of %d", policy, moments, others, r.StepsDone())
		}
		composed := ledger.History{Header: ledger.Header{Records: 60, Unit: "example", Adjacency: Sampling{Policy: policy}.Adjacency()}}
		composed.Lots = append(composed.Lots, ledger.RepeatedLot{Lot: first.Lot, Count: 1}, ledger.RepeatedLot{Lot: r.lot.Mechanism.CostOfLot(0), Count: r.StepsDone()})
		want, err := accountant.Epsilon(composed, c.Budget.Delta, "rdp")
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Spent("rdp")
		if err != nil || !(math.Abs(got.Epsilon-want.Epsilon) <= 1e-9) || got.Epsilon > 6 {
			t.Errorf("%s: ε = %v, composed %v, %v", policy, got.Epsilon, want.Epsilon, err)
		}
		composed.Lots[1].Count += 1
		if policy == sample.PolicyShuffle {
			composed.Lots[1].Count += 4 // a pass
		}
		if more, err := accountant.Epsilon(composed, c.Budget.Delta, "rdp"); err != nil || more.Epsilon <= 6 {
			t.Errorf("%s: there was room for another lot: ε = %v, %v", policy, more.Epsilon, err)
		}
	}
	c := projectionConfig(t)
	c.Projection.Noise, c.Budget.StopAtEpsilon = 0.5, 2
	if _, err := New(c); !errors.Is(err, ErrBudget) {
		t.Errorf("a projection beyond the budget: %v", err)
	}
	c = projectionConfig(t)
	c.Budget.StopAtEpsilon, c.Mechanism.NoiseMultiplier = 6, 3
	if with, err := c.AffordableSteps(); err != nil {
		t.Error(err)
	} else {
		c.Network, c.Projection = mlp, Projection{}
		if without, err := c.AffordableSteps(); err != nil || with >= without {
			t.Errorf("%d lots with a projection, %d without one, %v", with, without, err)
		}
	}
}

// Nothing is released where the ledger cannot be written.
func TestProjection_FollowsLedgerEntry(t *testing.T) {
	r := newRun(t, projectionConfig(t))
	if err := r.account.Ledger.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Train(context.Background(), nil); err == nil {
		t.Error("trained without a ledger")
	}
	if r.Directions() != nil || r.StepsDone() != 0 || r.fault == nil {
		t.Errorf("directions %v after %d lots, fault %v", r.Directions(), r.StepsDone(), r.fault)
	}
}

// A resumed run has the released directions. Where they were lost, it has others, and both are
// paid for.
func TestProjection_Resume(t *testing.T) {
	for _, seeded := range []bool{true, false} {
		c := projectionConfig(t)
		if !seeded {
			c.Seed = nil
		}
		r := newRun(t, c)
		r.Close() // nothing was spent
		r = resumeRun(t, c)
		names, err := state.List(c.Files.CheckpointFolder)
		if err != nil {
			t.Fatal(err)
		}
		before := readFile(t, names[0])
		trainRun(t, r, func(p *Progress) error {
			names, err := state.List(c.Files.CheckpointFolder)
			for _, name := range names {
				saved, err := state.Open(name)
				if err != nil {
					return err
				}
				saved.Close()
				if saved.Directions == nil {
					t.Errorf("after lot %d the checkpoint of %d has no directions", p.Lot, saved.Step)
				}
			}
			return err
		})
		first, stood := r.Directions(), runState(r)
		r.Close()
		if m, n := countProjections(readLedger(t, c.Files.Ledger)); m != 1 || n != 5 {
			t.Fatalf("%d releases of moments, %d lots", m, n)
		}

		c.Steps = 7
		r = resumeRun(t, c)
		if !slices.Equal(r.Directions(), first) || runState(r) != stood {
			t.Error("the resumed run has another state")
		}
		trainRun(t, r, nil)
		if !slices.Equal(r.Directions(), first) {
			t.Error("other directions")
		}
		r.Close()
		if m, n := countProjections(readLedger(t, c.Files.Ledger)); m != 1 || n != 7 {
			t.Errorf("%d releases of moments, %d lots", m, n)
		}

		for _, change := range []struct {
			make func(*Config)
			want string
		}{
			{func(c *Config) { c.Projection.Noise = 5 }, "projection is 3 directions, noise 5"},
			{func(c *Config) { c.Projection.Directions = 2 }, "projection is 2 directions"},
			{func(c *Config) { c.Network, c.Projection = mlp, Projection{} }, "projection is missing"},
		} {
			other := c
			change.make(&other)
			if _, err := Resume(other); err == nil || !strings.Contains(err.Error(), change.want) {
				t.Errorf("error %v, want %s", err, change.want)
			}
		}

		if err := os.RemoveAll(c.Files.CheckpointFolder); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(c.Files.CheckpointFolder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(names[0], before, 0o644); err != nil {
			t.Fatal(err)
		}
		c.Steps = 5
		r = resumeRun(t, c)
		trainRun(t, r, nil)
		if slices.Equal(r.Directions(), first) {
			t.Error("the same noise twice")
		}
		r.Close()
		if m, n := countProjections(readLedger(t, c.Files.Ledger)); m != 2 || n != 12 {
			t.Errorf("%d releases of moments, %d lots, where both were made twice", m, n)
		}
	}
}

func TestProjection_Refuses(t *testing.T) {
	wide := make([]float32, 3*(maxProjectedFeatures+1))
	for want, change := range map[string]func(*Config){
		"Directions 6: give a number from 1 to 5": func(c *Config) { c.Projection.Directions = features + 1 },
		"Directions -1":                 func(c *Config) { c.Projection.Directions = -1 },
		"Projection.Noise 0":            func(c *Config) { c.Projection.Noise = 0 },
		"Projection.Noise -1":           func(c *Config) { c.Projection.Noise = -1 },
		"Projection.Noise NaN":          func(c *Config) { c.Projection.Noise = math.NaN() },
		"Projection.Noise +Inf":         func(c *Config) { c.Projection.Noise = math.Inf(1) },
		"set Config.Projection.Network": func(c *Config) { c.Projection.Network = nil },
		"the features are indices": func(c *Config) {
			s := newUncheckedSet()
			s.columns = slices.Clone(s.columns)
			s.columns[0].Kind, s.columns[0].Classes = data.Index, 3
			c.Train = s
		},
		"the data have several":                        func(c *Config) { c.Train = newColumnTable(60, zeros, 2, 3) },
		"computes directions of at most 2048 features": func(c *Config) { c.Train = newTable(wide, make([]float32, 3), nil) },
	} {
		c := projectionConfig(t)
		change(&c)
		_, err := New(c)
		if err == nil || !strings.Contains(err.Error(), want) || strings.ContainsRune(err.Error(), '\n') {
			t.Errorf("%v, want %q in one line", err, want)
		}
		requireNoFiles(t, c)
	}
}

// endingContext is a context that ends when a caller waits for its end.
type endingContext struct {
	context.Context
	end func()
}

func (e endingContext) Done() <-chan struct{} {
	e.end()
	return e.Context.Done()
}

// The end of ctx interrupts the computation of directions. Nothing was spent then, and the run
// may continue: it releases them once.
func TestProjection_Interrupted(t *testing.T) {
	const count, wide = 60, 350
	x := make([]float32, count*wide)
	for i := range x {
		x[i] = float32(math.Sin(float64(i * i)))
	}
	c := projectionConfig(t)
	c.Train, c.Steps = newTable(x, make([]float32, count), nil), 2
	c.Projection.Network = func(directions []float32) (perexample.Build, error) {
		return denseOnProjectionOf(wide, directions), nil
	}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	// With one processor the end of ctx is usually seen before the computation of directions has
	// done much; the scheduler may rarely decide otherwise.
	threads := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(threads)
	seen := false
	for try := 0; try < 3 && !seen; try++ {
		ctx, end := context.WithCancel(context.Background())
		if err := r.Train(endingContext{ctx, end}, nil); !errors.Is(err, context.Canceled) {
			t.Fatalf("interrupted: %v", err)
		}
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		seen = strings.Contains(string(stacks), "created by github.com/dptrain/dptrain/engine/internal/projection.SearchDirections")
	}
	runtime.GOMAXPROCS(threads)
	if !seen {
		t.Error("the search was waited for")
	}
	if spent := r.account.Ledger.History().Lots; len(spent) > 0 || r.Directions() != nil {
		t.Fatalf("interrupted, and the ledger gives %v", spent)
	}
	if err := r.Train(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := ledger.Read(c.Files.Ledger)
	if err != nil || h.LotCount() != 3 || r.Directions() == nil {
		t.Errorf("then: %d lots in the ledger, %v", h.LotCount(), err)
	}
}
