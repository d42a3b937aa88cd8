package lot

import (
	"cmp"
	"fmt"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// Local are the steps of each user in a lot: see engine.LocalTraining.
type Local struct {
	Steps int     // steps of each user in a lot; 0: users contribute gradients
	Rate  float64 // learning rate of a step
	// Batch is the number of examples in a step, which is public: work and memory follow from it.
	// Step k takes the Batch examples after those of step k−1, in the order of the data, and begins
	// again after the user's last one. A user with fewer takes all in each step. 0:
	// Records.Examples, at most 64.
	Batch int
}

// LocalSteps computes the changes of users, one after the other, with an executable of the network
// without norms. Its state contains the released weights again after each user.
type LocalSteps struct {
	Local
	vectors
	executable plan.Executable
	Train      data.Set
	before     [][]float32 // the weights of the lot
	rows       []int       // of the user
	batch      []int       // the rows of a step
	Together   int         // the rows that the executable computes together
	used       [][]float32 // the part of the executable's inputs that contains them
	factors    [][]float32 // of the executable
	step       plan.Release
	measured   []load.Example // of the user, for statistics; nil without them
	row        []load.Example // one, which shares the memory of the executable
}

func newLocalSteps(l *Lot, local Local, train data.Set) *LocalSteps {
	t := &LocalSteps{Local: local, vectors: vectors{l}, executable: l.Network.Executable, Train: train, Together: l.Network.Program.Records}
	t.rows, t.batch = make([]int, l.Index.PerRecord), make([]int, local.Batch)
	t.used = make([][]float32, len(l.Loader.Inputs))
	for v, w := range t.executable.State().Weights {
		t.before = append(t.before, make([]float32, len(w)))
		t.factors = append(t.factors, t.executable.ClipFactors(v))
	}
	if l.Statistics.any() {
		t.measured, t.row = l.Loader.NewExamples(l.Index.PerRecord), l.Loader.NewExamples(1)
	}
	t.step = plan.Release{Sigma: make([]float64, len(t.before)), Optimizer: plan.Optimizer{Kind: plan.SGD}, Rate: local.Rate}
	return t
}

// Start takes the weights of a lot. Local steps change the state that a checkpoint reads: the caller has
// waited until it is read.
func (t *LocalSteps) Start() {
	for v, w := range t.executable.State().Weights {
		copy(t.before[v], w)
	}
}

// ComputeChange writes the change of a user's weights, and returns the mean loss of the first step's
// examples, 0 where the network keeps no losses. The weights are those of the lot
// afterwards, also after an error or a panic: a user's own weights are private.
func (t *LocalSteps) ComputeChange(change [][]float64, user int) (loss float64, err error) {
	weights := t.executable.State().Weights
	defer func() {
		for v, w := range weights {
			copy(w, t.before[v])
		}
		err = cmp.Or(err, t.executable.LoadState())
	}()
	examples := t.lot.Index.WriteParticipants(user, t.rows)
	for k := range t.Steps {
		n := min(examples, len(t.batch))
		for i := range n {
			t.batch[i] = t.rows[(k*n+i)%examples]
		}
		for from := 0; from < n; from += t.Together {
			rows := t.batch[from:min(from+t.Together, n)]
			first := (uint64(t.lot.Loader.Loaded)*uint64(t.Steps)+uint64(k))*uint64(len(t.batch)) + uint64(from)
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
	t.lot.Loader.Loaded++
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
func (t *LocalSteps) forward(rows []int, first uint64, masks uint32) error {
	n := len(rows)
	for c, in := range t.lot.Loader.Inputs {
		size := t.lot.Loader.Sizes[c]
		t.used[c] = in[:n*size]
		clear(in[n*size:])
	}
	if err := t.Train.Read(t.used, rows); err != nil {
		return fmt.Errorf("training data: %w", err)
	}
	if t.lot.Loader.MaskSeed != nil {
		if err := t.lot.Loader.DrawMaskSeeds(n, first, masks); err != nil {
			return err
		}
	}
	return t.executable.Forward()
}

// sumLosses returns the sum of the losses of the first n rows; 0 where the network keeps none.
func (t *LocalSteps) sumLosses(n int) (sum float64) {
	losses := t.lot.Loader.Losses
	for _, l := range losses[:n*len(losses)/t.Together] {
		sum += float64(l)
	}
	return sum
}

// addGradients adds the gradients of the first n rows that were computed.
func (t *LocalSteps) addGradients(n int) error {
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
func (t *LocalSteps) measure(user int) ([]load.Example, error) {
	examples := t.lot.Index.WriteParticipants(user, t.rows)
	for from := 0; from < examples; from += t.Together {
		rows := t.rows[from:min(from+t.Together, examples)]
		if err := t.forward(rows, uint64(t.lot.Loader.Loaded)*uint64(len(t.rows))+uint64(from), load.StatisticMaskStream); err != nil {
			return nil, err
		}
		for i, row := range rows {
			t.lot.Loader.ReadRow(&t.row[0], i, row)
			t.measured[from+i].Set(&t.row[0])
		}
	}
	return t.measured[:examples], nil
}

// Add adds the clipped changes of the first n users of the loader.
func (t *LocalSteps) Add(n int) error {
	private := &t.lot.Private
	for _, user := range t.lot.Loader.Records[:n] {
		var record []load.Example
		if t.lot.Statistics.isDue() {
			var err error
			if record, err = t.measure(user); err != nil {
				return err
			}
		}
		sums := t.lot.Mechanism.Vectors
		loss, err := t.ComputeChange(sums.Vectors, user)
		if err != nil {
			return err
		}
		weight := int64(load.WeightSteps)
		if limit := t.lot.Loader.WeightCap; limit > 0 {
			weight = t.lot.Index.Weight(user, limit)
		}
		if err := sums.Add(weight); err != nil {
			return err
		}
		if t.lot.Statistics.isDue() {
			markClipped(record, !sums.IsUnclipped())
			if err := t.lot.Statistics.AddRecord(record); err != nil {
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

// Release releases the mean of the lot's changes, and takes a step of the optimizer with it.
func (t *LocalSteps) Release(step int) error {
	if err := t.vectors.Release(step); err != nil {
		return err
	}
	m, e := t.lot.Mechanism, t.executable
	state := e.State()
	for v, mean := range m.Vectors.Means {
		gradient := t.before[v] // the next lot overwrites it
		for i, x := range mean {
			gradient[i] = float32(-x)
		}
		o, rate := m.Step.OptimizerOf(v)
		if err := o.Apply(m.Step.Step, rate, state.Weights[v], gradient, state.Slots[v]); err != nil {
			return err
		}
		if m.Step.Average.Decay > 0 {
			if err := m.Step.Average.Apply(m.Step.Step, state.Average[v], state.Weights[v]); err != nil {
				return err
			}
		}
	}
	return e.LoadState()
}
