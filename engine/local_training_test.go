package engine

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/lot"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
	"github.com/dptrain/dptrain/perexample"
)

// localConfig has 9 users with 1 to 5 examples; at most 4 of them take part.
func localConfig(t testing.TB) Config {
	c := testConfig(t)
	table := mlpExamples(27, 3)
	x, labels := make([]float32, 27*features), make([]float32, 27)
	rows := make([]int, 27)
	for i := range rows {
		rows[i] = i
	}
	if err := table.Read([][]float32{x, labels}, rows); err != nil {
		t.Fatal(err)
	}
	var users []int32
	for user := range 9 {
		for range 1 + user%5 {
			users = append(users, int32(user))
		}
	}
	n := len(users)
	rand.New(rand.NewPCG(1, 1)).Shuffle(n, func(i, j int) { users[i], users[j] = users[j], users[i] })
	c.Train = newTable(x[:n*features], labels[:n], users)
	c.Records = Records{Users: true, Examples: 4}
	c.LocalTraining = LocalTraining{Steps: 3, Rate: 0.2}
	c.Sampling, c.Steps = Sampling{Rate: 1}, 1
	c.Mechanism.Clipping = clip.Flat(clip.Constant(0.5), nil)
	useUnitSteps(&c)
	return c
}

// trainAlone returns how K steps of a run without privacy on some rows change the weights.
func trainAlone(t *testing.T, c Config, rows []int) (change []float64) {
	t.Helper()
	alone := testConfig(t)
	var err error
	if alone.Train, err = data.Subset(c.Train, rows); err != nil {
		t.Fatal(err)
	}
	alone.Device, alone.Mechanism = c.Device, Mechanism{NonPrivate: true}
	alone.Sampling, alone.Steps = Sampling{Rate: 1}, c.LocalTraining.Steps
	useUnitSteps(&alone)
	alone.Optimization.Schedule.Base = c.LocalTraining.Rate
	r := newRun(t, alone)
	before := flatWeights(t, r)
	trainRun(t, r, nil)
	for i, w := range flatWeights(t, r) {
		change = append(change, float64(w)-float64(before[i]))
	}
	return change
}

// The released weights move by the mean of the users' clipped changes, where each user's change is
// that of a separate run without privacy on the user's rows: with both arithmetics, with private and
// other runs, and where the rows of a step are computed in parts.
func TestLocalTraining_ReleasesMeanChange(t *testing.T) {
	for _, device := range deviceNames() {
		releasesMeanChange(t, device)
	}
}

func releasesMeanChange(t *testing.T, device string) {
	for _, arithmetic := range []Arithmetic{ExactArithmetic, FloatArithmetic} {
		for _, private := range []bool{true, false} {
			c := localConfig(t)
			c.Device.Name, c.Mechanism.Arithmetic, c.Mechanism.NonPrivate = device, arithmetic, !private
			r := newRun(t, c)
			localTrainerOf(r).Together = min(localTrainerOf(r).Together, 3)
			var want []float64
			clipped := 0
			for user := range 9 {
				rows := make([]int, 4)
				change := trainAlone(t, c, rows[:r.index.WriteParticipants(user, rows)])
				norm := 0.0
				for _, x := range change {
					norm = math.Hypot(norm, x)
				}
				scale := 1.0
				if private && norm > 0.5 {
					scale = 0.5 / norm
					clipped++
				}
				if want == nil {
					want = make([]float64, len(change))
				}
				for i, x := range change {
					want[i] += scale * x / 9
				}
			}
			if private {
				disableNoise(r)
				if clipped == 0 || clipped == 9 {
					t.Fatalf("%d of 9 changes are clipped: the test has no power", clipped)
				}
			}
			before := flatWeights(t, r)
			trainRun(t, r, nil)
			for i, w := range flatWeights(t, r) {
				if got := float64(w) - float64(before[i]); math.Abs(got-want[i]) > 2e-6 {
					t.Fatalf("%s, %s, private %v: weight %d moves by %v, want %v", device, arithmetic, private, i, got, want[i])
				}
			}
			if p := r.PrivateStats(); p.Records != 9 || private && p.Unclipped != 9-clipped || !(p.Loss > 0) {
				t.Errorf("private statistics %+v, want %d records clipped", p, clipped)
			}
		}
	}
}

