package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/random"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// checkpointedConfig is a run with everything that a checkpoint can contain.
func checkpointedConfig(t testing.TB) Config {
	c := testConfig(t)
	c.Files.CheckpointFolder = filepath.Join(filepath.Dir(c.Files.Ledger), "checkpoint")
	c.Files.CheckpointInterval = time.Hour
	c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 4}, nil)
	c.Optimization.Optimizer = optim.Optimizer{Kind: optim.KindAdam, Beta1: 0.9, Beta2: 0.999, Epsilon: 1e-8}
	c.Optimization.Average.Decay = 0.9
	return c
}

func resumeRun(t testing.TB, c Config) *Run {
	t.Helper()
	r, err := Resume(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// runState returns the whole state of a run.
func runState(r *Run) string {
	text := fmt.Sprint(r.network.Executable.State())
	if r.lot.Mechanism.Clipper != nil {
		text += fmt.Sprint(r.lot.Mechanism.Clipper.State(nil))
	}
	return text
}

// A resumed run has the state that the stopped run had, does the remaining lots, and has one
// history in the ledger.
func TestResume_Continues(t *testing.T) {
	for _, private := range []bool{true, false} {
		c := checkpointedConfig(t)
		c.Mechanism.NonPrivate = !private
		first := newRun(t, c)
		trainRun(t, first, nil)
		before := runState(first)
		first.Close()

		c.Steps = 9
		second := resumeRun(t, c)
		if got := runState(second); got != before {
			t.Fatalf("the state is\n%s\nwant\n%s", got, before)
		}
		if second.StepsDone() != 5 {
			t.Fatalf("%d steps done", second.StepsDone())
		}
		numbers, steps := []uint64{}, []int{}
		second.network.Executable = &releaseSpy{second.network.Executable, func(p *plan.Release) error {
			numbers, steps = append(numbers, p.Lot), append(steps, p.Step)
			return nil
		}}
		trainRun(t, second, nil)
		if fmt.Sprint(numbers, steps) != "[5 6 7 8] [6 7 8 9]" {
			t.Errorf("lots %v, steps %v", numbers, steps)
		}
		after := runState(second)
		second.Close()
		if private {
			if h := readLedger(t, c.Files.Ledger); h.LotCount() != 9 {
				t.Errorf("the ledger contains %d lots", h.LotCount())
			}
			if report, err := ledger.Verify(c.Files.Ledger); err != nil || report.Runs != 2 || !report.Ended {
				t.Errorf("ledger %+v, %v", report, err)
			}
		}
		third := resumeRun(t, c)
		if third.StepsDone() != 9 || runState(third) != after {
			t.Error("the last checkpoint is not where the run ended")
		}
		trainRun(t, third, func(*Progress) error { t.Error("a lot too many"); return nil })
	}
}

// Lots that are repeated, because the checkpoint is older, have other noise and other records,
// with a seed, too; what was spent stays spent.
func TestResume_DrawsFreshNoise(t *testing.T) {
	for _, seeded := range []bool{true, false} {
		c := checkpointedConfig(t)
		if !seeded {
			c.Seed = nil
		}
		keys := map[any]bool{}
		made := map[string]bool{}
		total := 0
		for k := range 4 {
			var r *Run
			if k == 0 {
				r = newRun(t, c)
			} else {
				r = resumeRun(t, c)
			}
			if r.StepsDone() != 0 {
				t.Fatalf("%d steps done; the checkpoint is of 0", r.StepsDone())
			}
			if keys[random.KeyOf(r.source)] {
				t.Error("a key was used twice")
			}
			keys[random.KeyOf(r.source)] = true
			for range 3 {
				if err := r.runLot(); err != nil { // Train would save at its end
					t.Fatal(err)
				}
				total++
			}
			if made[runState(r)] {
				t.Error("two runs came to the same weights")
			}
			made[runState(r)] = true
			r.Close()
			if n := readLedger(t, c.Files.Ledger).LotCount(); n != total {
				t.Errorf("the ledger contains %d lots, %d were released", n, total)
			}
		}
		if h := readLedger(t, c.Files.Ledger); h.Header.Secure == seeded {
			t.Errorf("seeded %v, secure %v", seeded, h.Header.Secure)
		}
	}
}

// A seeded run has another key at each resumption, also where newer checkpoints are lost and the
// run goes back by as many lots as were spent in addition.
func TestResume_OlderCheckpointDrawsFreshNoise(t *testing.T) {
	c := checkpointedConfig(t)
	c.Steps = 20
	keys := map[any]bool{}
	until := func(r *Run, steps int) {
		t.Helper()
		if keys[random.KeyOf(r.source)] {
			t.Errorf("a key was used twice, from lot %d on", r.StepsDone())
		}
		keys[random.KeyOf(r.source)] = true
		stop := errors.New("stop")
		if err := r.Train(context.Background(), func(p *Progress) error {
			if p.Lot == steps {
				return stop
			}
			return nil
		}); err != stop {
			t.Fatal(err)
		}
		r.Close()
	}
	until(newRun(t, c), 8)
	name := filepath.Join(c.Files.CheckpointFolder, "lot-000000000008.checkpoint")
	old := readFile(t, name)
	until(resumeRun(t, c), 10)
	until(resumeRun(t, c), 12)
	if err := os.RemoveAll(c.Files.CheckpointFolder); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(c.Files.CheckpointFolder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, old, 0o644); err != nil {
		t.Fatal(err)
	}
	until(resumeRun(t, c), 12)
}

// A seeded resumption marks a secure ledger as insecure.
func TestResume_SeedMarksLedger(t *testing.T) {
	c := checkpointedConfig(t)
	seed := c.Seed
	c.Seed = nil
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()
	c.Seed, c.Steps = seed, 6
	trainRun(t, resumeRun(t, c), nil)
	if readLedger(t, c.Files.Ledger).Header.Secure {
		t.Error("the ledger is still marked secure")
	}
}

// A resumed run of shuffled lots begins the next pass, and the ledger contains the interrupted
// pass as complete.
func TestResume_CompletesInterruptedPass(t *testing.T) {
	for _, done := range []int{1, 4, 5, 7} {
		c := checkpointedConfig(t)
		c.Sampling.Policy, c.Steps = sample.PolicyShuffle, done // 5 lots a pass
		r := newRun(t, c)
		trainRun(t, r, nil)
		r.Close()
		c.Steps = done + 5
		r = resumeRun(t, c)
		seen := map[int]int{}
		for range 5 {
			for _, record := range drawLot(t, r, r.step-r.firstStep) {
				seen[record]++
			}
			if err := r.runLot(); err != nil {
				t.Fatal(err)
			}
		}
		if len(seen) != 60 {
			t.Errorf("after %d lots, the next five contained %d records; a pass contains all 60", done, len(seen))
		}
		shown := r.account.Meter
		shown.Counted = 0
		e := shown.Current(0)
		r.Close()
		if n, want := readLedger(t, c.Files.Ledger).LotCount(), (done+4)/5*5+5; n != want {
			t.Errorf("after %d lots and five more the ledger contains %d, want %d", done, n, want)
		}
		if a, err := r.Spent(c.Budget.Accountant); err != nil || !(math.Abs(a.Epsilon-e) <= 1e-9) {
			t.Errorf("shown %v, spent %v (%v)", e, a.Epsilon, err)
		}
	}
}

// The error names the difference, and the ledger does not change.
func TestResume_Refuses(t *testing.T) {
	c := checkpointedConfig(t)
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()
	ledger := readFile(t, c.Files.Ledger)
	for _, test := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Train = mlpExamples(61, 3) }, "records is 61 (it was 60)"},
		{func(c *Config) {
			s := newUncheckedSet()
			s.columns[1].Name = "answer"
			c.Train = s
		}, "column label is missing"},
		{func(c *Config) { c.Records.Examples = 2 }, "microbatch:2"},
		{func(c *Config) {
			c.Network = func(batch int) (*perexample.Network, error) {
				n := layer.NewBuilder(batch, 1)
				x, labels := n.Input("x", features), n.Input("label")
				logits := layer.Dense(n, layer.Dense(n, x, "fc1", 8, layer.Tanh), "fc2", classes, layer.Identity)
				n.SetLoss(layer.CrossEntropy(n, logits, labels), logits)
				return n.Network()
			}
		}, "parameter fc1.weight is (5, 8) (it was (5, 7))"},
		{func(c *Config) {
			c.Network = func(batch int) (*perexample.Network, error) {
				n := layer.NewBuilder(batch, 1)
				x, labels := n.Input("x", features), n.Input("label")
				logits := layer.Dense(n, layer.Dense(n, x, "fc1", 7, layer.ReLU), "fc2", classes, layer.Identity)
				n.SetLoss(layer.CrossEntropy(n, logits, labels), logits)
				return n.Network()
			}
		}, "operations of the network"},
		{func(c *Config) { c.Mechanism.NoiseMultiplier = 2 }, "noise is 2 (it was 1)"},
		{func(c *Config) { c.Mechanism.Allocation = DimensionAdjusted }, "allocation is dimension"},
		{func(c *Config) { c.Mechanism.Clipping = nil }, "group gradient is"},
		{func(c *Config) { c.Mechanism.Clipping = perParameterClipping(clip.Constant(1)) }, "group fc1.weight is new"},
		{func(c *Config) { c.Sampling.Lot = 10 }, "expected lot is 10"},
		{func(c *Config) { c.Sampling.Policy = sample.PolicyFixed }, "sampling is fixed (it was poisson)"},
		{func(c *Config) { c.Statistics = []Statistic{MeanLoss(1, 1)} }, "statistic loss is new"},
		{func(c *Config) { c.Optimization.Optimizer = optim.Optimizer{} }, "optimizer is"},
		{func(c *Config) { c.Optimization.Schedule.Base = 1 }, "schedule is"},
		{func(c *Config) {
			c.Optimization.Schedule.Base, c.Optimization.LearningRateAt = 0, func(int) float64 { return 0.1 }
		}, "schedule is"},
		{func(c *Config) { c.Optimization.LearningRateMultiplier = multiplierOf("fc2.weight", 3) }, "learning rate of fc2.weight is new (times 3)"},
		{func(c *Config) { c.Optimization.WeightDecayMultiplier = multiplierOf("fc1.bias", 0) }, "weight decay of fc1.bias is new (times 0)"},
		{func(c *Config) { c.Optimization.Average.Decay = 0 }, "average is 0"},
		{func(c *Config) { c.Mechanism.NonPrivate = true }, "private is false"},
		{func(c *Config) { c.Steps = 4 }, "has done 5 lots"},
		{func(c *Config) { c.Steps, c.Budget.StopAtEpsilon = 9, 1e-3 }, "budget"},
		{func(c *Config) { c.Files.CheckpointFolder = "" }, "nothing to resume"},
		{func(c *Config) { c.Files.CheckpointFolder += "2" }, "contains lots that were spent"},
		{func(c *Config) { c.Files.Ledger += "2" }, "restore it"},
	} {
		d := c
		test.change(&d)
		if r, err := Resume(d); err == nil {
			r.Close()
			t.Errorf("resumed; want %q", test.want)
		} else if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q, want %q", err, test.want)
		}
		now := readFile(t, c.Files.Ledger)
		if test.want == "contains lots that were spent" {
			ledger = now // the ledger was opened and closed
		}
		if string(now) != string(ledger) {
			t.Fatalf("%q: the ledger was written to", test.want)
		}
	}
	// All settings that may differ do.
	d := c
	d.Steps, d.Device.Threads, d.Microbatch, d.Budget.Accountant, d.Budget.Delta, d.Budget.StopAtEpsilon = 7, 2, 3, "rdp", 1e-6, 100
	trainRun(t, resumeRun(t, d), nil)
}

