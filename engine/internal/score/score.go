package score

import (
	"math"

	"github.com/dptrain/dptrain/engine/data"
)

// CountCorrect counts the labels that an example's output predicts. The output has the same number
// of scores for each label.
func CountCorrect(labels, output []float32) int {
	width, n := len(output)/len(labels), 0
	for i, l := range labels {
		if Argmax(output[i*width:(i+1)*width]) == int(l) {
			n++
		}
	}
	return n
}

// Argmax returns the index of the largest number; NaN is never larger.
func Argmax(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}

// CorrectShare returns the share of labels that were predicted correctly; 0 where all are
// data.Pad.
func CorrectShare(labels, output []float32) float64 {
	count := len(labels)
	for _, l := range labels {
		if l == data.Pad {
			count--
		}
	}
	return float64(CountCorrect(labels, output)) / float64(max(1, count))
}

// TargetScore returns the mean score of the predictions of scaled targets. It is between 0 and 1
// for all arguments.
func TargetScore(targets, predictions []float32) float64 {
	clamp := func(x float32) float64 { return min(max(float64(x), -1), 1) }
	var sum float64
	for i, t := range targets {
		if score := 1 - math.Abs(clamp(predictions[i])-clamp(t))/2; score > 0 { // false for NaN
			sum += score
		}
	}
	return sum / float64(len(targets))
}
