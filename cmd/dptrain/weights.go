package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/nearest"
	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/safetensors"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// initialised is the network with the weights that --init, --fresh and --freeze ask for.
func (j *job) initialised(build perexample.Build) (perexample.Build, error) {
	s := j.set
	if s.init == "" {
		for _, flag := range [][2]string{{"--freeze", s.freeze}, {"--fresh", s.fresh}} {
			if flag[1] != "" {
				return nil, exitcode.Usagef("%s %s: it says how layers start from --init: give that too", flag[0], flag[1])
			}
		}
		return build, nil
	}
	net, err := build.ForBatch(1)
	if err != nil {
		return nil, err
	}
	fresh, err := layersOf(net, "--fresh", s.fresh)
	if err != nil {
		return nil, err
	}
	frozen, err := layersOf(net, "--freeze", s.freeze)
	if err != nil {
		return nil, err
	}
	for _, p := range net.Params {
		if weights.BelongsTo(p.Name(), fresh...) && weights.BelongsTo(p.Name(), frozen...) {
			return nil, exitcode.Usagef("--freeze %s: %s would keep numbers drawn at random, as --fresh has it start anew", s.freeze, p.Name())
		}
	}
	if !slices.ContainsFunc(net.Params, func(p *G.Node) bool { return !weights.BelongsTo(p.Name(), frozen...) }) {
		return nil, exitcode.Usagef("--freeze %s: nothing is left to train", s.freeze)
	}
	if err := j.alike(s.init); err != nil {
		return nil, fmt.Errorf("--init: %s: %w", s.init, err)
	}
	// Directions come with the file, but where the run is to find its own.
	if build, j.matched, err = startFrom(build, s.init, j.directions != nil && s.project == 0, fresh...); err != nil {
		return nil, fmt.Errorf("--init: %w", err)
	}
	if len(fresh) > 0 {
		j.matched += "; starting anew: " + s.fresh
	}
	if len(frozen) == 0 {
		return build, nil
	}
	j.matched += "; frozen: " + s.freeze
	j.whole = build
	return weights.Freeze(build, frozen...), nil
}

// alike refuses weights that were trained on other elements, as the folder that they lie in
// tells.
func (j *job) alike(file string) error {
	b, err := readBuilt(filepath.Dir(file))
	if err != nil || filepath.Base(file) != rundir.WeightsFile {
		return nil
	}
	if err := j.elements().CheckCompatible(b.Elements); err != nil {
		return fmt.Errorf("%w; or, where both are on one scale all the same, give the weights alone, as dptrain export writes them", err)
	}
	return nil
}

// layersOf reads a list of layers of a network, or of single parameters.
func layersOf(net *perexample.Network, flag, list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	layers := strings.Split(list, ",")
	for i, name := range layers {
		layers[i] = strings.TrimSpace(name)
		if !slices.ContainsFunc(net.Params, func(p *G.Node) bool { return weights.BelongsTo(p.Name(), layers[i]) }) {
			known := weights.LayerNames(net)
			return nil, exitcode.Usagef("%s %q: the network has no such layer to train; the nearest is %s (of %s)", flag, name, nearest.Closest(layers[i], known), strings.Join(known, ", "))
		}
	}
	return layers, nil
}

// startFrom gives a network the weights of a safetensors file, but layers that start as
// they did. Directions in the file are not trained, but built with. matched says what was
// found.
func startFrom(build perexample.Build, file string, directions bool, fresh ...string) (started perexample.Build, matched string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if directions {
		fresh = append(fresh, models.ProjectionName)
	}
	started, matched, err = weights.Load(build, f, fresh...)
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
func readWeights(file string) ([]safetensors.Tensor, error) {
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

func readBuilt(dir string) (b built, err error) {
	text, err := os.ReadFile(filepath.Join(dir, "model.json"))
	if err != nil {
		return b, exitcode.Usagef("%s holds no model: %w", dir, err)
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return b, exitcode.Usagef("%s: %w", filepath.Join(dir, "model.json"), err)
	}
	return b, nil
}

// trained reads the model in a run's folder.
func trained(dir string) (built, perexample.Build, error) {
	b, err := readBuilt(dir)
	if err != nil {
		return b, nil, err
	}
	file := filepath.Join(dir, rundir.WeightsFile)
	tensors, err := readWeights(file)
	if err != nil {
		return b, nil, exitcode.AsUsage(err)
	}
	if b.directions, err = directionsIn(tensors, b.Shape); err != nil {
		return b, nil, exitcode.Usagef("%s: %w", file, err)
	}
	build, err := models.ParseProjected(b.Model, b.exampleOf(), 1, b.directions)
	if err != nil {
		return b, nil, exitcode.AsUsage(err)
	}
	build, _, err = startFrom(build, file, b.directions != nil)
	return b, build, exitcode.AsUsage(err)
}
