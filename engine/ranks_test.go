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
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/ranks"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
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
		"frozen outputs of users": func(t *testing.T) Config {
			return frozenConfig(t, frozenPictures("frozen", 0, 0.3), Records{Users: true, Examples: 4}, false)
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
		"several pieces": func(t *testing.T) Config {
			c := testConfig(t)
			c.Network, c.Microbatch, c.Steps = wideMLP, 4, 2
			return c
		},
		"empty shards": func(t *testing.T) Config {
			c := testConfig(t)
			c.Sampling, c.Microbatch = Sampling{Rate: 0.02}, 1
			return c
		},
	}
}

// wideMLP has 1.1 million weights, which travel in several pieces.
func wideMLP(batch int) (*perexample.Network, error) {
	n := layer.NewBuilder(batch, 1)
	x, labels := n.Input("x", features), n.Input("label")
	h := layer.Dense(n, x, "fc1", 1000, layer.Tanh)
	h = layer.Dense(n, h, "fc2", 1100, layer.Tanh)
	logits := layer.Dense(n, h, "fc3", classes, layer.Identity)
	n.SetLoss(layer.CrossEntropy(n, logits, labels), logits)
	return n.Network()
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
