package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"

	G "gorgonia.org/gorgonia"
)

// withFrozen makes the parameters constants whose names begin with a prefix.
func withFrozen(prefix string, build perexample.Build) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		net, err := build(batch)
		if err == nil {
			net.Params = slices.DeleteFunc(net.Params, func(p *G.Node) bool { return strings.HasPrefix(p.Name(), prefix) })
		}
		return net, err
	}
}

// frozenPictures has a convolution, two layers with batch normalization, and a rate of dropout before
// and one behind the convolution. The parameters are frozen whose names begin with frozen.
func frozenPictures(frozen string, before, behind float64) perexample.Build {
	return withFrozen(frozen, func(batch int) (*perexample.Network, error) {
		b := layer.NewBuilder(batch, 1)
		x := layer.Dropout(b, b.Input("x", 2, 4, 4), before)
		x = layer.Conv2D(b, x, "frozen", 6, layer.Window{Size: 3, Pad: 1}, layer.ReLU)
		x = layer.MaxPool(b, x, layer.Window{Size: 2, Stride: 2})
		x = layer.Dropout(b, layer.Dense(b, layer.Flatten(b, x), "fc1", 7, layer.Identity), behind)
		x = layer.Activate(b, layer.BatchNorm(b, x, "norm"), layer.Tanh)
		logits := layer.Dense(b, x, "fc2", classes, layer.Identity)
		b.SetLoss(layer.CrossEntropy(b, logits, b.Input("label")), logits)
		return b.Network()
	})
}

// frozenSteps has a frozen recurrent layer over the rows of a picture and a frozen layer on each of its
// steps. Trained layers read both.
var frozenSteps = withFrozen("frozen", func(batch int) (*perexample.Network, error) {
	b := layer.NewBuilder(batch, 1)
	x := b.Try(func() (*G.Node, error) { return G.Reshape(b.Input("x", 2, 4, 4), []int{batch, 8, 4}) })
	h := layer.LSTM(b, x, "frozen1", 5, layer.RecurrentOptions{})
	u := layer.Dense(b, h, "frozen2", 6, layer.Tanh)
	logits := layer.Add(b, layer.Dense(b, layer.Flatten(b, h), "fc1", classes, layer.Identity), layer.Dense(b, layer.Flatten(b, u), "fc2", classes, layer.Identity))
	b.SetLoss(layer.CrossEntropy(b, logits, b.Input("label")), logits)
	return b.Network()
})

// isFrozenLayer reports whether an instruction is of a layer that is frozen in these networks.
func isFrozenLayer(i plan.Instruction) bool {
	switch i.Spec.(type) {
	case op.Conv2D, op.LSTMTrace:
		return true
	}
	return false
}

// frozenConfig computes the outputs of frozen layers once, unless compute is set. To declare the
// number of records changes nothing else.
func frozenConfig(t *testing.T, build perexample.Build, records Records, compute bool) Config {
	c := testConfig(t)
	table := pictureTable(61)
	count := (61 + max(1, records.Examples) - 1) / max(1, records.Examples)
	if records.Users {
		count = 20
		table = picturesOf(61, func(row int) int32 {
			if row < 30 {
				return int32(row % count) // one or two pictures each
			}
			return int32(count - 1)
		})
	}
	blank := make([]bool, 61)
	blank[4], blank[5], blank[60] = true, true, true
	c.Network, c.Train, c.Records = build, blankedSet{table, blank}, records
	c.Microbatch, c.Steps, c.Sampling.Lot = 5, 20, 7
	if compute {
		c.Sampling.Population = count
	}
	if net, err := build(1); err == nil && len(net.BatchNorms) > 0 {
		s, err := BatchStatistics(build, 3, 9)
		if err != nil {
			t.Fatal(err)
		}
		c.Statistics = []Statistic{s}
	}
	c.Statistics = append(c.Statistics, Statistic{Name: "pixels", Size: 1, Sensitivity: 1, Noise: 1, Of: func(dst []float64, record []load.Example) {
		dst[0] = float64(record[0].Columns[0][3])
	}})
	return c
}

