package plan

import (
	"fmt"
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// TrainingOptions selects what a training program computes in addition to clipped sums and
// losses.
type TrainingOptions struct {
	Norms    bool // squared norms; without them the caller sets the factors, as in a run without privacy
	Output   bool // keep the network's output
	Observed bool // keep what the statistics behind BatchNorms read
	Exact    bool // add integer contributions: see Contributions; requires Norms
	L1       bool // see Program.L1; requires Exact
	Frozen   bool // read the network's FrozenOutputs as inputs in place of computing them: see LowerFrozen
}

// LowerTraining lowers a network with the nodes of a private step.
func LowerTraining(p *perexample.PrivateNetwork, w TrainingOptions) (*Program, error) {
	l := lowering{program: &Program{
		Batch: p.Batch, Records: p.Records, PerRecord: p.Batch / p.Records, Exact: w.Exact, L1: w.L1, Warning: p.Warning, Network: p,
	}, buffers: map[*G.Node]int{}}
	if err := l.lowerLeaves(p.Network, p.ExampleWeights); err != nil {
		return nil, err
	}
	if w.Frozen {
		l.readFrozen(p.FrozenOutputs, len(p.Inputs)+2*len(p.BatchNorms))
	}
	for i, v := range p.Parameters {
		l.buffers[v.ClipFactors] = l.buffer(Buffer{Name: v.ClipFactors.Name(), Shape: v.ClipFactors.Shape(),
			Role: RoleClipFactors, Index: i})
	}
	order := orderBySumCost(p.Parameters)
	for k, i := range order {
		if w.Norms {
			if err := l.lowerResult(p.Parameters[i].SquaredNorms, RoleSquaredNorms, i); err != nil {
				return nil, err
			}
		}
		if k > 0 {
			continue
		}
		// Here, so that an output which is not kept is dead before the backward pass.
		if err := l.lowerResults(p.Network, w.Output); err != nil {
			return nil, err
		}
		if w.Observed {
			if err := l.lowerObserved(p.Network); err != nil {
				return nil, err
			}
		}
	}
	front := len(l.code)
	for _, i := range order {
		if err := l.lowerSum(p.Parameters[i], i); err != nil {
			return nil, err
		}
	}
	for i, v := range p.Parameters {
		l.program.Parameters = append(l.program.Parameters, Parameter{
			Name: v.Node.Name(), Shape: v.Node.Shape(), Kind: v.Kind, Method: v.Method,
			Value:        l.buffers[v.Node],
			SquaredNorms: l.program.FindBuffer(RoleSquaredNorms, i),
			ClipFactors:  l.program.FindBuffer(RoleClipFactors, i),
			ClippedSum:   l.program.FindBuffer(RoleClippedSum, i),
		})
	}
	return l.finish(front), nil
}

// orderBySumCost orders parameters by the number of nodes that their sums depend on:
// those near the loss come first. A layer's backpropagated signal is then used while it
// is in the caches, and its lifetime is short. Parameters whose records' gradients are
// kept come last if the gradients are larger than their operands.
func orderBySumCost(parameters []perexample.Parameter) []int {
	order, costs, grows := make([]int, len(parameters)), make([]int, len(parameters)), make([]bool, len(parameters))
	type dependency struct {
		reads []*dependency
		grows bool // keeps records' gradients that are larger than their operands
		last  int  // the last parameter that visited it, counted from 1
	}
	dependencies := map[*G.Node]*dependency{} // built once: parameters share most of the nodes they depend on
	var find func(n *G.Node) *dependency
	find = func(n *G.Node) *dependency {
		if p := dependencies[n]; p != nil {
			return p
		}
		p, operands := &dependency{}, 0
		dependencies[n] = p
		for _, x := range op.CanonicalOperands(n) {
			operands += x.Shape().TotalSize()
			p.reads = append(p.reads, find(x))
		}
		_, kept := op.OperationOf(n).(op.RecordGradients)
		p.grows = kept && n.Shape().TotalSize() > operands
		return p
	}
	for i, v := range parameters {
		var visit func(p *dependency)
		visit = func(p *dependency) {
			if p.last == i+1 {
				return
			}
			p.last = i + 1
			costs[i]++
			grows[i] = grows[i] || p.grows
			for _, x := range p.reads {
				visit(x)
			}
		}
		visit(find(v.ClippedSum))
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if grows[a] != grows[b] {
			if grows[a] {
				return 1
			}
			return -1
		}
		return costs[a] - costs[b]
	})
	return order
}