// Every device computes the same run: with metrics, an optimizer that has state on the device, and an
// average.
func TestLocalTraining_DevicesAgree(t *testing.T) {
	var want []float32
	for _, device := range deviceNames() {
		c := localConfig(t)
		c.Device.Name, c.Steps = device, 4
		c.Statistics = []Statistic{MeanLoss(0.3, 2)}
		c.Optimization.Optimizer = optim.Optimizer{Kind: optim.KindAdam, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-3}
		c.Optimization.Average = optim.Average{Decay: 0.5}
		r := newRun(t, c)
		trainRun(t, r, nil)
		if got := flatWeights(t, r); want == nil {
			want = got
		} else if d := relativeDistance(want, got); d > 1e-4 {
			t.Errorf("%s: the weights differ by %v from those of the CPU", device, d)
		}
	}
}

// The steps of a user take the rows in the order of the data and begin again after the last one. The
// gradient of a row is its number.
func TestLocalTraining_OrderOfRows(t *testing.T) {
	for _, test := range []struct{ rows, steps, batch int }{{1, 3, 2}, {2, 2, 2}, {5, 4, 2}, {5, 1, 3}, {5, 7, 5}, {3, 2, 64}} {
		c := localConfig(t)
		c.Network = linearNetwork(1)
		var err error
		table := newColumnTable(test.rows, func(i, _, _ int) float32 { return float32(int(1) << i) }, 1)
		if c.Train, err = data.NewTable(table.Columns(), [][]float32{columnOf(t, table)}, make([]int32, test.rows)); err != nil {
			t.Fatal(err)
		}
		c.Records.Examples = 5
		c.LocalTraining = LocalTraining{Steps: test.steps, Rate: 0.5, Batch: test.batch}
		c.Mechanism, c.Budget.AllowLargeDelta = Mechanism{NonPrivate: true}, true
		r := newRun(t, c)
		trainRun(t, r, nil)
		n := min(test.rows, test.batch)
		want := 0.0
		for k := range test.steps * n {
			want -= 0.5 * math.Ldexp(1, k%test.rows) / float64(n)
		}
		if got := float64(flatWeights(t, r)[0]); math.Abs(got-want) > 1e-5*math.Abs(want) {
			t.Errorf("%+v: the weight is %v, want %v", test, got, want)
		}
	}
}

// One step on all examples with rate R and bound R·C is a step on clipped gradients of users.
func TestLocalTraining_OneStepIsDPSGD(t *testing.T) {
	c := localConfig(t)
	c.Mechanism.Arithmetic = FloatArithmetic
	c.LocalTraining = LocalTraining{Steps: 1, Rate: 0.25}
	c.Mechanism.Clipping = clip.Flat(clip.Constant(0.25), nil)
	var weights [2][]float32
	for i := range weights {
		if i == 1 {
			c.LocalTraining = LocalTraining{}
			c.Mechanism.Clipping = clip.Flat(clip.Constant(1), nil)
			c.Optimization.Schedule.Base = 0.25
		}
		c.Files.Ledger += "x"
		r := newRun(t, c)
		disableNoise(r)
		trainRun(t, r, nil)
		weights[i] = flatWeights(t, r)
	}
	if d := relativeDistance(weights[0], weights[1]); d > 1e-5 {
		t.Errorf("the weights differ by %v", d)
	}
}

// A user's change has the same bits for any users before. Another content of a user moves the
// sum of a lot by at most the lattice, in integers.
func TestLocalTraining_UsersAreIndependent(t *testing.T) {
	for _, device := range deviceNames() {
		c := localConfig(t)
		c.Device.Name, c.LocalTraining.Batch = device, 3
		usersAreIndependent(t, c)
	}
}

