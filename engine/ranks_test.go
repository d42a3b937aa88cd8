package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/ranks"
)

// rankConfigs are runs with everything that several ranks add or agree on.
func rankConfigs() map[string]func(t *testing.T) Config {
	return map[string]func(t *testing.T) Config{
		"flat": func(t *testing.T) Config { c := testConfig(t); c.Microbatch = 4; return c },
		"automatic microbatch": func(t *testing.T) Config {
			c := checkpointedConfig(t)
			c.Seed, c.Sampling.Lot = pointer(uint64(3)), 40
			return c
		},
		"groups and metrics": func(t *testing.T) Config {
			c := ownNoise(t)
			c.Microbatch, c.Steps = 3, 7
			c.Statistics = []Statistic{Accuracy(1, 4), MeanLoss(2, 3), ClippedShare(2)}
			c.Statistics[1].Every = 3
			return c
		},
		"adaptive": func(t *testing.T) Config { c := checkpointedConfig(t); c.Microbatch = 2; return c },
		"users with local steps": func(t *testing.T) Config {
			c := localConfig(t)
			c.Network, c.Sampling, c.Steps = mlpWithDropout(0.3), Sampling{Lot: 5}, 4
			c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 4}, nil)
			c.Statistics = []Statistic{MeanLoss(2, 3)}
			return c
		},
		"batch statistics": func(t *testing.T) Config {
			c := batchNormConfig(t, 5)
			c.Microbatch = 7
			c.Optimization.Average.Decay = 0.5
			return c
		},
		"embeddings of frozen outputs": func(t *testing.T) Config {
			return frozenConfig(t, frozenPictures("frozen", 0, 0.3), Records{Examples: 3}, false)
		},
		"dropout, shuffled": func(t *testing.T) Config {
			c := testConfig(t)
			c.Network, c.Microbatch, c.Steps = mlpWithDropout(0.5), 5, 12
			c.Sampling.Policy = sample.PolicyShuffle
			return c
		},
		"constant work": func(t *testing.T) Config { return truncatedConfig(t, 20) },
		"weights": func(t *testing.T) Config {
			c := weightedConfig(t)
			c.Weights, c.Microbatch, c.Steps = RecordWeights{Cap: 4, MinMean: 0.1}, 2, 3
			return c
		},
		"Laplace noise, fixed": func(t *testing.T) Config {
			c := laplaceConfig(t)
			c.Sampling.Policy, c.Microbatch = sample.PolicyFixed, 5
			c.Optimization.Optimizer = optim.Optimizer{Kind: optim.KindMomentum, Momentum: 0.9}
			return c
		},
		"projection": func(t *testing.T) Config {
			c := projectionConfig(t)
			c.Microbatch, c.Records = 2, Records{Examples: 2}
			return c
		},
		"projection and chosen noise": func(t *testing.T) Config {
			c := adaptiveConfig(t)
			c.Microbatch, c.Steps, c.Mechanism.NoiseMultiplier = 4, 4, 8
			c.Network, c.Projection = nil, Projection{Directions: 2, Noise: 20, Network: denseOnProjection}
			return c
		},
		"views and validation": func(t *testing.T) Config {
			c := validationConfig(t, 3)
			c.Microbatch, c.Augmentation = 4, Augmentation{3, stirView}
			c.Statistics = []Statistic{Accuracy(1, 4)}
			return c
		},
		"empty shards": func(t *testing.T) Config {
			c := testConfig(t)
			c.Sampling, c.Microbatch = Sampling{Rate: 0.02}, 1
			return c
		},
	}
}

func pointer[T any](x T) *T { return &x }

// outcome is everything that a run releases.
type outcome struct {
	weights    []float32
	statistics []ReleasedStatistic
	lots       []ledger.RepeatedLot
	directions []float32
	validation ValidationResult
	insecure   bool
	private    PrivateStats
}

// stirView changes a view at random.
func stirView(view [][]float32, r *rand.Rand) {
	for i := range view[0] {
		view[0][i] *= float32(r.NormFloat64())
	}
}

