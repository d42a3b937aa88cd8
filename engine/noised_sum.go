package engine

import (
	"math"
	"math/bits"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/setting"
	"github.com/dptrain/dptrain/noise"
)

// The largest number of lattice steps in a sensitivity. A step of the sensitivity's 2^-30th part
// is far below any noise that protects a record, and 2^31 records have a sum of at most 2^61.
// Directions come from products of two integers, each with half of the bits, so they get more.
const (
	countLattice      = 1
	statisticLattice  = 1 << 30
	projectionLattice = 1 << 36
)

// The limits of noise.RoundedGaussian: sums in lattice steps and in steps of the grid, with room
// for the noise.
const (
	maxLatticeSum   = 0x1p61
	maxLatticeNoise = 0x1p56
)

// contributors bounds the records that contribute to a sum, given their number. It is public.
func (c *Config) contributors(records int) float64 {
	if c.Sampling.Population > 0 {
		return math.MaxInt32 // the number of records is private; a device counts them in 32 bits
	}
	return float64(records)
}

// query returns the query of a sum over the records of which each contributes a vector of norm at
// most sensitivity. With exact arithmetic the vectors are integers, with as many lattice steps in
// the sensitivity as lattice permits, the sum and the noise: a power of two.
func (c *Config) query(group string, sensitivity, noise float64, lattice int64, records int) ledger.Query {
	if c.Mechanism.Arithmetic != ExactArithmetic || c.Mechanism.NonPrivate {
		return ledger.Query{Group: group, Mechanism: ledger.Gaussian, Sensitivity: sensitivity, Noise: noise}
	}
	for lattice > 1 && (c.contributors(records)*float64(lattice) > maxLatticeSum || noise/sensitivity*float64(lattice) > maxLatticeNoise) {
		lattice /= 2
	}
	return ledger.RoundedQuery(group, sensitivity, noise, lattice)
}

// checkQueries checks the sums that a run releases other than gradients and counts.
func (c *Config) checkQueries(records int) error {
	for _, s := range c.Statistics {
		if err := c.checkQuery(c.statisticQuery(s, records), records); err != nil {
			return err
		}
	}
	if c.Validation.Set != nil {
		if lot := c.validationLot(); !c.Mechanism.NonPrivate {
			if err := c.checkQuery(lot.Queries[0], lot.Sampling.Records); err != nil {
				return err
			}
		}
	}
	if c.Projection.Directions > 0 && !c.Mechanism.NonPrivate {
		return c.checkQuery(c.projectionLot(records).Queries[0], records)
	}
	return nil
}

// checkQuery returns an error if integers of 64 bits cannot represent the sum and its noise.
func (c *Config) checkQuery(q ledger.Query, records int) error {
	if q.Mechanism != ledger.RoundedGaussian {
		return nil
	}
	if err := (ledger.Lot{Sampling: ledger.Sampling{Policy: ledger.FullBatch}, Queries: []ledger.Query{q}}).Validate(); err != nil {
		return setting.Errorf("Mechanism.Arithmetic", "%w; choose noise nearer to the sensitivity, or float arithmetic (%v)", err, setting.With("Mechanism.Arithmetic", "float"))
	}
	if sum := c.contributors(records) * float64(q.Lattice); max(sum, math.Ldexp(sum, -q.Grid)) > maxLatticeSum {
		return setting.Errorf("Mechanism.NoiseMultiplier", "group %q: noise of %v is too small for a sensitivity of %v and up to %.0f records; raise it, or use float arithmetic (%v)",
			q.Group, q.Noise, q.Sensitivity, c.contributors(records), setting.With("Mechanism.Arithmetic", "float"))
	}
	return nil
}

// noisedSum is a sum of vectors, one of each record, that is released with the Gaussian noise of
// its query.
//
// With exact arithmetic it promises the mechanism that the query states, for the bits that
// release returns. Each record adds a vector of integers with a norm of at most query.Lattice:
// add determines the norm in integers, and adds nothing where it is larger. The integers of one
// record depend on this record alone, so with and without the record the sums differ by its
// vector, exactly. What release returns is a function of correctly rounded sums and of
// public numbers. It requires what [noise.RoundedGaussian] requires, and sums within its limits,
// which checkQuery ensures.
//
// With float arithmetic it promises the mechanism over the real numbers, up to the roundings of
// the sum and of the noise.
type noisedSum struct {
	query    ledger.Query
	length   float64               // the longest vector of a record: query.Sensitivity
	bound    int64                 // its norm in lattice steps: query.Lattice
	noise    noise.RoundedGaussian // of integers
	integers []int64               // the sum in lattice steps; nil where arithmetic is float
	rounded  []int64               // one record's vector in lattice steps
	floats   []float64
	normals  []float64
}