// readFrozen makes inputs of the outputs of frozen first layers, numbered from first.
func (l *lowering) readFrozen(outputs G.Nodes, first int) {
	for i, n := range outputs {
		l.buffers[n] = l.buffer(Buffer{Name: n.Name(), Shape: n.Shape(), Role: RoleInput, Index: first + i})
	}
}

// LowerEvaluation lowers a network's forward pass: output and losses, without gradients
// and without dropout.
func LowerEvaluation(net *perexample.Network) (*Program, error) {
	return lowerEvaluation(net, nil)
}

// LowerTrainedLayers is LowerEvaluation of what follows the frozen first layers. Their outputs are inputs
// behind the columns.
func LowerTrainedLayers(p *perexample.PrivateNetwork) (*Program, error) {
	return lowerEvaluation(p.Network, p.FrozenOutputs)
}

// lowerEvaluation lowers a forward pass that reads the outputs of frozen first layers as inputs.
func lowerEvaluation(net *perexample.Network, frozen G.Nodes) (*Program, error) {
	l := lowering{program: &Program{Batch: net.Batch, Records: net.Batch, PerRecord: 1}, buffers: map[*G.Node]int{}, evaluating: true}
	if err := l.lowerLeaves(net, nil); err != nil {
		return nil, err
	}
	l.readFrozen(frozen, len(net.Inputs))
	if err := l.lowerResults(net, true); err != nil {
		return nil, err
	}
	for i, p := range net.Params {
		l.program.Parameters = append(l.program.Parameters, Parameter{
			Name: p.Name(), Shape: p.Shape(), Value: l.buffers[p], SquaredNorms: -1, ClipFactors: -1,
			ClippedSum: l.program.FindBuffer(RoleClippedSum, i),
		})
	}
	return l.finish(len(l.code)), nil
}

// LowerFrozen lowers the frozen first layers of a network: Observed of the executable is
// FrozenOutputs. It reads the columns of the data set and has no parameters.
func LowerFrozen(p *perexample.PrivateNetwork) (*Program, error) {
	l := lowering{program: &Program{Batch: p.Batch, Records: p.Batch, PerRecord: 1}, buffers: map[*G.Node]int{}}
	for i, in := range p.Inputs {
		l.buffers[in] = l.buffer(Buffer{Name: in.Name(), Shape: in.Shape(), Role: RoleInput, Index: i})
	}
	for i, n := range p.FrozenOutputs {
		if err := l.lowerResult(n, RoleObserved, i); err != nil {
			return nil, err
		}
	}
	return l.finish(len(l.code)), nil
}

type lowering struct {
	program    *Program
	code       []Instruction
	buffers    map[*G.Node]int
	evaluating bool
}

func (l *lowering) buffer(b Buffer) int {
	b.Base = len(l.program.Buffers)
	l.program.Buffers = append(l.program.Buffers, b)
	return b.Base
}

// alias adds a buffer of another shape in the same memory.
func (l *lowering) alias(id int, n *G.Node) int {
	of := l.program.Buffers[id]
	l.program.Buffers = append(l.program.Buffers, Buffer{Name: n.Name(), Shape: n.Shape(), Base: of.Base})
	return len(l.program.Buffers) - 1
}

func (l *lowering) lowerLeaves(net *perexample.Network, weights *G.Node) error {
	for i, in := range net.Inputs {
		l.buffers[in] = l.buffer(Buffer{Name: in.Name(), Shape: in.Shape(), Role: RoleInput, Index: i})
	}
	trained := net.Trained()
	if l.evaluating {
		trained = net.Params
	} else {
		l.lowerRunning(net)
	}
	for i, p := range trained {
		b := Buffer{Name: p.Name(), Shape: p.Shape(), Role: RoleParameter, Index: i}
		if s, later := p.Value().(*perexample.InitialValue); later {
			b.Draw = s.Draw
		} else {
			var err error
			if b.Value, err = op.Values(p); err != nil {
				return fmt.Errorf("parameter %s: %w", p.Name(), err)
			}
		}
		l.buffers[p] = l.buffer(b)
	}
	if net.MaskSeed != nil && !l.evaluating {
		l.buffers[net.MaskSeed] = l.buffer(Buffer{Name: net.MaskSeed.Name(), Shape: net.MaskSeed.Shape(), Role: RoleMaskSeed})
	}
	if weights != nil {
		l.buffers[weights] = l.buffer(Buffer{Name: weights.Name(), Shape: weights.Shape(), Role: RoleExampleWeights})
	}
	return nil
}