// runOnRanks trains a configuration on n ranks; 0: without ranks. It returns what rank 0 released. All ranks
// have the same weights, and only rank 0 has files.
func runOnRanks(t *testing.T, c Config, n int) outcome {
	t.Helper()
	c.Files.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
	if c.Files.CheckpointFolder != "" {
		c.Files.CheckpointFolder = filepath.Join(filepath.Dir(c.Files.Ledger), "checkpoint")
	}
	if n == 0 {
		r := newRun(t, c)
		return trainToOutcome(t, r)
	}
	outcomes := make([]outcome, n)
	failed := eachRank(n, func(of ranks.Communicator) error {
		c := c
		c.Ranks = of
		r, err := New(c)
		if err != nil {
			return err
		}
		defer r.Close()
		outcomes[of.Rank()] = trainToOutcome(t, r)
		return nil
	})
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	for rank, o := range outcomes[1:] {
		if !slices.Equal(o.weights, outcomes[0].weights) {
			t.Errorf("rank %d has other weights than rank 0", rank+1)
		}
	}
	return outcomes[0]
}

// eachRank calls f for each rank and returns their errors.
func eachRank(n int, f func(ranks.Communicator) error) []error {
	failed := make([]error, n)
	var done sync.WaitGroup
	for rank, of := range ranks.NewGroup(n) {
		done.Go(func() { failed[rank] = f(of) })
	}
	done.Wait()
	return failed
}

