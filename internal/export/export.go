// Package export writes trained models in the formats of other programs.
package export

import (
	"bytes"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/onnx"
	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/safetensors"
	"github.com/dptrain/dptrain/internal/torch"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// Formats are the formats of Model. The first is the default.
var Formats = []string{"safetensors", "onnx"}

// Model returns a model as a file: its weights as safetensors in PyTorch's layout, or the
// whole network as ONNX.
func Model(format string, m *rundir.Model) ([]byte, error) {
	metadata := map[string]string{"model": m.Model}
	if format == "onnx" {
		build := m.Build
		if s := m.Schema; s.Target != "" {
			build = UnscaleOutput(build, s.Bounds[s.Target])
		}
		return onnx.Model(build, metadata)
	}
	net, err := m.Build(1)
	if err != nil {
		return nil, err
	}
	tensors, err := torch.Export(net)
	if err != nil {
		return nil, err
	}
	if m.Directions != nil {
		tensors = append(tensors, safetensors.Tensor(rundir.DirectionsParameter(m.Directions, m.Shape)))
	}
	metadata["format"] = string(torch.PyTorch)
	var file bytes.Buffer
	err = safetensors.Write(&file, tensors, metadata)
	return file.Bytes(), err
}

// UnscaleOutput converts the output of a network to the units of its target.
func UnscaleOutput(build perexample.Build, bounds data.Bounds) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		net, err := build(batch)
		if err != nil {
			return nil, err
		}
		scaled, err := G.HadamardProd(net.Output, G.NewConstant(float32(bounds.ScaleFactor())))
		if err != nil {
			return nil, err
		}
		net.Output, err = G.Add(scaled, G.NewConstant(float32(bounds.Unscale(0))))
		return net, err
	}
}
