package settings

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/served"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/drawdiscard/server"
	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/dptrain/dptrain/internal/nearest"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/models/pretrained"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// Network describes the network of a run and the weights that it starts with.
type Network struct {
	Model   string // NAME[:ARGS]
	Example models.DataSpec

	// StartingWeights describes the weights that --init loaded; "" without --init.
	StartingWeights string

	part     pretrained.Part // of a checkpoint that is trained; "" without a checkpoint
	flags    *Flags
	schema   data.Schema
	seed     uint64 // public seed of the random starting weights
	elements data.ElementType

	// averaged is the server's model that --init names; nil if it names another file.
	averaged *server.Averaged
	// loadsDirections reports that the file of --init contains directions.
	loadsDirections bool

	// unfrozen builds the network with the layers that --freeze excludes; nil without
	// --freeze.
	unfrozen perexample.Build
}

// publicSeed is the seed of the random starting weights, unless --seed is given.
const publicSeed = 1

// describe sets the network's inputs and outputs.
func (n *Network) describe(columns []data.Column) {
	for _, c := range columns {
		switch c.Kind {
		case data.Feature:
			n.Example.Shape = c.Shape
		case data.Index:
			n.Example.Shape, n.Example.Vocabulary, n.Example.Padded = c.Shape, c.Classes, true
			n.Example.Marked = c.Marked
		case data.Label:
			n.Example.LabelShape = c.Shape
		case data.Target:
			n.Example.Targets = c.Size()
		}
	}
}

// buildNetwork builds the network that --model names or that a rule chose.
func (s *Spec) buildNetwork() error {
	n, f := s.Network, s.Flags
	var err error
	if n.Model, err = withAdapters(n.Model, f.LoRA); err != nil {
		return err
	}
	err = s.loadDirections()
	if f.Resume != "" && errors.Is(err, fs.ErrNotExist) {
		return exitcode.Usagef("--init: %w: the run started from that file; restore it, or give its new path with --init", err)
	}
	if err != nil {
		return fmt.Errorf("--init: %w", err)
	}
	s.Config.Network, err = n.Build(s.Directions)
	return err
}

// loadDirections takes the directions from the file of --init. The run that wrote the file
// released them.
func (s *Spec) loadDirections() error {
	file := s.Flags.Init
	if file == "" {
		return nil
	}
	averaged, err := server.ReadAveraged(file)
	if !errors.Is(err, server.ErrNotServed) {
		s.Network.averaged = averaged
		return err // a served model has no projection
	}
	tensors, err := modelfile.ReadWeights(file)
	if err != nil {
		return err
	}
	directions, err := modelfile.Directions(tensors, s.Network.Example.Shape)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", file, err)
	case directions == nil:
	case s.Directions != nil:
		return fmt.Errorf("%s contains weights and the directions of their projection: drop --project", file)
	default:
		s.Directions, s.Network.loadsDirections = directions, true
	}
	return nil
}

// Build returns the network behind a projection onto directions; nil stands for no
// projection. Its weights are as --init, --fresh and --freeze ask.
func (n *Network) Build(directions []float32) (perexample.Build, error) {
	build, err := models.ParseProjected(n.Model, n.Example, n.seed, directions)
	if err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	return n.initialize(build)
}

// initialize gives the network the weights that --init, --fresh and --freeze ask for.
func (n *Network) initialize(build perexample.Build) (perexample.Build, error) {
	f := n.flags
	checkpoint, err := models.Pretrained(n.Model)
	if err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	if checkpoint != nil {
		return n.startFromCheckpoint(build, checkpoint)
	}
	if f.Init == "" {
		for _, flag := range [][2]string{{"--freeze", f.Freeze}, {"--fresh", f.Fresh}} {
			if flag[1] != "" {
				return nil, exitcode.Usagef("%s %s needs --init, which names the file with the starting weights: give --init, or drop %[1]s", flag[0], flag[1])
			}
		}
		return build, nil
	}
	net, err := build.ForBatch(1)
	if err != nil {
		return nil, err
	}
	fresh, err := parseLayers(net, "--fresh", f.Fresh)
	if err != nil {
		return nil, err
	}
	frozen, err := parseLayers(net, "--freeze", f.Freeze)
	if err != nil {
		return nil, err
	}
	for _, p := range net.Params {
		if weights.BelongsTo(p.Name(), fresh...) && weights.BelongsTo(p.Name(), frozen...) {
			return nil, exitcode.Usagef("--freeze %s: %s would keep random weights, because --fresh names it too; drop it from one of them", f.Freeze, p.Name())
		}
	}
	if !slices.ContainsFunc(net.Params, func(p *G.Node) bool { return !weights.BelongsTo(p.Name(), frozen...) }) {
		return nil, exitcode.Usagef("--freeze %s: no layer is left to train; name fewer layers", f.Freeze)
	}
	if err := n.checkElements(f.Init); err != nil {
		return nil, fmt.Errorf("--init: %s: %w", f.Init, err)
	}
	if build, n.StartingWeights, err = n.startFrom(build, fresh); err != nil {
		return nil, fmt.Errorf("--init: %w", err)
	}
	if len(fresh) > 0 {
		n.StartingWeights += "; random: " + f.Fresh
	}
	if len(frozen) == 0 {
		return build, nil
	}
	n.StartingWeights += "; frozen: " + f.Freeze
	n.unfrozen = build
	return weights.Freeze(build, frozen...), nil
}

