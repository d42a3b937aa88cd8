// Package torch converts a network's parameters to the layout of a PyTorch state_dict, and reads
// both layouts.
//
//	dptrain                                   PyTorch
//	NAME.weight [in, out] of a dense layer    NAME.weight [out, in] of torch.nn.Linear
//	NAME.weight [out, in/groups, size, size]  the same, torch.nn.Conv2d (and Conv1d, ConvTranspose2d)
//	NAME.weight [vocabulary, dim]             the same, torch.nn.Embedding
//	NAME.weight, NAME.bias of a norm          the same, torch.nn.LayerNorm, GroupNorm, InstanceNorm2d, RMSNorm
//	NAME.k.input.weight, NAME.k.hidden.weight NAME.weight_ih_lk, NAME.weight_hh_lk, transposed: torch.nn.LSTM, GRU
//	NAME.k.input.bias                         NAME.bias_ih_lk
//	NAME.k.hidden.bias of a GRU               the last third of NAME.bias_hh_lk
//	NAME.k.reverse.…                          …_lk_reverse
//
// A matrix [in, out] is also treated as the weight of a dense layer if gorgonia.Mul multiplies
// rows that depend on the inputs by it. Its name does not matter.
//
// Both layouts have the gates in PyTorch's order. PyTorch's second bias, bias_hh_lk, has the same
// effect as the first one, except for the candidate gate of a GRU. Export writes zeros for it, and
// Import adds it to the first bias. The two dense layers of attention keep their names: NAME.qkv is
// in_proj of torch.nn.MultiheadAttention, NAME.out is its out_proj.
//
// testdata/check.py verifies it: Python's safetensors package reads the result of Export, and a
// float64 NumPy implementation of mlp, mnist-cnn, lstm and gru, written from PyTorch's
// documentation, gives the same outputs within 1e-5 (the test is skipped if Python has no
// safetensors package).
package torch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Layout is the arrangement of parameters in a file.
type Layout string

// The layouts. Their values are those of the key "format" in the metadata of a file.
const (
	Dptrain Layout = "dptrain"
	PyTorch Layout = "pt"
)

// mapping relates one tensor of a file to the network's parameters.
type mapping struct {
	parameters []string // the parameters that the tensor contains, whole or in part
	name       string
	shape      []int
	export     func(values []float32) // copies the parameters into the tensor
	load       func(values []float32) // adds the tensor to the parameters, which start at zero
}

// mappings lists the tensors of a file in that layout. The keys of values are parameter names.
func mappings(l Layout, net *perexample.Network, values map[string][]float32) []mapping {
	var list []mapping
	used, cells := map[*G.Node]op.Operation{}, map[string]op.Operation{}
	if l == PyTorch {
		used = findWeightOps(net)
		cells = findRecurrentCells(used)
	}
	for _, p := range net.Params {
		v, shape, name := values[p.Name()], p.Shape(), p.Name()
		cell, part := splitCellName(name)
		first := len(list)
		switch s := cells[cell]; {
		case s != nil:
			list = append(list, cellTensors(s, cell, part, shape, values)...)
		case used[p] != nil && len(shape) == 2:
			list = append(list, transposed(name, shape, v))
		default:
			list = append(list, plain(name, shape, v))
		}
		for i := range list[first:] {
			if e := &list[first+i]; e.parameters == nil {
				e.parameters = []string{name}
			}
		}
	}
	return list
}

// findWeightOps maps each weight and bias whose layout may differ in PyTorch to the operation that
// uses it.
func findWeightOps(net *perexample.Network) map[*G.Node]op.Operation {
	used, seen := map[*G.Node]op.Operation{}, map[*G.Node]bool{}
	var visit func(n *G.Node)
	visit = func(n *G.Node) {
		if n == nil || n.Op() == nil || seen[n] {
			return
		}
		seen[n] = true
		in := op.CanonicalOperands(n)
		switch s := op.Canonical(n).(type) {
		case op.Linear, op.LSTM, op.GRU:
			for _, x := range in[1:] {
				used[x] = s
			}
		case op.MatMul:
			// A weight is that of a dense layer if the other factor depends on the inputs.
			for i, inOut := range []bool{s.TransA, !s.TransB} {
				if inOut && dependsOn(in[1-i], net.Inputs) {
					used[in[i]] = s
				}
			}
		}
		for _, x := range in {
			visit(x)
		}
	}
	visit(net.Output)
	visit(net.Loss) // a network without scores has no output
	return used
}

