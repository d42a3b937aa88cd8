package ledger

// Policy says how the records of a lot were chosen.
type Policy string

const (
	// Poisson: each record takes part with probability Rate, independently.
	Poisson Policy = "poisson"
	// FixedSize: Lot records drawn uniformly without replacement, afresh each lot.
	FixedSize Policy = "fixed"
	// Shuffle: a pass over disjoint batches in a random order; every record is in
	// exactly one lot of each pass. It is not accounted as sampling: a pass is one
	// unsampled mechanism.
	Shuffle Policy = "shuffle"
	// FullBatch: all records take part in every lot.
	FullBatch Policy = "none"
)

// Mechanism names the noise added to a sum.
type Mechanism string

const (
	Gaussian         Mechanism = "gaussian"
	DiscreteGaussian Mechanism = "discrete-gaussian"
	Laplace          Mechanism = "laplace"
)

// Adjacency says which pairs of data sets the guarantee makes indistinguishable.
type Adjacency string

const (
	// AddRemove: one data set has one record more than the other.
	AddRemove Adjacency = "add-or-remove-one"
	// ReplaceOne: one record differs.
	ReplaceOne Adjacency = "replace-one"
	// ZeroOut: one record is replaced by a null record that adds nothing to any sum.
	ZeroOut Adjacency = "zero-out"
)

// Sampling is the sampling event of a lot.
type Sampling struct {
	Policy  Policy  `json:"policy"`
	Rate    float64 `json:"rate,omitempty"`    // Poisson: the probability of each record
	LotSize int     `json:"lot,omitempty"`     // Fixed and Shuffle: records in a lot
	Records int     `json:"records,omitempty"` // N, public
}

// Query is one noised sum over the records of a lot: a group of vectors whose
// joint norm no record moves by more than Sensitivity.
type Query struct {
	Group       string    `json:"group"`
	Mechanism   Mechanism `json:"mechanism"`
	Sensitivity float64   `json:"sensitivity"` // S: l2 for the Gaussians, l1 for Laplace
	Noise       float64   `json:"noise"`       // σ, the standard deviation; for Laplace its scale
}

// Lot is what was released from one lot: one sampling event, one query a group.
type Lot struct {
	Sampling Sampling `json:"sampling"`
	Queries  []Query  `json:"queries"`
}

// RepeatedLot is a run of equal lots.
type RepeatedLot struct {
	Lot   Lot
	Count int
}

// Header opens a ledger.
type Header struct {
	Version   int       `json:"version"`
	Unit      string    `json:"unit"` // what a record is: example, microbatch:K, user or user:COLUMN
	Records   int       `json:"records"`
	Adjacency Adjacency `json:"adjacency"`
	Secure    bool      `json:"secure"` // noise and sampling came from the cryptographic generator, unseeded
}

// History is everything that a ledger says was spent, in order.
type History struct {
	Header Header
	Lots   []RepeatedLot
}

// LotCount is how many lots the history holds.
func (h History) LotCount() int {
	n := 0
	for _, spent := range h.Lots {
		n += spent.Count
	}
	return n
}
