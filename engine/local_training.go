package engine

import (
	"cmp"
	"fmt"
	"math"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/setting"
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
	case l.Batch < 0 || l.Batch > maxExamples:
		return fmt.Errorf("%d examples in a local step: give at least 1 and at most %d, or 0 for the default", l.Batch, maxExamples)
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
	train      data.Set
	index      *recordIndex
	loader     *microbatchLoader
	executable plan.Executable
	start      [][]float32 // the weights of the lot
	rows       []int       // of the user
	batch      []int       // the rows of a step
	together   int         // the rows that the executable computes together
	used       [][]float32 // the part of the executable's inputs that contains them
	factors    [][]float32 // of the executable
	step       plan.Release
	measured   []Example // of the user, for statistics; nil without them
	row        []Example // one, which shares the memory of the executable
}

func newLocalTrainer(c *Config, index *recordIndex, loader *microbatchLoader, n *compiledNetwork) *localTrainer {
	t := &localTrainer{LocalTraining: c.LocalTraining, train: c.Train, index: index, loader: loader, executable: n.executable}
	t.rows, t.batch, t.together = make([]int, index.perRecord), make([]int, c.LocalTraining.Batch), n.program.Records
	t.used = make([][]float32, len(loader.inputs))
	for v, w := range n.executable.State().Weights {
		t.start = append(t.start, make([]float32, len(w)))
		t.factors = append(t.factors, n.executable.ClipFactors(v))
	}
	if len(c.Statistics) > 0 {
		t.measured, t.row = loader.newExamples(index.perRecord), loader.newExamples(1)
	}
	t.step = plan.Release{Sigma: make([]float64, len(t.start)), Optimizer: plan.Optimizer{Kind: plan.SGD}, Rate: c.LocalTraining.Rate}
	return t
}

// startLot takes the weights of a lot.
func (t *localTrainer) startLot() {
	for v, w := range t.executable.State().Weights {
		copy(t.start[v], w)
	}
}

// computeChange writes the change of a user's weights, and returns the mean loss of the first step's
// examples, 0 where the network keeps no losses. The weights are those of the lot
// afterwards, also after an error or a panic: a user's own weights are private.
func (t *localTrainer) computeChange(change [][]float64, user int) (loss float64, err error) {
	weights := t.executable.State().Weights
	defer func() {
		for v, w := range weights {
			copy(w, t.start[v])
		}
		err = cmp.Or(err, t.executable.LoadState())
	}()
	examples := t.index.writeParticipants(user, t.rows)
	for k := range t.Steps {
		n := min(examples, len(t.batch))
		for i := range n {
			t.batch[i] = t.rows[(k*n+i)%examples]
		}
		for from := 0; from < n; from += t.together {
			rows := t.batch[from:min(from+t.together, n)]
			first := (uint64(t.loader.loaded)*uint64(t.Steps)+uint64(k))*uint64(len(t.batch)) + uint64(from)
			if err := t.forward(rows, first, maskStream); err != nil {
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
	t.loader.loaded++
	if err := t.executable.SyncState(); err != nil {
		return 0, err
	}
	for v, w := range weights {
		for i, x := range w {
			change[v][i] = float64(x) - float64(t.start[v][i])
		}
	}
	return loss, nil
}

// forward computes rows, at most as many as the executable computes together. first numbers the
// first of them among all rows of the lot whose masks are from the stream.
func (t *localTrainer) forward(rows []int, first uint64, masks uint32) error {
	n := len(rows)
	for c, in := range t.loader.inputs {
		size := t.loader.sizes[c]
		t.used[c] = in[:n*size]
		clear(in[n*size:])
	}
	if err := t.train.Read(t.used, rows); err != nil {
		return fmt.Errorf("training data: %w", err)
	}
	if t.loader.maskSeed != nil {
		if err := t.loader.drawMaskSeeds(n, first, masks); err != nil {
			return err
		}
	}
	return t.executable.Forward()
}

// sumLosses returns the sum of the losses of the first n rows; 0 where the network keeps none.
func (t *localTrainer) sumLosses(n int) (sum float64) {
	losses := t.loader.losses
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
func (t *localTrainer) measure(user int) ([]Example, error) {
	examples := t.index.writeParticipants(user, t.rows)
	for from := 0; from < examples; from += t.together {
		rows := t.rows[from:min(from+t.together, examples)]
		if err := t.forward(rows, uint64(t.loader.loaded)*uint64(len(t.rows))+uint64(from), statisticMaskStream); err != nil {
			return nil, err
		}
		for i, row := range rows {
			t.loader.readRow(&t.row[0], i, row)
			t.measured[from+i].set(&t.row[0])
		}
	}
	return t.measured[:examples], nil
}

// addUsers adds the clipped changes of the first n users of the loader.
func (t *localTrainer) addUsers(r *Run, n int) error {
	private := &r.statistics.private
	for _, user := range t.loader.records[:n] {
		var record []Example
		if r.statistics.isDue() {
			var err error
			if record, err = t.measure(user); err != nil {
				return err
			}
		}
		sums := r.mechanism.vectors
		loss, err := t.computeChange(sums.vectors, user)
		if err != nil {
			return err
		}
		weight := int64(weightSteps)
		if r.config.isWeighted() {
			weight = t.index.weight(user, r.config.Weights)
		}
		if err := sums.add(weight); err != nil {
			return err
		}
		if r.statistics.isDue() {
			markClipped(record, !sums.isUnclipped())
			if err := r.statistics.addRecord(record); err != nil {
				return err
			}
		}
		private.Records++
		private.Loss += loss
		if sums.isUnclipped() {
			private.Unclipped++
		}
	}
	return nil
}

// releaseChanges releases the mean of the lot's changes, and takes a step of the optimizer with it.
func (t *localTrainer) releaseChanges(r *Run) error {
	m, e := r.mechanism, r.compiled.executable
	if err := m.vectors.release(r.streams, r.step, m.release.Scale); err != nil {
		return err
	}
	state := e.State()
	for v, mean := range m.vectors.means {
		gradient := t.start[v] // the next lot overwrites it
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
