//go:build gpu

package cuda

import (
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/noise"
)

// releaseBlock is how many elements a block of kernels/release.cu takes.
const releaseBlock = 8 * noise.NormalBatch

// A vector is no longer than a stream.
const _ = uint64(noise.MaxValues - maxElements)

// releaser launches the one kernel that noises all sums and moves all weights: once for
// each pace that vectors go at.
type releaser struct {
	memory   *deviceMemory
	kernel   driver.Kernel
	slots    int
	vectors  []releaseVector
	owner    driver.Pointer // of the blocks of all launches
	launches []releaseLaunch
	paces    []plan.ParamGroup // that the launches were laid out for
	sigma    []float32         // what the device has of it
	args     *releaseArgs
}

// releaseLaunch moves the vectors of one pace.
type releaseLaunch struct{ vector, first, blocks int } // one of them; its blocks

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
var releaseRules = map[plan.OptimizerKind]int32{
	plan.SGD: 0, plan.Momentum: 1, plan.Nesterov: 2, plan.Adam: 3, plan.AdamW: 3,
	plan.RMSProp: 4, plan.Adagrad: 4,
}

// prepare takes the tables of vectors and blocks, and lays them out for one pace.
func (r *releaser) prepare(m *deviceMemory, parameters []parameterMemory, o plan.Optimizer) (err error) {
	*r = releaser{
		memory: m, slots: o.Slots(), vectors: make([]releaseVector, len(parameters)), sigma: make([]float32, len(parameters)), args: &releaseArgs{},
	}
	if r.kernel, err = m.device.Kernel("release"); err != nil {
		return err
	}
	blocks := 0
	for i, t := range parameters {
		if t.sum == 0 {
			continue
		}
		v := releaseVector{Weights: t.weights, Sum: t.sum, Average: t.average, Size: int32(t.size)}
		switch {
		case r.slots == 2:
			v.First, v.Second = t.slots[0], t.slots[1]
		case r.slots == 1 && releaseRules[o.Kind] == releaseRules[plan.RMSProp]:
			v.Second = t.slots[0]
		case r.slots == 1:
			v.First = t.slots[0]
		}
		r.vectors[i] = v
		blocks += v.blocks()
	}
	if blocks == 0 {
		return nil
	}
	for _, x := range []struct {
		at    *driver.Pointer
		bytes int
	}{{&r.args.Vectors, len(r.vectors) * int(unsafe.Sizeof(r.vectors[0]))}, {&r.owner, 4 * blocks}, {&r.args.Sigma, 4 * len(r.sigma)}} {
		if *x.at, err = m.alloc(x.bytes); err != nil {
			return err
		}
	}
	if err = m.upload(r.args.Sigma, bytesOf(r.sigma)); err != nil {
		return err
	}
	return r.layOut(nil)
}

func (v releaseVector) blocks() int { return ceil(int(v.Size), releaseBlock) }

// layOut lays out the launches: one for each pace, of the blocks of its vectors.
func (r *releaser) layOut(paces []plan.ParamGroup) error {
	var launches []releaseLaunch
	var owner []int32
	placed := make([]bool, len(r.vectors))
	for i := range r.vectors {
		if placed[i] || r.vectors[i].Size == 0 {
			continue
		}
		l := releaseLaunch{vector: i, first: len(owner)}
		for k := i; k < len(r.vectors); k++ {
			if placed[k] || paces != nil && paces[k] != paces[i] {
				continue
			}
			placed[k] = true
			r.vectors[k].Block = int32(l.blocks)
			owner = append(owner, slices.Repeat([]int32{int32(k)}, r.vectors[k].blocks())...)
			l.blocks = len(owner) - l.first
		}
		launches = append(launches, l)
	}
	table := unsafe.Slice((*byte)(unsafe.Pointer(&r.vectors[0])), len(r.vectors)*int(unsafe.Sizeof(r.vectors[0])))
	if err := r.memory.upload(r.args.Vectors, table); err != nil {
		return err
	}
	if err := r.memory.upload(r.owner, bytesOf(owner)); err != nil {
		return err
	}
	r.launches, r.paces = launches, slices.Clone(paces)
	return nil
}

