package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/ranks"
)

// Ranks that disagree are named, before anything is spent.
func TestRanks_NameTheOneThatDiffers(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"rank 2: its setting noise is 1.5, and that of rank 0 is 1":                     func(c *Config) { c.Mechanism.NoiseMultiplier = 1.5 },
		"rank 2: its setting number of lots is 6, and that of rank 0 is 5":              func(c *Config) { c.Steps = 6 },
		"rank 2: its setting microbatch is 5, and that of rank 0 is 4":                  func(c *Config) { c.Microbatch = 5 },
		"rank 2: it has other numbers of records than rank 0":                           func(c *Config) { c.Train = mlpExamples(59, 3) },
		"rank 2: its setting seed is 8, and that of rank 0 is 7":                        func(c *Config) { c.Seed = pointer(uint64(8)) },
		"rank 2: Steps 0: give at least 1":                                              func(c *Config) { c.Steps = 0 },
		"rank 2: it has the setting version of the program, which rank 0 does not have": func(c *Config) { c.Fingerprint = map[string]string{"version of the program": "2"} },
	} {
		folder := t.TempDir()
		failed := eachRank(3, func(of ranks.Communicator) error {
			c := testConfig(t)
			c.Microbatch = 4
			c.Files.Ledger = filepath.Join(folder, "ledger.jsonl")
			c.Ranks = of
			if of.Rank() == 2 {
				change(&c)
			}
			r, err := New(c)
			if err == nil {
				r.Close()
			}
			return err
		})
		for rank, err := range failed {
			if err == nil || err.Error() != want {
				t.Errorf("rank %d gets %v, want %s", rank, err, want)
			}
		}
		if _, err := os.Stat(filepath.Join(folder, "ledger.jsonl")); err == nil {
			t.Errorf("%s: there is a ledger", want)
		}
	}
}

// An error on one rank ends the run on all, with its lot spent where the ledger has it.
func TestRanks_ErrorOfOneEndsAll(t *testing.T) {
	full := errors.New("the disk is full")
	for _, test := range []struct {
		name   string
		rank   int
		inject func(r *Run)
		want   string
	}{
		{"data", 1, func(r *Run) { r.config.Train.(*breakableSet).broken = true }, "lot 0: rank 1: training data: a read failed"},
		{"data of a later microbatch", 1, func(r *Run) { r.config.Train.(*breakableSet).left = 8 }, "lot 1: rank 1: training data: a read failed"},
		{"data of a last microbatch", 2, func(r *Run) { r.config.Train.(*breakableSet).left = 15 }, "lot 2: rank 2: training data: a read failed"},
		{"ledger", 0, func(r *Run) { r.account.Ledger.Close() }, "lot 0: rank 0: "},
		{"weights", 2, nil, "rank 2: it has other weights than rank 0"}, // that of the last lot: a gathering replaces earlier ones
		{"observer", 0, nil, "rank 0: the disk is full"},
	} {
		folder := t.TempDir()
		failed := eachRank(3, func(of ranks.Communicator) error {
			c := testConfig(t)
			c.Sampling, c.Microbatch, c.Ranks = Sampling{Rate: 1}, 4, of // 5 microbatches of each rank
			c.Train = &breakableSet{Table: c.Train.(*data.Table)}
			c.Files.Ledger = filepath.Join(folder, "ledger.jsonl")
			r, err := New(c)
			if err != nil {
				return err
			}
			defer r.Close()
			var observe func(*Progress) error
			if of.Rank() == test.rank && test.inject != nil {
				test.inject(r)
			} else if of.Rank() == test.rank {
				observe = func(p *Progress) error {
					switch {
					case test.name == "weights" && p.Lot == c.Steps:
						r.network.Executable.State().Weights[0][0]++
					case test.name == "observer" && p.Lot == 2:
						return full
					}
					return nil
				}
			}
			return r.Train(context.Background(), observe)
		})
		for rank, err := range failed {
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%s: rank %d gets %v, want %s", test.name, rank, err, test.want)
			}
		}
	}
}

