package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/dptrain/dptrain/internal/safetensors"
	"github.com/dptrain/dptrain/internal/torch"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// startFrom gives a network the weights of a safetensors file, which must hold
// exactly its parameters, in this program's layout or in PyTorch's. matched says
// what was found.
func startFrom(build perexample.Build, file string) (started perexample.Build, matched string, err error) {
	tensors, metadata, err := readWeights(file)
	if err != nil {
		return nil, "", err
	}
	net, err := build(1)
	if err != nil {
		return nil, "", err
	}
	tensors = slices.DeleteFunc(tensors, func(t safetensors.Tensor) bool { return t.Name == models.Projection }) // not trained, but built with
	values, layout, err := torch.Import(net, tensors, metadata)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	whose := map[torch.Layout]string{torch.Own: "dptrain's", torch.PyTorch: "PyTorch's"}[layout]
	matched = fmt.Sprintf("%s: all of its %d tensors match the network's %d parameters, in %s layout", file, len(tensors), len(net.Params), whose)
	started = func(batch int) (*perexample.Network, error) {
		net, err := build(batch)
		if err != nil {
			return nil, err
		}
		for _, p := range net.Params {
			// Nothing writes to them, so that all builds may have the same.
			if err := G.Let(p, tensor.New(tensor.WithShape(p.Shape()...), tensor.WithBacking(values[p.Name()]))); err != nil {
				return nil, err
			}
		}
		return net, nil
	}
	return started, matched, nil
}

// startWords say what --init found, and what no ledger can know of it.
func (j *job) startWords() string {
	return j.matched + "; what they tell of records that they were trained on is no part of this run's ε"
}

func readWeights(file string) ([]safetensors.Tensor, map[string]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	tensors, metadata, err := safetensors.Read(f, info.Size())
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return tensors, metadata, nil
}

// trained reads the model in a run's folder.
func trained(dir string) (built, perexample.Build, error) {
	var b built
	text, err := os.ReadFile(filepath.Join(dir, "model.json"))
	if err != nil {
		return b, nil, wrong("%s holds no model: %w", dir, err)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return b, nil, wrong("%s: %w", filepath.Join(dir, "model.json"), err)
	}
	file := filepath.Join(dir, "model.safetensors")
	tensors, _, err := readWeights(file)
	if err != nil {
		return b, nil, asWrong(err)
	}
	if b.directions, err = directionsIn(tensors, b.Shape); err != nil {
		return b, nil, wrong("%s: %w", file, err)
	}
	build, err := models.Projected(b.Model, b.exampleOf(), 1, b.directions)
	if err != nil {
		return b, nil, asWrong(err)
	}
	build, _, err = startFrom(build, file)
	return b, build, asWrong(err)
}