// run launches a release and does not wait for it. The noise is that of package
// noise: element i of vector v is noised by normal i of the stream (Release, lot, v).
// The key is the launches' argument, wiped from our copy as soon as they are
// queued: it lies in no memory that this package takes on the device, and in no graph.
// How long the driver keeps a launch's arguments is not known to us.
func (r *releaser) run(now *plan.Release) error {
	if len(r.launches) == 0 {
		return nil
	}
	if err := r.check(now); err != nil {
		return err
	}
	if !slices.Equal(now.ParamGroups, r.paces) {
		if err := r.layOut(now.ParamGroups); err != nil {
			return err
		}
	}
	a := r.args
	defer func() { a.Key = noise.Key{} }()
	if err := r.setNoise(now); err != nil {
		return err
	}
	packed := unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
	for _, l := range r.launches {
		r.setOptimizer(now, l.vector)
		a.Owner = r.owner + driver.Pointer(4*l.first)
		if err := r.memory.device.Launch(r.kernel, dim{uint32(l.blocks), 1, 1}, dim{128, 1, 1}, packed); err != nil {
			return err
		}
	}
	return nil
}

func (r *releaser) check(now *plan.Release) error {
	switch {
	case now.Step < 1:
		return fmt.Errorf("cuda: release at step %d; steps are numbered from 1", now.Step)
	case now.Optimizer.Slots() != r.slots:
		return fmt.Errorf("cuda: %s keeps %d values a weight, this machine has %d", now.Optimizer.Kind, now.Optimizer.Slots(), r.slots)
	case len(now.Sigma) != len(r.sigma):
		return fmt.Errorf("cuda: %d standard deviations for %d vectors", len(now.Sigma), len(r.sigma))
	case now.ParamGroups != nil && len(now.ParamGroups) != len(r.vectors):
		return fmt.Errorf("cuda: %d paces for %d vectors", len(now.ParamGroups), len(r.vectors))
	}
	if now.Average.Decay > 0 {
		for _, v := range r.vectors {
			if v.Sum != 0 && v.Average == 0 {
				return fmt.Errorf("cuda: an average of the weights is asked for, and this machine keeps none")
			}
		}
	}
	return nil
}

// setNoise sets the stream, and brings the standard deviations to the device where
// they are others than before.
func (r *releaser) setNoise(now *plan.Release) error {
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
	return r.memory.upload(r.args.Sigma, bytesOf(r.sigma))
}

// setOptimizer turns the numbers of a vector's optimiser into the kernel's, each rounded
// once, as in package optim.
func (r *releaser) setOptimizer(now *plan.Release, vector int) {
	o, rate := now.OptimizerOf(vector)
	a := r.args
	a.Rule = releaseRules[o.Kind]
	a.Scale, a.Rate, a.Decay, a.Shrink = float32(now.Scale), float32(rate), float32(o.WeightDecay), 1
	a.Keep1, a.Take1, a.Keep2, a.Take2 = float32(o.Beta1), float32(1-o.Beta1), float32(o.Beta2), float32(1-o.Beta2)
	a.Root2, a.Epsilon, a.Average = 1, float32(o.Epsilon), 0
	switch o.Kind {
	case plan.Momentum, plan.Nesterov:
		a.Keep1 = float32(o.Momentum)
	case plan.Adagrad:
		a.Keep2, a.Take2 = 1, 1
	case plan.AdamW:
		a.Decay, a.Shrink = 0, float32(1-rate*o.WeightDecay)
		fallthrough
	case plan.Adam:
		a.Rate = float32(rate / (1 - math.Pow(o.Beta1, float64(now.Step))))
		a.Root2 = float32(1 / math.Sqrt(1-math.Pow(o.Beta2, float64(now.Step))))
	}
	if now.Average.Decay > 0 {
		a.Average = float32(now.Average.Weight(now.Step))
	}
}