// A rank that does not come back from a record, and one that is slow, but not too slow. The others name the
// first, and the lot counts as spent.
func TestRanks_NameOneThatHangs(t *testing.T) {
	for _, test := range []struct {
		hung, slow int
		want       string
	}{
		{2, -1, "lot 2: rank 2: the others have waited for it for 2s"},
		{0, -1, "lot 2: rank 0: the others have waited for it for 2s"},
		{-1, 1, ""},
	} {
		file := filepath.Join(t.TempDir(), "ledger.jsonl")
		end := make(chan struct{})
		var others sync.WaitGroup
		failed := make([]error, 3)
		for rank, of := range ranks.NewGroup(3) {
			train := func() {
				timeout := 2 * time.Second
				if test.hung < 0 {
					timeout = time.Minute
				}
				failed[rank] = trainWithPause(t, of, file, timeout, func() {
					switch rank {
					case test.hung:
						<-end
					case test.slow:
						time.Sleep(100 * time.Millisecond)
					}
				})
			}
			if rank == test.hung {
				go train()
			} else {
				others.Go(train)
			}
		}
		others.Wait()
		for rank, err := range failed {
			if rank != test.hung && (test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "then"))) {
				t.Errorf("rank %d gets %v, want %q", rank, err, test.want)
			}
		}
		h, err := ledger.Read(file)
		if want := map[bool]int{true: 3, false: 5}[test.hung > 0]; err != nil || test.hung != 0 && h.LotCount() != want {
			t.Errorf("the ledger has %d lots, want %d, %v", h.LotCount(), want, err)
		}
		close(end)
	}
}

// trainWithPause trains a rank that calls pause while it reads the first record of the third lot.
func trainWithPause(t *testing.T, of ranks.Communicator, file string, timeout time.Duration, pause func()) error {
	c := testConfig(t)
	c.Microbatch, c.Ranks, c.RankTimeout = 4, of, timeout
	set := &breakableSet{Table: c.Train.(*data.Table)}
	c.Train, c.Files.Ledger = set, file
	r, err := New(c)
	if err != nil {
		return err
	}
	defer r.Close()
	var once sync.Once
	set.before = func() {
		if r.step == 2 {
			once.Do(pause)
		}
	}
	return r.Train(context.Background(), nil)
}

// A full disk of rank 0 ends all ranks before they release the lot that the ledger does not state.
func TestRanks_FullDiskStopsRelease(t *testing.T) {
	weights := make([][]float32, 3)
	steps := make([]int, 3)
	failed := eachRank(3, func(of ranks.Communicator) error {
		c := testConfig(t)
		c.Microbatch, c.Ranks = 4, of
		disk := &smallDisk{}
		c.Files = Files{LedgerWriter: disk}
		r, err := New(c)
		if err != nil {
			return err
		}
		defer r.Close()
		err = r.Train(context.Background(), func(p *Progress) error {
			weights[of.Rank()], disk.full = flatWeights(t, r), p.Lot == 2
			return nil
		})
		steps[of.Rank()] = r.StepsDone()
		if !slices.Equal(weights[of.Rank()], flatWeights(t, r)) {
			t.Errorf("rank %d changes its weights after the disk is full", of.Rank())
		}
		return err
	})
	for rank, err := range failed {
		if want := "lot 2: rank 0: "; err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "no space left on device") || steps[rank] != 2 {
			t.Errorf("rank %d gets %v after %d lots, want %s…", rank, err, steps[rank], want)
		}
	}
}

// smallDisk is a file on a disk that becomes full.
type smallDisk struct{ full bool }

func (d *smallDisk) Write(b []byte) (int, error) {
	if d.full {
		return 0, syscall.ENOSPC
	}
	return len(b), nil
}

// The observer of rank 0, and the end of the context of any rank, end the run everywhere, and it can go on.
func TestRanks_StopTogether(t *testing.T) {
	for _, canceled := range []bool{true, false} {
		folder := t.TempDir()
		failed := eachRank(3, func(of ranks.Communicator) error {
			c := testConfig(t)
			c.Microbatch, c.Ranks = 4, of
			c.Files.Ledger = filepath.Join(folder, "ledger.jsonl")
			r, err := New(c)
			if err != nil {
				return err
			}
			defer r.Close()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			err = r.Train(ctx, func(p *Progress) error {
				switch {
				case p.Lot != 3:
				case canceled && of.Rank() == 1:
					cancel()
				case !canceled && of.Rank() == 0:
					return ErrStop
				}
				return nil
			})
			if canceled != errors.Is(err, context.Canceled) || !canceled && err != nil {
				return fmt.Errorf("Train returns %w", err)
			}
			if r.StepsDone() != 3 {
				return fmt.Errorf("%d lots are done", r.StepsDone())
			}
			return r.Train(context.Background(), nil)
		})
		if err := errors.Join(failed...); err != nil {
			t.Error(err)
		}
	}
}

