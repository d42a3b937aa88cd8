package ledger

// Policy is how the records of a lot are chosen.
type Policy string

const (
	// Poisson: each record takes part independently with probability Rate.
	Poisson Policy = "poisson"
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
	Laplace          Mechanism = "laplace"
)

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
	Rate    float64 `json:"rate,omitempty"`    // Poisson: the probability of each record
	LotSize int     `json:"lot,omitempty"`     // Fixed and Shuffle: records in a lot
	Records int     `json:"records,omitempty"` // N, public
}

// Query is one noised sum over the records of a lot. A record moves the joint norm of the
// group's vectors by at most Sensitivity.
type Query struct {
	Group       string    `json:"group"`
	Mechanism   Mechanism `json:"mechanism"`
	Sensitivity float64   `json:"sensitivity"` // S: l2 for the Gaussians, l1 for Laplace
	Noise       float64   `json:"noise"`       // σ, the standard deviation; for Laplace its scale
}

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
	Lots   []RepeatedLot
}

// LotCount returns the number of lots in the history.
func (h History) LotCount() int {
	n := 0
	for _, spent := range h.Lots {
		n += spent.Count
	}
	return n
}