func newNoisedSum(q ledger.Query, size int) *noisedSum {
	s := &noisedSum{}
	if q.Mechanism == ledger.RoundedGaussian {
		s.integers, s.rounded = make([]int64, size), make([]int64, size)
	} else {
		s.floats, s.normals = make([]float64, size), make([]float64, size)
	}
	s.setQuery(q)
	return s
}

// setQuery sets the query of the next sum, of the same mechanism. Nothing has been added.
func (s *noisedSum) setQuery(q ledger.Query) {
	s.query, s.length, s.bound = q, q.Sensitivity, q.Lattice
	if s.integers != nil {
		s.noise.Sigma = q.LatticeNoise()
	}
}

// add adds one record's vector, scaled down to the sensitivity if it is longer. A vector with a
// number that is not finite adds nothing.
func (s *noisedSum) add(vector []float64) {
	unit, norm := scaledNorm(vector)
	switch {
	case math.IsNaN(norm) || math.IsInf(norm, 0):
	case s.integers != nil:
		s.addIntegers(vector, unit, max(s.length/unit, norm), s.bound)
	default:
		s.addFloats(vector, unit, norm)
	}
}

// weightSteps is the number of steps of the largest weight.
const weightSteps = 1 << 20

// addWeighted adds one record's vector of finite numbers times a factor, with which its norm is at
// most the sensitivity, and times weight/weightSteps, at most 1. The norm of what it adds is at most
// that share of the lattice, too. With float arithmetic, the factor must leave room for roundings;
// with exact arithmetic, a vector that is too long in integers adds nothing.
func (s *noisedSum) addWeighted(vector []float64, factor float64, weight int64) {
	factor *= float64(weight) / weightSteps
	if s.integers != nil {
		bound, rest := bits.Mul64(uint64(s.bound), uint64(weight))
		bound, _ = bits.Div64(bound, rest, weightSteps)
		s.addIntegers(vector, 1, s.length/factor, int64(bound)) // a quotient of +Inf adds zeros
		return
	}
	for i, v := range vector {
		s.floats[i] += factor * v
	}
}

// addIntegers adds a vector in the unit in which length is s.bound, if its norm is then at most
// bound. It rounds toward zero, which makes no element longer. So the norm exceeds the bound
// only by the roundings of this arithmetic, and then the second factor leaves room for them.
func (s *noisedSum) addIntegers(vector []float64, unit, length float64, bound int64) {
	for _, factor := range [...]float64{1, 1 - 0x1p-20} {
		steps := float64(s.bound) * factor
		for i, v := range vector {
			s.rounded[i] = int64(v / unit / length * steps) // at most about the lattice
		}
		if isWithin(s.rounded, bound) {
			for i, v := range s.rounded {
				s.integers[i] += v
			}
			return
		}
	}
}

// isWithin reports whether the norm of a vector is at most bound, which is at most 2^31. It stops
// before a square or their sum could overflow.
func isWithin(vector []int64, bound int64) bool {
	rest := bound * bound
	for _, v := range vector {
		if v < -bound || v > bound {
			return false
		}
		if rest -= v * v; rest < 0 {
			return false
		}
	}
	return true
}

// addFloats leaves a margin for the rounding of its arithmetic.
func (s *noisedSum) addFloats(vector []float64, unit, norm float64) {
	bound := s.query.Sensitivity * (1 - 1e-12*float64(1+len(vector)))
	scale := 1.0
	if norm > bound/unit { // always, unless unit is 1: see maxSensitivity
		scale = bound / norm
	}
	for i, v := range vector {
		s.floats[i] += scale * (v / unit)
	}
}