func usersAreIndependent(t *testing.T, c Config) {
	hostile := func(c Config, user int32, value float32) Config {
		x := make([]float32, c.Train.Len()*features)
		labels := make([]float32, c.Train.Len())
		rows := make([]int, c.Train.Len())
		for i := range rows {
			rows[i] = i
		}
		if err := c.Train.Read([][]float32{x, labels}, rows); err != nil {
			t.Fatal(err)
		}
		users := data.Users(c.Train)
		for i, u := range users {
			if u == user {
				for j := range features {
					x[i*features+j] = value
				}
			}
		}
		c.Train = newTable(x, labels, users)
		return c
	}
	change := func(c Config, users ...int) (bits [][]float64) {
		c.Files.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
		r := newRun(t, c)
		defer r.Close()
		r.lot.Loader.StartLot(0)
		localTrainerOf(r).Start()
		for _, user := range users {
			bits = nil
			for _, v := range r.lot.Mechanism.Vectors.Vectors {
				bits = append(bits, v)
			}
			if _, err := localTrainerOf(r).ComputeChange(bits, user); err != nil {
				t.Fatal(err)
			}
		}
		return bits
	}
	for _, value := range []float32{0, 1, 1e30, math.MaxFloat32} {
		attacked := hostile(c, 4, value)
		for user := range 9 {
			if user == 4 {
				continue
			}
			alone, after := change(c, user), change(attacked, 4, 8-user, 4, user)
			for v := range alone {
				if !slices.Equal(alone[v], after[v]) {
					t.Fatalf("features of %v: the change of user %d depends on the users before", value, user)
				}
			}
		}
	}
	sums := func(c Config) []int64 {
		c.Files.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
		r := newRun(t, c)
		if err := r.sumLot(); err != nil {
			t.Fatal(err)
		}
		return slices.Clone(r.lot.Mechanism.Vectors.Sums[0].Integers)
	}
	blank := c
	isBlank := make([]bool, c.Train.Len())
	for i, u := range data.Users(c.Train) {
		isBlank[i] = u == 4
	}
	blank.Train = blankedSet{c.Train.(*data.Table), isBlank}
	without := sums(blank)
	for _, value := range []float32{0, 1, -100, 1e30} {
		squares := 0.0
		for i, x := range sums(hostile(c, 4, value)) {
			squares += float64(x-without[i]) * float64(x-without[i])
		}
		if math.Sqrt(squares) > 1<<30 {
			t.Errorf("features of %v move the sum by %v of the lattice", value, math.Sqrt(squares)/(1<<30))
		}
	}
}

// A user whose steps diverge to infinity or NaN contributes nothing, and the next ones contribute what
// they contribute without it.
func TestLocalTraining_DivergingUser(t *testing.T) {
	sum := func(value float32) (integers []int64, excluded int) {
		c := localConfig(t)
		c.Network = linearNetwork(2)
		table := newColumnTable(6, func(i, _, j int) float32 {
			if i == 1 {
				return value
			}
			return float32(i + j)
		}, 2)
		var err error
		if c.Train, err = data.NewTable(table.Columns(), [][]float32{columnOf(t, table)}, []int32{0, 1, 2, 3, 4, 5}); err != nil {
			t.Fatal(err)
		}
		c.LocalTraining.Rate = 3
		r := newRun(t, c)
		if err := r.sumLot(); err != nil {
			t.Fatal(err)
		}
		return r.lot.Mechanism.Vectors.Sums[0].Integers, r.lot.Mechanism.Clipper.ExcludedRecords()
	}
	none, excluded := sum(0)
	if excluded != 0 {
		t.Fatalf("%d users of a change of 0 are excluded", excluded)
	}
	for _, value := range []float32{math.MaxFloat32, -math.MaxFloat32} {
		if got, excluded := sum(value); !slices.Equal(got, none) || excluded != 1 {
			t.Errorf("features of %v: the sum is %v without the user and %v with it, %d users are excluded", value, none, got, excluded)
		}
	}
}

