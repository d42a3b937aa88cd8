package engine

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/perexample"
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
