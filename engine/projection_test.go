package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/data"
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

// referenceMoments computes secondMoments by its definition, as a whole matrix.
func referenceMoments(t *testing.T, s data.Set, r Records, unit bool) []float64 {
	t.Helper()
	d, err := newRecordIndex(s, r)
	if err != nil {
		t.Fatal(err)
	}
	width := s.Columns()[0].Size()
	sum := make([]float64, width*width)
	rows, weights := make([]int, d.perRecord), make([]float32, d.perRecord)
	for record := range d.records {
		d.writeRows(record, rows, weights)
		one, squared := make([]float64, width*width), 0.0
		for k, row := range rows {
			if weights[k] == 0 {
				continue
			}
			x, label := make([]float32, width), make([]float32, 1)
			if err := s.Read([][]float32{x, label}, []int{row}); err != nil {
				t.Fatal(err)
			}
			for i := range width {
				for j := range width {
					one[i*width+j] += float64(x[i]) * float64(x[j])
				}
			}
		}
		for _, v := range one {
			squared += v * v
		}
		for i, v := range one {
			if unit && squared > 0 {
				v /= math.Sqrt(squared)
			}
			sum[i] += v
		}
	}
	return sum
}

// frobeniusDistance returns the Frobenius norm of the difference of two symmetric matrices,
// given by their upper triangles.
func frobeniusDistance(a, b []float64, width int) float64 {
	squared := 0.0
	for i := range width {
		for j := i; j < width; j++ {
			d := a[i*width+j] - b[i*width+j]
			if squared += d * d; j > i {
				squared += d * d
			}
		}
	}
	return math.Sqrt(squared)
}

