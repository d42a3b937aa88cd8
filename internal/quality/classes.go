package quality

import (
	"math"
	"slices"
)

// Bin contains the examples whose predicted probability is in a tenth of [0, 1]. For two classes it is
// the probability of the second class. For more it is that of the predicted class.
type Bin struct {
	Examples  int     `json:"examples"`
	Predicted float64 `json:"predicted"` // mean probability
	Observed  float64 `json:"observed"`  // share of the examples that have the class
}

// bins is the number of bins.
const bins = 10

// Classes collects the predicted classes of examples with one label each.
type Classes struct {
	counts        []int // examples of each class
	examples      int
	calibration   [bins]Bin
	sample        sample
	labels        []int
	scores        []float32 // probabilities of the sample, one for each class; of two classes only the second
	probabilities []float64
	invalid       bool // an output was not finite
}

// NewClasses returns a collector for examples, each with one of a number of classes.
func NewClasses(classes, examples int) *Classes {
	return &Classes{counts: make([]int, classes), sample: newSample(examples), probabilities: make([]float64, classes)}
}

// Add adds an example: its label and a score of each class, whose softmax is its probability.
func (c *Classes) Add(expected, output []float32) {
	label := -1
	if len(expected) == 1 {
		label = int(expected[0])
	}
	if label < 0 || label >= len(c.counts) || len(output) != len(c.counts) {
		c.invalid = true
		return
	}
	c.examples++
	c.counts[label]++
	best, ok := Softmax(c.probabilities, output)
	if !ok {
		c.invalid = true
		return
	}
	shown, hit := best, best == label
	if len(c.counts) == 2 {
		shown, hit = 1, label == 1
	}
	p := c.probabilities[shown]
	b := &c.calibration[min(bins-1, int(p*bins))]
	b.Examples++
	b.Predicted += p
	if hit {
		b.Observed++
	}
	if !c.sample.take() {
		return
	}
	c.labels = append(c.labels, label)
	kept := c.probabilities
	if len(kept) == 2 {
		kept = kept[1:]
	}
	for _, p := range kept {
		c.scores = append(c.scores, float32(p))
	}
}

// Measures returns the measures; only the baseline if an output was not finite.
func (c *Classes) Measures() *Measures {
	if c.examples == 0 {
		return nil
	}
	baseline := float64(slices.Max(c.counts)) / float64(c.examples)
	m := &Measures{Baseline: &baseline}
	if c.invalid {
		return m
	}
	for _, b := range c.calibration {
		if n := float64(b.Examples); n > 0 {
			b.Predicted, b.Observed = rounded(b.Predicted/n, 4), b.Observed/n
			m.Calibration = append(m.Calibration, b)
		}
	}
	m.ROC = newROC(c.labels, c.scores, len(c.counts))
	return m
}

// Softmax computes the probability of each class and returns the first of the most probable ones. It
// reports false if a score is not finite.
func Softmax(probabilities []float64, scores []float32) (best int, ok bool) {
	for i, v := range scores {
		if !isFinite(float64(v)) {
			return 0, false
		}
		if v > scores[best] {
			best = i
		}
	}
	sum := 0.0
	for i, v := range scores {
		probabilities[i] = math.Exp(float64(v) - float64(scores[best]))
		sum += probabilities[i]
	}
	for i := range probabilities {
		probabilities[i] /= sum
	}
	return best, true
}
