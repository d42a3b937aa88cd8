package engine

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/forward"
	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/perexample"
)

// Evaluation is the quality of a network on a set. It is a function of the set's examples: it is
// public only where the set is.
//
// The labels are those that package layer's cross-entropy compares with the network's Output. For
// a network without such a loss they are those of the first column whose classes the Output may
// score.
type Evaluation struct {
	Examples int
	Labels   int     // labels that were compared, without data.Pad and layer.IgnoreLabel's; 0 where the Output scores no classes
	Accuracy float64 // share of Labels that were predicted correctly; 0 where Labels is 0
	Loss     float64 // mean; 0 where the network keeps no losses
	// Confusion counts the predictions for each true class; nil for more than 4,096 classes.
	Confusion [][]int
	Targets   int // targets that were compared; 0 where no loss such as layer.SquaredError compares the Output with them
	// RMSE and MAE are the root of the mean squared error and the mean absolute error of the
	// targets, in their unit where their column has Bounds, and otherwise in that of its numbers.
	// R2 is the coefficient of determination; NaN where the targets do not vary. All are 0 where
	// Targets is 0.
	RMSE, MAE, R2 float64
}

// Evaluator evaluates weights on sets. On the CPU it computes with the caller's weights and has
// none of its own. It serves one goroutine.
type Evaluator struct {
	network *forward.Network
}

// NewEvaluator compiles a network for evaluation. It refuses a network that a run refuses, for
// example one whose output for an example depends on other examples of the batch. Where a run
// computes a network one record at a time, because an operation has no per-example rule, it
// evaluates one example at a time. The CPU replaces the device gorgonia.
func NewEvaluator(build perexample.Build, options DeviceOptions) (*Evaluator, error) {
	n, err := forward.New(build, *options.resolver())
	if err != nil {
		return nil, err
	}
	return &Evaluator{network: n}, nil
}

// Close ends the evaluator's threads and frees its memory.
func (e *Evaluator) Close() error { return e.network.Close() }

// Weights returns the weights that were loaded last; before that, the network's starting values.
func (e *Evaluator) Weights() [][]float32 { return e.network.Weights() }

// LoadWeights loads the weights to compute with, as Score and Predict do themselves. It fails
// where memory is short.
func (e *Evaluator) LoadWeights(weights [][]float32) error { return e.network.Load(weights) }

// KeepFrozen makes the evaluator compute the outputs of frozen first layers once for a set. Score and Predict
// of this set then compute the layers behind them, with the same bits. It has no effect on a GPU, for a network
// without such layers, and where the outputs would take more than half of the memory that is left.
func (e *Evaluator) KeepFrozen(s data.Set) error { return e.network.KeepFrozen(s) }

// Score evaluates weights, one slice per parameter, on a set.
func (e *Evaluator) Score(weights [][]float32, s data.Set) (Evaluation, error) {
	return e.ScoreEach(weights, s, nil)
}

// ScoreEach is Score. It also passes the labels or targets of each example, and the network's Output
// for it, to a function, in order. The function must not keep the slices. It is not called where
// Score compares neither labels nor targets.
func (e *Evaluator) ScoreEach(weights [][]float32, s data.Set, each func(expected, output []float32)) (Evaluation, error) {
	if err := e.prepare(weights, s, e.network.Signature); err != nil {
		return Evaluation{}, err
	}
	sc := e.newScorer(s, each)
	err := e.network.ForEachBatch(s, func(b *forward.Batch, _, n int) error {
		return sc.add(b, n, b.Executable.Losses(), b.Executable.Output())
	})
	if err != nil {
		return Evaluation{}, err
	}
	return sc.evaluation(), nil
}

// Predictions returns the network's Output for each example of a set, one slice per example. It
// does not depend on columns that only the loss reads, such as labels; the set may lack such
// columns at its end.
func (e *Evaluator) Predictions(weights [][]float32, s data.Set) (all [][]float32, err error) {
	err = e.Predict(weights, s, func(_ int, output []float32) error {
		all = append(all, slices.Clone(output))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// Predict is Predictions for sets whose outputs do not fit in memory. It passes the output for
// each example to a function, in order. The function must not keep the slice; its error ends the
// evaluation.
func (e *Evaluator) Predict(weights [][]float32, s data.Set, to func(example int, output []float32) error) error {
	signature := e.network.Signature
	if s != nil {
		signature = signature.RestrictTo(len(s.Columns()))
	}
	if err := e.prepare(weights, s, signature); err != nil {
		return err
	}
	size := e.network.Signature.OutputSize
	if size == 0 {
		return fmt.Errorf("evaluation: the network keeps no output: set Output of the network")
	}
	return e.network.ForEachBatch(s, func(b *forward.Batch, from, n int) error {
		for i := range n {
			if err := to(from+i, b.Executable.Output()[i*size:(i+1)*size]); err != nil {
				return err
			}
		}
		return nil
	})
}

// prepare checks a set against a signature and loads weights.
func (e *Evaluator) prepare(weights [][]float32, s data.Set, signature network.Signature) error {
	if s == nil {
		return fmt.Errorf("evaluation without a set: give a set with at least one example")
	}
	if err := signature.Check(s.Columns()); err != nil {
		return err
	}
	if s.Len() == 0 {
		return fmt.Errorf("evaluation on an empty set: give a set with at least one example")
	}
	return e.network.Load(weights)
}
