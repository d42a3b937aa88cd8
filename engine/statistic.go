package engine

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/data"
)

// Statistic is a sum over the records of a lot that is no gradient: correct
// answers, losses, class counts, feature means. It is a vector group of its own
// (McMahan et al. 2019, section 3): every record's vector is clipped to
// Sensitivity, one that is not finite adds nothing, the sum is noised and
// released with the lot, and the ledger carries it beside the gradient.
type Statistic struct {
	Name        string
	Size        int
	Sensitivity float64 // S: each record's vector is scaled down to this norm
	Noise       float64 // σ, the standard deviation added to the sum
	// Of writes the vector of one record: its examples are given one after the
	// other, each as all its views where there is an [Augmentation]. It is called from
	// one goroutine and must depend on nothing else.
	Of func(dst []float64, record []Example)
	// Output and Loss say that Of reads those of an Example: a network that keeps none is
	// then refused.
	Output, Loss bool
}

// Example is what a statistic may read of one example.
type Example struct {
	Columns [][]float32 // the data set's columns
	Output  []float32   // what the network answered; nil if it keeps no answers
	Loss    float32     // NaN if it keeps no losses
}

// ReleasedStatistic is a noised statistic of a lot, divided by the expected number of
// records: an estimate of the mean, and public.
type ReleasedStatistic struct {
	Name string
	Mean []float64
}

func checkStatistics(all []Statistic) error {
	for _, s := range all {
		if err := s.check(); err != nil {
			return err
		}
	}
	return nil
}

// mostNumbers bounds the size of a statistic.
const mostNumbers = 1 << 26

// leastSensitivity keeps the squares of what is clipped to it far from where float64 loses
// them: a vector whose squares are lost has no norm, and would not be clipped.
const leastSensitivity = 1e-100

func (s Statistic) check() error {
	switch {
	case s.Name == "" || s.Size < 1 || s.Of == nil:
		return fmt.Errorf("statistic %q needs a name, a size and a function", s.Name)
	case s.Size > mostNumbers:
		return fmt.Errorf("statistic %s: %d numbers are too many: at most %d", s.Name, s.Size, mostNumbers)
	case !(s.Sensitivity > 0) || math.IsInf(s.Sensitivity, 0):
		return fmt.Errorf("statistic %s: sensitivity %v must be a positive number", s.Name, s.Sensitivity)
	case s.Sensitivity < leastSensitivity:
		return fmt.Errorf("statistic %s: a sensitivity of %v is too small: give at least %v, and count in a smaller unit", s.Name, s.Sensitivity, leastSensitivity)
	case !(s.Noise > 0) || math.IsInf(s.Noise, 0):
		return fmt.Errorf("statistic %s: noise %v must be a positive number; without noise it would be private data", s.Name, s.Noise)
	}
	return nil
}

func (s Statistic) query() ledger.Query {
	return ledger.Query{Group: s.Name, Mechanism: ledger.Gaussian, Sensitivity: s.Sensitivity, Noise: s.Noise}
}

// Accuracy is the share of right answers to the label column, a record counting
// as the mean of its labels, and data.Pad as one that was not answered rightly.
func Accuracy(label int, sigma float64) Statistic {
	return Statistic{Name: "accuracy", Size: 1, Sensitivity: 1, Noise: sigma, Output: true, Of: func(dst []float64, record []Example) {
		for _, e := range record {
			labels := e.Columns[label]
			if len(e.Output) < 2*len(labels) {
				panic("no scores for a label")
			}
			dst[0] += float64(right(labels, e.Output)) / float64(len(labels)*len(record))
		}
	}}
}

// MeanLoss is the mean loss, each record's cut at bound.
func MeanLoss(bound, sigma float64) Statistic {
	return Statistic{Name: "loss", Size: 1, Sensitivity: bound, Noise: sigma, Loss: true, Of: func(dst []float64, record []Example) {
		for _, e := range record {
			dst[0] += float64(e.Loss) / float64(len(record))
		}
	}}
}

// ClassCounts is how often each class of the label column occurs, as shares of
// the expected lot; data.Pad is none.
func ClassCounts(label int, column data.Column, sigma float64) Statistic {
	return Statistic{Name: "classes", Size: column.Classes, Sensitivity: 1, Noise: sigma, Of: func(dst []float64, record []Example) {
		for _, e := range record {
			labels := e.Columns[label]
			for _, l := range labels {
				if l != data.Pad {
					dst[int(l)] += 1 / float64(len(labels)*len(record))
				}
			}
		}
	}}
}

// FeatureMeans is the mean of a column, each record's vector cut to norm bound:
// what features can be centred by.
func FeatureMeans(column int, size int, bound, sigma float64) Statistic {
	return Statistic{Name: "feature means", Size: size, Sensitivity: bound, Noise: sigma, Of: func(dst []float64, record []Example) {
		for _, e := range record {
			if len(e.Columns[column]) != size {
				panic("a column of another size")
			}
			for i, v := range e.Columns[column] {
				dst[i] += float64(v) / float64(len(record))
			}
		}
	}}
}

// right counts the labels that an example's output answers: the output has the
// same number of scores for each of them.
func right(labels, output []float32) int {
	width, n := len(output)/len(labels), 0
	for i, l := range labels {
		if argmax(output[i*width:(i+1)*width]) == int(l) {
			n++
		}
	}
	return n
}

// argmax is the place of the largest number; NaN is never larger.
func argmax(x []float32) int {
	best := 0
	for i, v := range x {
		if v > x[best] {
			best = i
		}
	}
	return best
}
