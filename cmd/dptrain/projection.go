package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/safetensors"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/perexample"
	"gorgonia.org/tensor"
)

// projectionShare is what the directions may cost alone, as a share of the run's ε,
// where their noise is not given. Costs add up by their squares, about, so composed
// with the lots it is a sixteenth of the budget.
const projectionShare = 0.25

// projectionSummary is what run.json says of a projection.
type projectionSummary struct {
	Directions int     `json:"projection"`
	Noise      float64 `json:"projection_noise"` // σ on the sum of the records' matrices, each of norm 1; 0 where the run is not private
}

// project reads what the settings say of a projection, for data with so many features.
func (j *job) project() error {
	s := j.set
	if !s.given["project"] {
		if s.given["project-noise"] {
			return exitcode.Usagef("--project-noise %v: nothing is projected that it could hide; give --project too", s.projectNoise)
		}
		return nil
	}
	width := 0
	for _, c := range j.task.Train.Columns() {
		if c.Kind == data.Feature {
			width = c.Size()
		}
	}
	switch {
	case width == 0:
		return exitcode.Usagef("--project %d: the features are indices, and only numbers have principal directions", s.project)
	case width > engine.MaxProjected:
		return exitcode.Usagef("--project %d: examples have %d features, and the principal directions of at most %d can be found", s.project, width, engine.MaxProjected)
	case s.project < 1 || s.project > width:
		return exitcode.Usagef("--project %d: give from 1 to the %d features of an example", s.project, width)
	case s.given["project-noise"] && (!(s.projectNoise > 0) || math.IsInf(s.projectNoise, 0)):
		return exitcode.Usagef("--project-noise %v: give a standard deviation above 0, where a record's matrix has norm 1", s.projectNoise)
	}
	j.directions = make([]float32, s.project*width) // until Train has found them
	j.config.Projection = engine.Projection{Directions: s.project, Network: j.build}
	return nil
}

// build makes the network behind directions, or the whole one where there are none.
func (j *job) build(directions []float32) (build perexample.Build, err error) {
	if build, err = models.ParseProjected(j.model, j.example, j.start, directions); err != nil {
		return nil, fmt.Errorf("--model: %w", err)
	}
	return j.initialised(build)
}

// hideProjection fixes the noise on the second moments, given the budget; 0 where the
// run has none but what its lots cost.
func (j *job) hideProjection(budget float64) (err error) {
	c := &j.config
	if c.Projection.Directions == 0 {
		return nil
	}
	if !j.set.given["project-noise"] {
		if j.set.projectNoise, err = j.alone(projectionShare, budget, j.everyone()); err != nil {
			return fmt.Errorf("--project: %w; give --project-noise", err)
		}
		j.set.given["project-noise"] = true
	}
	c.Projection.Noise = j.set.projectNoise
	return nil
}

func (j *job) everyone() ledger.Sampling {
	return ledger.Sampling{Policy: ledger.FullBatch, Records: engine.RecordCount(j.config.Train, j.config.Records)}
}

// startDirections takes the directions that come with starting weights: they were
// released before, by the run that made the file.
func (j *job) startDirections() error {
	file := j.set.init
	if file == "" {
		return nil
	}
	tensors, err := readWeights(file)
	if err != nil {
		return err
	}
	known, err := directionsIn(tensors, j.example.Shape)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", file, err)
	case known == nil:
	case j.directions != nil:
		return fmt.Errorf("%s holds weights and the directions that they go with: leave out --project", file)
	default:
		j.directions = known
	}
	return nil
}

// takeDirections makes the job's network the one that a run has trained.
func (j *job) takeDirections(run *engine.Run) {
	if known := run.Directions(); known != nil {
		j.directions, j.config.Network = known, run.Network()
	}
}

// directionsIn are the directions that a file of weights holds; nil where there are
// none.
func directionsIn(tensors []safetensors.Tensor, features []int) ([]float32, error) {
	at := slices.IndexFunc(tensors, func(t safetensors.Tensor) bool { return t.Name == models.ProjectionName })
	if at < 0 {
		return nil, nil
	}
	t := tensors[at]
	if len(t.Shape) != 2 || t.Shape[0] < 1 || t.Shape[1] != tensor.ProdInts(features) {
		return nil, fmt.Errorf("%s has shape %v, and examples have features of shape %v", t.Name, t.Shape, features)
	}
	return t.Values, nil
}

// directionsParameter is how files of weights hold directions.
func directionsParameter(directions []float32, features []int) engine.Parameter {
	width := tensor.ProdInts(features)
	return engine.Parameter{Name: models.ProjectionName, Shape: []int{len(directions) / width, width}, Values: directions}
}

func (p *projectionSummary) print(w io.Writer) {
	if p.Noise == 0 {
		fmt.Fprintf(w, "projection\ton %s\n", number.Plural(p.Directions, "principal direction"))
		return
	}
	fmt.Fprintf(w, "projection\ton %s, released with noise of %.4g times a record's share; paid for\n", number.Plural(p.Directions, "principal direction"), p.Noise)
}
