package quality

import (
	"cmp"
	"slices"
)

// ROC contains receiver operating characteristics: for two classes of the second class, for more of
// each class against the rest.
type ROC struct {
	Examples int        `json:"examples"` // the curves are computed from them
	Average  *ClassROC  `json:"average,omitempty"`
	Classes  []ClassROC `json:"classes"` // in increasing order of AUC for more than two classes
}

// ClassROC is the curve of one class.
type ClassROC struct {
	Class int     `json:"class"`
	AUC   float64 `json:"auc"` // area under the curve
	// TPR has the true-positive rate at each of FalsePositiveRates. It is absent for classes that
	// are not drawn.
	TPR []float64 `json:"tpr,omitempty"`
}

// drawnClasses is the number of classes with a curve, beginning with the lowest AUC.
const drawnClasses = 5

// FalsePositiveRates are the points of a curve, closer together where curves are steep.
var FalsePositiveRates = func() (rates []float64) {
	rates = []float64{0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04}
	for i := 2; i <= 40; i++ {
		rates = append(rates, float64(i)/40)
	}
	return rates
}()

// newROC computes the curves; nil if no class has examples inside and outside of it. scores has one
// number for each label if there are two classes, and otherwise one for each label and class.
func newROC(labels []int, scores []float32, classes int) *ROC {
	r := &ROC{Examples: len(labels)}
	first, width := 0, classes
	if classes == 2 {
		first, width = 1, 1
	}
	average := ClassROC{TPR: make([]float64, len(FalsePositiveRates))}
	pairs := make([]scored, len(labels))
	for class := first; class < classes; class++ {
		for i, l := range labels {
			pairs[i] = scored{scores[i*width+class-first], l == class}
		}
		one, ok := curve(pairs)
		if !ok {
			continue
		}
		one.Class = class
		average.AUC += one.AUC
		for i, v := range one.TPR {
			average.TPR[i] += v
		}
		r.Classes = append(r.Classes, one)
	}
	n := float64(len(r.Classes))
	if n == 0 {
		return nil
	}
	if classes > 2 {
		average.AUC = rounded(average.AUC/n, 4)
		for i := range average.TPR {
			average.TPR[i] = rounded(average.TPR[i]/n, 4)
		}
		r.Average = &average
		slices.SortStableFunc(r.Classes, func(a, b ClassROC) int { return cmp.Compare(a.AUC, b.AUC) })
	}
	for i := range r.Classes {
		if r.Classes[i].AUC = rounded(r.Classes[i].AUC, 4); i >= drawnClasses {
			r.Classes[i].TPR = nil
		}
	}
	return r
}

// scored is the score of an example and whether it is in the class.
type scored struct {
	score  float32
	inside bool
}

// curve computes the curve of pairs, which it sorts. Between two thresholds it is a straight line, also
// where examples inside and outside of the class have equal scores. It reports false if all examples
// are inside, or all outside.
func curve(pairs []scored) (c ClassROC, ok bool) {
	inside := 0.0
	for _, p := range pairs {
		if p.inside {
			inside++
		}
	}
	outside := float64(len(pairs)) - inside
	if inside == 0 || outside == 0 {
		return c, false
	}
	slices.SortFunc(pairs, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	x, y := 0.0, 0.0
	for i := 0; i < len(pairs); {
		nextX, nextY := x, y
		for score := pairs[i].score; i < len(pairs) && pairs[i].score == score; i++ {
			if pairs[i].inside {
				nextY += 1 / inside
			} else {
				nextX += 1 / outside
			}
		}
		c.AUC += (nextX - x) * (y + nextY) / 2
		for len(c.TPR) < len(FalsePositiveRates) && FalsePositiveRates[len(c.TPR)] < nextX {
			rate := FalsePositiveRates[len(c.TPR)]
			c.TPR = append(c.TPR, rounded(y+(nextY-y)*(rate-x)/(nextX-x), 4))
		}
		x, y = nextX, nextY
	}
	for len(c.TPR) < len(FalsePositiveRates) {
		c.TPR = append(c.TPR, 1)
	}
	return c, true
}
