package engine

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// The end line of a ledger states that the run is complete if its plan or its limit on ε ended it. An
// observer, an interruption and a missing validation leave the run incomplete.
func TestLedger_StatesCompletePlan(t *testing.T) {
	train := func(change func(c *Config), stop int, validate bool) bool {
		c := validationConfig(t, 4)
		change(&c)
		r := newRun(t, c)
		trained := r.Train(t.Context(), func(p *Progress) error {
			if p.Lot == stop {
				return ErrStop
			}
			return nil
		})
		if trained != nil && !errors.Is(trained, ErrStop) {
			t.Fatal(trained)
		}
		if validate {
			if _, err := r.Validate(); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		s, err := ledger.Verify(c.Files.Ledger)
		if err != nil || !s.Ended {
			t.Fatalf("%+v, %v", s, err)
		}
		return s.Complete
	}
	whole := func(*Config) {}
	without := func(c *Config) { c.Validation = Validation{} }
	limited := func(c *Config) {
		without(c)
		c.Mechanism.NoiseMultiplier, c.Steps, c.Budget.Delta, c.Budget.StopAtEpsilon = 2, 1000, 1e-3, 3
	}
	for _, test := range []struct {
		name     string
		change   func(c *Config)
		stop     int
		validate bool
		want     bool
	}{
		{"the plan", whole, 0, true, true},
		{"without its validation", whole, 0, false, false},
		{"without a validation", without, 0, false, true},
		{"an observer", without, 3, false, false},
		{"the limit on ε", limited, 0, false, true},
		{"an observer before the limit", limited, 1, false, false},
	} {
		if got := train(test.change, test.stop, test.validate); got != test.want {
			t.Errorf("%s: complete is %v, want %v", test.name, got, test.want)
		}
	}

	for lots, want := range map[int]bool{2: true, 3: false} {
		c := vectorSumConfig(t)
		c.Lots = lots
		s := newVectorSum(t, c)
		for range 2 {
			startLot(t, s)
			if _, err := s.Release(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if v, err := ledger.Verify(c.Ledger); err != nil || v.Complete != want {
			t.Errorf("2 of %d sums of vectors: complete is %v, %v", lots, v.Complete, err)
		}
	}
}

// A run is resumed only with the project budget that its ledger names, with and without a checkpoint. A
// run that named none can name one.
func TestResume_RequiresProjectBudget(t *testing.T) {
	const budget, other = "b1946ac92492d2347c6235b4d2611184", "0a946ac92492d2347c6235b4d2611184"
	resume := func(c Config, project string) error {
		c.Budget.Project, c.Steps = project, c.Steps+1
		r, err := Resume(c)
		if err == nil {
			err = r.Close()
		}
		return err
	}
	named := checkpointedConfig(t)
	named.Budget.Project = budget
	trainedRun(t, named).Close()
	unnamed := checkpointedConfig(t)
	trainedRun(t, unnamed).Close()
	for _, wrong := range []string{"", other} {
		if err := resume(named, wrong); err == nil || !strings.Contains(err.Error(), budget) {
			t.Errorf("resumed with %q: %v", wrong, err)
		}
	}
	if err := errors.Join(resume(named, budget), resume(unnamed, budget)); err != nil {
		t.Fatal(err)
	}
	if err := resume(unnamed, ""); err == nil {
		t.Error("a run that was resumed with a budget is resumed without it")
	}
	empty := checkpointedConfig(t)
	empty.Budget.Project = budget
	if err := newRun(t, empty).Close(); err != nil {
		t.Fatal(err)
	}
	empty.Files.CheckpointFolder = filepath.Join(t.TempDir(), "none")
	if err := resume(empty, other); err == nil {
		t.Error("a run without lots and checkpoints begins again with another budget")
	}
	if err := resume(empty, budget); err != nil {
		t.Error(err)
	}
	if h := readLedger(t, empty.Files.Ledger); h.Budget != budget {
		t.Errorf("it names %q", h.Budget)
	}
}
