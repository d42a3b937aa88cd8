package defaults

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// Facts are the public numbers that decide.
type Facts struct {
	Records int // from which lots are drawn
	Columns int // numbers of an example that can differ from 0 at the same time, each within [-1, 1]
	Weights int // of the network for one output and one hidden unit: the numbers of an example
	Classes int // 0: a number is predicted

	Vectors bool // an example is the average of word vectors

	Epsilon, Delta float64
}

// Fixed are the settings that the user gives. A zero stands for none.
type Fixed struct {
	Linear, Hidden bool // the kind of network
	Lot, Steps     int
	Epochs         float64
	Clip           float64
	LargestLot     int // where not every lot may have all records
}

// Settings are the settings of a run.
type Settings struct {
	Hidden       int // units of the hidden layer; 0: the network is linear
	Lot, Steps   int
	Clip         float64
	Optimizer    string
	LearningRate float64
	Average      float64 // decay of the moving average of the weights
	Fourier      bool    // a linear network reads random features of the columns, too
	Why          Reasons
}

// The constants of the rule. docs/defaults.md has their evidence.
const (
	tableSteps   = 400
	tableAverage = 0.95 // over about twenty lots

	hiddenRatio   = 80   // ρ from which a hidden layer pays for classes and few columns of numbers
	otherRatio    = 110  // ρ from which it does for a number, many columns, and a table of words
	hiddenRecords = 400  // records from which it does for classes and columns of numbers
	otherRecords  = 1000 // records from which it does for a number, and for a table of words
	hiddenUnits   = 64
	fourierMost   = 20   // columns up to which random features pay
	fourierRatio  = 50   // ρ from which they pay for more columns
	wordsRatio    = 2    // weights for each column of a table of words, for which they do not pay
	hiddenLots    = 4    // lots have a quarter of the records
	hiddenLeast   = 256  // records of a lot, if there are as many
	hiddenScale   = 0.4  // S
	hiddenClip    = 2    // C
	numberScale   = 0.1  // S of a hidden layer that predicts a number
	numberClip    = 0.3  // C
	linearScale   = 7    // S·B·√K of a linear classifier
	scaleRatio    = 30   // ρ below which S is smaller
	scalePower    = 0.2  // by this power
	fewRecords    = 140  // records below which S is smaller
	fewPower      = 2    // by this power
	fewRatio      = 20   // if ρ is at least this
	clipRatio     = 60   // ρ below which C is smaller than the first gradient
	clipPower     = 2    // by this power
	leastClip     = 0.1  // C
	largestClip   = 2.5  // C: few examples of many columns are as long as B
	targetScale   = 2    // S·B of a linear regression
	targetRatio   = 100  // ρ below which both are smaller
	targetClip    = 0.5  // C/B of a linear regression
	targetLeast   = 0.05 // C/B
	targetAverage = 0.98 // over about fifty lots
	largestHidden = 1 << 11
	largestWork   = 1e12 // weights times records of all lots
)