// dependsOn reports whether a node depends on one of the inputs.
func dependsOn(n *G.Node, inputs G.Nodes) bool {
	read := op.Ancestors(n)
	return slices.ContainsFunc(inputs, func(x *G.Node) bool { return slices.Contains(read, x) })
}

// findRecurrentCells returns the recurrent layers, NAME.k or NAME.k.reverse, whose parameters have
// the names that package layer gives.
func findRecurrentCells(used map[*G.Node]op.Operation) map[string]op.Operation {
	cells := map[string]op.Operation{}
	for p, s := range used {
		cell, _ := splitCellName(p.Name())
		if _, ok := torchCellName(cell, ""); !ok {
			continue
		}
		switch s.(type) {
		case op.LSTM, op.GRU:
			cells[cell] = s
		}
	}
	return cells
}

// splitCellName splits a parameter name of a recurrent layer into the layer and the part.
func splitCellName(name string) (cell, part string) {
	for _, part := range []string{"input.weight", "input.bias", "hidden.weight", "hidden.bias"} {
		if cell, ok := strings.CutSuffix(name, "."+part); ok {
			return cell, part
		}
	}
	return "", ""
}

// torchCellName returns PyTorch's name of a tensor of a recurrent layer.
func torchCellName(cell, what string) (name string, ok bool) {
	layer, reverse := strings.CutSuffix(cell, ".reverse")
	dot := strings.LastIndexByte(layer, '.')
	if k, err := strconv.Atoi(layer[dot+1:]); dot < 0 || err != nil || k < 0 {
		return "", false
	}
	name = layer[:dot] + "." + what + "_l" + layer[dot+1:]
	if reverse {
		name += "_reverse"
	}
	return name, true
}

// cellTensors returns the PyTorch tensors of one parameter of a recurrent layer.
func cellTensors(s op.Operation, cell, part string, shape []int, values map[string][]float32) []mapping {
	name := func(what string) string {
		full, _ := torchCellName(cell, what)
		return full
	}
	v, first := values[cell+"."+part], values[cell+".input.bias"]
	switch part {
	case "input.weight":
		return []mapping{transposed(name("weight_ih"), shape, v)}
	case "input.bias":
		return []mapping{plain(name("bias_ih"), shape, v)}
	case "hidden.bias":
		e := secondBias(name("bias_hh"), first, v)
		e.parameters = []string{cell + ".input.bias", cell + ".hidden.bias"}
		return []mapping{e}
	}
	list := []mapping{transposed(name("weight_hh"), shape, v)}
	if _, lstm := s.(op.LSTM); lstm {
		e := secondBias(name("bias_hh"), first, nil)
		e.parameters = []string{cell + ".input.bias"}
		list = append(list, e)
	}
	return list
}

func plain(name string, shape []int, v []float32) mapping {
	return mapping{nil, name, shape,
		func(values []float32) { copy(values, v) },
		func(values []float32) { add(v, values) },
	}
}

func transposed(name string, shape []int, v []float32) mapping {
	rows, columns := shape[0], shape[1]
	return mapping{nil, name, []int{columns, rows},
		func(values []float32) {
			for i := range rows {
				for j := range columns {
					values[j*rows+i] = v[i*columns+j]
				}
			}
		},
		func(values []float32) {
			for i := range rows {
				for j := range columns {
					v[i*columns+j] += values[j*rows+i]
				}
			}
		},
	}
}