// A run that computes the outputs of frozen layers once has the same bits as one that computes them
// in each lot.
func TestFrozenOutputs_SameBits(t *testing.T) {
	for name, build := range map[string]perexample.Build{"pictures": frozenPictures("frozen", 0, 0), "dropout": frozenPictures("frozen", 0, .3), "steps": frozenSteps} {
		for _, records := range []Records{{}, {Examples: 3}, {Users: true, Examples: 4}} {
			var weights [2][]float32
			for i := range weights {
				c := frozenConfig(t, build, records, i == 1)
				r := newRun(t, c)
				if kept := r.network.Frozen != nil; kept != (i == 0) {
					t.Fatalf("%s: outputs are kept: %v", name, kept)
				}
				if computes := slices.ContainsFunc(r.network.Program.Front, isFrozenLayer); computes != (i == 1) {
					t.Fatalf("%s: lots compute frozen layers: %v", name, computes)
				}
				interrupted, cancel := context.WithCancel(context.Background())
				cancel()
				if err := r.Train(interrupted, nil); !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				trainRun(t, r, nil)
				weights[i] = flatWeights(t, r)
			}
			if !slices.Equal(weights[0], weights[1]) {
				t.Errorf("%s, records %v: kept outputs change the weights by %.1e", name, records, relativeDistance(weights[0], weights[1]))
			}
		}
	}
}

// Outputs that are not the same in every lot, that are read less often than computed, or whose number
// is private are not kept.
func TestFrozenOutputs_Refused(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"nothing frozen":               func(c *Config) { c.Network = frozenPictures("none", 0, 0) },
		"dropout before":               func(c *Config) { c.Network = frozenPictures("frozen", .3, 0) },
		"views":                        func(c *Config) { c.Augmentation = Augmentation{1, func([][]float32, *rand.Rand) {}} },
		"few lots":                     func(c *Config) { c.Steps = 8 },
		"a declared number of records": func(c *Config) { c.Sampling.Population = 61 },
	} {
		c := frozenConfig(t, frozenPictures("frozen", 0, 0), Records{}, false)
		change(&c)
		if r := newRun(t, c); r.network.Frozen != nil {
			t.Errorf("%s: outputs are kept", name)
		}
	}
}

// The number of examples that are computed is that of users times the declared number of examples of each: it
// does not show how many examples users have.
func TestFrozenOutputs_CountOfUsersIsPublic(t *testing.T) {
	for name, userOf := range map[string]func(row int) int32{
		"as many each": func(row int) int32 { return int32(row % 10) },
		"one has most": func(row int) int32 { return int32(max(row-51, 0)) },
	} {
		c := frozenConfig(t, frozenPictures("frozen", 0, 0), Records{Examples: 3}, false)
		c.Train, c.Records = picturesOf(61, userOf), Records{Users: true, Examples: 3}
		index, err := load.NewIndex(c.Train, 3, true)
		if err != nil {
			t.Fatal(err)
		}
		if rows := index.RowsOf(0, 1); len(rows) != 30 || slices.Contains(rows, -1) {
			t.Errorf("%s: the outputs of rows %v are computed, want 30", name, rows)
		}
		r := newRun(t, c)
		var last int
		r.ObserveFrozenOutputs(func(done, examples int) error {
			if last = done; examples != 30 {
				t.Errorf("%s: %d examples, want 30", name, examples)
			}
			return nil
		})
		if trainRun(t, r, nil); last != 30 {
			t.Errorf("%s: computed %d examples, want 30", name, last)
		}
	}
}

// The observer sees all examples once, and its error ends Train before the first lot.
func TestFrozenOutputs_Observed(t *testing.T) {
	r := newRun(t, frozenConfig(t, frozenPictures("frozen", 0, 0), Records{}, false))
	stop := errors.New("stop")
	r.ObserveFrozenOutputs(func(int, int) error { return stop })
	if err := r.Train(context.Background(), nil); !errors.Is(err, stop) || r.StepsDone() > 0 {
		t.Errorf("after %d lots: %v", r.StepsDone(), err)
	}
	var seen []int
	r.ObserveFrozenOutputs(func(done, examples int) error {
		if examples != 61 {
			t.Errorf("%d examples, want 61", examples)
		}
		seen = append(seen, done)
		return nil
	})
	trainRun(t, r, nil)
	if n := len(seen); n < 3 || seen[0] != 0 || seen[n-1] != 61 || !slices.IsSorted(seen) || len(slices.Compact(seen)) != n {
		t.Errorf("the observer sees %v", seen)
	}
}
