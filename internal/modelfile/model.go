// Package modelfile reads and writes trained models: their weights, and the manifest that says how to
// build their network and how to read data for it.
package modelfile

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/perexample"
	"gorgonia.org/tensor"
)

// The files of a model.
const (
	WeightsFile  = "model.safetensors"
	ManifestFile = "model.json"
)

// Manifest is model.json: it describes how to build the network, and how to read data for it.
type Manifest struct {
	Model      string   `json:"model"`
	Shape      []int    `json:"shape"`
	Vocabulary int      `json:"vocabulary,omitempty"`
	Padded     bool     `json:"padded,omitempty"` // false in files of older releases, whose networks also averaged padding
	Marked     bool     `json:"marked,omitempty"` // indices can have marks: see data.Column
	Classes    int      `json:"classes"`
	Targets    int      `json:"targets,omitempty"` // numbers that the network predicts in place of a class
	Labels     []int    `json:"labels,omitempty"`  // the shape of an example's labels, if it has several
	ClassNames []string `json:"class_names,omitempty"`
	Data       string   `json:"data"`
	Test       string   `json:"test,omitempty"` // a second file
	// Elements is empty in files of older releases.
	Elements data.ElementType `json:"elements,omitempty"`
	// Standardize is the value of --standardize.
	Standardize bool `json:"standardize,omitempty"`
	// Whole is the shape of the pictures of which --crop takes the middle; nil without --crop.
	Whole []int `json:"whole_shape,omitempty"`
	// Resampling is how pictures of other sizes were converted; nil: by means of areas.
	Resampling *data.Resampling `json:"resampling,omitempty"`

	Schema data.Schema `json:"schema,omitzero"`
	Split  *data.Split `json:"split,omitempty"` // of --split: which rows are public and not trained on
}

// ReadManifest reads the manifest of a folder.
func ReadManifest(dir string) (m Manifest, err error) {
	file := filepath.Join(dir, ManifestFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return m, fmt.Errorf("%s contains no model: %w", dir, err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

// PictureShape returns the shape of examples before --crop.
func (m Manifest) PictureShape() []int {
	if m.Whole != nil {
		return m.Whole
	}
	return m.Shape
}

// Options returns how the examples of the training were read.
func (m Manifest) Options() data.Options {
	return data.Options{Standardize: m.Standardize, Crop: m.Crop(), Resampling: m.Resampling, Schema: m.Schema}
}

// Input describes the examples of the training.
func (m Manifest) Input() data.TrainedInput {
	return data.TrainedInput{Name: m.Data, Shape: m.PictureShape(), ElementType: m.Elements}
}

// Crop returns the part of each picture that the network reads.
func (m Manifest) Crop() (c data.CropSize) {
	if m.Whole != nil && len(m.Shape) == 3 {
		c = data.CropSize{Height: m.Shape[1], Width: m.Shape[2]}
	}
	return c
}

// Example returns the inputs and outputs of the network.
func (m Manifest) Example() models.DataSpec {
	return models.DataSpec{Shape: m.Shape, Vocabulary: m.Vocabulary, Padded: m.Padded, Marked: m.Marked, Classes: m.Classes,
		Targets: m.Targets, LabelShape: m.Labels}
}

// Model is a trained network and what it reads.
type Model struct {
	Manifest
	Build      perexample.Build
	Directions []float32 // principal directions in front of the network; nil without a projection
}

// Read reads the model of a folder. Where the ledger of a run is there too, Read refuses weights that are
// not those that it states, with [ErrWeights].
func Read(dir string) (*Model, error) {
	manifest, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	if err := VerifyWeights(dir); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, WeightsFile)
	tensors, err := ReadWeights(file)
	if err != nil {
		return nil, err
	}
	m := &Model{Manifest: manifest}
	if m.Directions, err = Directions(tensors, m.Shape); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	build, err := models.ParseProjected(m.Model, m.Example(), 1, m.Directions)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w; a model of a checkpoint needs it again: restore it, or change to the folder that its path is relative to", filepath.Join(dir, ManifestFile), err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, ManifestFile), err)
	}
	if m.Build, _, err = StartFrom(build, file, m.Directions != nil); err != nil {
		return nil, err
	}
	return m, nil
}

// Weights are what a file of weights has.
type Weights struct {
	Trained    []engine.Parameter
	Unfrozen   perexample.Build // the network with its frozen parameters, which the file has too; nil if there are none
	Directions []float32        // principal directions; nil without a projection
}

// Write writes the weights and the manifest of a run's model.
func Write(dir string, m Manifest, weights Weights) error {
	err := atomicfile.WriteFunc(filepath.Join(dir, WeightsFile), func(w io.Writer) error { return weights.write(w, m) })
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, ManifestFile), append(text, '\n'))
}

func (f *Weights) write(w io.Writer, m Manifest) error {
	var directions []engine.Parameter
	if f.Directions != nil {
		directions = append(directions, DirectionsParameter(f.Directions, m.Shape))
	}
	if f.Unfrozen == nil {
		return weights.Write(w, slices.Concat(f.Trained, directions))
	}
	return weights.WriteWithFrozen(w, f.Unfrozen, f.Trained, directions...)
}

// Hash returns the SHA-256 of the file of weights that Write writes.
func (f *Weights) Hash(m Manifest) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	err = f.write(h, m)
	h.Sum(sum[:0])
	return sum, err
}

// ReadWeights reads all tensors of a file of weights.
func ReadWeights(file string) ([]safetensors.Tensor, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	tensors, _, err := safetensors.Read(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return tensors, nil
}

// StartFrom gives a network the weights of a file, except for fresh layers, which keep
// their starting weights. With hasDirections, StartFrom skips the directions in the file:
// the network is built with them. found describes the weights.
func StartFrom(build perexample.Build, file string, hasDirections bool,
	fresh ...string) (started perexample.Build, found string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if hasDirections {
		fresh = append(fresh, models.ProjectionName)
	}
	started, found, err = weights.Load(build, f, fresh...)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	return started, file + ": " + found, nil
}

// Directions returns the principal directions among the tensors of a model with the given
// shape of features; nil if there are none.
func Directions(tensors []safetensors.Tensor, features []int) ([]float32, error) {
	i := slices.IndexFunc(tensors, func(t safetensors.Tensor) bool { return t.Name == models.ProjectionName })
	if i < 0 {
		return nil, nil
	}
	t := tensors[i]
	if len(t.Shape) != 2 || t.Shape[0] < 1 || t.Shape[1] != tensor.ProdInts(features) {
		return nil, fmt.Errorf("%s has shape %v, which does not fit features of shape %v", t.Name, t.Shape, features)
	}
	return t.Values, nil
}

// DirectionsParameter returns principal directions as files of weights contain them.
func DirectionsParameter(directions []float32, features []int) engine.Parameter {
	width := tensor.ProdInts(features)
	return engine.Parameter{Name: models.ProjectionName, Shape: []int{len(directions) / width, width}, Values: directions}
}
