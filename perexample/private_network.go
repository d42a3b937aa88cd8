package perexample

import (
	"errors"
	"fmt"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// PrivateNetwork is a network with the nodes of a private step added to its graph.
//
// Guarantee: ClippedSum is exactly Σ_r c_r·g_r, where g_r depends on record r alone and
// SquaredNorms_r = ‖g_r‖² up to rounding. A factor c_r ≤ S/‖g_r‖ therefore bounds the
// contribution of any record to the sum by S. A record of factor 0 adds nothing, even if
// its rows contain NaN or infinities. The guarantee holds because Compile refuses every
// graph in which one example's loss can depend on another example, and because operations
// without a rule are computed one example at a time.
//
// If records have several examples, an example of weight 0 adds nothing to its record as
// long as what the network computes from it is finite.
type PrivateNetwork struct {
	*Network
	Records        int         // in a microbatch
	Parameters     []Parameter // one per parameter, in order
	ExampleWeights *G.Node     // [Batch], an input: an example's weight in its record; nil if records are examples
	FrozenOutputs  G.Nodes     // what the trained layers read of frozen first layers, a row for each example: the same in every lot
	Warning        string      // why the network is computed one record at a time; empty if it is not
}

// Compile builds the network for microbatches of records, each of perRecord examples. It
// adds the squared norms and the clipped sum of every parameter.
//
// If a parameter is used in a way that has no rule, the network is built for one record
// at a time. That is correct and slow, and Warning explains why. Compile refuses a layer
// that would mix examples because axis 0 of its operand is not the batch.
func Compile(build Build, records, perRecord int) (*PrivateNetwork, error) {
	if records < 1 || perRecord < 1 {
		return nil, fmt.Errorf("a microbatch of %d records of %d examples: both must be at least 1", records, perRecord)
	}
	first, err := build.ForBatch(records * perRecord)
	if err != nil {
		return nil, err
	}
	if records*perRecord == 1 {
		return compileSingleExample(build, first)
	}
	other, err := build.ForBatch(first.Batch + 1)
	if err != nil {
		return nil, err
	}
	r, err := analyzeLayouts(first, other)
	if err != nil {
		return nil, err
	}
	p, err := r.addPrivateStep(records, perRecord)
	var missing *noRuleError
	if !errors.As(err, &missing) {
		return p, err
	}
	if _, _, err := build.analyzeSmallest(); err != nil {
		return nil, err
	}
	if perRecord > 1 {
		return nil, fmt.Errorf("%w, and records of %d examples need one; use records of one example or an operation of models/layer", err, perRecord)
	}
	one, err := build.ForBatch(1)
	if err != nil {
		return nil, err
	}
	if err := copyInitialValues(one, first); err != nil {
		return nil, err
	}
	if p, err = wholeGradients(one); err != nil {
		return nil, err
	}
	p.Warning = fmt.Sprintf("%v: computing one record at a time, which is slow", missing)
	return p, nil
}

// compileSingleExample compiles a microbatch of one example, whose ordinary gradient is
// the record's gradient. It refuses what would be refused in a larger microbatch.
func compileSingleExample(build Build, net *Network) (*PrivateNetwork, error) {
	two, _, err := build.analyzeSmallest()
	if err != nil {
		return nil, err
	}
	if err := copyInitialValues(two, net); err != nil {
		return nil, err
	}
	return wholeGradients(net)
}

// copyInitialValues gives a network the initial values of another build of it.
func copyInitialValues(net, from *Network) error {
	if len(net.Params) != len(from.Params) {
		return fmt.Errorf("the builder makes different networks for %d and %d examples: %d parameters and %d", net.Batch, from.Batch, len(net.Params), len(from.Params))
	}
	for i, p := range net.Params {
		if err := G.Let(p, from.Params[i].Value()); err != nil {
			return fmt.Errorf("the builder makes different networks for %d and %d examples: parameter %s: %s", net.Batch, from.Batch, p.Name(), oneLine(err))
		}
	}
	return nil
}

// differentiate adds the backward pass.
func differentiate(net *Network, order G.Nodes) (err error) {
	for _, n := range order {
		if n.Deriv() != nil {
			return fmt.Errorf("%s is differentiated already: remove the call of gorgonia.Grad from the builder", describe(n))
		}
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the loss cannot be differentiated: %s", oneLine(p))
		}
	}()
	if _, err := G.Grad(net.Loss, net.Trained()...); err != nil {
		return fmt.Errorf("the loss cannot be differentiated: %s", oneLine(err))
	}
	return nil
}

// addPrivateStep adds the nodes of a private step.
func (r *layoutAnalysis) addPrivateStep(records, perRecord int) (*PrivateNetwork, error) {
	if err := checkReachable(r.net); err != nil {
		return nil, err
	}
	if r.unknown != nil {
		return nil, &noRuleError{node: r.unknown}
	}
	frozen := r.frozenOutputs() // before the backward pass is added to the graph
	if err := differentiate(r.net, r.order); err != nil {
		return nil, err
	}
	p := &PrivateNetwork{Network: r.net, Records: records, FrozenOutputs: frozen}
	signal := &signalWeighting{batch: r.net.Batch}
	if perRecord > 1 {
		p.ExampleWeights = newVectorInput(r.net, "record weights", r.net.Batch)
		signal.weights = p.ExampleWeights
	}
	for _, param := range r.net.Trained() {
		v, err := p.addParameter(r, param, signal)
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", param.Name(), err)
		}
		p.Parameters = append(p.Parameters, v)
	}
	return p, nil
}

// checkReachable refuses parameters whose gradient is always zero.
func checkReachable(net *Network) error {
	flows := map[*G.Node]bool{}
	var visit func(n *G.Node)
	visit = func(n *G.Node) {
		if flows[n] {
			return
		}
		flows[n] = true
		for i, x := range op.Operands(n) {
			if differentiated(n, i) {
				visit(x)
			}
		}
	}
	visit(net.Loss)
	for _, p := range net.Trained() {
		if !flows[p] {
			return fmt.Errorf("parameter %s has no gradient path: the loss does not depend on it, or only through comparisons; remove it from Params", p.Name())
		}
	}
	return nil
}

func newVectorInput(net *Network, name string, n int) *G.Node {
	return G.NewVector(net.Loss.Graph(), tensor.Float32, G.WithShape(n), G.WithName("dptrain: "+name))
}

// wholeGradients compiles a microbatch of one record: the record's gradient is each
// parameter's ordinary gradient.
func wholeGradients(net *Network) (*PrivateNetwork, error) {
	if err := checkReachable(net); err != nil {
		return nil, err
	}
	if err := differentiate(net, op.Ancestors(net.Loss)); err != nil {
		return nil, err
	}
	p := &PrivateNetwork{Network: net, Records: 1}
	for _, param := range net.Trained() {
		kept, err := reshape(param.Deriv(), 1, param.Shape().TotalSize())
		if err != nil {
			return nil, err
		}
		v := Parameter{Node: param, Kind: "whole", Method: "one record at a time", ClipFactors: p.newClipFactors(param)}
		if err := v.useRecordGradients(kept); err != nil {
			return nil, err
		}
		p.Parameters = append(p.Parameters, v)
	}
	return p, nil
}
