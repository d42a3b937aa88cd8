package settings

import (
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/engine"
	"github.com/dptrain/dptrain/engine/data"
)

// weightLimits returns the limits of the weights of a set's records; zero where it has none.
func weightLimits(f *Flags, train data.Set) (engine.RecordWeights, error) {
	settings := []struct {
		flag           string
		value, initial float64
	}{{"weight-cap", f.WeightCap, 1}, {"weight-mean", f.WeightMean, 0}, {"weight-min-mean", f.WeightMinMean, 0}}
	for _, s := range settings {
		given := f.OnCommandLine(s.flag) || s.value != s.initial
		switch {
		case given && data.Weights(train) == nil:
			return engine.RecordWeights{}, exitcode.Usagef("--%s %v needs --weight COLUMN, or weight in the schema: give the column of weights, or drop --%[1]s", s.flag, s.value)
		}
	}
	if data.Weights(train) == nil {
		return engine.RecordWeights{}, nil
	}
	return engine.RecordWeights{Cap: f.WeightCap, Mean: f.WeightMean, MinMean: f.WeightMinMean}, nil
}
