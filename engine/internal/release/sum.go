package release

import (
	"math"
	"math/bits"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
)

// The largest number of lattice steps in a sensitivity. A step of the sensitivity's 2^-30th part
// is far below any noise that protects a record, and 2^31 records have a sum of at most 2^61.
// Directions come from products of two integers, each with half of the bits, so they get more.
const (
	CountLattice      = 1
	StatisticLattice  = 1 << 30
	ProjectionLattice = 1 << 36
)

// Sum is a sum of vectors, one of each record, that is released with the Gaussian noise of
// its query.
//
// With exact arithmetic it promises the mechanism that the query states, for the bits that
// release returns. Each record adds a vector of integers with a norm of at most query.Lattice:
// add determines the norm in integers, and adds nothing where it is larger. The integers of one
// record depend on this record alone, so with and without the record the sums differ by its
// vector, exactly. What release returns is a function of correctly rounded sums and of
// public numbers. It requires what [noise.RoundedGaussian] requires, and sums within its limits,
// which Arithmetic.Check ensures.
//
// With float arithmetic it promises the mechanism over the real numbers, up to the roundings of
// the sum and of the noise.
type Sum struct {
	Query    ledger.Query
	Length   float64               // the longest vector of a record: query.Sensitivity
	Bound    int64                 // its norm in lattice steps: query.Lattice
	Sampler  noise.RoundedGaussian // of integers
	Integers []int64               // the sum in lattice steps; nil where arithmetic is float
	rounded  []int64               // one record's vector in lattice steps
	Floats   []float64
	normals  []float64
	scale    float64 // of a part of a group: vectors are divided by it, and results multiplied
}

func NewSum(q ledger.Query, size int) *Sum {
	s := &Sum{scale: 1}
	if q.Mechanism == ledger.RoundedGaussian {
		s.Integers, s.rounded = make([]int64, size), make([]int64, size)
	} else {
		s.Floats, s.normals = make([]float64, size), make([]float64, size)
	}
	s.setQuery(q)
	return s
}

// setQuery sets the query of the next sum, of the same mechanism. Nothing has been added.
func (s *Sum) setQuery(q ledger.Query) {
	s.Query, s.Length, s.Bound = q, q.Sensitivity, q.Lattice
	if s.Integers != nil {
		s.Sampler.Sigma = q.LatticeNoise()
	}
}

// Add adds one record's vector, scaled down to the sensitivity if it is longer. A vector with a
// number that is not finite adds nothing.
func (s *Sum) Add(vector []float64) {
	unit, norm := scaledNorm(vector)
	switch {
	case math.IsNaN(norm) || math.IsInf(norm, 0):
	case s.Integers != nil:
		s.addIntegers(vector, unit, max(s.Length/unit, norm), s.Bound)
	default:
		s.addFloats(vector, unit, norm)
	}
}

// addWeighted adds one record's vector of finite numbers times a factor, with which its norm is at
// most the sensitivity, and times weight/load.WeightSteps, at most 1. The norm of what it adds is at most
// that share of the lattice, too. With float arithmetic, the factor must leave room for roundings;
// with exact arithmetic, a vector that is too long in integers adds nothing.
func (s *Sum) addWeighted(vector []float64, factor float64, weight int64) {
	factor *= float64(weight) / load.WeightSteps
	if s.Integers != nil {
		bound, rest := bits.Mul64(uint64(s.Bound), uint64(weight))
		bound, _ = bits.Div64(bound, rest, load.WeightSteps)
		s.addIntegers(vector, 1, s.Length/factor, int64(bound)) // a quotient of +Inf adds zeros
		return
	}
	for i, v := range vector {
		s.Floats[i] += factor * v
	}
}

// addIntegers adds a vector in the unit in which length is s.bound, if its norm is then at most
// bound. It rounds toward zero, which makes no element longer. So the norm exceeds the bound
// only by the roundings of this arithmetic, and then the second factor leaves room for them.
func (s *Sum) addIntegers(vector []float64, unit, length float64, bound int64) {
	for _, factor := range [...]float64{1, 1 - 0x1p-20} {
		steps := float64(s.Bound) * factor
		for i, v := range vector {
			s.rounded[i] = int64(v / unit / length * steps) // at most about the lattice
		}
		if isWithin(s.rounded, bound) {
			for i, v := range s.rounded {
				s.Integers[i] += v
			}
			return
		}
	}
}

// AddJoint adds one record's vector of finite numbers times the clip factor of its group. rest is what the
// record's integers in the group may still add to the squared norm, and AddJoint returns what is left of it.
// A vector that is too long in integers adds nothing.
func (s *Sum) AddJoint(vector []float64, factor float64, rest int64) int64 {
	factor /= s.scale
	if s.Integers == nil {
		for i, v := range vector {
			s.Floats[i] += factor * v
		}
		return rest
	}
	steps := float64(s.Bound) / s.Length
	for i, v := range vector { // at most about the lattice; rounded toward zero
		s.rounded[i] = int64(max(-maxRounded, min(maxRounded, v*factor*steps)))
	}
	left, ok := takeSquares(s.rounded, rest)
	if !ok {
		return rest
	}
	for i, v := range s.rounded {
		s.Integers[i] += v
	}
	return left
}

// maxRounded bounds numbers before they become integers. It is above every lattice.
const maxRounded = 1 << 40

// isWithin reports whether the norm of a vector is at most bound, which is at most 2^31.
func isWithin(vector []int64, bound int64) bool {
	_, ok := takeSquares(vector, bound*bound)
	return ok
}

