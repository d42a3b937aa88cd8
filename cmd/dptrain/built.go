package main

import (
	"encoding/json"
	"io"
	"path/filepath"
	"slices"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/internal/atomicfile"
	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/models"
)

// built is model.json: enough to build the network again, and to read data for it.
type built struct {
	Model      string   `json:"model"`
	Shape      []int    `json:"shape"`
	Vocabulary int      `json:"vocabulary,omitempty"`
	Padded     bool     `json:"padded,omitempty"` // false in an older release's: its networks averaged padding too
	Classes    int      `json:"classes"`
	Targets    int      `json:"targets,omitempty"` // that are predicted in place of a class
	Labels     []int    `json:"labels,omitempty"`  // the shape of an example's labels, where it has several
	ClassNames []string `json:"class_names,omitempty"`
	Data       string   `json:"data"`
	Test       string   `json:"test,omitempty"` // a second file
	// Elements are empty where a release wrote it that did not tell them.
	Elements data.ElementType `json:"elements,omitempty"`
	// Standardize is said of pixels, as by --standardize.
	Standardize bool        `json:"standardize,omitempty"`
	Schema      data.Schema `json:"schema,omitzero"`

	directions []float32 // of a projection, from the file of weights
}

// exampleOf is what the network is told of the data, from model.json.
func (b built) exampleOf() models.DataSpec {
	return models.DataSpec{Shape: b.Shape, Vocabulary: b.Vocabulary, Padded: b.Padded, Classes: b.Classes, Targets: b.Targets, Labels: b.Labels}
}

// save writes the weights and what is needed to build their network.
func (j *job) save(parameters []engine.Parameter) error {
	if j.whole != nil {
		var err error
		if parameters, err = weights.WithFrozen(j.whole, parameters); err != nil {
			return err
		}
	}
	if j.directions != nil {
		parameters = append(slices.Clip(parameters), directionsParameter(j.directions, j.example.Shape))
	}
	err := atomicfile.WriteFunc(filepath.Join(j.out, rundir.WeightsFile), func(w io.Writer) error { return weights.Write(w, parameters) })
	if err != nil {
		return err
	}
	e := j.example
	text, err := json.MarshalIndent(built{Model: j.model, Shape: e.Shape, Vocabulary: e.Vocabulary, Padded: e.Padded, Classes: e.Classes, Targets: e.Targets, Labels: e.Labels,
		ClassNames: j.task.ClassNames, Data: j.set.data, Test: j.set.test, Elements: j.elements(), Standardize: j.set.standardize, Schema: j.task.Schema}, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(j.out, "model.json"), append(text, '\n'))
}
