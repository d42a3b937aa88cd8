package training

import (
	"context"
	"errors"
	"math"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

func setInitial(n *perexample.Network, weights [][]float32) error {
	for i, p := range n.Params {
		value := perexample.NewInitialValue(func(into []float32) { copy(into, weights[i]) }, p.Shape()...)
		if err := G.Let(p, value); err != nil {
			return err
		}
	}
	return nil
}

type gradientsRequest struct {
	Clip     float64 `json:"clip"`
	PerLayer bool    `json:"per_layer"` // each parameter is a group with the bound C/√4
	Steps    int     `json:"steps"`     // of SGD before the gradients are taken
}

type gradientsAnswer struct {
	Parameters []string    `json:"parameters"`
	Norms      [][]float64 `json:"norms"`   // of each record, for each parameter
	Clipped    [][]float64 `json:"clipped"` // the same after clipping
	Unclipped  int         `json:"unclipped"`
	// Bias compares the mean of the clipped gradients with the mean gradient, for several C.
	Clips  []float64 `json:"clips"`
	Cosine []float64 `json:"cosine"`
	Length []float64 `json:"length"` // of the mean of the clipped gradients over that of the mean
	// At is the same for the C of the request.
	AtCosine float64 `json:"at_cosine"`
	AtLength float64 `json:"at_length"`
}

const gradientRecords = 32

var errGradients = errors.New("give a positive clip bound and 0 to 300 steps")

// records holds the gradients for a number of steps: they do not depend on C.
var records struct {
	steps      int
	names      []string
	parameters [][][]float32 // for each record and parameter
}

// gradients shows the gradients of some pictures before and after clipping. The gradient of a
// record is the step of a run with this record alone, without noise and with learning rate 1.
func gradients(q gradientsRequest, progress func(any)) (a gradientsAnswer, err error) {
	if !(q.Clip > 0) || q.Steps < 0 || q.Steps > 300 {
		return a, errGradients
	}
	if records.parameters == nil || records.steps != q.Steps {
		if err := takeGradients(q.Steps, progress); err != nil {
			return a, err
		}
	}
	a.Parameters = records.names
	factors := clipFactors(q.Clip, q.PerLayer)
	for r, g := range records.parameters {
		before, after := make([]float64, len(g)), make([]float64, len(g))
		whole := true
		for v := range g {
			before[v] = norm(g[v])
			after[v] = before[v] * factors[r][v]
			whole = whole && factors[r][v] == 1
		}
		if whole {
			a.Unclipped++
		}
		a.Norms, a.Clipped = append(a.Norms, before), append(a.Clipped, after)
	}
	a.AtCosine, a.AtLength = bias(factors)
	for i := range 25 {
		c := 0.02 * math.Pow(1000, float64(i)/24)
		cosine, length := bias(clipFactors(c, q.PerLayer))
		a.Clips, a.Cosine, a.Length = append(a.Clips, c), append(a.Cosine, cosine), append(a.Length, length)
	}
	return a, nil
}

func takeGradients(steps int, progress func(any)) error {
	digits, err := first(data.Digits().Train, 1000)
	if err != nil {
		return err
	}
	build, err := digitNetwork("mlp:32,act=tanh", digits)
	if err != nil {
		return err
	}
	var weights [][]float32
	if steps == 0 {
		n, err := build.ForBatch(1)
		if err != nil {
			return err
		}
		for _, p := range n.Params {
			weights = append(weights, p.Value().Data().([]float32))
		}
	} else if weights, err = fit(build, digits, 100, steps); err != nil {
		return err
	}
	at := startingAt(build, weights)
	records.parameters, records.names, records.steps = nil, nil, steps
	for r := range gradientRecords {
		one, err := subset(digits, r, r+1)
		if err != nil {
			return err
		}
		g, names, err := gradient(at, one, weights)
		if err != nil {
			return err
		}
		records.parameters, records.names = append(records.parameters, g), names
		progress(float64(r+1) / gradientRecords)
	}
	return nil
}

func gradient(at perexample.Build, one data.Set, before [][]float32) (g [][]float32, names []string, err error) {
	c := plainSGD(at, one, 1)
	c.Sampling, c.Steps = engine.Sampling{Policy: sample.PolicyFixed, Lot: 1}, 1
	r, err := engine.New(c)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	if err := r.Train(context.Background(), nil); err != nil {
		return nil, nil, err
	}
	after, err := r.Parameters()
	if err != nil {
		return nil, nil, err
	}
	for i, p := range after {
		v := make([]float32, len(p.Values))
		for k := range v {
			v[k] = before[i][k] - p.Values[k]
		}
		g, names = append(g, v), append(names, p.Name)
	}
	return g, names, nil
}

// clipFactors returns the factor of each record and parameter: min(1, C/‖g‖) of all parameters
// together or, with the bound C/√m, of each of m parameters.
func clipFactors(c float64, perLayer bool) [][]float64 {
	factor := func(bound, square float64) float64 { return min(1, bound/math.Sqrt(square)) }
	all := make([][]float64, len(records.parameters))
	for r, g := range records.parameters {
		total := 0.0
		for _, v := range g {
			total += dot(v, v)
		}
		for _, v := range g {
			f := factor(c, total)
			if perLayer {
				f = factor(c/math.Sqrt(float64(len(g))), dot(v, v))
			}
			all[r] = append(all[r], f)
		}
	}
	return all
}

// bias returns the cosine between the mean of the clipped gradients and the mean gradient, and the
// ratio of their lengths.
func bias(factors [][]float64) (cosine, length float64) {
	var products, clippedSquares, meanSquares float64
	for v := range records.names {
		mean, clipped := make([]float32, len(records.parameters[0][v])), make([]float32, len(records.parameters[0][v]))
		for r, g := range records.parameters {
			for k, x := range g[v] {
				mean[k] += x
				clipped[k] += x * float32(factors[r][v])
			}
		}
		products += dot(mean, clipped)
		clippedSquares += dot(clipped, clipped)
		meanSquares += dot(mean, mean)
	}
	return products / math.Sqrt(clippedSquares*meanSquares), math.Sqrt(clippedSquares / meanSquares)
}
