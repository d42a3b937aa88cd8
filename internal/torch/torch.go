// Package torch lays a network's parameters out as PyTorch's state_dict has them,
// and reads either layout back.
//
//	here                                      in PyTorch
//	NAME.weight [in, out] of a dense layer    NAME.weight [out, in] of torch.nn.Linear
//	NAME.weight [out, in/groups, size, size]  the same, torch.nn.Conv2d (and Conv1d, ConvTranspose2d)
//	NAME.weight [vocabulary, dim]             the same, torch.nn.Embedding
//	NAME.weight, NAME.bias of a norm          the same, torch.nn.LayerNorm, GroupNorm, InstanceNorm2d, RMSNorm
//	NAME.k.input.weight, NAME.k.hidden.weight NAME.weight_ih_lk, NAME.weight_hh_lk, transposed: torch.nn.LSTM, GRU
//	NAME.k.input.bias                         NAME.bias_ih_lk
//	NAME.k.hidden.bias of a GRU               the last third of NAME.bias_hh_lk
//	NAME.k.reverse.…                          …_lk_reverse
//
// A matrix [in, out] that gorgonia.Mul multiplies rows by, made from the inputs, is a dense
// layer's weight, too, whatever its name.
//
// Gates stand in PyTorch's order on both sides. PyTorch's second bias, bias_hh_lk,
// does what the first one does (but for a GRU's candidate): it is written as zeros
// and, where it is read, added to the first. Attention's two dense layers keep
// their names: NAME.qkv is what torch.nn.MultiheadAttention calls in_proj, NAME.out
// its out_proj.
//
// Shown by testdata/check.py: Python's safetensors reads what Export gives, and a
// float64 NumPy version of mlp, mnist-cnn, lstm and gru, written from PyTorch's
// documentation, answers the same to within 1e-5 (TestPython, which skips where
// Python has no safetensors).
package torch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/safetensors"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Layout is a way in which a file holds parameters.
type Layout string

// The layouts, by what files say under "format" in their metadata.
const (
	Own     Layout = "dptrain"
	PyTorch Layout = "pt"
)

// entry is one tensor of a file.
type entry struct {
	of    []string // the parameters that it is, or has parts of
	name  string
	shape []int
	give  func(values []float32) // fills the tensor from the network's parameters
	take  func(values []float32) // adds the tensor to parameters that were zero
}

// layout lists what a file of that layout holds. values are the parameters', by
// name.
func layout(l Layout, net *perexample.Network, values map[string][]float32) []entry {
	var list []entry
	used, cells := map[*G.Node]op.Spec{}, map[string]op.Spec{}
	if l == PyTorch {
		used = uses(net)
		cells = recurrent(used)
	}
	for _, p := range net.Params {
		v, shape, name := values[p.Name()], p.Shape(), p.Name()
		cell, part := parts(name)
		first := len(list)
		switch s := cells[cell]; {
		case s != nil:
			list = append(list, ofCell(s, cell, part, shape, values)...)
		case used[p] != nil && len(shape) == 2:
			list = append(list, transposed(name, shape, v))
		default:
			list = append(list, plain(name, shape, v))
		}
		for i := range list[first:] {
			if e := &list[first+i]; e.of == nil {
				e.of = []string{name}
			}
		}
	}
	return list
}

// uses finds the operation whose weight or bias a parameter is, where PyTorch may
// lay it out in another way.
func uses(net *perexample.Network) map[*G.Node]op.Spec {
	used, seen := map[*G.Node]op.Spec{}, map[*G.Node]bool{}
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
			// The other factor of a dense layer's weight is made from the inputs.
			for i, inOut := range []bool{s.TransA, !s.TransB} {
				if inOut && asks(in[1-i], net.Inputs) {
					used[in[i]] = s
				}
			}
		}
		for _, x := range in {
			visit(x)
		}
	}
	visit(net.Output)
	visit(net.Loss) // a network that scores nothing has no output
	return used
}

// asks reports whether a node is computed from some inputs.
func asks(n *G.Node, inputs G.Nodes) bool {
	read := op.Ancestors(n)
	return slices.ContainsFunc(inputs, func(x *G.Node) bool { return slices.Contains(read, x) })
}

// recurrent finds the recurrent layers, NAME.k or NAME.k.reverse, whose
// parameters are named as package layer names them.
func recurrent(used map[*G.Node]op.Spec) map[string]op.Spec {
	cells := map[string]op.Spec{}
	for p, s := range used {
		cell, _ := parts(p.Name())
		if _, ok := stateName(cell, ""); !ok {
			continue
		}
		switch s.(type) {
		case op.LSTM, op.GRU:
			cells[cell] = s
		}
	}
	return cells
}

// parts splits the name of a parameter as recurrent layers have them.
func parts(name string) (cell, part string) {
	for _, part := range []string{"input.weight", "input.bias", "hidden.weight", "hidden.bias"} {
		if cell, ok := strings.CutSuffix(name, "."+part); ok {
			return cell, part
		}
	}
	return "", ""
}

