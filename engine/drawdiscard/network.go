package drawdiscard

import (
	"errors"
	"fmt"
	"math"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/perexample"
)

// networkBatch is the number of records that a client's network computes together.
const networkBatch = 16

// Network computes gradients of a network of package models on the CPU. It serves one goroutine.
type Network struct {
	program    *plan.Program
	executable *cpu.Executable
	weights    int
	features   int // numbers of a record
	labels     int // numbers of a record's label
	round      int // of the dropout masks
}

// NewNetwork compiles a network whose inputs are the features and the label. Threads 0 means one
// for each processor. Close ends them.
func NewNetwork(build perexample.Build, threads int) (*Network, error) {
	return newNetwork(build, threads, math.MaxInt)
}

func newNetwork(build perexample.Build, threads, memory int) (*Network, error) {
	private, err := perexample.Compile(build, networkBatch, 1)
	if err != nil {
		return nil, err
	}
	if len(private.Inputs) != 2 {
		return nil, fmt.Errorf("drawdiscard: a network of %d inputs; it needs features and a label", len(private.Inputs))
	}
	n := &Network{features: 1, labels: 1}
	for _, d := range private.Inputs[0].Shape()[1:] {
		n.features *= d
	}
	for _, d := range private.Inputs[1].Shape()[1:] {
		n.labels *= d
	}
	if n.program, err = plan.LowerTraining(private, plan.TrainingOptions{}); err != nil {
		return nil, err
	}
	if bytes := n.program.Bytes(); bytes > memory {
		return nil, fmt.Errorf("drawdiscard: a step of the network needs %.1f GB; at most %.1f GB are allowed", float64(bytes)/1e9, float64(memory)/1e9)
	}
	for _, p := range n.program.Parameters {
		n.weights += p.Shape.TotalSize()
	}
	if n.executable, err = cpu.New(n.program, plan.Optimizer{Kind: plan.SGD}, false, threads); err != nil {
		return nil, err
	}
	n.program = n.program.Stripped()
	return n, nil
}

// Close ends the threads.
func (n *Network) Close() error { return n.executable.Close() }

// Weights is the number of weights.
func (n *Network) Weights() int { return n.weights }

// Initial returns the network's initial weights, which come from a public seed.
func (n *Network) Initial() []float32 {
	all := make([]float32, 0, n.weights)
	for _, w := range n.executable.State().Weights {
		all = append(all, w...)
	}
	return all
}

// Tensors describes the parameters.
func (n *Network) Tensors() []TensorShape {
	all := make([]TensorShape, len(n.program.Parameters))
	for i, p := range n.program.Parameters {
		all[i] = TensorShape{p.Name, append([]int{}, p.Shape...)}
	}
	return all
}

// AverageGradient writes the mean gradient of the records' losses. A record whose gradient is not
// finite can make the mean NaN; [Mechanism.Release] reads NaN as 0.
func (n *Network) AverageGradient(dst, weights []float32, records Records) error {
	count := len(records.Labels) / n.labels
	if len(dst) != n.weights || len(weights) != n.weights || count == 0 || len(records.Labels) != count*n.labels ||
		len(records.Features) != count*n.features {
		return fmt.Errorf("drawdiscard: %d features and %d labels for a network of %d inputs and %d labels, %d and %d values for %d weights", len(records.Features), len(records.Labels), n.features, n.labels, len(dst), len(weights), n.weights)
	}
	rest := weights
	for i, w := range n.executable.State().Weights {
		copy(w, rest)
		rest = rest[len(w):]
		clear(n.executable.Sum(i))
	}
	n.round++
	for first := 0; first < count; first += n.program.Records {
		if err := n.addBatch(records, first, min(n.program.Records, count-first), count); err != nil {
			return err
		}
	}
	rest = dst
	for i := range n.program.Parameters {
		rest = rest[copy(rest, n.executable.Sum(i)):]
	}
	return nil
}

// addBatch adds the gradients of some records, divided by their number of all records. The
// padding after them is zeros of factor 0.
func (n *Network) addBatch(records Records, first, batch, all int) error {
	fill(n.executable.Input(0), records.Features[first*n.features:][:batch*n.features])
	fill(n.executable.Input(1), records.Labels[first*n.labels:][:batch*n.labels])
	if seeds := n.executable.MaskSeed(); seeds != nil {
		for i := range batch {
			op.WriteMaskSeed(seeds[i*op.MaskSeedWidth:], uint64(first+i), n.round)
		}
	}
	for i := range n.program.Parameters {
		factors := n.executable.ClipFactors(i)
		clear(factors)
		for r := range batch {
			factors[r] = 1 / float32(all)
		}
	}
	return errors.Join(n.executable.Forward(), n.executable.AddClippedSums())
}

// fill copies src to the start of dst and clears the rest.
func fill(dst, src []float32) { clear(dst[copy(dst, src):]) }
