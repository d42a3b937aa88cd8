package perexample

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Network is a loss graph for microbatches of a fixed number of examples.
//
// It is an ordinary Gorgonia graph. Axis 0 of every input is the batch. The graph ends in
// a scalar loss, which is the SUM of the examples' losses. All that one loss compares is
// one example: the three pictures of a triplet loss are an input [Batch, 3, …]. A node
// that has a value and is neither an input nor a parameter is a constant. A frozen
// parameter is therefore a constant, and costs nothing.
//
// Do not run the graph on Gorgonia's own tape machine: it reuses memory that is still to
// be read, and computes some graphs wrongly. Use engine.Evaluator.
//
// Label and Target state what evaluation compares Output with. Package models/layer sets
// them if a loss reads Output. If they are nil, package engine infers them from the loss
// graph.
type Network struct {
	Batch    int       // examples in a microbatch
	Inputs   []*G.Node // in the order of the data set's columns
	Params   []*G.Node // trained; the value of each is its initial value, a tensor or an *InitialValue
	Loss     *G.Node   // scalar: the sum of the examples' losses
	Output   *G.Node   // the network's output, batch on axis 0; nil if there is nothing to evaluate
	Label    *G.Node   // the input whose classes Output scores, or nil
	Target   *G.Node   // the input whose values Output predicts, or nil
	Losses   *G.Node   // the loss of each example; nil if the graph does not keep them apart
	MaskSeed *G.Node   // [Batch, op.MaskSeedWidth], the seeds that layer.Dropout reads; nil if nothing is random

	BatchNorms []BatchNorm // layers with running statistics; layer.BatchNorm adds them
}

// BatchNorm describes a layer that standardizes activations with running statistics. They are in
// Params, so that files of weights contain them, and are not trained: within a lot they are
// constants, and package engine moves them by what a private statistic releases. So no example
// changes what is computed from another.
type BatchNorm struct {
	Mean, Variance *G.Node    // of Params: [channels]
	Observed       [2]*G.Node // [Batch, channels]: the means over a channel of an example's standardized activations, and of their squares
}

// Trained returns the parameters that have a gradient: Params without running statistics.
func (n *Network) Trained() G.Nodes {
	running := n.running()
	return slices.DeleteFunc(slices.Clone(n.Params), func(p *G.Node) bool { return slices.Contains(running, p) })
}

// running returns the running statistics, in the order of BatchNorms.
func (n *Network) running() (all G.Nodes) {
	for _, b := range n.BatchNorms {
		all = append(all, b.Mean, b.Variance)
	}
	return all
}

// observed returns what the statistics behind BatchNorms read.
func (n *Network) observed() (all G.Nodes) {
	for _, b := range n.BatchNorms {
		all = append(all, b.Observed[:]...)
	}
	return all
}

// checkBatchNorms checks that running statistics are parameters, and observed nodes belong to them.
func checkBatchNorms(net *Network) error {
	for _, b := range net.BatchNorms {
		for i, p := range []*G.Node{b.Mean, b.Variance} {
			o := b.Observed[i]
			if p == nil || o == nil || !slices.Contains(net.Params, p) {
				return fmt.Errorf("BatchNorms lists running statistics that are not in Params, or has no Observed: use layer.BatchNorm")
			}
			if want := (tensor.Shape{net.Batch, p.Shape().TotalSize()}); !o.Shape().Eq(want) {
				return fmt.Errorf("%s observes %s and has shape %v: its shape must be %v", describe(o), p.Name(), o.Shape(), want)
			}
		}
	}
	return nil
}

// Build makes the network for microbatches of the given number of examples. It must make
// the same network for every number: the same operations in the same order, the same
// constants, and parameters of the same names and shapes. It is called several times. The
// initial values come from the first call.
type Build func(batch int) (*Network, error)

// NeedsSingleExamples builds the network for two sizes of microbatch. It refuses what
// Compile refuses before it differentiates: a builder that does not make the same network
// for both sizes, and a network in which an example can change the output of another. It
// reports whether the network has an operation for which no rule shows that it keeps
// examples apart. Such a network must be evaluated one example at a time.
func (b Build) NeedsSingleExamples() (bool, error) {
	_, r, err := b.analyzeSmallest()
	return err == nil && r.unknown != nil, err
}

// analyzeSmallest builds the network for two and for three examples. It returns the
// first, and its layouts. It refuses layers that mix examples because the batch is not on axis 0.
func (b Build) analyzeSmallest() (*Network, *layoutAnalysis, error) {
	two, err := b.ForBatch(2)
	if err != nil {
		return nil, nil, err
	}
	three, err := b.ForBatch(3)
	if err != nil {
		return nil, nil, err
	}
	r, err := analyzeLayouts(two, three)
	if err == nil && r.unknown != nil {
		err = r.checkMixing()
	}
	return two, r, err
}

// ForBatch calls the builder. The builder is the user's code, so a panic of Gorgonia in
// it becomes an error.
func (b Build) ForBatch(batch int) (net *Network, err error) {
	if b == nil {
		return nil, fmt.Errorf("no network is given: pass the function that builds it")
	}
	defer func() {
		if p := recover(); p != nil {
			net, err = nil, fmt.Errorf("building the network for %d examples failed: %s", batch, oneLine(p))
		}
	}()
	if net, err = b(batch); err != nil {
		return nil, err
	}
	return net, checkNetwork(net, batch)
}

