package clip

// Quantile is a bound that follows a quantile of the group's norms (Andrew et al.
// 2021, "Differentially Private Learning with Adaptive Clipping"): after each lot
//
//	C ← C · exp(−Rate·(b̃ − Target))
//
// where b̃ is a noised estimate of the fraction of records with norm at most C.
//
// The sum from which b̃ is computed, Σ(b_i − ½) over the lot's records with b_i ∈ {0, 1}, is
// a separate query with sensitivity [CountSensitivity] and noise Noise. It must be in the
// ledger, in addition to the group's query. C depends on the records only through these
// released sums.
type Quantile struct {
	Initial float64 // C of the first lot; the paper starts at 0.1
	Target  float64 // the fraction of records that are not clipped; 0.5 is the median
	Rate    float64 // η, 0.2 in the paper: how far one lot may move C
	Noise   float64 // σ_b of the count; the paper uses a twentieth of the expected lot size
}

// CountSensitivity is the sensitivity of Σ(b_i − ½), the sum that a [Quantile] follows.
const CountSensitivity = 0.5

// At returns the initial bound. Only a run adapts the bound.
func (q Quantile) At(int) float64 { return q.Initial }
