package pretrained

import (
	"fmt"
	"strings"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// WithoutAdapters is the name by which [Parse] reads the model with the same head, all of it trained.
func (m *Model) WithoutAdapters() string {
	if m.pooling == "" {
		return m.Dir
	}
	return m.Dir + ",pool=" + string(m.pooling)
}

// MergeAdapters returns a network without adapters that computes what the adapted network of the model computes. plain builds
// the network of WithoutAdapters.
func (m *Model) MergeAdapters(adapted, plain perexample.Build) (perexample.Build, error) {
	net, err := adapted.ForBatch(1)
	if err != nil {
		return nil, err
	}
	var tensors []safetensors.Tensor
	for _, p := range net.Params {
		values, err := op.Values(p)
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", p.Name(), err)
		}
		tensors = append(tensors, safetensors.Tensor{Name: p.Name(), Shape: p.Shape(), Values: values})
	}
	if tensors, err = m.merge(tensors, false); err != nil {
		return nil, err
	}
	values := map[string][]float32{}
	for _, x := range tensors {
		values[x.Name] = x.Values
	}
	return func(batch int) (*perexample.Network, error) {
		net, err := plain(batch)
		if err != nil {
			return nil, err
		}
		for _, p := range net.Params {
			v := values[p.Name()]
			if len(v) != p.Shape().TotalSize() {
				return nil, fmt.Errorf("the network with adapters has no parameter %s of shape %v", p.Name(), p.Shape())
			}
			if err := G.Let(p, tensor.New(tensor.WithShape(p.Shape()...), tensor.WithBacking(v))); err != nil {
				return nil, err
			}
		}
		return net, nil
	}, nil
}

// merge adds adapters to the weights of their layers: W + α/r·A·B, or in PyTorch's layout, where weights are transposed,
// W + α/r·B·A.
func (m *Model) merge(tensors []safetensors.Tensor, transposed bool) ([]safetensors.Tensor, error) {
	byName := map[string]safetensors.Tensor{}
	for _, x := range tensors {
		byName[x.Name] = x
	}
	var merged []safetensors.Tensor
	for _, x := range tensors {
		if isAdapter(x.Name) {
			continue
		}
		layer := strings.TrimSuffix(x.Name, ".weight")
		left, adapted := byName[layer+adapter+".A.weight"]
		if adapted && layer != x.Name {
			right, ok := byName[layer+adapter+".B.weight"]
			if !ok || len(left.Values)/m.Tuning.Rank*(len(right.Values)/m.Tuning.Rank) != len(x.Values) {
				return nil, fmt.Errorf("the adapter of %s does not fit its layer", layer)
			}
			if transposed {
				left, right = right, left
			}
			x.Values = addProduct(x.Values, left.Values, right.Values, right.Shape[1], m.Tuning.scale())
		}
		merged = append(merged, x)
	}
	return merged, nil
}

// addProduct returns W + scale·B·A, where A has the given number of columns.
func addProduct(w, b, a []float32, columns int, scale float64) []float32 {
	rank, out := len(a)/columns, make([]float32, len(w))
	for i := range len(w) / columns {
		for j := range columns {
			var s float64
			for k := range rank {
				s += float64(b[i*rank+k]) * float64(a[k*columns+j])
			}
			out[i*columns+j] = float32(float64(w[i*columns+j]) + scale*s)
		}
	}
	return out
}
