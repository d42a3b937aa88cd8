package network

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/perexample"

	G "gorgonia.org/gorgonia"
)

// Part is the mean or the variance of a layer.
type Part struct {
	Name   string
	Shape  []int
	Values []float32
}

// Running are the running means and variances of a network's batch normalization. They
// change between lots only.
type Running struct {
	numbers  []float32   // values and average, as a checkpoint contains them
	values   []float32   // one after the other
	parts    []Part      // Values are parts of values: the mean and the variance of each layer
	inputs   [][]float32 // [part]: memory of the executable
	order    []int       // [parameter of the network]: its part, or -1 if it is trained
	average  []float32   // moving average of values; empty if the run keeps none
	averages []Part      // [part]: Values are parts of average
}

// newRunning returns the running statistics with their initial values; nil if the network
// has none. columns is the number of the network's inputs. With averaged it keeps their average.
func newRunning(net *perexample.Network, e plan.Executable, columns int, averaged bool) (*Running, error) {
	if len(net.BatchNorms) == 0 {
		return nil, nil
	}
	s := &Running{}
	var nodes G.Nodes
	for _, b := range net.BatchNorms {
		nodes = append(nodes, b.Mean, b.Variance)
	}
	for k, n := range nodes {
		initial, err := op.Values(n)
		if err != nil {
			return nil, fmt.Errorf("running statistic %s: %w", n.Name(), err)
		}
		if !areFinite(initial) || k%2 == 1 && slices.Min(initial) < 0 {
			return nil, fmt.Errorf("running statistic %s starts with a value that is not possible: a variance is a finite number of at least 0", n.Name())
		}
		s.numbers = append(s.numbers, initial...)
		s.inputs = append(s.inputs, e.Input(columns+k))
	}
	size := len(s.numbers)
	if averaged {
		s.numbers = append(s.numbers, s.numbers...)
	}
	s.values, s.average = s.numbers[:size], s.numbers[size:]
	at := 0
	for _, n := range nodes {
		size := n.Shape().TotalSize()
		part := func(of []float32) Part {
			return Part{Name: n.Name(), Shape: n.Shape(), Values: of[at : at+size : at+size]}
		}
		if s.parts = append(s.parts, part(s.values)); averaged {
			s.averages = append(s.averages, part(s.average))
		}
		at += size
	}
	for _, p := range net.Params {
		s.order = append(s.order, slices.Index(nodes, p))
	}
	s.load()
	return s, nil
}

// load gives the executable the values.
func (s *Running) load() {
	for k, p := range s.parts {
		copy(s.inputs[k], p.Values)
	}
}

// Restore sets the values of a checkpoint, and their average.
func (s *Running) Restore(numbers []float32) {
	if s == nil {
		return
	}
	copy(s.numbers, numbers)
	s.load()
}

// Count returns the number of statistics.
func (s *Running) Count() int {
	if s == nil {
		return 0
	}
	return len(s.parts)
}

// All returns the values, then their average if there is one; nil if the network has no statistics.
func (s *Running) All() []float32 {
	if s == nil {
		return nil
	}
	return s.numbers
}

// UpdateAverage updates the average after the lot of a step, counted from 1.
func (s *Running) UpdateAverage(a plan.Average, step int) error {
	if s == nil || len(s.average) == 0 {
		return nil
	}
	return a.Apply(step, s.average, s.values)
}

// Parts returns the means and variances of the layers, or their averages.
func (s *Running) Parts(averaged bool) []Part {
	if averaged {
		return s.averages
	}
	return s.parts
}

// Order returns, for each parameter of the network, which of Parts it is; -1 where it is trained. It is nil
// where the network has no running statistics.
func (s *Running) Order() []int {
	if s == nil {
		return nil
	}
	return s.order
}

const (
	leastRate             = 0.1 // of a running statistic
	leastVarianceFactor   = 0.25
	largestVarianceFactor = 4
)

// Update moves the values by the n-th release, whose numbers have noise of this deviation.
func (s *Running) Update(released []float64, deviation float64, n int) {
	rate := max(leastRate, 1/float64(n))
	at := 0
	for k := 0; k < len(s.parts); k += 2 {
		means, variances := s.parts[k].Values, s.parts[k+1].Values
		for c := range means {
			d, square := released[at+c], released[at+len(means)+c]
			v := float64(variances[c])
			means[c] = limit(float64(means[c]) + rate*d*math.Sqrt(v))
			factor := 1 + rate*(square-max(0, d*d-deviation*deviation))
			variances[c] = limit(v * min(largestVarianceFactor, max(leastVarianceFactor, factor)))
		}
		at += 2 * len(means)
	}
	s.load()
}

// limit rounds to float32 and keeps the number far from overflow: a released number is finite, and
// so are running statistics.
func limit(x float64) float32 { return float32(min(1e30, max(-1e30, x))) }