// A ledger without lines that the checkpoint refers to understates the cost; Resume refuses it.
func TestResume_RefusesTruncatedLedger(t *testing.T) {
	c := checkpointedConfig(t)
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()
	text := readFile(t, c.Files.Ledger)
	lines := strings.SplitAfter(string(text), "\n")
	for keep := range len(lines) - 3 { // the last lines end the run, after the checkpoint
		if err := os.WriteFile(c.Files.Ledger, []byte(strings.Join(lines[:keep], "")), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Resume(c); !errors.Is(err, state.ErrDamaged) {
			t.Errorf("with %d of %d lines: %v", keep, len(lines)-1, err)
		}
	}
}

// The predecessor of a damaged checkpoint is used; without one, the error names the damage.
func TestResume_DamagedCheckpoint(t *testing.T) {
	c := checkpointedConfig(t)
	c.Files.CheckpointInterval = 1
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()
	names, err := state.List(c.Files.CheckpointFolder)
	if err != nil || len(names) != 2 {
		t.Fatalf("checkpoints %v (%v), want two", names, err)
	}
	if err := os.Truncate(names[0], 1000); err != nil {
		t.Fatal(err)
	}
	r = resumeRun(t, c)
	if r.StepsDone() >= 5 {
		t.Errorf("%d steps from the checkpoint before the last", r.StepsDone())
	}
	trainRun(t, r, nil)
	r.Close()
	if r = resumeRun(t, c); r.StepsDone() != 5 {
		t.Errorf("%d steps", r.StepsDone())
	}
	r.Close()
	names, err = state.List(c.Files.CheckpointFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.Truncate(name, 100); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Resume(c); !errors.Is(err, state.ErrDamaged) || !strings.Contains(err.Error(), names[0]) {
		t.Errorf("error %v", err)
	}
}

// After a stop at any point of New, Resume begins the run.
func TestResume_StoppedDuringNew(t *testing.T) {
	for name, prepare := range map[string]func(c Config){
		"nothing":       func(Config) {},
		"empty ledger":  func(c Config) { os.WriteFile(c.Files.Ledger, nil, 0o644) },
		"half a header": func(c Config) { os.WriteFile(c.Files.Ledger, []byte(`{"ledger":"dptr`), 0o644) },
		"header alone":  func(c Config) { newRun(t, withoutCheckpoint(c)).Close() },
		"half a file": func(c Config) {
			os.MkdirAll(c.Files.CheckpointFolder, 0o755)
			os.WriteFile(filepath.Join(c.Files.CheckpointFolder, "unfinished"), []byte("x"), 0o644)
		},
		"only a folder":  func(c Config) { os.MkdirAll(c.Files.CheckpointFolder, 0o755) },
		"without ledger": func(c Config) {},
	} {
		c := checkpointedConfig(t)
		c.Mechanism.NonPrivate = name == "without ledger"
		prepare(c)
		r, err := Resume(c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		trainRun(t, r, nil)
		r.Close()
		if r.StepsDone() != 5 {
			t.Errorf("%s: %d steps", name, r.StepsDone())
		}
	}
}

func withoutCheckpoint(c Config) Config {
	c.Files.CheckpointFolder = ""
	return c
}

// A checkpoint that cannot be written ends the run with an error and leaves the older one
// intact.
func TestCheckpointWriter_FullDisk(t *testing.T) {
	c := checkpointedConfig(t)
	c.Files.CheckpointInterval = 1
	c.Steps = 1_000_000 // more than the run can do before the write fails
	r := newRun(t, c)
	lot := 0
	err := r.Train(t.Context(), func(p *Progress) error {
		if lot = p.Lot; lot == 3 {
			r.checkpoints.Wait()
			// A folder of the same name prevents the file.
			return os.MkdirAll(filepath.Join(c.Files.CheckpointFolder, "unfinished", "full"), 0o755)
		}
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "checkpoint") || lot == c.Steps {
		t.Errorf("error %v after %d lots", err, lot)
	}
	r.Close()
	if err := os.RemoveAll(filepath.Join(c.Files.CheckpointFolder, "unfinished")); err != nil {
		t.Fatal(err)
	}
	if r = resumeRun(t, c); r.StepsDone() == 0 || r.StepsDone() > 3 {
		t.Errorf("resumed at %d", r.StepsDone())
	}

	c = checkpointedConfig(t)
	c.Steps = 1
	r = newRun(t, c)
	if err := r.Train(t.Context(), func(p *Progress) error {
		r.checkpoints.Wait()
		return os.MkdirAll(filepath.Join(c.Files.CheckpointFolder, "unfinished", "full"), 0o755)
	}); !errors.Is(err, state.ErrCheckpoint) {
		t.Errorf("of the last checkpoint: error %v", err)
	}

	c = checkpointedConfig(t)
	if err := os.MkdirAll(filepath.Join(c.Files.CheckpointFolder, "unfinished", "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := New(c); !errors.Is(err, state.ErrCheckpoint) {
		t.Errorf("of the first checkpoint: error %v", err)
	}
	if _, err := os.Stat(c.Files.Ledger); err == nil {
		t.Error("a ledger was left behind, and no checkpoint")
	}
}

// A checkpoint contains no word of the key, in any byte order.
func TestCheckpoint_ContainsNoKey(t *testing.T) {
	c := checkpointedConfig(t)
	c.Seed = nil
	r := newRun(t, c)
	trainRun(t, r, nil)
	names, err := state.List(c.Files.CheckpointFolder)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, c.Files.Ledger) {
		file := readFile(t, name)
		for _, w := range random.KeyOf(r.source) {
			little := []byte{byte(w), byte(w >> 8), byte(w >> 16), byte(w >> 24)}
			big := slices.Clone(little)
			slices.Reverse(big)
			// A single match is a false alarm with probability below 1e-4: 16 words at 10,000
			// positions, 2⁻³² each. A key would give at least two matches.
			if strings.Contains(string(file), string(little)) && strings.Contains(string(file), string(big)) || strings.Contains(string(file), fmt.Sprint(w)) && w > 1<<30 {
				t.Errorf("%s contains a word of the key", name)
			}
		}
	}
}

// Resume refuses a run that another process resumed and ended in the meantime: its spending and
// its results are unknown.
func TestResume_RefusesConcurrentRun(t *testing.T) {
	c := checkpointedConfig(t)
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()
	c.Steps = 9
	late, other := c, true
	late.Network = func(batch int) (*perexample.Network, error) {
		if other {
			other = false
			r := resumeRun(t, c)
			trainRun(t, r, nil)
			r.Close()
		}
		return mlp(batch)
	}
	if _, err := Resume(late); err == nil || !strings.Contains(err.Error(), "resume again") {
		t.Errorf("error %v", err)
	}
	if r = resumeRun(t, late); r.StepsDone() != 9 {
		t.Errorf("%d steps, then", r.StepsDone())
	}
	r.Close()
	if n := readLedger(t, c.Files.Ledger).LotCount(); n != 9 {
		t.Errorf("%d lots", n)
	}
}

// Without a checkpoint, a ledger that is being written is not removed.
func TestResume_KeepsLedgerInUse(t *testing.T) {
	c := checkpointedConfig(t)
	r := newRun(t, withoutCheckpoint(c))
	if _, err := Resume(c); !errors.Is(err, ledger.ErrLocked) {
		t.Errorf("error %v", err)
	}
	trainRun(t, r, nil)
	r.Close()
	if n := readLedger(t, c.Files.Ledger).LotCount(); n != 5 {
		t.Errorf("%d lots", n)
	}
}

// A crash loses, apart from the work since a checkpoint, a small part of the run's lots.
func TestCheckpointWriter_BoundsLostLots(t *testing.T) {
	c := testConfig(t)
	c.Steps = 320
	r := newRun(t, c)
	most := 0
	trainRun(t, r, func(p *Progress) error {
		most = max(most, r.account.Ledger.History().LotCount()-p.Lot)
		return nil
	})
	if most >= c.maxLostLots() {
		t.Errorf("the ledger states %d lots beyond one that was released, and %d with it may be lost", most, c.maxLostLots())
	}
}

// The observer has seen every lot of a checkpoint: what it writes about lots covers a resumed run.
func TestCheckpoint_FollowsObserver(t *testing.T) {
	c := testConfig(t)
	c.Files.CheckpointFolder, c.Files.CheckpointInterval, c.Steps = t.TempDir(), time.Nanosecond, 20
	r := newRun(t, c)
	newest := 0
	trainRun(t, r, func(p *Progress) error {
		if err := r.checkpoints.Wait(); err != nil {
			return err
		}
		names, err := state.List(c.Files.CheckpointFolder)
		if err != nil {
			return err
		}
		file, err := openState(names[0])
		if err != nil {
			return err
		}
		if newest = file.Step; newest >= p.Lot {
			t.Errorf("a checkpoint has lot %d, which the observer sees now", newest)
		}
		return nil
	})
	if newest == 0 {
		t.Error("no checkpoint was written: the test has no power")
	}
}
