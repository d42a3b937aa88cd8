package plan

import (
	"math"
	"math/bits"

	"github.com/dptrain/dptrain/internal/device/lattice"
	"github.com/dptrain/dptrain/noise"
)

// Release describes how a lot's sums become a step. The device adds noise of standard
// deviation Sigma[i] to each element of parameter i's sum, multiplies the result by Scale,
// and passes it to the optimiser as the gradient.
//
// The sums of an exact program are integers, Sigma[i] is in lattice steps, and the noise is
// that of [noise.RoundedGaussian]. Unit[i] is the value of a lattice step; the device
// multiplies by it, too. Everything after the rounding is a function of the released integers.
//
// With Laplace the program is exact, Sigma[i] is an integer, and the noise is that of
// [noise.Source.DiscreteLaplaces] with this scale, added to the integer sums.
//
// Element j of parameter i takes normal j of the source's stream (Release, Lot, i), on
// every device. The caller must have written the lot's ledger entry to disk before.
type Release struct {
	Source      *noise.Source
	Lot         uint64
	Sigma       []float64
	Unit        []float64 // nil unless the program is exact
	Sums        [][]int64 // in the place of the executable's own, for a SumReader; nil: its own
	Part, Parts int       // the part of the elements that a PartReleaser releases; Parts 0: all
	Laplace     bool
	Ratio       Ratio
	Scale       float64
	Optimizer   Optimizer
	Step        int
	Rate        float64
	ParamGroups []RateFactors // of each parameter; nil: every multiplier is 1
	Average     Average
}

// Ratio divides the sums of weighted records by the weight of the lot before the noise: it multiplies
// them by Least/max(Least, Weight). The zero Ratio leaves them as they are. Only the host has it.
type Ratio struct{ Weight, Least int64 }

// DivideInts multiplies integers by the ratio, rounded to the nearest.
func (q Ratio) DivideInts(sums []int64) {
	if q.Least == 0 || q.Weight <= q.Least {
		return
	}
	for i, sum := range sums {
		high, low := bits.Mul64(uint64(max(sum, -sum)), uint64(q.Least))
		low, carry := bits.Add64(low, uint64(q.Weight)/2, 0)
		quotient, _ := bits.Div64(high+carry, low, uint64(q.Weight))
		if sums[i] = int64(quotient); sum < 0 {
			sums[i] = -sums[i]
		}
	}
}

// Float is the ratio as a number.
func (q Ratio) Float() float64 {
	if q.Least == 0 || q.Weight <= q.Least {
		return 1
	}
	return float64(q.Least) / float64(q.Weight)
}

// RateFactors multiplies a parameter's learning rate and weight decay.
type RateFactors struct{ RateMultiplier, DecayMultiplier float64 }

// OptimizerOf is the optimiser and the learning rate of parameter i.
func (r *Release) OptimizerOf(i int) (Optimizer, float64) {
	o, rate := r.Optimizer, r.Rate
	if r.ParamGroups != nil {
		o.WeightDecay *= r.ParamGroups[i].DecayMultiplier
		rate *= r.ParamGroups[i].RateMultiplier
	}
	return o, rate
}

// Stream is the stream of the noise of parameter i.
func (r *Release) Stream(i int) noise.Stream {
	return noise.Stream{Purpose: noise.Release, Lot: r.Lot, Vector: uint32(i)}
}

// ReleaseInts writes the integer sums of parameter i, from element from on, with noise and scaled, to
// gradient. It is the host's release of an exact program. It overwrites the sums.
func (r *Release) ReleaseInts(gradient []float32, sums []int64, i, from int) error {
	stream := r.Stream(i)
	scale := r.Unit[i] * r.Scale
	r.Ratio.DivideInts(sums)
	if r.Laplace {
		if err := addLaplaceNoise(sums, r.Source, stream, uint64(from), uint64(r.Sigma[i])); err != nil {
			return err
		}
	} else {
		n := noise.RoundedGaussian{Sigma: r.Sigma[i]}
		if err := n.Add(r.Source, sums, stream, uint64(from)); err != nil {
			return err
		}
		scale = math.Ldexp(scale, n.Grid())
	}
	lattice.ScaleInts(gradient, sums, scale)
	return nil
}

// addLaplaceNoise adds discrete Laplace noise.
func addLaplaceNoise(sums []int64, source *noise.Source, stream noise.Stream, from, scale uint64) error {
	var drawn [256]int64
	for at := 0; at < len(sums); at += len(drawn) {
		part := sums[at:min(at+len(drawn), len(sums))]
		values := drawn[:len(part)]
		if err := source.DiscreteLaplaces(values, stream, from+uint64(at), scale); err != nil {
			return err
		}
		for i, x := range values {
			part[i] += x
		}
	}
	return nil
}
