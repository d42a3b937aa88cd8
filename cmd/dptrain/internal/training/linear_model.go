package training

import (
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/optim"
)

// linearModel describes the weights of a linear model of a table; nil for other models. h is the
// ledger of a private run.
func linearModel(spec *settings.Spec, run *engine.Run, d engine.RunDescription, parameters []engine.Parameter,
	h ledger.History) *rundir.LinearModel {
	schema := spec.Task.Schema
	features := schema.FeatureNames()
	if spec.Network.Model != "logistic" || spec.Config.Projection.Directions > 0 || len(features) == 0 ||
		len(parameters) == 0 || len(parameters[0].Shape) != 2 || parameters[0].Shape[0] != len(features) {
		return nil
	}
	unit := 1.0
	if bounds, ok := schema.Bounds[schema.Target]; ok && schema.Target != "" {
		unit = data.Column{Bounds: bounds}.ScaleFactor()
	}
	noise, unknown := weightNoise(spec, run, d, parameters[0].Name, h)
	m := rundir.NewLinearModel(features, parameters[0].Values, unit, noise)
	m.Unknown = unknown
	return m
}

// weightNoise computes the noise in a parameter's weights, or why it is not known; neither without
// privacy.
func weightNoise(spec *settings.Spec, run *engine.Run, d engine.RunDescription, name string,
	h ledger.History) (noise *optim.WeightNoise, unknown string) {
	c := &spec.Config
	if c.Mechanism.NonPrivate || run.StepsDone() == 0 {
		return nil, ""
	}
	var parameter engine.ParameterDescription
	for _, p := range d.Parameters {
		if p.Name == name {
			parameter = p
		}
	}
	switch {
	case d.LocalTraining.Steps > 0:
		return nil, "each user trains several steps on their own examples"
	case spec.Task.Schema.Weight != "":
		return nil, "records have weights"
	case !hasConstantNoise(h, parameter.Group):
		return nil, "the noise was not the same in every lot"
	}
	factor := 1.0
	if c.Optimization.LearningRateMultiplier != nil {
		factor = c.Optimization.LearningRateMultiplier(name)
	}
	event := run.Event()
	rates := make([]float64, run.StepsDone())
	for i := range rates {
		rates[i] = factor * c.Optimization.Schedule.Rate(i+1, event.LotsPerEpoch(), c.Steps)
	}
	rule := c.Optimization.Optimizer
	if o, isOptimizer := rule.(optim.Optimizer); isOptimizer && c.Optimization.WeightDecayMultiplier != nil {
		o.WeightDecay *= c.Optimization.WeightDecayMultiplier(name)
		rule = o
	}
	n, ok := optim.NoiseInWeights(rule, c.Optimization.Average, rates, parameter.Sigma/d.ExpectedLot)
	if !ok {
		return nil, "the optimizer " + spec.Flags.Optimizer + " changes the noise in a way that is not computed here"
	}
	return &n, ""
}

// hasConstantNoise reports whether every lot released a group with the same noise.
func hasConstantNoise(h ledger.History, group string) bool {
	var first ledger.Query
	for _, lot := range h.Lots {
		for _, q := range lot.Lot.Queries {
			switch {
			case q.Group != group:
			case first.Group == "":
				first = q
			case q.Noise != first.Noise || q.Mechanism != first.Mechanism:
				return false
			}
		}
	}
	return first.Group != ""
}
