package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/setting"
	"github.com/dptrain/dptrain/noise"
)

// LocalTraining makes the contribution of a user the change of the weights in some steps of SGD on
// the user's examples, from the weights of the lot: federated averaging (McMahan et al. 2018,
// "Learning Differentially Private Recurrent Language Models", algorithm 1, DP-FedAvg). One step on
// all examples of a user is DP-FedSGD: the change is Rate times the negative gradient.
//
// Clip bounds are bounds on the norm of a change. The released mean of the clipped changes, times
// −1, is the gradient of Optimization: SGD with rate 1 adds the mean to the weights. Other
// optimizers are those of Reddi et al. 2021 ("Adaptive Federated Optimization").
//
// Statistics are those of all examples of a user that take part, with the weights of the lot: the
// user's steps come after them.
//
// The guarantee is that of gradients of users. The change is a function of the released weights and
// of the user's own examples: the steps start from the same weights for every user, and nothing
// remains of the previous user's.
type LocalTraining struct {
	Steps int     // steps of each user in a lot; 0: users contribute gradients
	Rate  float64 // learning rate of a step
	// Batch is the number of examples in a step, which is public: work and memory follow from it.
	// Step k takes the Batch examples after those of step k−1, in the order of the data, and begins
	// again after the user's last one. A user with fewer takes all in each step. 0:
	// Records.Examples, at most 64.
	Batch int
}

// maxLocalSteps and maxLocalExamples keep the numbers of a lot's random words below 2^63.
const (
	maxLocalSteps    = 1 << 20
	maxLocalExamples = 1 << 31 // of all steps of a user
	defaultMaxBatch  = 64
)

// checkLocalTraining sets the defaults of local training, and refuses what it cannot be combined
// with.
func (c *Config) checkLocalTraining() error {
	l := &c.LocalTraining
	if *l == (LocalTraining{}) {
		return nil
	}
	switch {
	case l.Steps < 1 || l.Steps > maxLocalSteps:
		return fmt.Errorf("%d local steps: give at least 1 and at most %d", l.Steps, maxLocalSteps)
	case !(l.Rate > 0) || math.IsInf(l.Rate, 1):
		return fmt.Errorf("a local learning rate of %v: give a finite number above 0", l.Rate)
	case l.Batch < 0 || l.Batch > load.MaxExamples:
		return fmt.Errorf("%d examples in a local step: give at least 1 and at most %d, or 0 for the default", l.Batch, load.MaxExamples)
	case !c.Records.Users:
		return setting.Errorf("Records.Users", "local steps need users as records (%v), whose examples they train on", setting.Named("Records.Users"))
	case c.Microbatch != 0:
		return setting.Errorf("Microbatch", "a microbatch of %d records with local steps: users are computed one after the other, and the batch of a local step is %v; drop the microbatch",
			c.Microbatch, setting.Named("LocalTraining.Batch"))
	case c.Augmentation.Views > 0:
		return fmt.Errorf("augmentation is not available with local steps: drop one of them")
	case c.Projection.Directions > 0:
		return fmt.Errorf("a projection is not available with local steps: drop one of them")
	case c.Sampling.ConstantWork:
		return fmt.Errorf("constant work is not available with local steps: drop one of them")
	}
	if l.Batch == 0 {
		l.Batch = min(max(1, c.Records.Examples), defaultMaxBatch)
	}
	if l.Steps > maxLocalExamples/l.Batch {
		return fmt.Errorf("%d local steps of %d examples: give at most %d examples for all steps of a user", l.Steps, l.Batch, maxLocalExamples)
	}
	c.Device.preferCPU() // users have few examples, one after the other
	return nil
}

// localTrainer computes the changes of users, one after the other, with an executable of the network
// without norms. Its state contains the released weights again after each user.
type localTrainer struct {
	LocalTraining
	mechanism  *mechanism
	statistics *lotStatistics
	source     *noise.Source
	train      data.Set
	index      *load.Index
	loader     *load.Loader
	executable plan.Executable
	before     [][]float32 // the weights of the lot
	rows       []int       // of the user
	batch      []int       // the rows of a step
	together   int         // the rows that the executable computes together
	used       [][]float32 // the part of the executable's inputs that contains them
	factors    [][]float32 // of the executable
	step       plan.Release
	measured   []load.Example // of the user, for statistics; nil without them
	row        []load.Example // one, which shares the memory of the executable
}

func newLocalTrainer(c *Config, index *load.Index, plain *gradientLots, source *noise.Source) *localTrainer {
	loader := plain.loader
	t := &localTrainer{LocalTraining: c.LocalTraining, mechanism: plain.mechanism, statistics: plain.statistics, source: source,
		train: c.Train, index: index, loader: loader, executable: plain.network.executable,
		together: plain.network.program.Records}
	t.rows, t.batch = make([]int, index.PerRecord), make([]int, c.LocalTraining.Batch)
	t.used = make([][]float32, len(loader.Inputs))
	for v, w := range t.executable.State().Weights {
		t.before = append(t.before, make([]float32, len(w)))
		t.factors = append(t.factors, t.executable.ClipFactors(v))
	}
	if len(c.Statistics) > 0 {
		t.measured, t.row = loader.NewExamples(index.PerRecord), loader.NewExamples(1)
	}
	t.step = plan.Release{Sigma: make([]float64, len(t.before)), Optimizer: plan.Optimizer{Kind: plan.SGD}, Rate: c.LocalTraining.Rate}
	return t
}

func (t *localTrainer) prepare(context.Context) error { return nil }

// start takes the weights of a lot. Local steps change the state that a checkpoint reads.
func (t *localTrainer) start(checkpoints *state.Writer) {
	checkpoints.WaitUntilRead()
	for v, w := range t.executable.State().Weights {
		copy(t.before[v], w)
	}
}

