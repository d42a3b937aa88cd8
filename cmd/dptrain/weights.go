package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/internal/safetensors"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/perexample"
)

// startFrom gives a network the weights of a safetensors file. matched says what was
// found.
func startFrom(build perexample.Build, file string) (started perexample.Build, matched string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	started, matched, err = weights.Start(build, f, models.Projection) // which is not trained, but built with
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", file, err)
	}
	return started, file + ": " + matched, nil
}

// startWords say what --init found, and what no ledger can know of it.
func (j *job) startWords() string {
	return j.matched + "; what they tell of records that they were trained on is no part of this run's ε"
}

// readWeights reads a file of weights for the directions that may be among them.
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