// secondBias maps PyTorch's second bias. Its last part is the bias of a GRU's candidate gate.
func secondBias(name string, first, candidate []float32) mapping {
	repeated := len(first) - len(candidate)
	return mapping{nil, name, []int{len(first)},
		func(values []float32) { copy(values[repeated:], candidate) },
		func(values []float32) {
			add(first, values[:repeated])
			add(candidate, values[repeated:])
		},
	}
}

func add(to, from []float32) {
	for i, v := range from {
		to[i] += v
	}
}

// Export returns the network's parameter values in PyTorch's layout.
func Export(net *perexample.Network) ([]safetensors.Tensor, error) {
	values := map[string][]float32{}
	for _, p := range net.Params {
		if p.Value() == nil {
			return nil, fmt.Errorf("parameter %s has no value", p.Name())
		}
		v, ok := p.Value().Data().([]float32)
		if !ok {
			return nil, fmt.Errorf("parameter %s has values of type %T; only float32 is supported", p.Name(), p.Value().Data())
		}
		values[p.Name()] = v
	}
	var list []safetensors.Tensor
	for _, e := range mappings(PyTorch, net, values) {
		t := safetensors.Tensor{Name: e.name, Shape: e.shape, Values: make([]float32, tensor.ProdInts(e.shape))}
		e.export(t.Values)
		list = append(list, t)
	}
	return list, nil
}

// Import returns the values of a file by parameter name, and the layout of the file. The layout is
// that of "format" in the metadata, otherwise the only one that fits. If the file does not fit, the
// error lists all mismatches in one line.
//
// Parameters named in except are left out. A tensor that contains parts of those parameters only,
// or that is named in except itself, is not read.
func Import(net *perexample.Network, file []safetensors.Tensor, metadata map[string]string,
	except ...string) (map[string][]float32, Layout, error) {
	values := map[string][]float32{}
	for _, p := range net.Params {
		values[p.Name()] = make([]float32, p.Shape().TotalSize())
	}
	tried := []Layout{Dptrain, PyTorch}
	if declared := Layout(metadata["format"]); slices.Contains(tried, declared) {
		tried = []Layout{declared}
	}
	var chosen Layout
	var want []mapping
	var best mismatch
	fits := 0
	for i, l := range tried {
		ignored := slices.Clone(except)
		var read []mapping
		for _, e := range mappings(l, net, values) {
			if !slices.ContainsFunc(e.parameters, func(p string) bool { return !slices.Contains(except, p) }) {
				ignored = append(ignored, e.name)
			} else {
				read = append(read, e)
			}
		}
		d := compareTensors(read, slices.DeleteFunc(slices.Clone(file),
			func(t safetensors.Tensor) bool { return slices.Contains(ignored, t.Name) }))
		if d.count() == 0 {
			if fits++; fits == 1 {
				chosen, want = l, read
			}
		}
		if i == 0 || d.count() < best.count() {
			best = d
		}
	}
	if fits == 0 {
		return nil, "", fmt.Errorf("the tensors do not match the network: %v; name the layers to initialise afresh, and remove from the file the tensors that the network does not have", best)
	}
	if fits > 1 && layoutsDiffer(net, except) {
		return nil, "", fmt.Errorf("all dense weights are square, so their orientation is ambiguous; set format=%s (PyTorch's layout) or format=%s in the metadata of the file", PyTorch, Dptrain)
	}
	byName := map[string][]float32{}
	for _, t := range file {
		byName[t.Name] = t.Values
	}
	for _, e := range want {
		e.load(byName[e.name])
	}
	for _, name := range except {
		delete(values, name)
	}
	return values, chosen, nil
}

// layoutsDiffer reports whether two layouts that both fit give different values: whether a square
// weight outside except is transposed.
func layoutsDiffer(net *perexample.Network, except []string) bool {
	used := findWeightOps(net)
	for _, p := range net.Params {
		if s := p.Shape(); !slices.Contains(except, p.Name()) && used[p] != nil && len(s) == 2 && s[0] > 1 {
			return true
		}
	}
	return false
}