// computeChange writes the change of a user's weights, and returns the mean loss of the first step's
// examples, 0 where the network keeps no losses. The weights are those of the lot
// afterwards, also after an error or a panic: a user's own weights are private.
func (t *localTrainer) computeChange(change [][]float64, user int) (loss float64, err error) {
	weights := t.executable.State().Weights
	defer func() {
		for v, w := range weights {
			copy(w, t.before[v])
		}
		err = cmp.Or(err, t.executable.LoadState())
	}()
	examples := t.index.WriteParticipants(user, t.rows)
	for k := range t.Steps {
		n := min(examples, len(t.batch))
		for i := range n {
			t.batch[i] = t.rows[(k*n+i)%examples]
		}
		for from := 0; from < n; from += t.together {
			rows := t.batch[from:min(from+t.together, n)]
			first := (uint64(t.loader.Loaded)*uint64(t.Steps)+uint64(k))*uint64(len(t.batch)) + uint64(from)
			if err := t.forward(rows, first, load.MaskStream); err != nil {
				return 0, err
			}
			if k == 0 {
				loss += t.sumLosses(len(rows)) / float64(n)
			}
			if err := t.addGradients(len(rows)); err != nil {
				return 0, err
			}
		}
		t.step.Step, t.step.Scale = k+1, 1/float64(n)
		if err := t.executable.Release(&t.step); err != nil {
			return 0, err
		}
	}
	t.loader.Loaded++
	if err := t.executable.SyncState(); err != nil {
		return 0, err
	}
	for v, w := range weights {
		for i, x := range w {
			change[v][i] = float64(x) - float64(t.before[v][i])
		}
	}
	return loss, nil
}

// forward computes rows, at most as many as the executable computes together. first numbers the
// first of them among all rows of the lot whose masks are from the stream.
func (t *localTrainer) forward(rows []int, first uint64, masks uint32) error {
	n := len(rows)
	for c, in := range t.loader.Inputs {
		size := t.loader.Sizes[c]
		t.used[c] = in[:n*size]
		clear(in[n*size:])
	}
	if err := t.train.Read(t.used, rows); err != nil {
		return fmt.Errorf("training data: %w", err)
	}
	if t.loader.MaskSeed != nil {
		if err := t.loader.DrawMaskSeeds(n, first, masks); err != nil {
			return err
		}
	}
	return t.executable.Forward()
}

// sumLosses returns the sum of the losses of the first n rows; 0 where the network keeps none.
func (t *localTrainer) sumLosses(n int) (sum float64) {
	losses := t.loader.Losses
	for _, l := range losses[:n*len(losses)/t.together] {
		sum += float64(l)
	}
	return sum
}

// addGradients adds the gradients of the first n rows that were computed.
func (t *localTrainer) addGradients(n int) error {
	for _, factors := range t.factors {
		for i := range factors {
			factors[i] = 0
			if i < n {
				factors[i] = 1
			}
		}
	}
	return t.executable.AddClippedSums()
}

// measure returns what statistics read of a user's examples. The weights are those of the lot. The
// next call overwrites it.
func (t *localTrainer) measure(user int) ([]load.Example, error) {
	examples := t.index.WriteParticipants(user, t.rows)
	for from := 0; from < examples; from += t.together {
		rows := t.rows[from:min(from+t.together, examples)]
		if err := t.forward(rows, uint64(t.loader.Loaded)*uint64(len(t.rows))+uint64(from), load.StatisticMaskStream); err != nil {
			return nil, err
		}
		for i, row := range rows {
			t.loader.ReadRow(&t.row[0], i, row)
			t.measured[from+i].Set(&t.row[0])
		}
	}
	return t.measured[:examples], nil
}

// add adds the clipped changes of the first n users of the loader.
func (t *localTrainer) add(n int) error {
	private := &t.statistics.private
	for _, user := range t.loader.Records[:n] {
		var record []load.Example
		if t.statistics.isDue() {
			var err error
			if record, err = t.measure(user); err != nil {
				return err
			}
		}
		sums := t.mechanism.vectors
		loss, err := t.computeChange(sums.Vectors, user)
		if err != nil {
			return err
		}
		weight := int64(load.WeightSteps)
		if limit := t.loader.WeightCap; limit > 0 {
			weight = t.index.Weight(user, limit)
		}
		if err := sums.Add(weight); err != nil {
			return err
		}
		if t.statistics.isDue() {
			markClipped(record, !sums.IsUnclipped())
			if err := t.statistics.addRecord(record); err != nil {
				return err
			}
		}
		private.Records++
		private.Loss += loss
		if sums.IsUnclipped() {
			private.Unclipped++
		}
	}
	return nil
}

func (t *localTrainer) finish() error { return nil }

// release releases the mean of the lot's changes, and takes a step of the optimizer with it.
func (t *localTrainer) release(step int) error {
	m, e := t.mechanism, t.executable
	if err := m.vectors.Release(t.source, step, m.release.Scale); err != nil {
		return err
	}
	state := e.State()
	for v, mean := range m.vectors.Means {
		gradient := t.before[v] // the next lot overwrites it
		for i, x := range mean {
			gradient[i] = float32(-x)
		}
		o, rate := m.release.OptimizerOf(v)
		if err := o.Apply(m.release.Step, rate, state.Weights[v], gradient, state.Slots[v]); err != nil {
			return err
		}
		if m.release.Average.Decay > 0 {
			if err := m.release.Average.Apply(m.release.Step, state.Average[v], state.Weights[v]); err != nil {
				return err
			}
		}
	}
	return e.LoadState()
}