// lowerRunning lowers the running statistics of a training program: inputs behind the columns, which
// the engine fills when it has released new ones.
func (l *lowering) lowerRunning(net *perexample.Network) {
	for i, b := range net.BatchNorms {
		for k, n := range []*G.Node{b.Mean, b.Variance} {
			l.buffers[n] = l.buffer(Buffer{Name: n.Name(), Shape: n.Shape(), Role: RoleInput, Index: len(net.Inputs) + 2*i + k})
		}
	}
}

// lowerObserved lowers what the statistics behind running statistics read.
func (l *lowering) lowerObserved(net *perexample.Network) error {
	for i, b := range net.BatchNorms {
		for k, n := range b.Observed {
			if err := l.lowerResult(n, RoleObserved, 2*i+k); err != nil {
				return err
			}
		}
	}
	return nil
}

// lowerResults lowers the nodes that evaluation and private statistics read.
func (l *lowering) lowerResults(net *perexample.Network, output bool) error {
	if net.Output != nil && output {
		if err := l.lowerResult(net.Output, RoleOutput, 0); err != nil {
			return err
		}
	}
	if net.Losses != nil {
		return l.lowerResult(net.Losses, RoleLosses, 0)
	}
	return nil
}

// lowerResult lowers a node and gives its memory a role, so that it outlives the run.
func (l *lowering) lowerResult(n *G.Node, role Role, index int) error {
	id, err := l.lowerNode(n)
	if err != nil {
		return err
	}
	id = l.program.Buffers[id].Base
	if l.program.Buffers[id].Role != RoleTemporary {
		id = l.copyOf(id)
	}
	b := &l.program.Buffers[id]
	b.Role, b.Index = role, index
	return nil
}

func (l *lowering) copyOf(id int) int {
	shape := l.program.Buffers[id].Shape
	out := l.buffer(Buffer{Name: l.program.Buffers[id].Name, Shape: shape})
	l.code = append(l.code, Instruction{Spec: op.Reshape{To: op.AxesOf(shape...)}, In: []int{id}, Out: out})
	return out
}

// lowerSum lowers a clipped sum so that it is added to its accumulator.
func (l *lowering) lowerSum(v perexample.Parameter, index int) error {
	acc := l.buffer(Buffer{Name: "sum of " + v.Node.Name(), Shape: tensor.Shape{v.Node.Shape().TotalSize()}, Role: RoleClippedSum, Index: index})
	if l.program.Exact {
		if s, several := op.OperationOf(v.SquaredNorms).(op.MultiUseNorms); several {
			return l.addContribution(v.SquaredNorms, op.MultiUseSum(s), Instruction{Out: acc}, l.buffers[v.ClipFactors])
		}
		return l.contribute(v.ClippedSum, Instruction{Out: acc})
	}
	return l.accumulate(v.ClippedSum, acc)
}

// contribute adds the contributions of a sum to an accumulator. The uses that the sum
// consists of cover disjoint elements of the parameter, so squared norms add up.
func (l *lowering) contribute(n *G.Node, i Instruction) error {
	switch s := op.OperationOf(n).(type) {
	case op.Add:
		for _, x := range op.CanonicalOperands(n) {
			if err := l.contribute(x, i); err != nil {
				return err
			}
		}
		return nil
	case op.Scatter:
		i.At = s.At
		return l.contribute(op.CanonicalOperands(n)[0], i)
	case op.ClippedSum:
		return l.addContribution(n, s, i)
	case op.WeightedRows:
		if part, is := op.OperationOf(op.CanonicalOperands(n)[1]).(op.Slice); is {
			i.FirstRecord = part.From
		}
		return l.addContribution(n, s, i)
	}
	return fmt.Errorf("node %s: no rule for integer contributions", n.Name())
}