// oneLine joins the lines of a message.
func oneLine(message any) string {
	return strings.Join(strings.Fields(fmt.Sprint(message)), " ")
}

// checkNetwork refuses a network for faults that show without an analysis of its layouts.
func checkNetwork(net *Network, batch int) error {
	switch {
	case net == nil || net.Loss == nil:
		return fmt.Errorf("the network has no loss: set Loss to the sum of the examples' losses")
	case net.Batch != batch:
		return fmt.Errorf("the network was built for %d examples when asked for %d: use the number that the builder is given", net.Batch, batch)
	case !net.Loss.IsScalar():
		return fmt.Errorf("loss %s has shape %v and is not a scalar: end the graph in gorgonia.Sum of the examples' losses", net.Loss.Name(), net.Loss.Shape())
	case len(net.Trained()) == 0:
		return fmt.Errorf("the network has no parameters to train: list them in Params")
	case len(net.Inputs) == 0:
		return fmt.Errorf("the network has no inputs: list them in Inputs")
	}
	if err := checkVariables("input", net.Inputs, net.Loss.Graph()); err != nil {
		return err
	}
	for _, in := range net.Inputs {
		if in.Dims() == 0 || in.Shape()[0] != batch {
			return fmt.Errorf("input %s has shape %v: axis 0 must be the microbatch of %d examples", in.Name(), in.Shape(), batch)
		}
	}
	if err := checkVariables("parameter", net.Params, net.Loss.Graph()); err != nil {
		return err
	}
	if err := checkMaskSeed(net); err != nil {
		return err
	}
	if err := checkBatchNorms(net); err != nil {
		return err
	}
	if n := net.Label; n != nil && !slices.Contains(net.Inputs, n) {
		return fmt.Errorf("%s is set as Label and is not in Inputs: set Label to an input, or leave it nil", n.Name())
	}
	if n := net.Target; n != nil && !slices.Contains(net.Inputs, n) {
		return fmt.Errorf("%s is set as Target and is not in Inputs: set Target to an input, or leave it nil", n.Name())
	}
	if err := checkNotEmpty(net); err != nil {
		return err
	}
	for _, p := range net.Params {
		if slices.Contains(net.Inputs, p) {
			return fmt.Errorf("%s is listed in Inputs and in Params: an input is not trained", p.Name())
		}
		if p.Value() == nil {
			return fmt.Errorf("parameter %s has no initial value: give it one with gorgonia.WithInit or gorgonia.WithValue", p.Name())
		}
	}
	return nil
}

// checkNotEmpty refuses nodes without elements. The rules divide by the lengths of axes.
func checkNotEmpty(net *Network) error {
	ends := slices.Concat(net.Inputs, net.Params, G.Nodes{net.Loss, net.Output, net.Losses}, net.observed())
	ends = slices.DeleteFunc(ends, func(n *G.Node) bool { return n == nil })
	for _, n := range op.Ancestors(ends...) {
		if slices.Contains(n.Shape(), 0) {
			return fmt.Errorf("%s has shape %v and no elements: every axis must have a length of at least 1", describe(n), n.Shape())
		}
	}
	return nil
}

func checkMaskSeed(net *Network) error {
	t := net.MaskSeed
	if t == nil {
		return nil
	}
	if err := checkVariables("mask seed", G.Nodes{t}, net.Loss.Graph()); err != nil {
		return err
	}
	if want := (tensor.Shape{net.Batch, op.MaskSeedWidth}); !t.Shape().Eq(want) {
		return fmt.Errorf("mask seed %s has shape %v: its shape must be %v", t.Name(), t.Shape(), want)
	}
	if slices.Contains(net.Inputs, t) || slices.Contains(net.Params, t) {
		return fmt.Errorf("%s is listed as MaskSeed and in Inputs or Params: remove it from Inputs and Params", t.Name())
	}
	return nil
}

// checkVariables checks that nodes are float32 variables of one graph, each with its own
// name. Gorgonia makes one node of two variables with the same name and shape.
func checkVariables(what string, nodes G.Nodes, g *G.ExprGraph) error {
	names := map[string]bool{}
	for i, n := range nodes {
		switch {
		case n == nil:
			return fmt.Errorf("%s %d is nil", what, i)
		case n.Op() != nil:
			return fmt.Errorf("%s %s is computed or constant: make it with gorgonia.NewMatrix, NewVector, NewTensor or NewScalar", what, n.Name())
		case n.Graph() != g:
			return fmt.Errorf("%s %s belongs to another graph than the loss: make both in one graph", what, n.Name())
		case names[n.Name()]:
			return fmt.Errorf("two %ss are named %s: give each its own name", what, n.Name())
		case n.Dtype() != G.Float32:
			return fmt.Errorf("%s %s has type %v: networks are trained in float32", what, n.Name(), n.Dtype())
		}
		names[n.Name()] = true
	}
	return nil
}
