package report

import (
	"fmt"
	"math"
	"strconv"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// weightsSection shows the largest weights of a linear model.
type weightsSection struct {
	About, Noise string
	HaveClass    bool
	Rows         []weightRow
	More         string
}

// weightRow is a weight with a bar on a scale from -50 to 50, whose middle is 0.
type weightRow struct {
	Feature, Class, Value string
	From, Width           float64
	NoiseFrom, NoiseWidth float64 // two standard deviations of noise on each side
	IsNegative, IsNoise   bool
}

// maxWeightRows bounds the rows of the table.
const maxWeightRows = 20

// weightsSection returns nil for other models.
func (s *summary) weightsSection() *weightsSection {
	if s.Linear == nil || len(s.Linear.Weights) == 0 {
		return nil
	}
	all := s.Linear.Weights
	section := &weightsSection{About: s.aboutWeights(), Noise: s.aboutWeightNoise()}
	noise, most := 0.0, 0.0
	if n := s.Linear.Noise; n != nil {
		noise = n.All
	}
	shown := all[:min(len(all), maxWeightRows)]
	for _, w := range shown {
		most = max(most, math.Abs(w.Value)+2*noise)
	}
	if most == 0 || math.IsInf(most, 0) {
		most = 1
	}
	scale := func(x float64) float64 { return math.Round(10*min(max(50+50*x/most, 0), 100)) / 10 }
	for _, w := range shown {
		row := weightRow{Feature: w.Feature, Value: signedNumber(w.Value, decimals(most)),
			IsNegative: w.Value < 0, IsNoise: math.Abs(w.Value) < 2*noise}
		if w.Class != nil {
			section.HaveClass = true
			row.Class = s.className(*w.Class)
		}
		low, high := min(w.Value, 0), max(w.Value, 0)
		row.From, row.Width = scale(low), scale(high)-scale(low)
		row.NoiseFrom = scale(w.Value - 2*noise)
		row.NoiseWidth = scale(w.Value+2*noise) - row.NoiseFrom
		section.Rows = append(section.Rows, row)
	}
	if more := len(all) - len(shown) + s.Linear.Omitted; more > 0 {
		section.More = fmt.Sprintf("%s with smaller values are not shown; model.safetensors contains all.", plural(more, "weight"))
	}
	return section
}

// aboutWeights explains the unit of a weight.
func (s *summary) aboutWeights() string {
	unit := "what the feature adds to the score of the class, relative to the mean of all classes"
	switch {
	case s.Target != "":
		unit = "what the feature adds to the prediction, in the units of " + s.Target
	case s.Linear.Weights[0].Class == nil:
		unit = "what the feature adds to the log-odds of " + s.className(1)
	}
	return "The largest weights. A weight is " + unit + ". A number is scaled so that its bounds become −1 and 1: its weight is the effect of the way from the middle of its bounds to the upper one. A word counts 1 where it is present."
}

// aboutWeightNoise states what is known about the noise in a weight, and what is not.
func (s *summary) aboutWeightNoise() string {
	n := s.Linear.Noise
	switch {
	case s.Linear.Unknown != "":
		return "The noise in a weight is not shown: " + s.Linear.Unknown + "."
	case n == nil:
		return ""
	}
	bound, reason := "", ""
	if n.IsBound {
		bound, reason = "at most about ", " The optimizer divides by the size of the gradients with their noise: the noise moves a weight less where its gradients are larger than the noise."
	}
	return fmt.Sprintf("Noise moves each weight by a standard deviation of %s%s: the noise of all %s together, followed through the optimizer. The noise of the last lot alone moves it by %s%s.%s",
		bound, number.Format(n.All, 3), plural(s.Steps, "lot"), bound, number.Format(n.Last, 2), reason) +
		" Later gradients pull weights back, which removes a part of the noise; the figures do not contain this effect. The line on a bar is two standard deviations in each direction. A weight whose line crosses zero may be noise alone: its bar is pale."
}

// decimals is the number of decimals with which the largest weight has three digits.
func decimals(most float64) int {
	return min(max(2-int(math.Floor(math.Log10(most))), 0), 6)
}

// signedNumber writes a number with a typeset minus.
func signedNumber(x float64, decimals int) string {
	text := strconv.FormatFloat(math.Abs(x), 'f', decimals, 64)
	if x < 0 {
		return "−" + text
	}
	return text
}