// addContribution adds the instruction of a contribution whose operands are those of n and
// more buffers.
func (l *lowering) addContribution(n *G.Node, s op.Operation, i Instruction, more ...int) (err error) {
	if i.In, err = l.lowerOperands(n); err != nil {
		return err
	}
	i.In = append(i.In, more...)
	i.Spec, i.Accumulate = s, true
	l.code = append(l.code, i)
	return nil
}

// accumulate adds a node to an accumulator. The operation itself does so if it can;
// otherwise an addition follows it.
func (l *lowering) accumulate(n *G.Node, acc int) error {
	switch op.OperationOf(n).(type) {
	case op.Add:
		for _, x := range op.CanonicalOperands(n) {
			if err := l.accumulate(x, acc); err != nil {
				return err
			}
		}
		return nil
	case op.ClippedSum, op.WeightedRows:
		in, err := l.lowerOperands(n)
		if err != nil {
			return err
		}
		l.code = append(l.code, Instruction{Spec: op.OperationOf(n), In: in, Out: acc, Accumulate: true})
		return nil
	}
	id, err := l.lowerNode(n)
	if err != nil {
		return err
	}
	l.code = append(l.code, Instruction{Spec: op.Add{}, In: []int{acc, id}, Out: acc})
	return nil
}

func (l *lowering) lowerOperands(n *G.Node) ([]int, error) {
	var in []int
	for _, x := range op.CanonicalOperands(n) {
		id, err := l.lowerNode(x)
		if err != nil {
			return nil, err
		}
		in = append(in, id)
	}
	return in, nil
}

// lowerNode lowers a node after all nodes that it depends on.
func (l *lowering) lowerNode(n *G.Node) (int, error) {
	if id, done := l.buffers[n]; done {
		return id, nil
	}
	if s, later := n.Value().(*perexample.InitialValue); later && n.Op() == nil {
		id := l.buffer(Buffer{Name: n.Name(), Shape: n.Shape(), Role: RoleConstant, Index: len(l.buffers), Shared: s})
		l.buffers[n] = id
		return id, nil
	}
	if v, err := op.Values(n); err == nil && (n.Op() == nil || op.OpKind(n) == "constantScalar" || op.OpKind(n) == "constantTensor") {
		id := l.buffer(Buffer{Name: n.Name(), Shape: n.Shape(), Role: RoleConstant, Index: len(l.buffers), Value: v})
		l.buffers[n] = id
		return id, nil
	}
	if n.Op() == nil {
		return 0, fmt.Errorf("node %s has no float32 value and is not an input", n.Name())
	}
	if op.OpKind(n) == "sizeOp" {
		return l.lowerSize(n)
	}
	spec := op.Canonical(n)
	var err error
	if _, drops := spec.(op.Dropout); drops && l.evaluating {
		l.buffers[n], err = l.lowerNode(op.CanonicalOperands(n)[0])
		return l.buffers[n], err
	}
	code := Instruction{Spec: spec}
	if code.In, err = l.lowerOperands(n); err != nil {
		return 0, err
	}
	if _, moved := spec.(op.Reshape); moved {
		l.buffers[n] = l.alias(code.In[0], n)
		return l.buffers[n], nil
	}
	if spec == nil {
		code.Foreign = n.Op()
	}
	code.Out = l.buffer(Buffer{Name: n.Name(), Shape: n.Shape()})
	l.code = append(l.code, code)
	l.buffers[n] = code.Out
	return code.Out, nil
}

// lowerSize lowers the length of an axis to a constant.
func (l *lowering) lowerSize(n *G.Node) (int, error) {
	size, known := op.AxisLength(n)
	if !known {
		return 0, fmt.Errorf("node %s (%v): the size is not known when the graph is built", n.Name(), n.Op())
	}
	id := l.buffer(Buffer{Name: n.Name(), Shape: n.Shape(), Role: RoleConstant, Index: len(l.buffers), Value: []float32{float32(size)}})
	l.buffers[n] = id
	return id, nil
}

// finish splits the code into Front, its first instructions, and Back, and lays out the
// arena.
func (l *lowering) finish(front int) *Program {
	l.program.Front, l.program.Back = l.code[:front:front], l.code[front:]
	l.program.layOutArena()
	return l.program
}