// unreadableRow fails when a row is read.
type unreadableRow struct {
	data.Set
	row      int
	panicked bool
}

func (f unreadableRow) Users() []int32 { return data.Users(f.Set) }

func (f unreadableRow) Read(dst [][]float32, rows []int) error {
	if slices.Contains(rows, f.row) && len(rows) < 20 { // not when the set is checked
		if f.panicked {
			panic("this row is unreadable")
		}
		return errors.New("this row is unreadable")
	}
	return f.Set.Read(dst, rows)
}

// A run that fails in the middle of a user's steps has the released weights, not those of the user.
func TestLocalTraining_FailureHidesUser(t *testing.T) {
	for _, panicked := range []bool{false, true} {
		c := localConfig(t)
		c.LocalTraining.Batch = 1
		rows := make([]int, 4)
		r := newRun(t, c)
		r.index.WriteParticipants(3, rows)
		r.Close()
		c.Files.Ledger += "x"
		c.Train = unreadableRow{c.Train, rows[2], panicked}
		r = newRun(t, c)
		before := flatWeights(t, r)
		var err error
		p := recoverPanic(func() { err = r.Train(t.Context(), nil) })
		if err == nil && p == nil {
			t.Fatal("the run did not fail")
		}
		if !slices.Equal(flatWeights(t, r), before) {
			t.Error("the weights are those of a user")
		}
		if err := r.Train(t.Context(), nil); err == nil {
			t.Error("the run goes on after the failure")
		}
	}
}

// The released mean is the gradient of the run's optimizer, with its factors and its average.
func TestLocalTraining_Optimizers(t *testing.T) {
	for _, kind := range optim.Names() {
		o, err := optim.ParseRule(kind)
		if err != nil {
			t.Fatal(err)
		}
		c := localConfig(t)
		c.Optimization = Optimization{Optimizer: o, Schedule: optim.Schedule{Base: 0.1}, Average: optim.Average{Decay: 0.5},
			LearningRateMultiplier: func(p string) float64 { return map[string]float64{"fc1.bias": 2}[p] + 1 }}
		c.Steps = 3
		r := newRun(t, c)
		state := r.network.Executable.State()
		weights, slots, average := make([][]float32, len(state.Weights)), make([][][]float32, len(state.Weights)), make([][]float32, len(state.Weights))
		for v, w := range state.Weights {
			weights[v], average[v] = slices.Clone(w), make([]float32, len(w))
			for range o.Slots() {
				slots[v] = append(slots[v], make([]float32, len(w)))
			}
		}
		trainRun(t, r, func(p *Progress) error {
			for v, mean := range r.lot.Mechanism.Vectors.Means {
				gradient := make([]float32, len(mean))
				for i, x := range mean {
					gradient[i] = float32(-x)
				}
				step := optim.Step{Number: p.Lot, Rate: 0.1, DecayMultiplier: 1, NoiseDeviation: 0.5 / 9}
				if r.network.Program.Parameters[v].Name == "fc1.bias" {
					step.Rate *= 3
				}
				if err := o.Update(step, weights[v], gradient, slots[v]); err != nil {
					return err
				}
				result := weights[v]
				if e, ok := o.(optim.Extrapolator); ok {
					result = e.Result(slots[v])
				}
				if err := (plan.Average{Decay: 0.5}).Apply(p.Lot, average[v], result); err != nil {
					return err
				}
				if !slices.Equal(weights[v], state.Weights[v]) || !slices.Equal(average[v], state.Average[v]) {
					return fmt.Errorf("%s, lot %d: the weights differ", kind, p.Lot)
				}
			}
			return nil
		})
	}
}

