package quality

import (
	"math"
	"math/rand/v2"
	"testing"
)

func logits(p float64) []float32 { return []float32{0, float32(math.Log(p / (1 - p)))} }

// The AUC is the share of pairs of an example inside and one outside that are ordered correctly,
// with half a pair for equal scores (Mann and Whitney), and the curve goes through the empirical
// rates of each threshold.
func TestClasses_ROCMatchesPairs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c := NewClasses(2, 300)
	var labels []int
	var scores []float64
	for range 300 {
		p := float64(1+r.IntN(19)) / 20 // with ties
		label := 0
		if r.Float64() < p {
			label = 1
		}
		labels, scores = append(labels, label), append(scores, p)
		c.Add([]float32{float32(label)}, logits(p))
	}
	right, pairs := 0.0, 0.0
	for i := range labels {
		for j := range labels {
			if labels[i] == 1 && labels[j] == 0 {
				pairs++
				switch {
				case scores[i] > scores[j]:
					right++
				case scores[i] == scores[j]:
					right += 0.5
				}
			}
		}
	}
	roc := c.Measures().ROC
	if len(roc.Classes) != 1 || roc.Average != nil || math.Abs(roc.Classes[0].AUC-right/pairs) > 1e-4 {
		t.Fatalf("%+v, want the AUC %v", roc, right/pairs)
	}
	rates := func(threshold float64) (fpr, tpr float64) {
		var counts [2]float64
		for i, l := range labels {
			if counts[l]++; scores[i] >= threshold {
				if l == 1 {
					tpr++
				} else {
					fpr++
				}
			}
		}
		return fpr / counts[0], tpr / counts[1]
	}
	at := func(x float64) float64 { // interpolates the points of the curve
		for i, rate := range FalsePositiveRates {
			if rate >= x && i > 0 {
				before := FalsePositiveRates[i-1]
				y := roc.Classes[0].TPR
				return y[i-1] + (y[i]-y[i-1])*(x-before)/(rate-before)
			}
		}
		return roc.Classes[0].TPR[0]
	}
	for threshold := 0.1; threshold < 0.9; threshold += 0.05 {
		if fpr, tpr := rates(threshold); fpr > 0.06 && math.Abs(at(fpr)-tpr) > 0.03 {
			t.Errorf("threshold %v: TPR %v at FPR %v, want %v", threshold, at(fpr), fpr, tpr)
		}
	}
}

// The bins contain each example once, and for calibrated probabilities both means agree. With 20,000
// examples a correct result fails with a probability below 10^-5 (five standard deviations).
func TestClasses_Calibration(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	c := NewClasses(2, 20_000)
	ones := 0
	for range 20_000 {
		p := 0.3 + 0.6*r.Float64()
		label := float32(0)
		if r.Float64() < p {
			label = 1
			ones++
		}
		c.Add([]float32{label}, logits(p))
	}
	m := c.Measures()
	total := 0
	for _, b := range m.Calibration {
		total += b.Examples
		if off := math.Abs(b.Predicted - b.Observed); off > 5*0.5/math.Sqrt(float64(b.Examples))+1e-4 {
			t.Errorf("%+v", b)
		}
	}
	if total != 20_000 || len(m.Calibration) != 6 && len(m.Calibration) != 7 || *m.Baseline != float64(max(ones, 20_000-ones))/20_000 {
		t.Errorf("%d examples in %d bins, baseline %v", total, len(m.Calibration), *m.Baseline)
	}
}

// Of many classes, the curves of the lowest AUC are kept, with the average of all. A class without
// examples has no curve.
func TestClasses_ManyClasses(t *testing.T) {
	const classes = 12
	r := rand.New(rand.NewPCG(5, 6))
	c := NewClasses(classes, 1100)
	for i := range 1100 {
		label := i % (classes - 1) // the last class has no example
		output := make([]float32, classes)
		for k := range output {
			output[k] = float32(r.NormFloat64())
		}
		output[label] += float32(label) / 2 // each class is easier than the one before
		c.Add([]float32{float32(label)}, output)
	}
	roc := c.Measures().ROC
	if len(roc.Classes) != classes-1 || roc.Classes[0].Class != 0 || roc.Average == nil {
		t.Fatalf("%+v", roc)
	}
	sum := 0.0
	for i, one := range roc.Classes {
		sum += one.AUC
		if (one.TPR != nil) != (i < drawnClasses) || i > 0 && one.AUC < roc.Classes[i-1].AUC {
			t.Errorf("class %d of rank %d: AUC %v, %d points", one.Class, i, one.AUC, len(one.TPR))
		}
	}
	if math.Abs(roc.Average.AUC-sum/(classes-1)) > 1e-3 {
		t.Errorf("average AUC %v, want %v", roc.Average.AUC, sum/(classes-1))
	}
}

// Outputs that are not finite leave the baseline only, and no NaN, which JSON cannot contain.
func TestClasses_NotFinite(t *testing.T) {
	c := NewClasses(2, 3)
	c.Add([]float32{1}, []float32{0, 1})
	c.Add([]float32{1}, []float32{float32(math.NaN()), 1})
	c.Add([]float32{0}, []float32{float32(math.Inf(1)), 1})
	if m := c.Measures(); m.Calibration != nil || m.ROC != nil || math.Abs(*m.Baseline-2.0/3) > 1e-12 {
		t.Errorf("%+v", m)
	}
	if m := NewClasses(2, 0).Measures(); m != nil {
		t.Errorf("without examples: %+v", m)
	}
}

// The baseline of a regression is the standard deviation of the targets, and the points are
// predictions and truths in the target's units, at equal distances.
func TestNumbers_ResidualsAndBaseline(t *testing.T) {
	n := NewNumbers(1000, func(x float64) float64 { return 50 + 50*x })
	var squares float64
	for i := range 1000 {
		x := float32(i)/500 - 0.999
		squares += 2500 * float64(x) * float64(x)
		n.Add([]float32{x}, []float32{x / 2})
	}
	m := n.Measures()
	if want := math.Sqrt(squares / 1000); math.Abs(*m.Baseline-want) > 1e-3 {
		t.Errorf("baseline %v, want %v", *m.Baseline, want)
	}
	if p := m.Residuals.Points; len(p) != 334 || m.Residuals.Examples != 1000 || math.Abs(p[333][1]-99.95) > 1e-3 || math.Abs(p[333][0]-74.975) > 1e-3 {
		t.Errorf("%d points, the last %v", len(p), p[len(p)-1])
	}
	n.Add([]float32{0}, []float32{float32(math.NaN())})
	if m := n.Measures(); m.Residuals != nil || m.Baseline == nil {
		t.Errorf("%+v", m)
	}
}

// The examples of a curve are bounded, whatever the size of the test data.
func TestClasses_BoundsMemory(t *testing.T) {
	c := NewClasses(2, 3*maxExamples)
	for i := range 3 * maxExamples {
		c.Add([]float32{float32(i % 2)}, []float32{0, float32(i % 7)})
	}
	if m := c.Measures(); m.ROC.Examples != maxExamples || len(c.scores) != maxExamples {
		t.Errorf("%d examples, %d scores", m.ROC.Examples, len(c.scores))
	}
}
