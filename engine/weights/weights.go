// Package weights writes trained parameters to files and initialises networks from them, for
// inference in another program or for further training.
//
// The files are safetensors, which Python's package of that name reads and writes. Load also
// accepts the weights of a PyTorch model whose state_dict has the network's names: it transposes
// the weights of dense layers, and other matrices [in, out] that gorgonia.Mul multiplies by, and
// expects the names and the order of torch.nn for an LSTM or a GRU. The shapes in a file determine
// which of the two layouts it has; where all dense weights are square, its metadata must contain
// format=pt.
package weights

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/internal/format/torch"
	"github.com/dptrain/dptrain/internal/nearest"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Write writes parameters, such as the result of engine.Run.Parameters. They are a released value
// and cost no more privacy than the run. They do not include frozen parameters, which [WithFrozen]
// adds.
func Write(w io.Writer, parameters []engine.Parameter) error {
	var tensors []safetensors.Tensor
	for _, p := range parameters {
		tensors = append(tensors, safetensors.Tensor(p))
	}
	return safetensors.Write(w, tensors, inOwnLayout())
}

// inOwnLayout is the metadata of a file.
func inOwnLayout() map[string]string { return map[string]string{"format": string(torch.Dptrain)} }

// WritePyTorch writes a network's parameters as the state_dict of a PyTorch model with the same
// names; Load reads these files, too. Parameters that [Freeze] removed may be missing: build is the
// network before Freeze.
func WritePyTorch(w io.Writer, build perexample.Build, parameters []engine.Parameter) error {
	all, err := WithFrozen(build, parameters)
	if err != nil {
		return err
	}
	net, err := build.ForBatch(1)
	if err != nil {
		return err
	}
	for i, p := range net.Params {
		if err := G.Let(p, tensor.New(tensor.WithShape(p.Shape()...), tensor.WithBacking(all[i].Values))); err != nil {
			return err
		}
	}
	tensors, err := torch.Export(net)
	if err != nil {
		return err
	}
	return safetensors.Write(w, tensors, map[string]string{"format": string(torch.PyTorch)})
}

// Load initialises a network from the weights in a file. The file must contain all of the
// network's Params and nothing else, except for the layers or single parameters named in except:
// these keep their initial values, and Load ignores their tensors in the file. This puts a new head
// on a trained body. A name in except must exist in the network or in the file. found describes the
// file.
//
// To train the network further, pass it to engine.New as engine.Config.Network; for inference, pass
// it to engine.NewEvaluator, whose Evaluator.Weights are then these. The ε of a further run does not
// include what the weights reveal about the records that they were trained on.
func Load(build perexample.Build, file io.ReadSeeker, except ...string) (initialised perexample.Build, found string, err error) {
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
	var names []string
	for _, p := range net.Params {
		names = append(names, p.Name())
	}
	for _, t := range tensors {
		names = append(names, t.Name)
	}
	for _, name := range except {
		if !slices.ContainsFunc(names, func(n string) bool { return BelongsTo(n, name) }) {
			return nil, "", fmt.Errorf("weights: neither the network nor the file has a layer or parameter %q to exclude; did you mean %s?", name, nearest.Closest(name, append(LayerNames(net), names...)))
		}
	}
	excepted := slices.DeleteFunc(names, func(n string) bool { return !BelongsTo(n, except...) })
	values, layout, err := torch.Import(net, tensors, metadata, excepted...)
	if err != nil {
		return nil, "", err
	}
	owner := map[torch.Layout]string{torch.Dptrain: "dptrain's", torch.PyTorch: "PyTorch's"}[layout]
	found = fmt.Sprintf("its tensors match %d of the network's %d parameters, in %s layout", len(values), len(net.Params), owner)
	return func(batch int) (*perexample.Network, error) {
		net, err := build(batch)
		if err != nil {
			return nil, err
		}
		for _, p := range net.Params {
			v, ok := values[p.Name()]
			if !ok {
				continue
			}
			// All builds share the values: no code writes to them.
			if err := G.Let(p, tensor.New(tensor.WithShape(p.Shape()...), tensor.WithBacking(v))); err != nil {
				return nil, err
			}
		}
		return net, nil
	}, found, nil
}

