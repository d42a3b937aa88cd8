//go:build gpu

package cuda

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/noise"
)

// releaseBlock is how many elements a block of kernels/release.cu takes.
const releaseBlock = 8 * noise.Grain

// A vector is no longer than a stream.
const _ = uint64(noise.MaxValues - mostElements)

// releaser launches the one kernel that noises all sums and moves all weights.
type releaser struct {
	machine *Machine
	kernel  driver.Kernel
	slots   int
	blocks  int
	sigma   []float32 // what the device has of it
	args    *releaseArgs
}

// releaseArgs is struct Release of kernels/release.cu, rewritten in place for every
// release.
type releaseArgs struct {
	Vectors, Owner, Sigma      driver.Pointer
	Key                        noise.Key
	Lot                        [2]uint32
	Rule                       int32
	Scale, Rate, Shrink, Decay float32
	Keep1, Take1, Keep2, Take2 float32
	Root2, Epsilon, Average    float32
}

// releaseVector is struct Vector of kernels/release.cu.
type releaseVector struct {
	Weights, Sum, Average, First, Second driver.Pointer
	Size, Block                          int32
}

// releaseRules are numbered as in kernels/release.cu.
var releaseRules = map[optim.Kind]int32{
	optim.KindSGD: 0, optim.KindMomentum: 1, optim.KindNesterov: 2, optim.KindAdam: 3, optim.KindAdamW: 3,
	optim.KindRMSProp: 4, optim.KindAdagrad: 4,
}

// prepare lays out the tables of vectors and blocks.
func (r *releaser) prepare(m *Machine, o optim.Optimizer) (err error) {
	*r = releaser{machine: m, slots: o.Slots(), sigma: make([]float32, len(m.trained)), args: &releaseArgs{}}
	if r.kernel, err = m.device.Kernel("release"); err != nil {
		return err
	}
	vectors, owner := make([]releaseVector, len(m.trained)), []int32{}
	for i, t := range m.trained {
		if t.sum == 0 {
			continue
		}
		v := releaseVector{Weights: t.weights, Sum: t.sum, Average: t.average, Size: int32(t.size), Block: int32(len(owner))}
		switch {
		case r.slots == 2:
			v.First, v.Second = t.slots[0], t.slots[1]
		case r.slots == 1 && releaseRules[o.Kind] == releaseRules[optim.KindRMSProp]:
			v.Second = t.slots[0]
		case r.slots == 1:
			v.First = t.slots[0]
		}
		vectors[i] = v
		for range (t.size + releaseBlock - 1) / releaseBlock {
			owner = append(owner, int32(i))
		}
	}
	if r.blocks = len(owner); r.blocks == 0 {
		return nil
	}
	table := unsafe.Slice((*byte)(unsafe.Pointer(&vectors[0])), len(vectors)*int(unsafe.Sizeof(vectors[0])))
	for _, x := range []struct {
		at      *driver.Pointer
		content []byte
	}{{&r.args.Vectors, table}, {&r.args.Owner, bytesOf(owner)}, {&r.args.Sigma, bytesOf(r.sigma)}} {
		if *x.at, err = m.alloc(len(x.content)); err != nil {
			return err
		}
		if err = m.upload(*x.at, x.content); err != nil {
			return err
		}
	}
	return nil
}

// run launches a release and does not wait for it. The noise is that of package
// noise: element i of vector v is noised by normal i of the stream (Release, lot, v).
// The key is the launch's argument, wiped from our copy as soon as the launch is
// queued: it lies in no memory that this package takes on the device, and in no graph.
// How long the driver keeps a launch's arguments is not known to us.
func (r *releaser) run(now *plan.Release) error {
	if r.blocks == 0 {
		return nil
	}
	if err := r.check(now); err != nil {
		return err
	}
	if err := r.noise(now); err != nil {
		return err
	}
	r.optimizer(now)
	a := r.args
	packed := unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
	err := r.machine.device.Launch(r.kernel, dim{uint32(r.blocks), 1, 1}, dim{128, 1, 1}, packed)
	a.Key = noise.Key{}
	return err
}

func (r *releaser) check(now *plan.Release) error {
	switch {
	case now.Step < 1:
		return fmt.Errorf("cuda: release at step %d; steps are numbered from 1", now.Step)
	case now.Optimizer.Slots() != r.slots:
		return fmt.Errorf("cuda: %s keeps %d values a weight, this machine has %d", now.Optimizer.Kind, now.Optimizer.Slots(), r.slots)
	case len(now.Sigma) != len(r.sigma):
		return fmt.Errorf("cuda: %d standard deviations for %d vectors", len(now.Sigma), len(r.sigma))
	}
	if now.Average.Decay > 0 {
		for _, t := range r.machine.trained {
			if t.sum != 0 && t.average == 0 {
				return fmt.Errorf("cuda: an average of the weights is asked for, and this machine keeps none")
			}
		}
	}
	return nil
}

// noise sets the stream, and brings the standard deviations to the device where
// they are others than before.
func (r *releaser) noise(now *plan.Release) error {
	noisy, changed := false, false
	for v, s := range now.Sigma {
		if !(s >= 0) {
			return fmt.Errorf("cuda: vector %d is to be released with noise of a standard deviation of %v: want 0 or more", v, s)
		}
		noisy = noisy || s > 0
		changed = changed || float32(s) != r.sigma[v]
	}
	if noisy {
		if now.Source == nil {
			return fmt.Errorf("cuda: a release with noise and without a source of it")
		}
		nonce, err := noise.Stream{Purpose: noise.Release, Lot: now.Lot}.NormalsNonce()
		if err != nil {
			return err
		}
		r.args.Key, r.args.Lot = now.Source.Key(), [2]uint32{nonce[1], nonce[2]}
	}
	if !changed {
		return nil
	}
	for v, s := range now.Sigma {
		r.sigma[v] = float32(s)
	}
	return r.machine.upload(r.args.Sigma, bytesOf(r.sigma))
}

// optimizer turns the optimiser's numbers into the kernel's, each rounded once, as
// in package optim.
func (r *releaser) optimizer(now *plan.Release) {
	o, a := now.Optimizer, r.args
	a.Rule = releaseRules[o.Kind]
	a.Scale, a.Rate, a.Decay, a.Shrink = float32(now.Scale), float32(now.Rate), float32(o.WeightDecay), 1
	a.Keep1, a.Take1, a.Keep2, a.Take2 = float32(o.Beta1), float32(1-o.Beta1), float32(o.Beta2), float32(1-o.Beta2)
	a.Root2, a.Epsilon, a.Average = 1, float32(o.Epsilon), 0
	switch o.Kind {
	case optim.KindMomentum, optim.KindNesterov:
		a.Keep1 = float32(o.Momentum)
	case optim.KindAdagrad:
		a.Keep2, a.Take2 = 1, 1
	case optim.KindAdamW:
		a.Decay, a.Shrink = 0, float32(1-now.Rate*o.WeightDecay)
		fallthrough
	case optim.KindAdam:
		a.Rate = float32(now.Rate / (1 - math.Pow(o.Beta1, float64(now.Step))))
		a.Root2 = float32(1 / math.Sqrt(1-math.Pow(o.Beta2, float64(now.Step))))
	}
	if now.Average.Decay > 0 {
		a.Average = float32(now.Average.Weight(now.Step))
	}
}

func (r *releaser) close() {}