// stateName is what PyTorch calls a tensor of a recurrent layer.
func stateName(cell, what string) (name string, ok bool) {
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

// ofCell gives the tensors that PyTorch keeps for one parameter of a recurrent
// layer.
func ofCell(s op.Spec, cell, part string, shape []int, values map[string][]float32) []entry {
	name := func(what string) string {
		full, _ := stateName(cell, what)
		return full
	}
	v, first := values[cell+"."+part], values[cell+".input.bias"]
	switch part {
	case "input.weight":
		return []entry{transposed(name("weight_ih"), shape, v)}
	case "input.bias":
		return []entry{plain(name("bias_ih"), shape, v)}
	case "hidden.bias":
		e := second(name("bias_hh"), first, v)
		e.of = []string{cell + ".input.bias", cell + ".hidden.bias"}
		return []entry{e}
	}
	list := []entry{transposed(name("weight_hh"), shape, v)}
	if _, lstm := s.(op.LSTM); lstm {
		e := second(name("bias_hh"), first, nil)
		e.of = []string{cell + ".input.bias"}
		list = append(list, e)
	}
	return list
}

func plain(name string, shape []int, v []float32) entry {
	return entry{nil, name, shape,
		func(values []float32) { copy(values, v) },
		func(values []float32) { add(v, values) },
	}
}

func transposed(name string, shape []int, v []float32) entry {
	rows, columns := shape[0], shape[1]
	return entry{nil, name, []int{columns, rows},
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

// second is PyTorch's second bias, whose last part is the candidate's own where
// there is one.
func second(name string, first, candidate []float32) entry {
	repeated := len(first) - len(candidate)
	return entry{nil, name, []int{len(first)},
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

// Export gives the network's values in PyTorch's layout.
func Export(net *perexample.Network) ([]safetensors.Tensor, error) {
	values := map[string][]float32{}
	for _, p := range net.Params {
		if p.Value() == nil {
			return nil, fmt.Errorf("parameter %s has no value", p.Name())
		}
		v, ok := p.Value().Data().([]float32)
		if !ok {
			return nil, fmt.Errorf("parameter %s holds %T and no float32 numbers", p.Name(), p.Value().Data())
		}
		values[p.Name()] = v
	}
	var list []safetensors.Tensor
	for _, e := range layout(PyTorch, net, values) {
		t := safetensors.Tensor{Name: e.name, Shape: e.shape, Values: make([]float32, tensor.ProdInts(e.shape))}
		e.give(t.Values)
		list = append(list, t)
	}
	return list, nil
}

// Import gives the network's parameters, by name, the values of a file, and says
// which layout they were in: what the metadata say under "format", else the only
// one that fits. A file that does not fit is refused with the whole difference in
// one line. Parameters that are excepted by name are not given, and a tensor is not read that
// has parts of these alone, in either layout, or is excepted by its own name.
func Import(net *perexample.Network, file []safetensors.Tensor, metadata map[string]string, except ...string) (map[string][]float32, Layout, error) {
	values := map[string][]float32{}
	for _, p := range net.Params {
		values[p.Name()] = make([]float32, p.Shape().TotalSize())
	}
	tried := []Layout{Own, PyTorch}
	if said := Layout(metadata["format"]); slices.Contains(tried, said) {
		tried = []Layout{said}
	}
	var chosen Layout
	var want []entry
	var best difference
	fits := 0
	for i, l := range tried {
		passed := slices.Clone(except)
		var read []entry
		for _, e := range layout(l, net, values) {
			if !slices.ContainsFunc(e.of, func(p string) bool { return !slices.Contains(except, p) }) {
				passed = append(passed, e.name)
			} else {
				read = append(read, e)
			}
		}
		d := compare(read, slices.DeleteFunc(slices.Clone(file), func(t safetensors.Tensor) bool { return slices.Contains(passed, t.Name) }))
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
		return nil, "", fmt.Errorf("its tensors are not the network's: %v: name layers that are to start anew, and take from the file what the network has not", best)
	}
	if fits > 1 && differ(net, except) {
		return nil, "", fmt.Errorf("its dense weights are all square, so nothing tells which way round they are: write format=%s (PyTorch's layout) or format=%s into its metadata", PyTorch, Own)
	}
	byName := map[string][]float32{}
	for _, t := range file {
		byName[t.Name] = t.Values
	}
	for _, e := range want {
		e.take(byName[e.name])
	}
	for _, name := range except {
		delete(values, name)
	}
	return values, chosen, nil
}

// differ reports whether the layouts, which both fit, hold a network's values, but of what is
// excepted, in different ways: whether a square weight is turned over.
func differ(net *perexample.Network, except []string) bool {
	used := uses(net)
	for _, p := range net.Params {
		if s := p.Shape(); !slices.Contains(except, p.Name()) && used[p] != nil && len(s) == 2 && s[0] > 1 {
			return true
		}
	}
	return false
}