// takeSquares takes the squared norm of a vector from rest, which is at most 2^62. It is not ok if rest is
// smaller. It stops before a square could overflow.
func takeSquares(vector []int64, rest int64) (left int64, ok bool) {
	for _, v := range vector {
		if v < -1<<31 || v > 1<<31 {
			return rest, false
		}
		if rest -= v * v; rest < 0 {
			return rest, false
		}
	}
	return rest, true
}

// addFloats leaves a margin for the rounding of its arithmetic.
func (s *Sum) addFloats(vector []float64, unit, norm float64) {
	bound := s.Query.Sensitivity * (1 - 1e-12*float64(1+len(vector)))
	scale := 1.0
	if norm > bound/unit { // always, unless unit is 1: see maxSensitivity
		scale = bound / norm
	}
	for i, v := range vector {
		s.Floats[i] += scale * (v / unit)
	}
}

// setRatioQuery is setQuery for a weighted mean whose denominator depends on the lot: see
// divideByWeight. It reports false if the query's lattice is too coarse.
func (s *Sum) setRatioQuery(q ledger.Query) bool {
	s.setQuery(q)
	s.Length = q.Sensitivity / 2
	if s.Integers != nil {
		s.Bound = RatioBound(q.Lattice, len(s.Integers))
		return s.Bound > q.Lattice/4
	}
	return true
}

// RatioBound returns the largest norm, in lattice steps, of a vector of size integers with weight 1 in a
// mean that is divided by the weight of the lot.
func RatioBound(lattice int64, size int) int64 {
	return (lattice - int64(math.Ceil(math.Sqrt(float64(size))))) / 2
}

// divideByWeight multiplies a sum of weighted vectors by least/max(least, weight), where weight is
// the sum of the weights of the records that were added. This is least times the estimator f_c of
// McMahan et al. 2018 ("Learning Differentially Private Recurrent Language Models", section 3,
// lemma 1). One more record moves it by at most query.Lattice in integers:
//
// Let B be s.bound, M load.WeightSteps, A the sum of vectors without the record, D that of weights, and G
// and a its vector and its weight: ‖G‖ ≤ B·a/M, and ‖A‖ ≤ B·D/M by the triangle inequality. With
// t = max(least, D) and t′ = max(least, D+a), 0 ≤ t′ − t ≤ a and D ≤ t, so
//
//	‖least·(A+G)/t′ − least·A/t‖ ≤ least·(‖G‖/t′ + ‖A‖·(t′−t)/(t·t′))
//	                             ≤ least·(B/M)·(a/t′)·(1 + D/t) ≤ 2·B.
//
// Each of the two vectors is rounded to the nearest integers, which moves their difference by at
// most √d in d dimensions. setRatioQuery chooses 2·B + √d ≤ query.Lattice. With float arithmetic
// the sensitivity is 2·s.length in the same way.
func (s *Sum) divideByWeight(weight, least int64) {
	ratio := plan.Ratio{Weight: weight, Least: least}
	ratio.DivideInts(s.Integers)
	for i := range s.Floats {
		s.Floats[i] *= ratio.Float()
	}
}

// SetTotal sets a sum of one number to which each record contributed plus or minus the sensitivity,
// so that the number of lattice steps is an integer.
func (s *Sum) SetTotal(total float64) {
	if s.Integers != nil {
		s.Integers[0] = int64(total/s.Query.Sensitivity) * s.Query.Lattice
	} else {
		s.Floats[0] = total
	}
}

// Release writes the sum with its noise to dst, and resets it. The ledger on disk must contain
// the query.
func (s *Sum) Release(dst []float64, source *noise.Source, stream noise.Stream) error {
	if s.Integers == nil {
		if err := source.Normals64(s.normals, stream, 0); err != nil {
			return err
		}
		for i, sum := range s.Floats {
			dst[i] = (sum + s.Query.Noise*s.normals[i]) * s.scale
		}
		clear(s.Floats)
		return nil
	}
	if err := s.Sampler.Add(source, s.Integers, stream, 0); err != nil {
		return err
	}
	step := s.Length / float64(s.Bound) * s.scale
	for i, rounded := range s.Integers {
		dst[i] = math.Ldexp(float64(rounded), s.Sampler.Grid()) * step
	}
	clear(s.Integers)
	return nil
}

// scaledNorm returns the norm of a vector in a unit, so that norm·unit is the norm. The unit is 1
// unless the squares overflow. Then it is the largest absolute value, and the norm lies between 1
// and the root of the size: this bounds every vector of finite numbers. The norm of a vector with
// a number that is not finite is not finite.
func scaledNorm(vector []float64) (unit, norm float64) {
	sumOfSquares := func(unit float64) (sum float64) {
		for _, v := range vector {
			v /= unit
			sum += v * v
		}
		return sum
	}
	unit = 1
	squares := sumOfSquares(unit)
	if math.IsInf(squares, 1) {
		for _, v := range vector {
			unit = max(unit, math.Abs(v))
		}
		squares = sumOfSquares(unit) // NaN if a number is infinite
	}
	return unit, math.Sqrt(squares)
}

// ShortenTo writes a vector to dst, scaled down to a bound if it is longer, and returns its norm; NaN if a
// number is not finite.
func ShortenTo(dst, vector []float64, bound float64) float64 {
	unit, norm := scaledNorm(vector)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return math.NaN()
	}
	if norm <= bound/unit {
		copy(dst, vector)
		return norm * unit
	}
	for i, v := range vector {
		dst[i] = v / unit / norm * bound
	}
	return bound * (1 + 1e-12*float64(1+len(vector))) // with the errors of rounding
}
