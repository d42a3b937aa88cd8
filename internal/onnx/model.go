package onnx

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// The versions written: opset 17 is of June 2022, and IR version 8 goes with it.
const (
	opset     = 17
	irVersion = 8
)

// Output is the name of the tensor that a model answers.
const Output = "output"

// Model gives the network's forward pass as an ONNX model. The network's values
// become the model's weights, under the parameters' names and in this program's
// layout; metadata are written beside them.
//
// It builds the network for two sizes of microbatch: where a reshape differs
// between them is the batch, which the model leaves open.
func Model(build perexample.Build, metadata map[string]string) ([]byte, error) {
	net, err := build(2)
	if err != nil {
		return nil, err
	}
	other, err := build(3)
	if err != nil {
		return nil, err
	}
	if net.Output == nil || len(net.Inputs) == 0 {
		return nil, fmt.Errorf("onnx: the network has no output, or no input, to make a model of")
	}
	w := &writer{
		feature: net.Inputs[0], params: map[*G.Node]bool{}, kind: float32s,
		names: map[*G.Node]string{}, taken: map[string]int{}, shapes: map[string]string{},
	}
	for _, p := range net.Params {
		w.params[p] = true
	}
	w.name(w.feature.Name())
	w.name(Output)
	w.names[w.feature] = w.feature.Name()
	w.indices(net.Output, map[*G.Node]bool{})
	last, err := w.node(net.Output, other.Output)
	if err != nil {
		return nil, fmt.Errorf("onnx: %w", err)
	}
	w.emitAs(Output, "Identity", []string{last})

	graph := w.graph
	graph.text(2, "dptrain")
	graph.bytes(11, valueInfo(w.feature.Name(), w.kind, w.feature.Shape()[1:]))
	graph.bytes(12, valueInfo(Output, float32s, net.Output.Shape()[1:]))
	var set, model message
	set.text(1, "")
	set.integer(2, opset)
	model.integer(1, irVersion)
	model.text(2, "dptrain")
	model.bytes(7, graph)
	model.bytes(8, set)
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		var entry message
		entry.text(1, key)
		entry.text(2, metadata[key])
		model.bytes(14, entry)
	}
	return model, nil
}

// writer collects a model's nodes and constants in an order in which they can be
// run.
type writer struct {
	graph   message
	feature *G.Node
	kind    int64 // of the features' elements
	params  map[*G.Node]bool
	names   map[*G.Node]string // of what has been written
	taken   map[string]int
	shapes  map[string]string // constants that are lists of integers, by what they hold
}

// name claims a name, with a number behind it where it is taken.
func (w *writer) name(want string) string {
	n := w.taken[want]
	w.taken[want]++
	if n == 0 {
		return want
	}
	return w.name(fmt.Sprintf("%s_%d", want, n))
}

// emit adds a node and gives the name of its result.
func (w *writer) emit(kind string, in []string, attributes ...attribute) string {
	return w.emitAs(w.name(kind), kind, in, attributes...)
}

func (w *writer) emitAs(out, kind string, in []string, attributes ...attribute) string {
	w.emitMany([]string{out}, kind, in, attributes...)
	return out
}

func (w *writer) emitMany(out []string, kind string, in []string, attributes ...attribute) {
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
	w.graph.bytes(1, m)
}

// floats adds a constant of float32 numbers.
func (w *writer) floats(name string, dims []int, values []float32) string {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	name = w.name(name)
	w.graph.bytes(5, tensorProto(name, float32s, dims, raw))
	return name
}

func (w *writer) scalar(v float64) string { return w.floats("number", nil, []float32{float32(v)}) }

// list adds a constant list of integers, once.
func (w *writer) list(values ...int) string {
	key := fmt.Sprint(values)
	if name, ok := w.shapes[key]; ok {
		return name
	}
	raw := make([]byte, 0, 8*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	w.shapes[key] = w.name("list")
	w.graph.bytes(5, tensorProto(w.shapes[key], int64s, []int{len(values)}, raw))
	return w.shapes[key]
}

// number gives indices, or what is true, as numbers.
func (w *writer) number(x string) string {
	return w.emit("Cast", []string{x}, attribute{"to", float32s})
}

func (w *writer) reshape(x string, dims ...int) string {
	return w.emit("Reshape", []string{x, w.list(dims...)})
}

// open gives a shape with the batch left open: n and its twin in a network built
// for another number of examples differ in one axis, if in any.
func open(n, twin *G.Node) ([]int, error) {
	dims, at := []int(n.Shape().Clone()), -1
	for i, d := range twin.Shape() {
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

// values are a parameter's or constant's numbers.
func values(n *G.Node) ([]float32, bool) {
	v, err := op.Values(n)
	return v, err == nil
}

// indices declares the features int64 where they are looked up.
func (w *writer) indices(n *G.Node, seen map[*G.Node]bool) {
	if seen[n] || n.Op() == nil {
		return
	}
	seen[n] = true
	for i, x := range op.CanonicalOperands(n) {
		if x == w.feature && asIndices(op.Canonical(n), i) {
			w.kind = int64s
		}
		w.indices(x, seen)
	}
}

// asIndices reports whether an operation takes its operand i as indices.
func asIndices(s op.Spec, i int) bool {
	switch s.(type) {
	case op.Embed, op.EmbedBag, op.Attention:
		return i == 1
	}
	return false
}

// node writes a node once all that it reads is written; twin is the same node of
// a network built for another number of examples.
func (w *writer) node(n, twin *G.Node) (string, error) {
	if name, done := w.names[n]; done {
		return name, nil
	}
	if v, ok := values(n); ok && (w.params[n] || len(op.Operands(n)) == 0) {
		w.names[n] = w.floats(n.Name(), n.Shape(), v)
		return w.names[n], nil
	}
	if n.Op() == nil {
		return "", fmt.Errorf("the answers depend on %s, which is neither the features nor a weight", n.Name())
	}
	if len(n.Shape()) != len(twin.Shape()) {
		return "", fmt.Errorf("%s differs between microbatches of two sizes", n.Name())
	}
	s := step{writer: w, n: n, twin: twin, reads: op.CanonicalOperands(n)}
	var err error
	if w.names[n], err = s.translate(op.Canonical(n)); err != nil {
		return "", err
	}
	return w.names[n], nil
}

// step is one operation to be translated.
type step struct {
	*writer
	n, twin *G.Node
	reads   G.Nodes
}

// in writes operand i and gives its name.
func (s step) in(i int) (string, error) {
	twins := op.CanonicalOperands(s.twin)
	if len(twins) != len(s.reads) {
		return "", fmt.Errorf("%s differs between microbatches of two sizes", s.n.Name())
	}
	name, err := s.node(s.reads[i], twins[i])
	if err == nil && s.reads[i] == s.feature && s.kind == int64s && !asIndices(op.Canonical(s.n), i) {
		name = s.number(name)
	}
	return name, err
}

// all writes every operand.
func (s step) all() ([]string, error) {
	names := make([]string, len(s.reads))
	for i := range s.reads {
		var err error
		if names[i], err = s.in(i); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (s step) shape(i int) tensor.Shape { return s.reads[i].Shape() }