// breakableSet fails after it is set to be broken.
type breakableSet struct {
	*data.Table
	broken bool
	left   int    // the read that fails, counted from 1; 0: none
	before func() // of each read; nil: nothing
}

func (b *breakableSet) Read(dst [][]float32, rows []int) error {
	if b.before != nil {
		b.before()
	}
	b.left--
	if b.broken || b.left == 0 {
		return errors.New("a read failed")
	}
	return b.Table.Read(dst, rows)
}

// The budget of a filter ends the run on all ranks, and all know it. Rank 0 alone chooses the noise.
func TestRanks_FilterEndsAll(t *testing.T) {
	alone := newRun(t, adaptiveConfig(t))
	if err := alone.Train(context.Background(), nil); !errors.Is(err, ErrBudget) {
		t.Fatal(err)
	}
	steps := make([]int, 3)
	c := adaptiveConfig(t)
	failed := eachRank(3, func(of ranks.Communicator) error {
		c := c
		if c.Ranks = of; of.Rank() > 0 {
			c.Mechanism.Choose = func(*Progress) LotChoice { panic("a rank other than 0 chooses") }
		}
		r, err := New(c)
		if err != nil {
			return err
		}
		defer r.Close()
		err = r.Train(context.Background(), nil)
		steps[of.Rank()] = r.StepsDone()
		return err
	})
	for rank, err := range failed {
		if !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), "would exceed ε = 6") || steps[rank] != alone.StepsDone() {
			t.Errorf("rank %d: %d lots, want %d; %v", rank, steps[rank], alone.StepsDone(), err)
		}
	}
}

// An error before the first lot ends all ranks: of data that frozen layers read, and of a projection, which then
// counts as spent.
func TestRanks_ErrorBeforeFirstLot(t *testing.T) {
	for name, test := range map[string]struct {
		config func() Config
		spent  int
	}{
		"frozen layers": {func() Config {
			c := frozenConfig(t, frozenPictures("frozen", 0, 0.3), Records{}, false)
			c.Train = pictureTable(61)
			return c
		}, 0},
		"projection": {func() Config { return projectionConfig(t) }, 1},
	} {
		file := filepath.Join(t.TempDir(), "ledger.jsonl")
		c := test.config()
		failed := eachRank(3, func(of ranks.Communicator) error {
			c := c
			set := &breakableSet{Table: c.Train.(*data.Table)}
			c.Ranks, c.Train, c.Files = of, set, Files{Ledger: file}
			r, err := New(c)
			if err != nil {
				return err
			}
			defer r.Close()
			set.broken = of.Rank() == 1
			return r.Train(context.Background(), nil)
		})
		for rank, err := range failed {
			if err == nil || !strings.Contains(err.Error(), "rank 1: ") || !strings.Contains(err.Error(), "a read failed") {
				t.Errorf("%s: rank %d gets %v", name, rank, err)
			}
		}
		if h := readLedger(t, file); h.LotCount() != test.spent {
			t.Errorf("%s: the ledger has %d releases, want %d", name, h.LotCount(), test.spent)
		}
	}
}

// The end of a context of one rank, while it adds its records to a projection, ends all ranks. Nothing is spent, and
// they can go on.
func TestRanks_InterruptedProjection(t *testing.T) {
	c := projectionConfig(t)
	want := newRun(t, c)
	trainRun(t, want, nil)
	c = projectionConfig(t)
	c.Files.CheckpointFolder = ""
	var directions [3][]float32
	failed := eachRank(3, func(of ranks.Communicator) error {
		c := c
		c.Ranks = of
		set := &breakableSet{Table: c.Train.(*data.Table)}
		c.Train = set
		r, err := New(c)
		if err != nil {
			return err
		}
		defer r.Close()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if of.Rank() == 2 {
			set.before = cancel
		}
		if err := r.Train(ctx, nil); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("Train returns %w", err)
		}
		if n := r.account.Ledger.History().LotCount(); n != 0 || r.Directions() != nil {
			return fmt.Errorf("%d releases are spent", n)
		}
		err = r.Train(context.Background(), nil)
		directions[of.Rank()] = r.Directions()
		return err
	})
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	for rank, d := range directions {
		if d == nil || !slices.Equal(d, want.Directions()) {
			t.Errorf("rank %d has other directions", rank)
		}
	}
}
