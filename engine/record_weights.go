package engine

import (
	"cmp"
	"math"

	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/setting"
)

// RecordWeights describes the weights of records in a weighted mean. A weight is private; it is set to 0
// where it is negative or NaN, to Cap where it is larger, and rounded down to a multiple of
// Cap/2^20. A record contributes its clipped vectors times weight/Cap, so weights do not change the
// sensitivity.
//
// The mean is the estimator with a fixed denominator of McMahan et al. 2018 ("Learning
// Differentially Private Recurrent Language Models", section 3): the sum of weighted vectors over
// q·N·Mean, whose denominator does not depend on the data. It is unbiased, up to clipping, if Mean
// is the mean weight of the N records.
type RecordWeights struct {
	Cap  float64 // the largest weight, public; default: 1
	Mean float64 // a public estimate of the mean weight of a record; default: Cap

	// MinMean selects the estimator f_c of the paper: the sum of weighted vectors over the larger of
	// q·N·MinMean and the sum of the lot's weights. It has less variance where weights differ, and is
	// biased. A record moves it by up to 2·C/(q·N·MinMean) for vectors of norm C and weights of at
	// most 1, twice as much as the fixed denominator q·N·MinMean: the noise and the sensitivity in the
	// ledger are twice as large. It needs Poisson lots. 0: the fixed denominator.
	MinMean float64
}

// check sets the defaults and refuses weights that are impossible with lots of this policy.
func (w *RecordWeights) check(policy sample.Policy) error {
	w.Cap = cmp.Or(w.Cap, 1)
	if w.MinMean != 0 && policy != sample.PolicyPoisson {
		return setting.Errorf("Weights.MinMean", "a weighted mean whose denominator depends on the lot needs %s lots: use them, or a fixed denominator (drop %v)", sample.PolicyPoisson, setting.Named("Weights.MinMean"))
	}
	if w.MinMean != 0 && w.Mean != 0 {
		return setting.Errorf("Weights.MinMean", "both a mean weight (%v) and a least mean weight (%v) are set: %v is of the fixed denominator, %v of the other; set one of them",
			w.Mean, w.MinMean, setting.Named("Weights.Mean"), setting.Named("Weights.MinMean"))
	}
	w.Mean = cmp.Or(w.MinMean, w.Mean, w.Cap)
	if !(w.Cap > 0) || math.IsInf(w.Cap, 1) {
		return setting.Errorf("Weights.Cap", "%v: give a finite number above 0", setting.With("Weights.Cap", w.Cap))
	}
	if !(w.Mean > 0 && w.Mean <= w.Cap) || math.IsInf(w.Cap/w.Mean, 1) {
		mean := setting.With("Weights.Mean", w.Mean)
		if w.MinMean != 0 {
			mean = setting.With("Weights.MinMean", w.Mean)
		}
		return setting.Errorf("Weights.Mean", "%v: give a number above 0 and at most the largest weight, %v", mean, setting.With("Weights.Cap", w.Cap))
	}
	return nil
}

// denominator returns what a sum of vectors times weight/Cap is divided by, in records, and
// release.Vectors.leastWeight.
func (w RecordWeights) denominator(expectedLot float64) (records float64, least int64) {
	records = expectedLot * w.Mean / w.Cap
	if w.MinMean == 0 {
		return records, 0
	}
	least = max(1, int64(records*load.WeightSteps))
	return float64(least) / load.WeightSteps, least
}