// startFrom gives the network the weights of --init: those of a file, or of the averaged model of a
// server.
func (n *Network) startFrom(build perexample.Build, fresh []string) (perexample.Build, string, error) {
	path := n.flags.Init
	if n.averaged == nil {
		return modelfile.StartFrom(build, path, n.loadsDirections, fresh...)
	}
	file, err := served.File(n.averaged, n.schema)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	build, found, err := weights.Load(build, bytes.NewReader(file), fresh...)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return build, fmt.Sprintf("%s, the average of a server's model after %d updates: %s", path, n.averaged.Updates, found), nil
}

// checkElements refuses weights that were trained on other elements, according to the
// manifest next to the file.
func (n *Network) checkElements(file string) error {
	m, err := modelfile.ReadManifest(filepath.Dir(file))
	if err != nil || filepath.Base(file) != modelfile.WeightsFile {
		return nil
	}
	if err := n.elements.CheckCompatible(m.Elements); err != nil {
		return fmt.Errorf("%w; if both have the same scale, give the file that dptrain export writes", err)
	}
	return nil
}

// StartNote describes the starting weights and the limit of what the ledger covers; ""
// without --init.
func (n *Network) StartNote() string {
	if n.StartingWeights == "" {
		return ""
	}
	return n.StartingWeights + "; this run's ε does not cover the records that those weights were trained on"
}

// parseLayers parses a list of layers, or of single parameters, of a network.
func parseLayers(net *perexample.Network, flag, list string) ([]string, error) {
	if list == "" {
		return nil, nil
	}
	layers := strings.Split(list, ",")
	for i, name := range layers {
		layers[i] = strings.TrimSpace(name)
		if !slices.ContainsFunc(net.Params, func(p *G.Node) bool { return weights.BelongsTo(p.Name(), layers[i]) }) {
			known := weights.LayerNames(net)
			return nil, exitcode.Usagef("%s %q: the network has no such layer to train; the nearest is %s (choose from %s)", flag, name, nearest.Closest(layers[i], known), strings.Join(known, ", "))
		}
	}
	return layers, nil
}

// Save writes the weights, and the manifest from which their network is built, to the run's
// directory.
func (s *Spec) Save(parameters []engine.Parameter) error {
	return modelfile.Write(s.Flags.Out, s.manifest(), s.weights(parameters))
}

// WeightsHash returns the SHA-256 of the file of weights that Save writes.
func (s *Spec) WeightsHash(parameters []engine.Parameter) ([sha256.Size]byte, error) {
	w := s.weights(parameters)
	return w.Hash(s.manifest())
}

func (s *Spec) weights(parameters []engine.Parameter) modelfile.Weights {
	return modelfile.Weights{Trained: parameters, Unfrozen: s.Network.unfrozen, Directions: s.Directions}
}

func (s *Spec) manifest() modelfile.Manifest {
	e := s.Network.Example
	var whole []int
	if pictures := data.Uncropped(s.Task.Train); pictures != nil {
		whole = pictures.Columns()[0].Shape
	}
	return modelfile.Manifest{
		Model: s.Network.Model, Shape: e.Shape, Vocabulary: e.Vocabulary, Padded: e.Padded, Marked: e.Marked,
		Classes: e.Classes, Targets: e.Targets, Labels: e.LabelShape,
		ClassNames: s.Task.ClassNames, Data: s.Flags.Data, Test: s.Flags.Test, Elements: featureElements(s.Task),
		Standardize: s.Flags.Standardize, Whole: whole, Resampling: s.Task.Resampling, Schema: s.Task.Schema, Split: s.Task.Split,
	}
}
