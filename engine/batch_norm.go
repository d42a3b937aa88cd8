package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/perexample"

	G "gorgonia.org/gorgonia"
)

// batchStatisticsName is the statistic's name in the ledger.
const batchStatisticsName = "batch-statistics"

// BatchStatistics returns the statistic that moves the running statistics of a network with
// layer.BatchNorm. Such a network requires it.
//
// A record's vector has two numbers for each channel of each such layer: the means, over the
// channel and the record's examples, of the activations as the layer standardizes them, and of
// their squares minus 1. The vector is clipped to bound; 0 stands for the root of its size, the
// norm of numbers that are all 1. The sum is released like every [Statistic], with sigma, and the
// ledger states it. The running statistics are functions of releases and of public initial values.
// The lot's gradients are those of the previous ones, which are constants: so no example changes
// the gradient of another, and the forward pass needs no release of its own.
//
// With d and s the released means of a channel with running mean m and variance v, the next ones
// are m + r·d·√v and v·(1 + r·(s - d²)), where d² is without the variance of the noise. The rate r
// is 1/n for the n-th release, and at least 0.1 (PyTorch's momentum). A factor of v is limited to
// [1/4, 4].
//
// A run with Optimization.Average averages the running statistics in the same way as the weights, after
// each lot, and its result has both averages. To first order in the change of the weights, the
// statistics of averaged weights are the averages of the statistics; those of the last weights are
// not. Training computes with the last running statistics.
func BatchStatistics(network perexample.Build, bound, sigma float64) (Statistic, error) {
	net, err := network.ForBatch(1)
	if err != nil {
		return Statistic{}, err
	}
	size := sizeOfBatchStatistics(net)
	if size == 0 {
		return Statistic{}, fmt.Errorf("the network has no batch normalization with running statistics: use layer.BatchNorm, or drop the statistic")
	}
	if bound == 0 {
		bound = math.Sqrt(float64(size))
	}
	return Statistic{Name: batchStatisticsName, Size: size, Sensitivity: bound, Noise: sigma, running: true,
		Of: func(dst []float64, record []load.Example) {
			for _, e := range record {
				at := 0
				for i, channels := range e.Observed {
					for c, v := range channels {
						dst[at+c] += (float64(v) - float64(i%2)) / float64(len(record)) // of squares 1 is expected
					}
					at += len(channels)
				}
			}
		}}, nil
}

func sizeOfBatchStatistics(net *perexample.Network) (size int) {
	for _, b := range net.BatchNorms {
		size += 2 * b.Mean.Shape().TotalSize()
	}
	return size
}

// checkBatchStatistics checks that a network with running statistics has one statistic for them.
func (c *Config) checkBatchStatistics(net *perexample.Network) error {
	size, count := sizeOfBatchStatistics(net), 0
	for _, s := range c.Statistics {
		if !s.running {
			continue
		}
		if count++; s.Size != size {
			return fmt.Errorf("statistic %s has %d numbers, and the network's batch normalization needs %d: make it by engine.BatchStatistics from the same network", s.Name, s.Size, size)
		}
	}
	switch {
	case size > 0 && count == 0:
		return fmt.Errorf("the network has batch normalization, whose running statistics come from a private statistic: add engine.BatchStatistics to Config.Statistics, or use group normalization")
	case count > 1:
		return fmt.Errorf("%d statistics move the running statistics: give one engine.BatchStatistics", count)
	case size > 0 && c.Projection.Directions > 0:
		return fmt.Errorf("a projection in front of batch normalization is not supported: use layer normalization")
	}
	return nil
}

// runningStatistics are the running means and variances of a network's batch normalization. They
// change between lots only.
type runningStatistics struct {
	numbers  []float32   // values and average, as a checkpoint contains them
	values   []float32   // one after the other
	parts    []Parameter // Values are parts of values: the mean and the variance of each layer
	inputs   [][]float32 // [part]: memory of the executable
	order    []int       // [parameter of the network]: its part, or -1 if it is trained
	average  []float32   // moving average of values; empty if the run keeps none
	averages []Parameter // [part]: Values are parts of average
}

// newRunningStatistics returns the running statistics with their initial values; nil if the network
// has none. columns is the number of the network's inputs. With averaged it keeps their average.
func newRunningStatistics(net *perexample.Network, e plan.Executable, columns int, averaged bool) (*runningStatistics, error) {
	if len(net.BatchNorms) == 0 {
		return nil, nil
	}
	s := &runningStatistics{}
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
		part := func(of []float32) Parameter {
			return Parameter{Name: n.Name(), Shape: n.Shape(), Values: of[at : at+size : at+size]}
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
func (s *runningStatistics) load() {
	for k, p := range s.parts {
		copy(s.inputs[k], p.Values)
	}
}

// restore sets the values of a checkpoint, and their average.
func (s *runningStatistics) restore(numbers []float32) {
	if s == nil {
		return
	}
	copy(s.numbers, numbers)
	s.load()
}

// count returns the number of statistics.
func (s *runningStatistics) count() int {
	if s == nil {
		return 0
	}
	return len(s.parts)
}

// all returns the values, then their average if there is one; nil if the network has no statistics.
func (s *runningStatistics) all() []float32 {
	if s == nil {
		return nil
	}
	return s.numbers
}

// updateAverage updates the average after the lot of a step, counted from 1.
func (s *runningStatistics) updateAverage(a plan.Average, step int) error {
	if s == nil || len(s.average) == 0 {
		return nil
	}
	return a.Apply(step, s.average, s.values)
}

// insert returns the network's parameters: the trained ones and the running statistics, or their
// averages.
func (s *runningStatistics) insert(trained []Parameter, averaged bool) []Parameter {
	if s == nil {
		return trained
	}
	parts := s.parts
	if averaged {
		parts = s.averages
	}
	var all []Parameter
	for _, part := range s.order {
		if part < 0 {
			all, trained = append(all, trained[0]), trained[1:]
		} else {
			all = append(all, parts[part])
		}
	}
	return all
}

const (
	leastRate             = 0.1 // of a running statistic
	leastVarianceFactor   = 0.25
	largestVarianceFactor = 4
)

// update moves the values by the n-th release, whose numbers have noise of this deviation.
func (s *runningStatistics) update(released []float64, deviation float64, n int) {
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
