package onnx

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// The exported versions. Opset 17 was published in June 2022, with IR version 8.
const (
	opset     = 17
	irVersion = 8
)

// File is an ONNX model and the names of its inputs and outputs.
type File struct {
	Content         []byte
	Inputs, Outputs []string
}

// Model exports the network's forward pass, with the interface around it, as an ONNX model. The
// parameter values become the model's initializers, with the parameters' names and in dptrain's
// layout. The metadata become metadata_props of the model.
//
// It builds the network for two batch sizes. An axis that differs between them is the batch axis,
// whose size the model leaves open.
func Model(build perexample.Build, in Interface, metadata map[string]string) (f File, err error) {
	net, err := build(2)
	if err != nil {
		return f, err
	}
	other, err := build(3)
	if err != nil {
		return f, err
	}
	if net.Output == nil || len(net.Inputs) == 0 {
		return f, fmt.Errorf("onnx: the network has no output or no input, so it cannot be exported")
	}
	w := &writer{
		feature: net.Inputs[0], params: map[*G.Node]bool{}, featureType: float32s,
		names: map[*G.Node]string{}, usedNames: map[string]int{}, integerLists: map[string]string{},
	}
	for _, p := range net.Params {
		w.params[p] = true
	}
	w.declareIndices(net.Output, map[*G.Node]bool{})
	w.names[w.feature] = w.readFeatures(in)
	w.reserveOutputs(in)
	last, err := w.writeNode(net.Output, other.Output)
	if err != nil {
		return f, fmt.Errorf("onnx: %w", err)
	}
	w.writeAnswers(in, last, net.Output.Shape()[1:])

	graph := w.graph
	graph.text(2, "dptrain")
	var set, model message
	set.text(1, "")
	set.integer(2, opset)
	model.integer(1, irVersion)
	model.text(2, "dptrain")
	model.bytes(7, graph)
	model.bytes(8, set)
	if w.usesML {
		var set message
		set.text(1, mlDomain)
		set.integer(2, mlOpset)
		model.bytes(8, set)
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		var entry message
		entry.text(1, key)
		entry.text(2, metadata[key])
		model.bytes(14, entry)
	}
	return File{model, w.inputs, w.outputs}, checkSize(int64(len(model)))
}

// checkSize refuses a model that no reader of protocol buffers accepts.
func checkSize(bytes int64) error {
	if bytes > math.MaxInt32 {
		return fmt.Errorf("onnx: the model has %d bytes, and a file of one message at most %d; write safetensors", bytes, math.MaxInt32)
	}
	return nil
}

// writer collects a model's nodes and constants in execution order.
type writer struct {
	graph        message
	inputs       []string // names of the model's inputs
	outputs      []string
	usesML       bool // the model has operators of mlDomain
	feature      *G.Node
	featureType  int64 // element type of the features
	params       map[*G.Node]bool
	names        map[*G.Node]string // names of the nodes already written
	usedNames    map[string]int
	integerLists map[string]string // names of the integer-list constants, by content
}

// uniqueName reserves a name. It appends a number if the name is in use.
func (w *writer) uniqueName(want string) string {
	n := w.usedNames[want]
	w.usedNames[want]++
	if n == 0 {
		return want
	}
	return w.uniqueName(fmt.Sprintf("%s_%d", want, n))
}

// emit adds a node and returns the name of its result.
func (w *writer) emit(kind string, in []string, attributes ...attribute) string {
	return w.emitAs(w.uniqueName(kind), kind, in, attributes...)
}

func (w *writer) emitAs(out, kind string, in []string, attributes ...attribute) string {
	w.emitMany([]string{out}, kind, in, attributes...)
	return out
}

// emitML adds a node with an operator of mlDomain and returns the name of its result.
func (w *writer) emitML(kind string, in []string, attributes ...attribute) string {
	w.usesML = true
	out := w.uniqueName(kind)
	m := node([]string{out}, kind, in, attributes)
	m.text(7, mlDomain)
	w.graph.bytes(1, m)
	return out
}

func (w *writer) emitMany(out []string, kind string, in []string, attributes ...attribute) {
	w.graph.bytes(1, node(out, kind, in, attributes))
}

func node(out []string, kind string, in []string, attributes []attribute) message {
	var m message
	for _, name := range in {
		m.text(1, name)
	}
	for _, name := range out {
		m.text(2, name)
	}
	m.text(3, out[0])
	m.text(4, kind)
	for _, a := range attributes {
		m.bytes(5, a.proto())
	}
	return m
}