// setRatioQuery is setQuery for a weighted mean whose denominator depends on the lot: see
// divideByWeight. It reports false if the query's lattice is too coarse.
func (s *noisedSum) setRatioQuery(q ledger.Query) bool {
	s.setQuery(q)
	s.length = q.Sensitivity / 2
	if s.integers != nil {
		s.bound = ratioBound(q.Lattice, len(s.integers))
		return s.bound > q.Lattice/4
	}
	return true
}

// ratioBound returns the largest norm, in lattice steps, of a vector of size integers with weight 1 in a
// mean that is divided by the weight of the lot.
func ratioBound(lattice int64, size int) int64 {
	return (lattice - int64(math.Ceil(math.Sqrt(float64(size))))) / 2
}

// divideByWeight multiplies a sum of weighted vectors by least/max(least, weight), where weight is
// the sum of the weights of the records that were added. This is least times the estimator f_c of
// McMahan et al. 2018 ("Learning Differentially Private Recurrent Language Models", section 3,
// lemma 1). One more record moves it by at most query.Lattice in integers:
//
// Let B be s.bound, M weightSteps, A the sum of vectors without the record, D that of weights, and G
// and a its vector and its weight: ‖G‖ ≤ B·a/M, and ‖A‖ ≤ B·D/M by the triangle inequality. With
// t = max(least, D) and t′ = max(least, D+a), 0 ≤ t′ − t ≤ a and D ≤ t, so
//
//	‖least·(A+G)/t′ − least·A/t‖ ≤ least·(‖G‖/t′ + ‖A‖·(t′−t)/(t·t′))
//	                             ≤ least·(B/M)·(a/t′)·(1 + D/t) ≤ 2·B.
//
// Each of the two vectors is rounded to the nearest integers, which moves their difference by at
// most √d in d dimensions. setRatioQuery chooses 2·B + √d ≤ query.Lattice. With float arithmetic
// the sensitivity is 2·s.length in the same way.
func (s *noisedSum) divideByWeight(weight, least int64) {
	ratio := plan.Ratio{Weight: weight, Least: least}
	ratio.DivideInts(s.integers)
	for i := range s.floats {
		s.floats[i] *= ratio.Float()
	}
}

// setTotal sets a sum of one number to which each record contributed plus or minus the sensitivity,
// so that the number of lattice steps is an integer.
func (s *noisedSum) setTotal(total float64) {
	if s.integers != nil {
		s.integers[0] = int64(total/s.query.Sensitivity) * s.query.Lattice
	} else {
		s.floats[0] = total
	}
}

// release writes the sum with its noise to dst, and resets it. The ledger on disk must contain
// the query.
func (s *noisedSum) release(dst []float64, source *noise.Source, stream noise.Stream) error {
	if s.integers == nil {
		if err := source.Normals64(s.normals, stream, 0); err != nil {
			return err
		}
		for i, sum := range s.floats {
			dst[i] = sum + s.query.Noise*s.normals[i]
		}
		clear(s.floats)
		return nil
	}
	if err := s.noise.Add(source, s.integers, stream, 0); err != nil {
		return err
	}
	step := s.length / float64(s.bound)
	for i, rounded := range s.integers {
		dst[i] = math.Ldexp(float64(rounded), s.noise.Grid()) * step
	}
	clear(s.integers)
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

// noiseStreams numbers the streams of noise for one step, so that every release has its own.
// Stream.Vector counts, one after the other: the parameters, whose noise executables draw;
// the counts behind adaptive bounds, one per group; the statistics; the validation; the
// projection.
type noiseStreams struct {
	source                         *noise.Source
	parameters, groups, statistics int
}

// vectors is the stream of a group of vectors that the host adds, in place of those of the
// parameters: there are at most as many groups.
func (s noiseStreams) vectors(step, group int) noise.Stream { return s.release(step, group) }

func (s noiseStreams) count(step, group int) noise.Stream {
	return s.release(step, s.parameters+group)
}

func (s noiseStreams) statistic(step, i int) noise.Stream {
	return s.release(step, s.parameters+s.groups+i)
}

func (s noiseStreams) validation(step int) noise.Stream { return s.statistic(step, s.statistics) }

func (s noiseStreams) projection(step int) noise.Stream { return s.statistic(step, s.statistics+1) }

func (s noiseStreams) release(step, vector int) noise.Stream {
	return noise.Stream{Purpose: noise.Release, Lot: uint64(step), Vector: uint32(vector)}
}
