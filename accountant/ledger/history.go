package ledger

import (
	"math"
	"math/big"
	"slices"
)

// Policy is how the records of a lot are chosen.
type Policy string

const (
	// Poisson: each record takes part independently with probability Rate.
	Poisson Policy = "poisson"
	// Truncated: as Poisson; if more than LotSize records were drawn, a uniformly random set of
	// LotSize of them takes part.
	Truncated Policy = "truncated"
	// FixedSize: LotSize records, drawn uniformly without replacement for each lot.
	FixedSize Policy = "fixed"
	// Shuffle: a pass over disjoint lots in random order; each record is in exactly one
	// lot of each pass. It is not accounted as sampling: a pass is one unsampled mechanism.
	Shuffle Policy = "shuffle"
	// FullBatch: all records take part in each lot.
	FullBatch Policy = "none"
)

// Mechanism is the distribution of the noise added to a sum.
type Mechanism string

const (
	Gaussian         Mechanism = "gaussian"
	DiscreteGaussian Mechanism = "discrete-gaussian"
	// RoundedGaussian: an integer sum with Gaussian noise over the real numbers, rounded to a
	// public grid. It is post-processing of the Gaussian mechanism, so it costs the same.
	RoundedGaussian Mechanism = "rounded-gaussian"
	Laplace         Mechanism = "laplace"
	// DiscreteLaplace: an integer sum with discrete Laplace noise of an integer scale.
	DiscreteLaplace Mechanism = "discrete-laplace"
	// PermuteAndFlip: no sum, but the choice of a candidate by the integer scores of all candidates.
	// A record changes each score by at most Sensitivity (McKenna and Sheldon 2020).
	PermuteAndFlip Mechanism = "permute-and-flip"
)

// IsExact reports whether the mechanism's guarantee holds for the bits that are released. The
// others are proved over the real numbers, and their sums and noise are floating-point numbers
// (Mironov 2012, "On Significance of the Least Significant Bits for Differential Privacy").
func (m Mechanism) IsExact() bool {
	return m != Gaussian && m != Laplace
}

// hasLattice reports whether queries of the mechanism have the keys lattice and grid.
func (m Mechanism) hasLattice() bool { return m == RoundedGaussian || m == DiscreteLaplace }

// Adjacency is the relation of the data sets that the guarantee makes indistinguishable.
type Adjacency string

const (
	// AddRemove: one data set has one record more than the other.
	AddRemove Adjacency = "add-or-remove-one"
	// ReplaceOne: one record differs.
	ReplaceOne Adjacency = "replace-one"
	// ZeroOut: one record is replaced by a null record, which adds nothing to any sum.
	ZeroOut Adjacency = "zero-out"
)

// Sampling is the sampling event of a lot.
type Sampling struct {
	Policy  Policy  `json:"policy"`
	Rate    float64 `json:"rate,omitempty"`    // Poisson and Truncated: the probability of each record
	LotSize int     `json:"lot,omitempty"`     // Fixed and Shuffle: records in a lot; Truncated: the most records in a lot
	Records int     `json:"records,omitempty"` // N, public
}

// Query is one noised sum over the records of a lot. A record moves the joint norm of the
// group's vectors by at most Sensitivity.
type Query struct {
	Group       string    `json:"group"`
	Mechanism   Mechanism `json:"mechanism"`
	Sensitivity float64   `json:"sensitivity"` // S: l2 for the Gaussians, l1 for Laplace, of a score for PermuteAndFlip
	Noise       float64   `json:"noise"`       // σ, the standard deviation; for Laplace and PermuteAndFlip the scale

	// Lattice and Grid belong to RoundedGaussian and DiscreteLaplace and are 0 otherwise. A
	// record contributes integers of norm at most Lattice: lattice steps, of which Lattice are
	// the sensitivity. What is released are multiples of 2^Grid lattice steps.
	Lattice int64 `json:"lattice"`
	Grid    int   `json:"grid"`
}

// RoundedQuery returns the query of integer contributions of norm at most lattice.
func RoundedQuery(group string, sensitivity, noise float64, lattice int64) Query {
	q := Query{Group: group, Mechanism: RoundedGaussian, Sensitivity: sensitivity, Noise: noise, Lattice: lattice}
	q.Grid = q.roundingGrid()
	return q
}

