package rundir

import (
	"cmp"
	"math"
	"slices"

	"github.com/dptrain/dptrain/engine/optim"
)

// LinearModel contains the largest weights of a linear model of a table, with the noise in each.
//
// For two classes a weight is what the feature adds to the log-odds of the second class. For more it is
// what the feature adds to the score of a class, relative to the mean of all classes. For a target it
// is what the feature adds to the prediction, in the units of the target.
type LinearModel struct {
	Weights []LinearWeight `json:"weights"` // the largest first
	Omitted int            `json:"omitted,omitempty"`
	Noise   *LinearNoise   `json:"noise,omitempty"` // in each weight; nil if it is not known
	// Unknown states why there is no noise.
	Unknown string `json:"noise_unknown,omitempty"`
}

// LinearWeight is one weight.
type LinearWeight struct {
	Feature string  `json:"feature"`
	Class   *int    `json:"class,omitempty"` // of more than two classes
	Value   float64 `json:"value"`
}

// LinearNoise is optim.WeightNoise in the units of the weights.
type LinearNoise struct {
	All     float64 `json:"all"`
	Last    float64 `json:"last"`
	IsBound bool    `json:"bound,omitempty"`
}

// maxLinearWeights bounds what run.json lists.
const maxLinearWeights = 60

// NewLinearModel describes the weight matrix of a linear model, [feature][output]. unit is the size of 1
// in the output of a regression; for classes it is 1.
func NewLinearModel(features []string, matrix []float32, unit float64, noise *optim.WeightNoise) *LinearModel {
	outputs := len(matrix) / len(features)
	m := &LinearModel{}
	factor := unit // of the noise
	for i, feature := range features {
		row := matrix[i*outputs : (i+1)*outputs]
		switch outputs {
		case 1:
			m.Weights = append(m.Weights, LinearWeight{feature, nil, unit * float64(row[0])})
		case 2:
			factor = math.Sqrt2
			m.Weights = append(m.Weights, LinearWeight{feature, nil, float64(row[1]) - float64(row[0])})
		default:
			factor = math.Sqrt(1 - 1/float64(outputs))
			mean := 0.0
			for _, w := range row {
				mean += float64(w) / float64(outputs)
			}
			for class, w := range row {
				m.Weights = append(m.Weights, LinearWeight{feature, &class, float64(w) - mean})
			}
		}
	}
	slices.SortStableFunc(m.Weights, func(a, b LinearWeight) int { return cmp.Compare(math.Abs(b.Value), math.Abs(a.Value)) })
	if n := len(m.Weights); n > maxLinearWeights {
		m.Weights, m.Omitted = m.Weights[:maxLinearWeights], n-maxLinearWeights
	}
	if noise != nil {
		m.Noise = &LinearNoise{factor * noise.All, factor * noise.Last, noise.IsBound}
	}
	return m
}