// floats adds a float32 constant.
func (w *writer) floats(name string, dims []int, values []float32) string {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	name = w.uniqueName(name)
	w.graph.bytes(5, tensorProto(name, float32s, dims, raw))
	return name
}

func (w *writer) scalar(v float64) string { return w.floats("number", nil, []float32{float32(v)}) }

// integers adds a constant list of integers, or returns the existing one.
func (w *writer) integers(values ...int) string {
	key := fmt.Sprint(values)
	if name, ok := w.integerLists[key]; ok {
		return name
	}
	raw := make([]byte, 0, 8*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	w.integerLists[key] = w.uniqueName("list")
	w.graph.bytes(5, tensorProto(w.integerLists[key], int64s, []int{len(values)}, raw))
	return w.integerLists[key]
}

// castToFloat converts indices or booleans to float32.
func (w *writer) castToFloat(x string) string {
	return w.emit("Cast", []string{x}, attribute{"to", float32s})
}

func (w *writer) reshape(x string, dims ...int) string {
	return w.emit("Reshape", []string{x, w.integers(dims...)})
}

// openBatchShape returns the shape of n with -1 for the batch axis. other is the same node of a
// network built for another batch size; the shapes differ in at most one axis.
func openBatchShape(n, other *G.Node) ([]int, error) {
	dims, at := []int(n.Shape().Clone()), -1
	for i, d := range other.Shape() {
		if d == dims[i] {
			continue
		}
		if at >= 0 {
			return nil, fmt.Errorf("%s of shape %v has the batch in two axes", n.Name(), n.Shape())
		}
		at = i
	}
	if at >= 0 {
		dims[at] = -1
	}
	return dims, nil
}

// constantValues returns the values of a parameter or constant.
func constantValues(n *G.Node) ([]float32, bool) {
	v, err := op.Values(n)
	return v, err == nil
}

// declareIndices declares the features as int64 if an operation uses them as indices.
func (w *writer) declareIndices(n *G.Node, seen map[*G.Node]bool) {
	if seen[n] || n.Op() == nil {
		return
	}
	seen[n] = true
	for i, x := range op.CanonicalOperands(n) {
		if x == w.feature && asIndices(op.Canonical(n), i) {
			w.featureType = int64s
		}
		w.declareIndices(x, seen)
	}
}

// asIndices reports whether an operation uses its operand i as indices.
func asIndices(s op.Operation, i int) bool {
	switch s.(type) {
	case op.Embed, op.EmbedBag, op.Attention:
		return i == 1
	}
	return false
}

// writeNode writes a node after its operands. other is the same node of a network built for another
// batch size.
func (w *writer) writeNode(n, other *G.Node) (string, error) {
	if name, done := w.names[n]; done {
		return name, nil
	}
	if v, ok := constantValues(n); ok && (w.params[n] || len(op.Operands(n)) == 0) {
		w.names[n] = w.floats(n.Name(), n.Shape(), v)
		return w.names[n], nil
	}
	if n.Op() == nil {
		return "", fmt.Errorf("the output depends on %s, which is neither the features nor a parameter", n.Name())
	}
	if len(n.Shape()) != len(other.Shape()) {
		return "", fmt.Errorf("%s has a different structure for different batch sizes", n.Name())
	}
	s := operation{writer: w, n: n, other: other, operands: op.CanonicalOperands(n)}
	var err error
	if w.names[n], err = s.translate(op.Canonical(n)); err != nil {
		return "", err
	}
	return w.names[n], nil
}

// operation is one graph operation to translate.
type operation struct {
	*writer
	n, other *G.Node
	operands G.Nodes
}

// writeOperand writes operand i and returns its name.
func (s operation) writeOperand(i int) (string, error) {
	others := op.CanonicalOperands(s.other)
	if len(others) != len(s.operands) {
		return "", fmt.Errorf("%s has a different structure for different batch sizes", s.n.Name())
	}
	name, err := s.writeNode(s.operands[i], others[i])
	if err == nil && s.operands[i] == s.feature && s.featureType == int64s && !asIndices(op.Canonical(s.n), i) {
		name = s.castToFloat(name)
	}
	return name, err
}

// writeOperands writes every operand and returns their names.
func (s operation) writeOperands() ([]string, error) {
	names := make([]string, len(s.operands))
	for i := range s.operands {
		var err error
		if names[i], err = s.writeOperand(i); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (s operation) shape(i int) tensor.Shape { return s.operands[i].Shape() }
