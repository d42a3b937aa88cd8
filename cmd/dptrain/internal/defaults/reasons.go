package defaults

import (
	"fmt"
	"strconv"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// Reasons say in a few words from which public numbers each value of [Settings] follows.
type Reasons struct {
	Model, Lot, Steps, Clip, Optimizer, LearningRate, Average string
}

// whyTable explains the network for a table.
func whyTable(f Facts, s Settings, ratio float64) string {
	known := fmt.Sprintf("%d records, ρ = %s", f.Records, round(ratio))
	switch {
	case s.Hidden > 0:
		return known + ": enough for a hidden layer"
	case s.Fourier:
		return known + ": too few for a hidden layer; random features bend a linear network"
	case f.Classes > 0 && f.Columns > fourierMost:
		return known + ": too few for a hidden layer, and for random features of many columns"
	}
	return known + ": too few for a hidden layer"
}

// whyLot explains the number of records of a lot.
func whyLot(records, lot int, limit string) string {
	if lot == records {
		return "all records"
	}
	return limit
}

// whySteps explains the number of lots.
func whySteps(fixed Fixed, otherwise string) string {
	switch {
	case fixed.Lot > 0:
		return "as many passes over the data as by the rule"
	case fixed.Epochs > 0:
		return "follows from --epochs"
	}
	return otherwise
}

// whyAverage explains the decay of a moving average.
func whyAverage(decay float64) string {
	return fmt.Sprintf("averages the weights of about %.0f lots", 1/(1-decay))
}

// whyRate explains the learning rate of Adam, which moves a weight by S in T lots of noise.
func whyRate(scale float64, steps int) string {
	return fmt.Sprintf("S/√%d, S = %s: the noise in a weight after all lots", steps, round(scale))
}

// round formats a number with two digits.
func round(x float64) string { return strconv.FormatFloat(number.TwoDigits(x), 'g', -1, 64) }