// Users' changes have the groups, adaptive bounds and weights of gradients. The ledger states them,
// and ε is that of a run on gradients with the same settings.
func TestLocalTraining_IsAccounted(t *testing.T) {
	c := localConfig(t)
	c.Sampling, c.Steps = Sampling{Lot: 3}, 4
	c.Mechanism.Clipping = []clip.Group{
		{Name: "first", Parameters: []string{"fc1*"}, Bound: clip.Quantile{Initial: 0.1, Target: 0.5, Rate: 0.2, Noise: 1}},
		{Name: "second", Parameters: []string{"fc2.*"}, Scales: []float64{2}, Bound: clip.Constant(0.2)},
	}
	var epsilons []float64
	for range 2 {
		planned := c.PlannedHistory()
		r := newRun(t, c)
		bound := r.lot.Mechanism.Clipper.Sensitivities()[0]
		trainRun(t, r, nil)
		if r.lot.Mechanism.Clipper.Sensitivities()[0] == bound {
			t.Error("the adaptive bound does not adapt")
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		spent, err := r.Spent("rdp")
		if err != nil {
			t.Fatal(err)
		}
		epsilons = append(epsilons, spent.Epsilon)
		h := readLedger(t, c.Files.Ledger)
		if h.LotCount() != 4 || h.Header.Unit != "user" || len(h.Lots[0].Lot.Queries) != 3 || h.Lots[0].Lot.Sampling != planned.Lots[0].Lot.Sampling {
			t.Errorf("the ledger has %+v", h)
		}
		if q := h.Lots[0].Lot.Queries[2]; c.LocalTraining.Steps > 0 && (q.Sensitivity != 0.2 || q.Lattice != 1<<30) {
			t.Errorf("the second group has the query %+v", q)
		}
		c.LocalTraining, c.Files.Ledger = LocalTraining{}, c.Files.Ledger+"x"
	}
	if math.Abs(epsilons[0]/epsilons[1]-1) > 1e-9 {
		t.Errorf("ε = %v with local steps and %v without", epsilons[0], epsilons[1])
	}
}

// A resumed run continues with weights and optimizer state, and is refused with other local steps.
func TestLocalTraining_Resumes(t *testing.T) {
	for _, policy := range []sample.Policy{sample.PolicyPoisson, sample.PolicyShuffle} {
		c := localConfig(t)
		c.Sampling, c.Steps = Sampling{Lot: 3, Policy: policy}, 3
		c.Optimization.Optimizer = optim.Optimizer{Kind: optim.KindAdam, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-3}
		c.Files.CheckpointFolder, c.Files.CheckpointInterval = t.TempDir(), time.Nanosecond // local steps wait for the writer
		r := newRun(t, c)
		trainRun(t, r, nil)
		state := runState(r)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		c.Steps = 6
		for _, change := range []func(*LocalTraining){
			func(l *LocalTraining) { l.Steps++ }, func(l *LocalTraining) { l.Rate *= 2 }, func(l *LocalTraining) { l.Batch = 1 }, func(l *LocalTraining) { *l = LocalTraining{} },
		} {
			other := c
			change(&other.LocalTraining)
			if _, err := Resume(other); err == nil || !strings.Contains(err.Error(), "local training") {
				t.Errorf("%+v: %v", other.LocalTraining, err)
			}
		}
		resumed := resumeRun(t, c)
		if runState(resumed) != state {
			t.Error("the resumed run has another state")
		}
		trainRun(t, resumed, nil)
		if err := resumed.Close(); err != nil {
			t.Fatal(err)
		}
		if n := readLedger(t, c.Files.Ledger).LotCount(); n != 6 {
			t.Errorf("%s: the ledger has %d lots, want 6", policy, n)
		}
	}
}

func TestLocalTraining_RefusesSettings(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"Steps -1: give": func(c *Config) { c.LocalTraining.Steps = -1 },
		"Rate NaN":       func(c *Config) { c.LocalTraining.Rate = math.NaN() },
		"Batch -1":       func(c *Config) { c.LocalTraining.Batch = -1 },
		"examples for all steps of a user": func(c *Config) {
			c.LocalTraining.Steps, c.LocalTraining.Batch = maxLocalSteps, 1<<12
		},
		"needs Records.Users": func(c *Config) { c.Records = Records{} },
		"a microbatch of 2":   func(c *Config) { c.Microbatch = 2 },
		"augmentation is not": func(c *Config) { c.Augmentation = Augmentation{Views: 2, Transform: func([][]float32, *rand.Rand) {}} },
		"a projection is not": func(c *Config) {
			c.Projection = Projection{Directions: 2, Noise: 1, Network: func([]float32) (perexample.Build, error) { return mlp, nil }}
		},
		"constant work is not": func(c *Config) { c.Sampling.ConstantWork = true },
	} {
		c := localConfig(t)
		change(&c)
		r, err := New(c)
		if err == nil {
			r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// The noise that a lot adds is that of its ledger entry, with schedules, choices and adaptive bounds.
func TestLocalTraining_NoiseIsThatOfLedger(t *testing.T) {
	for name, change := range map[string]func(c *Config){
		"schedule": func(c *Config) {
			c.Mechanism.NoiseMultiplier, c.Mechanism.NoiseMultiplierAt = 0, func(lot int) float64 { return 1 + float64(lot) }
			c.Mechanism.Clipping = clip.Flat(clip.Schedule(func(lot int) float64 { return 0.5 / float64(1+lot) }), nil)
		},
		"choice": func(c *Config) {
			c.Budget.StopAtEpsilon = 100
			c.Mechanism.Choose = func(p *Progress) LotChoice {
				return LotChoice{NoiseMultiplier: 1 + float64(p.Lot), ClipFactor: 1 / float64(1+p.Lot)}
			}
		},
		"adaptive": func(c *Config) {
			c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 0.1, Target: 0.5, Rate: 0.2, Noise: 2}, nil)
		},
	} {
		c := localConfig(t)
		c.Sampling, c.Steps = Sampling{Lot: 3}, 4
		change(&c)
		r := newRun(t, c)
		var noises []float64
		rows := &spiedReads{Set: c.Train, before: func() {
			entry, sum := r.lot.Mechanism.Entry.Queries[0], r.lot.Mechanism.Vectors.Sums[0]
			if sum.Query != entry || sum.Sampler.Sigma != entry.LatticeNoise() {
				t.Fatalf("%s: the sum has the query %+v and the noise %v, the ledger %+v", name, sum.Query, sum.Sampler.Sigma, entry)
			}
			if n := len(noises); n == 0 || noises[n-1] != entry.Noise/entry.Sensitivity+entry.Sensitivity {
				noises = append(noises, entry.Noise/entry.Sensitivity+entry.Sensitivity)
			}
		}}
		localTrainerOf(r).Train = rows
		trainRun(t, r, nil)
		if len(noises) < 3 {
			t.Errorf("%s: %d different queries in 4 lots: the test has no power", name, len(noises))
		}
		r.Close()
		queries := 0
		for _, lot := range readLedger(t, c.Files.Ledger).Lots {
			queries += lot.Count
		}
		if queries != 4 {
			t.Errorf("%s: the ledger has %d lots", name, queries)
		}
	}
}

// spiedReads calls a function before each read.
type spiedReads struct {
	data.Set
	before func()
}

func (s *spiedReads) Read(dst [][]float32, rows []int) error {
	s.before()
	return s.Set.Read(dst, rows)
}

// Local steps with dropout of a user late in a large lot give no error: how many users a lot draws is
// private.
func TestLocalTraining_DropoutOfLastUser(t *testing.T) {
	c := localConfig(t)
	c.Network = mlpWithDropout(0.5)
	r := newRun(t, c)
	r.lot.Loader.StartLot(0)
	localTrainerOf(r).Start()
	r.lot.Loader.Loaded = noise.MaxValues
	for user := range 3 {
		if _, err := localTrainerOf(r).ComputeChange(r.lot.Mechanism.Vectors.Vectors, user); err != nil {
			t.Fatal(err)
		}
	}
}

// localTrainerOf returns how a run takes local steps; nil where it takes none.
func localTrainerOf(r *Run) *lot.LocalSteps {
	t, _ := r.lot.Method.(*lot.LocalSteps)
	return t
}

// recoverPanic returns the value of a function's panic, or nil where it returns.
func recoverPanic(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
