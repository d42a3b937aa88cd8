package drawdiscard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/dptrain/dptrain/noise"
)

// MaxInstances is the largest number of instances of a model.
const MaxInstances = 10_000

// Instance is one version of a model. The weights of an instance that is in a set do not
// change.
type Instance struct {
	Weights []float32
	Update  uint64    // the number of the update that made it; 0: the start
	Born    time.Time // when it entered the set; zero where the caller keeps no time
}

// Instances is the set of the k instances of a model. Its methods are safe for concurrent use:
// a slot is an atomic pointer, so a reader sees a whole instance or another whole instance. The
// memory is k times the weights.
type Instances struct {
	slots   []atomic.Pointer[Instance]
	weights int
}

// NewInstances returns k instances of the initial weights plus Gaussian noise of the variance
// StationaryVariance(k, updateVariance), so that the variance among the instances stays where
// it starts. The noise is public and comes from src.
func NewInstances(initial []float32, k int, updateVariance float64, src *noise.Source) (*Instances, error) {
	if !(updateVariance >= 0 && updateVariance <= math.MaxFloat32) {
		return nil, fmt.Errorf("drawdiscard: the variance of an update is %v; it must be a finite number, 0 or more", updateVariance)
	}
	if k < 1 || k > MaxInstances {
		return nil, fmt.Errorf("drawdiscard: %d instances; use 1 to %d", k, MaxInstances)
	}
	all := make([]*Instance, k)
	deviation := float32(math.Sqrt(StationaryVariance(k, updateVariance)))
	for i := range all {
		w := make([]float32, len(initial))
		if err := src.Normals(w, noise.Stream{Purpose: noise.Release, Vector: uint32(i)}, 0); err != nil {
			return nil, err
		}
		for j := range w {
			w[j] = initial[j] + deviation*w[j]
		}
		all[i] = &Instance{Weights: w}
	}
	return RestoreInstances(all)
}

// RestoreInstances returns the set of the given instances, in their order. The caller must not
// change their weights afterwards.
func RestoreInstances(all []*Instance) (*Instances, error) {
	if len(all) < 1 || len(all) > MaxInstances {
		return nil, fmt.Errorf("drawdiscard: %d instances; use 1 to %d", len(all), MaxInstances)
	}
	s := &Instances{slots: make([]atomic.Pointer[Instance], len(all)), weights: len(all[0].Weights)}
	for i, instance := range all {
		if len(instance.Weights) != s.weights || s.weights == 0 {
			return nil, fmt.Errorf("drawdiscard: instance %d has %d weights, and instance 0 has %d; all need the same number, at least 1", i, len(instance.Weights), s.weights)
		}
		s.slots[i].Store(instance)
	}
	return s, nil
}

// Count is k, the number of instances.
func (s *Instances) Count() int { return len(s.slots) }

// Weights is the number of weights of an instance.
func (s *Instances) Weights() int { return s.weights }

// At returns the instance in a slot, from 0 to Count()-1.
func (s *Instances) At(slot int) *Instance { return s.slots[slot].Load() }

// Draw returns a uniformly random instance.
func (s *Instances) Draw() *Instance { return s.At(rand.IntN(len(s.slots))) }

// Discard puts next in the place of a uniformly random instance, which it returns.
func (s *Instances) Discard(next *Instance) *Instance {
	return s.Swap(rand.IntN(len(s.slots)), next)
}

// Swap puts next in a slot and returns the instance that was there. A simulation with one
// goroutine can reuse the memory of that instance; a concurrent reader may still read it.
func (s *Instances) Swap(slot int, next *Instance) *Instance {
	if len(next.Weights) != s.weights {
		panic(fmt.Sprintf("drawdiscard: an instance of %d weights in a set of %d", len(next.Weights), s.weights))
	}
	return s.slots[slot].Swap(next)
}

// Average writes the mean of the instances: the model for predictions.
func (s *Instances) Average(dst []float32) {
	sum := make([]float64, s.weights)
	for i := range s.slots {
		for j, w := range s.slots[i].Load().Weights {
			sum[j] += float64(w)
		}
	}
	for j, v := range sum {
		dst[j] = float32(v / float64(len(s.slots)))
	}
}

// Moments writes the mean and the unbiased sample variance of each weight among the
// instances. The variance of one instance is 0. The instances are read one after another, so
// under concurrent updates the moments may be of a set that never existed as a whole.
func (s *Instances) Moments(mean, variance []float64) {
	clear(mean)
	clear(variance)
	for i := range s.slots { // Welford 1962: no cancellation
		n := float64(i + 1)
		for j, w := range s.slots[i].Load().Weights {
			d := float64(w) - mean[j]
			mean[j] += d / n
			variance[j] += d * (float64(w) - mean[j])
		}
	}
	for j := range variance {
		variance[j] /= math.Max(1, float64(len(s.slots)-1))
	}
}

// Spread is the mean over all weights of the sample variance among the instances.
func (s *Instances) Spread() float64 {
	mean, variance := make([]float64, s.weights), make([]float64, s.weights)
	s.Moments(mean, variance)
	sum := 0.0
	for _, v := range variance {
		sum += v
	}
	return sum / float64(s.weights)
}
