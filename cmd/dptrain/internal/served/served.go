// Package served turns the averaged model of a draw-and-discard server into a network of a run.
//
// Clients of a server scale the features of a table to [0, 1], and runs to [-1, 1]. All models of
// tables begin with a dense layer, so the difference is a change of its weights.
package served

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/drawdiscard"
	"github.com/dptrain/dptrain/engine/drawdiscard/server"
	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/internal/format/torch"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/dptrain/dptrain/models"
)

// Manifest describes the network and how to read data for it. The server knows no columns and no names
// of classes: they are those of the schema.
func Manifest(a *server.Averaged, schema data.Schema) (modelfile.Manifest, error) {
	m := modelfile.Manifest{Model: a.Model, Shape: a.Inputs, Vocabulary: a.Vocabulary, Classes: a.Classes, Schema: schema}
	if a.Classes == 0 {
		m.Targets = 1
	}
	if a.IsGLM() {
		m.Model = "logistic" // of package models: one dense layer
	}
	if len(a.Inputs) == 3 {
		m.Elements = data.Bytes
	}
	switch m.ClassNames = schema.Classes; {
	case drawdiscard.Family(a.Model) == drawdiscard.Poisson:
		return m, errors.New("a poisson model predicts exp(w·x), which no network of a run computes: ask the server with POST /v1/models/NAME/predict")
	case len(m.ClassNames) == 0:
		for c := range a.Classes {
			m.ClassNames = append(m.ClassNames, strconv.Itoa(c))
		}
	case len(m.ClassNames) != a.Classes:
		return m, fmt.Errorf("the schema has %d classes, and the model %d", len(m.ClassNames), a.Classes)
	}
	return m, nil
}

// Model returns the model for the data of a schema, which states the order of its columns.
func Model(a *server.Averaged, schema data.Schema) (*modelfile.Model, error) {
	manifest, err := Manifest(a, schema)
	if err != nil {
		return nil, err
	}
	build, err := models.Parse(manifest.Model, manifest.Example(), 1)
	if err != nil {
		return nil, err
	}
	file, err := File(a, schema)
	if err != nil {
		return nil, err
	}
	build, _, err = weights.Load(build, bytes.NewReader(file))
	return &modelfile.Model{Manifest: manifest, Build: build}, err
}

// File returns the weights of Model as a safetensors file that names its layout.
func File(a *server.Averaged, schema data.Schema) ([]byte, error) {
	shapes, err := a.Tensors()
	if err != nil {
		return nil, err
	}
	tensors := make([]safetensors.Tensor, len(shapes))
	rest := slices.Clone(a.Weights)
	for i, t := range shapes {
		size := drawdiscard.CountWeights([]drawdiscard.TensorShape{t}, len(rest))
		tensors[i] = safetensors.Tensor{Name: t.Name, Shape: t.Shape, Values: rest[:size:size]}
		rest = rest[size:]
	}
	layout := torch.Dptrain
	if a.IsGLM() {
		layout = torch.PyTorch
		if drawdiscard.Family(a.Model) == drawdiscard.Logistic { // class 0 has the output 0
			w, b := &tensors[0], &tensors[1]
			w.Shape, w.Values = []int{2, w.Shape[1]}, append(make([]float32, len(w.Values)), w.Values...)
			b.Shape, b.Values = []int{2}, append(make([]float32, 1), b.Values...)
		}
	}
	if err := rescale(tensors, layout, drawdiscard.BoundedFeatures(schema, a.Inputs.Size())); err != nil {
		return nil, err
	}
	var file bytes.Buffer
	err = safetensors.Write(&file, tensors, map[string]string{"format": string(layout)})
	return file.Bytes(), err
}

// rescale changes the first dense layer from features in [0, 1] to features in [-1, 1], where they are
// bounded: w·(x+1)/2 = (w/2)·x + w/2.
func rescale(tensors []safetensors.Tensor, layout torch.Layout, bounded []bool) error {
	if !slices.Contains(bounded, true) {
		return nil
	}
	if len(tensors) < 2 || len(tensors[0].Shape) != 2 || len(tensors[1].Shape) != 1 {
		return errors.New("the model does not begin with a dense layer, so it does not read a table")
	}
	w, bias := tensors[0].Values, tensors[1].Values
	inputs, outputs := len(bounded), len(bias)
	for i, isBounded := range bounded {
		if !isBounded {
			continue
		}
		for o := range outputs {
			at := i*outputs + o
			if layout == torch.PyTorch {
				at = o*inputs + i
			}
			w[at] /= 2
			bias[o] += w[at]
		}
	}
	return nil
}
