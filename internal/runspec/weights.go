package runspec

import (
	"math"

	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/exitcode"
)

// weightLimits returns the limits of the weights of a set's records; zero where it has none.
func weightLimits(f *Flags, train data.Set) (engine.Weights, error) {
	if data.Weights(train) == nil {
		if f.OnCommandLine("weight-cap") || f.WeightCap != 1 {
			return engine.Weights{}, exitcode.Usagef("--weight-cap %v needs --weight COLUMN, or weight in the schema: give the column of weights, or drop --weight-cap", f.WeightCap)
		}
		return engine.Weights{}, nil
	}
	if !(f.WeightCap > 0) || math.IsInf(f.WeightCap, 1) {
		return engine.Weights{}, exitcode.Usagef("--weight-cap %v: give the largest weight, a finite number above 0", f.WeightCap)
	}
	return engine.Weights{Cap: f.WeightCap}, nil
}