// ForTable returns the settings for a table: examples of numbers within [-1, 1].
func ForTable(f Facts, fixed Fixed) Settings {
	b := math.Sqrt(float64(f.Columns) + 1)
	outputs := max(1, f.Classes)
	ratio := PrivacyParameter(f.Epsilon, f.Delta) * float64(f.Records) / (b * math.Sqrt(float64(outputs)))
	s := Settings{Optimizer: "adam", Average: tableAverage}
	words := f.Vectors || f.Weights > wordsRatio*(f.Columns+1)
	known, least := float64(hiddenRatio), hiddenRecords
	if f.Classes == 0 || words {
		known, least = otherRatio, otherRecords
	}
	if f.Columns > fourierMost {
		known = otherRatio
	}
	hidden := fixed.Hidden || !fixed.Linear && ratio >= known && f.Records >= least
	if hidden {
		s.Hidden = hiddenUnits
	}
	s.Fourier = !hidden && f.Classes > 0 && !words && (f.Columns <= fourierMost || ratio >= fourierRatio)
	lot := f.Records
	weights := f.Weights * outputs
	if hidden {
		lot = min(max(f.Records/hiddenLots, hiddenLeast), largestHidden)
		weights = f.Weights * hiddenUnits
	}
	lot = max(1, min(lot, f.Records, int(largestWork/tableSteps/float64(weights))))
	s.Lot, s.Steps = fitLots(f.Records, lot, tableSteps, fixed)
	s.Why = Reasons{
		Model:     whyTable(f, s, ratio),
		Lot:       whyLot(f.Records, s.Lot, "all records, as far as time allows"),
		Steps:     whySteps(fixed, "more lots cost time, no accuracy"),
		Optimizer: "its steps do not depend on the clip bound",
	}
	if hidden {
		s.Why.Lot = whyLot(f.Records, s.Lot, fmt.Sprintf("a quarter of the records, from %d to %d", hiddenLeast, largestHidden))
	}

	scale := 0.0
	switch part := min(1, ratio/targetRatio); {
	case hidden && f.Classes == 0:
		scale, s.Clip = numberScale, numberClip
		s.Why.Clip = "by measurements on tables with a hidden layer"
	case hidden:
		scale, s.Clip = hiddenScale, hiddenClip
		s.Why.Clip = "by measurements on tables with a hidden layer"
	case f.Classes == 0:
		s.Why.Clip = fmt.Sprintf("a part of %s, the largest norm of an example, that grows with ρ = %s", round(b), round(ratio))
		scale, s.Clip = targetScale/b*part, b*max(targetLeast, targetClip*part)
		s.Average = targetAverage
	default:
		scale = linearScale / (b * math.Sqrt(float64(f.Classes))) * math.Pow(min(1, ratio/scaleRatio), scalePower)
		if ratio >= fewRatio {
			scale *= math.Pow(min(1, float64(f.Records)/fewRecords), fewPower)
		}
		first := min(largestClip, b*math.Sqrt(1-1/float64(f.Classes)))
		s.Clip = max(leastClip, first*math.Pow(min(1, ratio/clipRatio), clipPower))
		s.Why.Clip = fmt.Sprintf("%s bounds the first gradient", round(first))
		if ratio < clipRatio {
			s.Why.Clip += fmt.Sprintf("; less, at least %g, because ρ = %s < %d", leastClip, round(ratio), clipRatio)
		}
	}
	s.Why.LearningRate, s.Why.Average = whyRate(scale, s.Steps), whyAverage(s.Average)
	s.Clip = number.TwoDigits(s.Clip)
	s.LearningRate = number.TwoDigits(scale / math.Sqrt(float64(s.Steps)))
	return s
}

// fitLots returns lot and steps of the rule, changed where the user gives one of them: with other
// lots the number of passes over the data stays, within limits of the number of lots.
func fitLots(records, lot, steps int, fixed Fixed) (int, int) {
	n := float64(records)
	if fixed.LargestLot > 0 {
		lot = min(lot, fixed.LargestLot)
	}
	switch {
	case fixed.Lot > 0 && fixed.Steps > 0:
		return fixed.Lot, fixed.Steps
	case fixed.Lot > 0 && fixed.Epochs > 0:
		return fixed.Lot, max(1, int(math.Round(fixed.Epochs*n/float64(fixed.Lot))))
	case fixed.Lot > 0:
		passes := float64(steps) * float64(lot) / n
		return fixed.Lot, min(max(steps, int(passes*n/float64(fixed.Lot))), mostSteps)
	case fixed.Steps > 0:
		return lot, fixed.Steps
	case fixed.Epochs > 0:
		lot = max(1, min(lot, int(math.Ceil(fixed.Epochs*n/float64(steps)))))
		return lot, max(1, int(math.Round(fixed.Epochs*n/float64(lot))))
	}
	return lot, steps
}

// mostSteps limits the number of lots that the rule makes of a lot that the user gives.
const mostSteps = 4000

// PrivacyParameter returns the largest μ for which a Gaussian mechanism whose noise is 1/μ times its
// sensitivity satisfies (ε, δ).
func PrivacyParameter(epsilon, delta float64) float64 {
	low, high := 0.0, 1.0
	for accountant.GaussianDelta(high, epsilon) < delta && high < 1e6 {
		low, high = high, 2*high
	}
	for range 60 {
		if middle := (low + high) / 2; accountant.GaussianDelta(middle, epsilon) <= delta {
			low = middle
		} else {
			high = middle
		}
	}
	return low
}