func computeMoments(t *testing.T, s data.Set, r Records, unit bool, threads int) []float64 {
	t.Helper()
	d, err := newRecordIndex(s, r)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := secondMoments(t.Context(), s, d, 0, unit, threads)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestSecondMoments_MatchReference(t *testing.T) {
	const count = 700 // several blocks
	s := mlpExamples(count, 5)
	users := make([]int32, count)
	for i := range users {
		users[i] = int32(i * i % 90)
	}
	x, labels := make([]float32, count*features), make([]float32, count)
	rows := make([]int, count)
	for i := range rows {
		rows[i] = i
	}
	if err := s.Read([][]float32{x, labels}, rows); err != nil {
		t.Fatal(err)
	}
	shared := newTable(x, labels, users)
	for _, c := range []struct {
		set     data.Set
		records Records
	}{{s, Records{}}, {s, Records{Examples: 3}}, {shared, Records{Users: true, Examples: 5}}, {shared, Records{Users: true, Examples: 300}}} {
		for _, unit := range []bool{true, false} {
			want := referenceMoments(t, c.set, c.records, unit)
			got := computeMoments(t, c.set, c.records, unit, 1)
			if d := frobeniusDistance(got, want, features); d > 1e-9*float64(count) {
				t.Errorf("%+v, unit %v: off by %v", c.records, unit, d)
			}
			if !slices.Equal(got, computeMoments(t, c.set, c.records, unit, 3)) {
				t.Errorf("%+v: the bits depend on the threads", c.records)
			}
		}
	}
}

// No record changes the sum by more than the sensitivity, for any content.
func TestSecondMoments_Sensitivity(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	records := map[string][]float32{
		"ordinary": {1, -2, 3, 0.5, 0.1},
		"huge":     {math.MaxFloat32, -math.MaxFloat32, math.MaxFloat32, 0, 1},
		"tiny":     {math.SmallestNonzeroFloat32, 0, -math.SmallestNonzeroFloat32, 0, 0},
		"both":     {math.MaxFloat32, math.SmallestNonzeroFloat32, 0, 1e-20, 1e20},
		"zeros":    {0, 0, 0, 0, 0},
		"inf":      {inf, 0, 1, 2, 3},
		"nan":      {0, nan, 1, 2, 3},
		"minus":    {-inf, inf, 1, 2, 3},
		"alike":    slices.Repeat([]float32{3, 1, 4, 1, 5}, 40),
		"axes":     {1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1},
		"one bad":  append(slices.Repeat([]float32{3, 1, 4, 1, 5}, 40), nan, 0, 0, 0, 0),
		"one huge": append(slices.Repeat([]float32{3, 1, 4, 1, 5}, 40), math.MaxFloat32, 0, 0, 0, 0),
	}
	others := make([]float32, 10*features)
	random := rand.New(rand.NewPCG(3, 3))
	for i := range others {
		others[i] = float32(random.NormFloat64())
	}
	with := func(x []float32) []float64 {
		n := len(x) / features
		users := make([]int32, 10+n)
		for i := range users {
			users[i] = int32(min(i, 10))
		}
		s := uncheckedUsers{uncheckedSet{mlpExamples(1, 1).Columns(), [][]float32{slices.Concat(others, x), make([]float32, 10+n)}}, users}
		return computeMoments(t, s, Records{Users: true, Examples: 60}, true, 2)
	}
	nothing := with(nil)
	for name, x := range records {
		sum := with(x)
		moved := frobeniusDistance(sum, nothing, features)
		adds := name != "zeros" && name != "inf" && name != "nan" && name != "minus" && name != "one bad"
		if !(moved <= 1) || adds != (moved > 0.999999) || !adds && moved != 0 {
			t.Errorf("%s: adding it changes the sum by %v", name, moved)
		}
		for other, y := range records {
			if moved := frobeniusDistance(sum, with(y), features); !(moved <= math.Sqrt2) {
				t.Errorf("%s in place of %s changes the sum by %v", name, other, moved)
			}
		}
	}
}

// uncheckedUsers is an unchecked set with owners.
type uncheckedUsers struct {
	uncheckedSet
	users []int32
}

func (o uncheckedUsers) Users() []int32 { return o.users }

// The directions are the eigenvectors from which a matrix was made, the largest eigenvalue
// first.
func TestPrincipalEigenvectors_Recovered(t *testing.T) {
	const width, count = 40, 7
	random := rand.New(rand.NewPCG(8, 8))
	basis := make([][]float64, width) // orthonormal, by Gram and Schmidt, twice
	for i := range basis {
		basis[i] = make([]float64, width)
		for k := range basis[i] {
			basis[i][k] = random.NormFloat64()
		}
		for range 2 {
			for j := range i {
				dot := 0.0
				for k, v := range basis[j] {
					dot += v * basis[i][k]
				}
				for k, v := range basis[j] {
					basis[i][k] -= dot * v
				}
			}
		}
		norm := 0.0
		for _, v := range basis[i] {
			norm += v * v
		}
		for k := range basis[i] {
			basis[i][k] /= math.Sqrt(norm)
		}
	}
	upper := make([]float64, width*width)
	for i, v := range basis {
		value := 10 - float64(i) // some are negative, as noise makes them
		for a := range width {
			for b := a; b < width; b++ {
				upper[a*width+b] += value * v[a] * v[b]
			}
		}
	}
	got, err := principalEigenvectors(upper, width, count)
	if err != nil || len(got) != count*width {
		t.Fatal(len(got), err)
	}
	for k := range count {
		v, most := got[k*width:(k+1)*width], 0
		for i := range v {
			if math.Abs(basis[k][i]) > math.Abs(basis[k][most]) {
				most = i
			}
		}
		sign := math.Copysign(1, basis[k][most])
		for i := range v {
			if !(math.Abs(float64(v[i])-sign*basis[k][i]) <= 1e-6) {
				t.Fatalf("direction %d: %v at %d, want %v", k, v[i], i, sign*basis[k][i])
			}
		}
	}
}

// The noise on a matrix has deviation σ on the diagonal and σ/√2 off it. Six deviations of the
// variances' estimates are a false alarm in 10⁸ runs, and the seed is fixed.
func TestAddSymmetricNoise_Deviation(t *testing.T) {
	const width, sigma = 300, 4.0
	r := newRun(t, projectionConfig(t))
	upper := make([]float64, width*width)
	if err := addSymmetricNoise(upper, width, r.config.Projection.Noise, r.source, r.streams.projection(r.step)); err != nil {
		t.Fatal(err)
	}
	var diagonal, rest, cross float64
	for i := range width {
		for j := range width {
			v := upper[i*width+j]
			switch {
			case j < i && v != 0:
				t.Fatal("noise below the diagonal")
			case j == i:
				diagonal += v * v
			case j > i:
				rest += v * v
				cross += v * upper[i*width+i]
			}
		}
	}
	n, m := float64(width), float64(width*(width-1)/2)
	if d := diagonal/(n*sigma*sigma) - 1; !(math.Abs(d) <= 6*math.Sqrt(2/n)) {
		t.Errorf("variance on the diagonal off by %v", d)
	}
	if d := rest/(m*sigma*sigma/2) - 1; !(math.Abs(d) <= 6*math.Sqrt(2/m)) {
		t.Errorf("variance off the diagonal differs by %v", d)
	}
	if z := cross / (sigma * sigma / math.Sqrt2 * math.Sqrt(m)); !(math.Abs(z) <= 7) {
		t.Errorf("the diagonal and the rest go together: %v deviations", z)
	}
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
			if err := r.source.Normals64(normals, noise.Stream{Purpose: noise.Release, Vector: uint32(len(r.compiled.program.Parameters) + 2)}, 0); err != nil {
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
		directions, err := principalEigenvectors(want, features, 3)
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
			!slices.Equal(first.Lot.Queries, []ledger.Query{r.config.query(secondMomentsGroup, 1, 4, projectionLattice, 60)}) {
			t.Fatalf("%s: the ledger begins with %+v", policy, first)
		}
		if moments, others := countProjections(h); moments != 1 || others != r.StepsDone() || others == 0 || others == 1000 {
			t.Fatalf("%s: %d releases of moments and %d lots, of %d", policy, moments, others, r.StepsDone())
		}
		composed := ledger.History{Header: ledger.Header{Records: 60, Unit: "example", Adjacency: Sampling{Policy: policy}.Adjacency()}}
		composed.Lots = append(composed.Lots, ledger.RepeatedLot{Lot: first.Lot, Count: 1}, ledger.RepeatedLot{Lot: r.mechanism.costOfLot(0), Count: r.StepsDone()})
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
	if with, err := AffordableSteps(c); err != nil {
		t.Error(err)
	} else {
		c.Network, c.Projection = mlp, Projection{}
		if without, err := AffordableSteps(c); err != nil || with >= without {
			t.Errorf("%d lots with a projection, %d without one, %v", with, without, err)
		}
	}
}

// Nothing is released where the ledger cannot be written.
func TestProjection_FollowsLedgerEntry(t *testing.T) {
	r := newRun(t, projectionConfig(t))
	if err := r.account.ledger.Close(); err != nil {
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
		names, err := listCheckpoints(c.Files.CheckpointFolder)
		if err != nil {
			t.Fatal(err)
		}
		before := readFile(t, names[0])
		trainRun(t, r, func(p *Progress) error {
			names, err := listCheckpoints(c.Files.CheckpointFolder)
			for _, name := range names {
				saved, err := openCheckpoint(name)
				if err != nil {
					return err
				}
				saved.file.Close()
				if saved.projection == nil {
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
	wide := make([]float32, 3*(MaxProjectedFeatures+1))
	for want, change := range map[string]func(*Config){
		"6 directions of 5 features":    func(c *Config) { c.Projection.Directions = features + 1 },
		"-1 directions":                 func(c *Config) { c.Projection.Directions = -1 },
		"projection noise 0":            func(c *Config) { c.Projection.Noise = 0 },
		"projection noise -1":           func(c *Config) { c.Projection.Noise = -1 },
		"projection noise NaN":          func(c *Config) { c.Projection.Noise = math.NaN() },
		"projection noise +Inf":         func(c *Config) { c.Projection.Noise = math.Inf(1) },
		"set Config.Projection.Network": func(c *Config) { c.Projection.Network = nil },
		"the data have none": func(c *Config) {
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
		seen = strings.Contains(string(stacks), "created by github.com/dptrain/dptrain/engine.(*Run).principalDirections")
	}
	runtime.GOMAXPROCS(threads)
	if !seen {
		t.Error("the search was waited for")
	}
	if spent := r.account.ledger.History().Lots; len(spent) > 0 || r.Directions() != nil {
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