func trainToOutcome(t *testing.T, r *Run) (o outcome) {
	err := r.Train(context.Background(), func(p *Progress) error {
		o.statistics = nil
		for _, s := range p.Released {
			s.Mean = slices.Clone(s.Mean)
			o.statistics = append(o.statistics, s)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
		return o
	}
	o.weights = flatWeights(t, r)
	o.private, o.directions = r.PrivateStats(), r.Directions()
	if r.config.Validation.Set != nil && !r.config.followsRankZero() {
		if o.validation, err = r.Validate(); err != nil {
			t.Error(err)
		}
	}
	if !r.config.followsRankZero() {
		h, err := ledger.Read(r.config.Files.Ledger)
		if err != nil {
			t.Error(err)
		}
		o.lots = h.Lots
	}
	return o
}

// For one seed, any number of ranks releases the bits of one process: weights, statistics and ledger
// entries.
func TestRanks_HaveBitsOfOne(t *testing.T) {
	for name, config := range rankConfigs() {
		t.Run(name, func(t *testing.T) {
			c := config(t)
			want := runOnRanks(t, c, 0)
			if !slices.ContainsFunc(want.weights, func(w float32) bool { return w != 0 }) || len(want.lots) == 0 {
				t.Fatalf("the run learns nothing: %+v", want)
			}
			for n := 1; n <= 4; n++ {
				got := runOnRanks(t, c, n)
				for i := range got.weights {
					if math.Float32bits(got.weights[i]) != math.Float32bits(want.weights[i]) {
						t.Fatalf("%d ranks: weight %d is %v, want %v", n, i, got.weights[i], want.weights[i])
					}
				}
				if !reflect.DeepEqual(got.statistics, want.statistics) {
					t.Errorf("%d ranks: statistics\n%v\nwant\n%v", n, got.statistics, want.statistics)
				}
				if !reflect.DeepEqual(got.lots, want.lots) {
					t.Errorf("%d ranks: the ledger has\n%v\nwant\n%v", n, got.lots, want.lots)
				}
				if !slices.Equal(got.directions, want.directions) || got.validation != want.validation {
					t.Errorf("%d ranks: other directions, or a validation of %+v, want %+v", n, got.validation, want.validation)
				}
				if d := got.private.Loss - want.private.Loss; math.Abs(d) > 1e-5 {
					t.Errorf("%d ranks: the mean loss differs by %v", n, d)
				}
				got.private.Loss = want.private.Loss
				if got.private != want.private {
					t.Errorf("%d ranks: private counts %+v, want %+v", n, got.private, want.private)
				}
			}
		})
	}
}

// Ranks that read only their shards have the bits of one process that reads all: of examples, of pairs and of
// users, with rows that cannot be read.
func TestRanks_ShardsHaveBitsOfOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "people.csv")
	text := "owner,a,b,c,d,e,mood\n"
	for i := range 90 {
		mood := []string{"low", "even", "high"}[i%3]
		if i%17 == 3 {
			mood = "unknown" // the row is blank
		}
		text += fmt.Sprintf("u%d,%d,%d,%d,%d,%d,%s\n", i*i%13, i, 90-i, i*7%90, i*i%90, i*31%90, mood)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	schema := data.Schema{Label: "mood", Classes: []string{"low", "even", "high"}, User: "owner", Bounds: map[string]data.Bounds{}}
	for _, column := range []string{"a", "b", "c", "d", "e"} {
		schema.Bounds[column] = data.Bounds{0, 90}
	}
	open := func(shard data.Shard) data.Set {
		task, err := data.Open(file, data.Options{Shard: shard, Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		return task.Train
	}
	for _, records := range []Records{{}, {Examples: 2}, {Users: true, Examples: 4}} {
		config := func(shard data.Shard) Config {
			c := testConfig(t)
			c.Network, c.Train, c.Records = mlp, open(shard), records
			c.Sampling, c.Microbatch, c.Steps = Sampling{Rate: 0.4}, 3, 4
			return c
		}
		want := runOnRanks(t, config(data.Shard{}), 0)
		for n := 2; n <= 4; n++ {
			var weights [4][]float32
			folder := t.TempDir()
			failed := eachRank(n, func(of ranks.Communicator) error {
				c := config(data.Shard{Rank: of.Rank(), Size: n, Examples: records.Examples, Users: records.Users})
				if !data.IsSharded(c.Train) {
					return errors.New("the set is whole")
				}
				c.Ranks, c.Files.Ledger = of, filepath.Join(folder, "ledger.jsonl")
				r, err := New(c)
				if err != nil {
					return err
				}
				defer r.Close()
				err = r.Train(context.Background(), nil)
				weights[of.Rank()] = flatWeights(t, r)
				return err
			})
			if err := errors.Join(failed...); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(weights[0], want.weights) || !slices.Equal(weights[n-1], want.weights) {
				t.Errorf("%+v on %d ranks: other weights than of one process", records, n)
			}
		}
	}
}

// Without a seed, the ranks have one key: they would disagree otherwise. Two runs have different ones.
func TestRanks_ShareSecureKey(t *testing.T) {
	c := testConfig(t)
	c.Seed = nil
	if first, second := runOnRanks(t, c, 3), runOnRanks(t, c, 3); slices.Equal(first.weights, second.weights) {
		t.Error("two runs draw the same noise")
	}
	failed := eachRank(2, func(of ranks.Communicator) error {
		c := c
		c.Ranks = of
		source, err := c.newSource()
		if err == nil && !source.Secure() {
			err = errors.New("the source is not secure")
		}
		return err
	})
	if err := errors.Join(failed...); err != nil {
		t.Error(err)
	}
}

// Each rank computes its part of a lot and reads no other record.
func TestRanks_ReadTheirOwnRecords(t *testing.T) {
	c := testConfig(t)
	c.Sampling, c.Microbatch, c.Steps = Sampling{Rate: 1}, 4, 1
	table := c.Train.(*data.Table)
	read := make([]map[int]bool, 3)
	failed := eachRank(3, func(of ranks.Communicator) error {
		c := c
		c.Ranks = of
		recorder := &readRecorder{Table: table}
		c.Train = recorder
		c.Files.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
		r, err := New(c)
		if err != nil {
			return err
		}
		defer r.Close()
		recorder.rows = map[int]bool{}
		read[of.Rank()] = recorder.rows
		return r.Train(context.Background(), nil)
	})
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	owner := map[int]int{}
	for rank, rows := range read {
		for row := range rows {
			if other, twice := owner[row]; twice {
				t.Errorf("ranks %d and %d read record %d", other, rank, row)
			}
			owner[row] = rank
		}
		if len(rows) != 20 {
			t.Errorf("rank %d reads %d of 60 records", rank, len(rows))
		}
	}
}

// A record on one rank changes nothing but the integers: what the ranks send and when does not depend on it.
func TestRanks_NeighboursMakeTheSameCalls(t *testing.T) {
	for name, test := range map[string]struct {
		config   func(t *testing.T) Config
		smallest int // number of calls
	}{
		"adaptive bounds and statistics": {func(t *testing.T) Config {
			c := testConfig(t)
			c.Microbatch, c.Sampling, c.Steps = 10, Sampling{Rate: 1}, 3
			c.Mechanism.Clipping = clip.Flat(clip.Quantile{Initial: 1, Target: 0.5, Rate: 0.2, Noise: 4}, nil)
			c.Statistics = []Statistic{Accuracy(1, 4)}
			return c
		}, 20},
		"projection and chosen noise": {func(t *testing.T) Config {
			c := adaptiveConfig(t)
			c.Microbatch, c.Sampling, c.Steps, c.Mechanism.NoiseMultiplier = 10, Sampling{Rate: 1}, 3, 20
			c.Network, c.Projection = nil, Projection{Directions: 3, Noise: 20, Network: denseOnProjection}
			return c
		}, 40},
		"views": {func(t *testing.T) Config {
			c := testConfig(t)
			c.Microbatch, c.Sampling, c.Augmentation = 10, Sampling{Rate: 1}, Augmentation{3, stirView}
			return c
		}, 20},
		"users with local steps": {func(t *testing.T) Config {
			c := localConfig(t)
			c.Steps, c.Statistics = 3, []Statistic{MeanLoss(2, 3)}
			return c
		}, 20},
	} {
		t.Run(name, func(t *testing.T) {
			want := callsOfTwoRanks(t, test.config(t), -1)
			if len(want[1]) < test.smallest {
				t.Fatalf("only %d calls", len(want[1]))
			}
			rows := test.config(t).Train.Len()
			for _, blanked := range []int{0, 17, rows - 1} { // of both ranks, and the last
				if got := callsOfTwoRanks(t, test.config(t), blanked); !reflect.DeepEqual(got, want) {
					t.Errorf("without record %d the ranks make other calls:\n%v\nwant\n%v", blanked, got, want)
				}
			}
		})
	}
}

// callsOfTwoRanks trains on two ranks without an example, and returns their calls. Its set is a table.
func callsOfTwoRanks(t *testing.T, c Config, blanked int) (all [2][]string) {
	blank := make([]bool, c.Train.Len())
	if blanked >= 0 {
		blank[blanked] = true
	}
	c.Train = blankedSet{c.Train.(*data.Table), blank}
	c.Files.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
	failed := eachRank(2, func(of ranks.Communicator) error {
		c := c
		c.Ranks = &rankCallRecorder{of, &all[of.Rank()]}
		r, err := New(c)
		if err != nil {
			return err
		}
		defer r.Close()
		return r.Train(context.Background(), nil)
	})
	if err := errors.Join(failed...); err != nil {
		t.Fatal(err)
	}
	return all
}

// rankCallRecorder notes the calls of a rank, without the values of sums.
type rankCallRecorder struct {
	ranks.Communicator
	calls *[]string
}

func (r *rankCallRecorder) Sum(values []int64) error {
	*r.calls = append(*r.calls, fmt.Sprint("Sum of ", len(values)))
	return r.Communicator.Sum(values)
}

func (r *rankCallRecorder) Sum32(values []int32) error {
	*r.calls = append(*r.calls, fmt.Sprint("Sum32 of ", len(values)))
	return r.Communicator.Sum32(values)
}

func (r *rankCallRecorder) Gather(b []byte, ends []int) error {
	*r.calls = append(*r.calls, fmt.Sprint("Gather of ", ends))
	return r.Communicator.Gather(b, ends)
}

func (r *rankCallRecorder) Exchange(receive, send []byte, ends []int) error {
	*r.calls = append(*r.calls, fmt.Sprint("Exchange of ", ends))
	return r.Communicator.(ranks.Exchanger).Exchange(receive, send, ends)
}

func (r *rankCallRecorder) Broadcast(b []byte) error {
	*r.calls = append(*r.calls, fmt.Sprint("Broadcast of ", len(b)))
	return r.Communicator.Broadcast(b)
}

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
		{"ledger", 0, func(r *Run) { r.account.Ledger.Close() }, "lot 0: rank 0: "},
		{"weights", 2, nil, "rank 2: it has other weights than rank 0"}, // that of the last lot: a gathering replaces earlier ones
		{"observer", 0, nil, "rank 0: the disk is full"},
	} {
		folder := t.TempDir()
		failed := eachRank(3, func(of ranks.Communicator) error {
			c := testConfig(t)
			c.Microbatch, c.Ranks = 4, of
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

// A run resumes on another number of ranks, with the bits of a run on one that resumes at the same lot, and
// all ranks may read the files of rank 0.
func TestRanks_ResumeOnOtherNumber(t *testing.T) {
	run := func(sizes ...int) outcome {
		c := checkpointedConfig(t)
		c.Microbatch = 3
		c.Optimization.Optimizer, c.Optimization.Average.Decay = optim.Optimizer{Kind: optim.KindMomentum, Momentum: 0.9}, 0.5
		var last outcome
		for part, n := range sizes {
			c.Steps = 4 + 3*part
			var outcomes [8]outcome
			failed := eachRank(max(n, 1), func(of ranks.Communicator) error {
				c := c
				if n > 0 {
					c.Ranks = of
				}
				open := Resume
				if part == 0 {
					open = New
				}
				r, err := open(c)
				if err != nil {
					return err
				}
				outcomes[of.Rank()] = trainToOutcome(t, r)
				return r.Close()
			})
			if err := errors.Join(failed...); err != nil {
				t.Fatal(err)
			}
			last = outcomes[0]
		}
		return last
	}
	want := run(0, 0, 0)
	for _, sizes := range [][]int{{1, 3, 2}, {4, 0, 3}, {0, 2, 0}} {
		got := run(sizes...)
		if !slices.Equal(got.weights, want.weights) {
			t.Errorf("%v ranks: other weights", sizes)
		}
		if !reflect.DeepEqual(got.lots, want.lots) {
			t.Errorf("%v ranks: the ledger has\n%v\nwant\n%v", sizes, got.lots, want.lots)
		}
	}
}

// Resume compares what the ranks read.
func TestRanks_ResumeRefusesOtherCheckpoint(t *testing.T) {
	c := checkpointedConfig(t)
	r := newRun(t, c)
	trainRun(t, r, nil)
	r.Close()
	failed := eachRank(2, func(of ranks.Communicator) error {
		c := c
		c.Ranks = of
		if of.Rank() == 1 {
			c.Files.CheckpointFolder = t.TempDir()
		}
		_, err := Resume(c)
		return err
	})
	for rank, err := range failed {
		if want := "rank 1: it has other checkpoints than rank 0"; err == nil || err.Error() != want {
			t.Errorf("rank %d gets %v, want %s", rank, err, want)
		}
	}
}

// What several ranks cannot compute is refused by name.
func TestRanks_Refuse(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"Mechanism.NonPrivate": func(c *Config) { c.Mechanism = Mechanism{NonPrivate: true} },
		"Mechanism.Arithmetic": func(c *Config) { c.Mechanism.Arithmetic = FloatArithmetic },
		"device gorgonia":      func(c *Config) { c.Device.Name = "gorgonia" },
	} {
		failed := eachRank(2, func(of ranks.Communicator) error {
			c := testConfig(t)
			change(&c)
			c.Ranks = of
			_, err := New(c)
			return err
		})
		for _, err := range failed {
			if err == nil || !strings.HasPrefix(err.Error(), "rank 0: ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", want, err)
			}
		}
	}
}

type readRecorder struct {
	*data.Table
	rows map[int]bool // nil: nothing is recorded
}

func (r *readRecorder) Read(dst [][]float32, rows []int) error {
	for _, row := range rows {
		if r.rows != nil {
			r.rows[row] = true
		}
	}
	return r.Table.Read(dst, rows)
}

// breakableSet fails after it is set to be broken.
type breakableSet struct {
	*data.Table
	broken bool
	before func() // of each read; nil: nothing
}

func (b *breakableSet) Read(dst [][]float32, rows []int) error {
	if b.before != nil {
		b.before()
	}
	if b.broken {
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
