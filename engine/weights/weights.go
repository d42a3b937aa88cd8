// Package weights writes what a run has trained to a file, and starts a network from one:
// to answer by it in another program, or to train it further.
//
// The files are safetensors, which Python's package of that name reads and writes. Start
// takes the weights of a PyTorch model, too, where its state_dict has the names that the
// network has: a dense layer's weight, or another matrix [in, out] that gorgonia.Mul
// multiplies by, is then turned over, and those of an LSTM or a GRU
// are named and ordered as torch.nn has them. Which of the two a file is follows from its
// shapes; where all dense weights are square, its metadata must say format=pt.
package weights

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/nearest"
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/safetensors"
	"github.com/dptrain/dptrain/internal/torch"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Write writes parameters, such as those that engine.Run.Parameters gives. They are a
// released value, which costs no more privacy than the run did. Frozen ones are not among
// those: [WithFrozen] adds them.
func Write(w io.Writer, parameters []engine.Parameter) error {
	var tensors []safetensors.Tensor
	for _, p := range parameters {
		tensors = append(tensors, safetensors.Tensor(p))
	}
	return safetensors.Write(w, tensors, map[string]string{"format": string(torch.Dptrain)})
}

// WritePyTorch writes a network's parameters as a PyTorch model of the same names has them in
// its state_dict; Start reads these files, too. Of the parameters those that [Freeze] left out
// may be missing: build is the network before.
func WritePyTorch(w io.Writer, build perexample.Build, parameters []engine.Parameter) error {
	whole, err := WithFrozen(build, parameters)
	if err != nil {
		return err
	}
	net, err := build.ForBatch(1)
	if err != nil {
		return err
	}
	for i, p := range net.Params {
		if err := G.Let(p, tensor.New(tensor.WithShape(p.Shape()...), tensor.WithBacking(whole[i].Values))); err != nil {
			return err
		}
	}
	tensors, err := torch.Export(net)
	if err != nil {
		return err
	}
	return safetensors.Write(w, tensors, map[string]string{"format": string(torch.PyTorch)})
}

// Load has a network start from the weights in a file, which must hold all of the network's
// Params and nothing else; but layers, or single parameters, that are named in except start
// as they did, and what the file holds of them is not read: a new head on a trained body.
// One that neither the network nor the file has is refused. Found says in words what was found.
//
// A network to train further is given to engine.New as engine.Config.Network; one to answer
// is given to engine.NewEvaluator, and its Evaluator.Weights are then these. What the
// weights tell of the records that they were trained on is no part of a further run's ε.
func Load(build perexample.Build, file io.ReadSeeker, except ...string) (started perexample.Build, found string, err error) {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, "", err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, "", err
	}
	tensors, metadata, err := safetensors.Read(file, size)
	if err != nil {
		return nil, "", err
	}
	net, err := build.ForBatch(1)
	if err != nil {
		return nil, "", err
	}
	var named []string
	for _, p := range net.Params {
		named = append(named, p.Name())
	}
	for _, t := range tensors {
		named = append(named, t.Name)
	}
	for _, name := range except {
		if !slices.ContainsFunc(named, func(n string) bool { return BelongsTo(n, name) }) {
			return nil, "", fmt.Errorf("weights: %q starts anew, and neither network nor file has a layer or parameter of that name: %s is the nearest", name, nearest.Closest(name, append(LayerNames(net), named...)))
		}
	}
	excepted := slices.DeleteFunc(named, func(n string) bool { return !BelongsTo(n, except...) })
	values, layout, err := torch.Import(net, tensors, metadata, excepted...)
	if err != nil {
		return nil, "", err
	}
	whose := map[torch.Layout]string{torch.Dptrain: "dptrain's", torch.PyTorch: "PyTorch's"}[layout]
	found = fmt.Sprintf("its tensors match %d of the network's %d parameters, in %s layout", len(values), len(net.Params), whose)
	return func(batch int) (*perexample.Network, error) {
		net, err := build(batch)
		if err != nil {
			return nil, err
		}
		for _, p := range net.Params {
			v, read := values[p.Name()]
			if !read {
				continue
			}
			// Nothing writes to them, so that all builds may have the same.
			if err := G.Let(p, tensor.New(tensor.WithShape(p.Shape()...), tensor.WithBacking(v))); err != nil {
				return nil, err
			}
		}
		return net, nil
	}, found, nil
}

// Freeze has layers, or single parameters, of a network keep the values that they start
// from: they are constants, of which no record has a gradient, and no part of a run's
// Parameters. What the values tell of records is no part of its ε.
func Freeze(build perexample.Build, layers ...string) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		net, err := build(batch)
		if err != nil {
			return nil, err
		}
		for _, name := range layers {
			if !slices.ContainsFunc(net.Params, func(p *G.Node) bool { return BelongsTo(p.Name(), name) }) {
				return nil, fmt.Errorf("weights: no layer or parameter %q to freeze: the network has %s", name, strings.Join(LayerNames(net), ", "))
			}
		}
		net.Params = slices.DeleteFunc(slices.Clone(net.Params), func(p *G.Node) bool { return BelongsTo(p.Name(), layers...) })
		return net, nil
	}
}

// LayerNames are the names of a network's layers that have parameters, in their order.
func LayerNames(net *perexample.Network) []string {
	var layers []string
	for _, p := range net.Params {
		layer := p.Name()
		if dot := strings.LastIndexByte(layer, '.'); dot > 0 {
			layer = layer[:dot]
		}
		if !slices.Contains(layers, layer) {
			layers = append(layers, layer)
		}
	}
	return layers
}

// WithFrozen are all parameters of a network, as it is before [Freeze], of which some were
// trained, in its order: the others are as they start.
func WithFrozen(build perexample.Build, trained []engine.Parameter) ([]engine.Parameter, error) {
	net, err := build.ForBatch(1)
	if err != nil {
		return nil, err
	}
	for _, p := range trained {
		if !slices.ContainsFunc(net.Params, func(n *G.Node) bool { return p.Name == n.Name() && slices.Equal(p.Shape, n.Shape()) }) {
			return nil, fmt.Errorf("weights: the network has no parameter %s of shape %v, which was trained: give the one that was frozen", p.Name, p.Shape)
		}
	}
	for _, p := range trained {
		if size := tensor.ProdInts(p.Shape); len(p.Values) != size {
			return nil, fmt.Errorf("weights: parameter %s of shape %v has %d numbers, and %d are needed", p.Name, p.Shape, len(p.Values), size)
		}
	}
	var whole []engine.Parameter
	for _, n := range net.Params {
		if i := slices.IndexFunc(trained, func(p engine.Parameter) bool { return p.Name == n.Name() }); i >= 0 {
			whole = append(whole, trained[i])
			continue
		}
		values, err := op.Values(n)
		if err != nil {
			return nil, fmt.Errorf("weights: parameter %s: %w", n.Name(), err)
		}
		whole = append(whole, engine.Parameter{Name: n.Name(), Shape: n.Shape(), Values: values})
	}
	return whole, nil
}

// BelongsTo reports whether a parameter is one of the layers', or is named itself.
func BelongsTo(parameter string, layers ...string) bool {
	return slices.ContainsFunc(layers, func(l string) bool { return parameter == l || strings.HasPrefix(parameter, l+".") })
}