// DiscreteLaplaceQuery returns the query of integer contributions of l1 norm at most lattice with
// discrete Laplace noise of this scale, an integer, in lattice steps.
func DiscreteLaplaceQuery(group string, sensitivity float64, scale, lattice int64) Query {
	q := Query{Group: group, Mechanism: DiscreteLaplace, Sensitivity: sensitivity, Lattice: lattice}
	q.Noise = q.noiseOfScale(float64(scale))
	return q
}

func (q Query) noiseOfScale(scale float64) float64 {
	return q.Sensitivity * (scale / float64(q.Lattice))
}

// LatticeScale returns the scale of a DiscreteLaplace in lattice steps, an integer.
func (q Query) LatticeScale() float64 {
	return math.Round(q.Noise / q.Sensitivity * float64(q.Lattice))
}

// LatticeNoise returns the standard deviation of a RoundedGaussian in lattice steps: the least
// float64 that is not below Noise·Lattice/Sensitivity. Noise of that size therefore
// costs at most what the query states.
func (q Query) LatticeNoise() float64 {
	if q.Sensitivity == 0 {
		return math.Inf(1)
	}
	if steps := q.Noise * float64(q.Lattice); q.Lattice&(q.Lattice-1) == 0 && steps > 1e-200 && steps < 1e200 {
		// A power of two: steps is exact, and so is the remainder of a rounded quotient.
		sigma := steps / q.Sensitivity
		if sigma > 1e-200 && math.FMA(sigma, q.Sensitivity, -steps) < 0 {
			sigma = math.Nextafter(sigma, math.Inf(1))
		}
		return sigma
	}
	const exact = 2 * 53 // bits of a product of two float64 numbers
	steps := new(big.Float).SetPrec(exact).Mul(big.NewFloat(q.Noise), new(big.Float).SetInt64(q.Lattice))
	sigma, _ := new(big.Float).SetPrec(53).SetMode(big.ToPositiveInf).Quo(steps, big.NewFloat(q.Sensitivity)).Float64()
	return sigma
}

// roundingGrid is Grid as noise.RoundedGaussian chooses it.
func (q Query) roundingGrid() int { return math.Ilogb(q.LatticeNoise()) - 8 }

// MarshalJSON writes the keys that the query has in a ledger.
func (q Query) MarshalJSON() ([]byte, error) { return appendQuery(nil, q), nil }

// Lot is the sampling event and the queries, one for each group, of one lot.
type Lot struct {
	Sampling Sampling `json:"sampling"`
	Queries  []Query  `json:"queries"`
}

// RepeatedLot is Count equal lots in a row.
type RepeatedLot struct {
	Lot   Lot
	Count int
}

// Header is the first line of a ledger.
type Header struct {
	Version   int       `json:"version"`
	Unit      string    `json:"unit"` // the unit of privacy: example, microbatch:K, user or user:COLUMN
	Records   int       `json:"records"`
	Adjacency Adjacency `json:"adjacency"`
	Secure    bool      `json:"secure"` // noise and sampling used the cryptographic generator, without a seed
	// Run identifies the run: random, public, different for each ledger that Create begins. It
	// is empty in version 1.
	Run string `json:"run,omitempty"`
}

// History is the content of a ledger: the lots spent, in order.
type History struct {
	Header Header
	Budget string // identity of the project budget that counts the cost; "" if the ledger names none
	Lots   []RepeatedLot
}

// RealGroups returns the names of the groups with a mechanism that is not exact, in the order in
// which they appear.
func (h History) RealGroups() (names []string) {
	for _, spent := range h.Lots {
		for _, q := range spent.Lot.Queries {
			if !q.Mechanism.IsExact() && !slices.Contains(names, q.Group) {
				names = append(names, q.Group)
			}
		}
	}
	return names
}

// LotCount returns the number of lots in the history.
func (h History) LotCount() int {
	n := 0
	for _, spent := range h.Lots {
		n += spent.Count
	}
	return n
}