// Freeze makes layers, or single parameters, of a network constants with their initial values: they
// get no gradient and are not among a run's Parameters. Running statistics of such a layer stay
// as they are. The ε of the run does not include what their
// values reveal about records.
func Freeze(build perexample.Build, layers ...string) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		net, err := build(batch)
		if err != nil {
			return nil, err
		}
		for _, name := range layers {
			if !slices.ContainsFunc(net.Params, func(p *G.Node) bool { return BelongsTo(p.Name(), name) }) {
				return nil, fmt.Errorf("weights: the network has no layer or parameter %q to freeze; it has %s", name, strings.Join(LayerNames(net), ", "))
			}
		}
		frozen := func(p *G.Node) bool { return BelongsTo(p.Name(), layers...) }
		// The running statistics of a layer are frozen together.
		var constants []*G.Node
		net.BatchNorms = slices.DeleteFunc(slices.Clone(net.BatchNorms), func(b perexample.BatchNorm) bool {
			if !frozen(b.Mean) && !frozen(b.Variance) {
				return false
			}
			constants = append(constants, b.Mean, b.Variance)
			return true
		})
		net.Params = slices.DeleteFunc(slices.Clone(net.Params), func(p *G.Node) bool { return frozen(p) || slices.Contains(constants, p) })
		return net, nil
	}
}

// LayerNames returns the names of a network's layers that have parameters, in their order.
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

// WithFrozen returns all parameters of a network, as it is before [Freeze], in its order: the
// trained ones, and the others with their initial values, which the network shares: do not change them.
func WithFrozen(build perexample.Build, trained []engine.Parameter) ([]engine.Parameter, error) {
	net, err := networkOf(build, trained)
	if err != nil {
		return nil, err
	}
	var all []engine.Parameter
	for _, n := range net.Params {
		if i := indexOf(trained, n); i >= 0 {
			all = append(all, trained[i])
			continue
		}
		values, err := op.Values(n)
		if err != nil {
			return nil, fmt.Errorf("weights: parameter %s: %w", n.Name(), err)
		}
		all = append(all, engine.Parameter{Name: n.Name(), Shape: n.Shape(), Values: values})
	}
	return all, nil
}

// WriteWithFrozen writes the parameters that [WithFrozen] returns, and others behind them. It reads initial values in parts, so
// that they are not in memory together.
func WriteWithFrozen(w io.Writer, build perexample.Build, trained []engine.Parameter, others ...engine.Parameter) (err error) {
	net, err := networkOf(build, trained)
	if err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil { // of the user's code
			err = fmt.Errorf("weights: drawing the values of the network: %v", p)
		}
	}()
	var tensors []safetensors.Tensor
	for _, n := range net.Params {
		if i := indexOf(trained, n); i >= 0 {
			tensors = append(tensors, safetensors.Tensor(trained[i]))
			continue
		}
		t := safetensors.Tensor{Name: n.Name(), Shape: n.Shape()}
		if _, later := n.Value().(*perexample.InitialValue); !later {
			if t.Values, err = op.Values(n); err != nil {
				return fmt.Errorf("weights: parameter %s: %w", n.Name(), err)
			}
		}
		tensors = append(tensors, t)
	}
	for _, p := range others {
		tensors = append(tensors, safetensors.Tensor(p))
	}
	return safetensors.WriteParts(w, tensors, inOwnLayout(), func(i int, yield func(part []float32)) {
		if tensors[i].Values != nil {
			yield(tensors[i].Values)
		} else {
			net.Params[i].Value().(*perexample.InitialValue).EachShared(yield)
		}
	})
}

// networkOf returns the network for one example. Its parameters include the trained ones.
func networkOf(build perexample.Build, trained []engine.Parameter) (*perexample.Network, error) {
	net, err := build.ForBatch(1)
	if err != nil {
		return nil, err
	}
	for _, p := range trained {
		if !slices.ContainsFunc(net.Params, func(n *G.Node) bool { return p.Name == n.Name() && slices.Equal(p.Shape, n.Shape()) }) {
			return nil, fmt.Errorf("weights: the network has no parameter %s of shape %v, which was trained; pass the network that was passed to Freeze", p.Name, p.Shape)
		}
		if size := tensor.ProdInts(p.Shape); len(p.Values) != size {
			return nil, fmt.Errorf("weights: parameter %s of shape %v has %d numbers, and needs %d", p.Name, p.Shape, len(p.Values), size)
		}
	}
	return net, nil
}

// indexOf returns the index of a network's parameter among the trained ones, or -1.
func indexOf(trained []engine.Parameter, n *G.Node) int {
	return slices.IndexFunc(trained, func(p engine.Parameter) bool { return p.Name == n.Name() })
}

// BelongsTo reports whether layers contains the parameter's layer or the parameter itself.
func BelongsTo(parameter string, layers ...string) bool {
	return slices.ContainsFunc(layers, func(l string) bool { return parameter == l || strings.HasPrefix(parameter, l+".") })
}
