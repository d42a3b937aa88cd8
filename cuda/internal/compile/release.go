//go:build gpu

package compile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/random"
	"github.com/dptrain/dptrain/noise"
)

// releaseBlock is the number of elements that a block of kernels/release.cu processes.
const releaseBlock = 8 * random.NormalBatch

// A parameter is no longer than a noise stream.
const _ = uint64(noise.MaxValues - maxElements)

// releaser launches the kernel that adds noise to the sums and updates the weights, all or those of
// this rank's part, once for each parameter group.
type releaser struct {
	memory          *deviceMemory
	kernel          driver.Kernel
	slots           int
	parameters      []releaseParameter
	own             []elements     // of each parameter: those that are released
	blockParameters driver.Pointer // the parameter of each block of all launches
	launches        []releaseLaunch
	groups          []plan.RateFactors // for which the launches are laid out
	sigma           []float32          // on the device; nil if the program is exact
	args            *releaseArgs

	contributions *contributions // nil unless the program is exact
	rounding      *sumRounding   // nil unless the program is exact
}

// releaseLaunch updates the parameters of one group: parameter is one of them, first and
// blocks select its blocks. listed and capacity are its part of the lists of an exact program.
type releaseLaunch struct{ parameter, first, blocks, listed, capacity int }

// releaseArgs is struct Release of kernels/release.cu. It is rewritten in place for every
// release.
type releaseArgs struct {
	Parameters, BlockParameter, Sigma          driver.Pointer
	Roundings, Undecided, Remaining            driver.Pointer
	Counts, Published                          driver.Pointer
	Key                                        random.Key
	Lot, Digits                                [2]uint32
	Capacity, Rule                             int32
	Scale, Rate, Shrink, Decay                 float32
	Beta1, OneMinusBeta1, Beta2, OneMinusBeta2 float32
	Scale2, Epsilon, Average                   float32
}

// releaseParameter is struct Parameter of kernels/release.cu. Block is where the block of element 0 would be: below the
// first block of the launch where this rank releases later elements only.
type releaseParameter struct {
	Weights, Sum, Average, First, Second driver.Pointer
	Size, Block                          int32
}

// releaseRules are the numbers of kernels/release.cu.
var releaseRules = map[plan.OptimizerKind]int32{
	plan.SGD: 0, plan.Momentum: 1, plan.Nesterov: 2, plan.Adam: 3, plan.AdamW: 3,
	plan.RMSProp: 4, plan.Adagrad: 4,
}

// prepare allocates the tables of parameters and blocks, and lays them out for one group.
func (r *releaser) prepare(m *deviceMemory, parameters []parameterMemory, o plan.Optimizer, c *contributions) (err error) {
	*r = releaser{memory: m, slots: o.Slots(), parameters: make([]releaseParameter, len(parameters)),
		own: make([]elements, len(parameters)), args: &releaseArgs{}, contributions: c}
	kernel := "release"
	if c == nil {
		r.sigma = make([]float32, len(parameters))
	} else {
		kernel = "release_exact"
	}
	if r.kernel, err = m.device.Kernel(kernel); err != nil {
		return err
	}
	blocks := 0
	for i, t := range parameters {
		if t.sum == 0 {
			continue
		}
		v := releaseParameter{Weights: t.weights, Sum: t.sum, Average: t.average, Size: int32(t.size)}
		var slots []driver.Pointer // the kernel adds the number of the element in the parameter
		for _, slot := range t.slots {
			slots = append(slots, slot-driver.Pointer(4*t.own.from))
		}
		switch {
		case len(slots) == 2:
			v.First, v.Second = slots[0], slots[1]
		case len(slots) == 1 && releaseRules[o.Kind] == releaseRules[plan.RMSProp]:
			v.Second = slots[0]
		case len(slots) == 1:
			v.First = slots[0]
		}
		r.parameters[i], r.own[i] = v, t.own
		blocks += t.own.blocks()
	}
	if blocks == 0 {
		return nil
	}
	for _, x := range []struct {
		at    *driver.Pointer
		bytes int
	}{{&r.args.Parameters, len(r.parameters) * int(unsafe.Sizeof(r.parameters[0]))},
		{&r.blockParameters, 4 * blocks}, {&r.args.Sigma, 4 * len(r.sigma)}} {
		if *x.at, err = m.alloc(x.bytes); err != nil {
			return err
		}
	}
	if c != nil {
		r.rounding, err = newSumRounding(m, r.own)
		if err == nil {
			r.args.Roundings = r.rounding.table
		}
	} else {
		err = m.upload(r.args.Sigma, bytesOf(r.sigma))
	}
	return cmp.Or(err, r.layOut(nil))
}

// layOut arranges the launches: one for each parameter group, with the blocks of its
// parameters.
func (r *releaser) layOut(groups []plan.RateFactors) error {
	var launches []releaseLaunch
	var parameters []int32
	placed := make([]bool, len(r.parameters))
	listed := 0
	for i := range r.parameters {
		if placed[i] || r.own[i].size() == 0 {
			continue
		}
		l := releaseLaunch{parameter: i, first: len(parameters), listed: listed}
		for k := i; k < len(r.parameters); k++ {
			if placed[k] || groups != nil && groups[k] != groups[i] {
				continue
			}
			placed[k] = true
			r.parameters[k].Block = int32(l.blocks - r.own[k].from/releaseBlock)
			parameters = append(parameters, slices.Repeat([]int32{int32(k)}, r.own[k].blocks())...)
			l.blocks = len(parameters) - l.first
			l.capacity += r.own[k].undecided()
		}
		listed += l.capacity
		launches = append(launches, l)
	}
	if err := r.memory.upload(r.args.Parameters, bytesOf(r.parameters)); err != nil {
		return err
	}
	if err := r.memory.upload(r.blockParameters, bytesOf(parameters)); err != nil {
		return err
	}
	r.launches, r.groups = launches, slices.Clone(groups)
	return nil
}

// run launches a release, asynchronously. The noise is that of package noise: element i of
// parameter v gets normal i of the stream (Release, Lot, v). The key is passed as a launch
// argument, and this copy of it is wiped as soon as the launches are queued: it is in no
// memory that this package allocates on the device, and in no graph. We do not know how
// long the driver keeps a launch's arguments.
func (r *releaser) run(now *plan.Release) error {
	if len(r.launches) == 0 {
		return nil
	}
	if _, err := r.settle(); err != nil {
		return err
	}
	if err := r.check(now); err != nil {
		return err
	}
	if !slices.Equal(now.ParamGroups, r.groups) {
		if err := r.layOut(now.ParamGroups); err != nil {
			return err
		}
	}
	if err := r.replaceSums(now.Sums); err != nil {
		return err
	}
	a := r.args
	defer func() { a.Key = random.Key{} }()
	if r.rounding != nil {
		return r.runExact(now)
	}
	if err := r.setNoise(now); err != nil {
		return err
	}
	for i, l := range r.launches {
		r.setLaunch(now, i)
		if err := r.launch(r.kernel, l.blocks); err != nil {
			return err
		}
	}
	return nil
}

// replaceSums replaces the sums of this device by those of all ranks; nil: there is one rank.
func (r *releaser) replaceSums(all [][]int64) error {
	for i, sums := range all {
		if at := r.parameters[i].Sum; at != 0 {
			if err := r.memory.device.CopyIn(at, bytesOf(sums)); err != nil {
				return err
			}
		}
	}
	if all == nil {
		return nil
	}
	return r.memory.device.Synchronize() // the caller may change its sums
}

// launch launches a kernel with the current arguments.
func (r *releaser) launch(kernel driver.Kernel, blocks int) error {
	return r.memory.device.Launch(kernel, dim{uint32(blocks), 1, 1}, dim{128, 1, 1},
		unsafe.Slice((*byte)(unsafe.Pointer(r.args)), unsafe.Sizeof(*r.args)))
}

func (r *releaser) check(now *plan.Release) error {
	switch {
	case now.Step < 1:
		return fmt.Errorf("cuda: release at step %d: steps are numbered from 1", now.Step)
	case now.Optimizer.Slots() != r.slots && now.Optimizer.Kind != plan.SGD: // SGD ignores the state
		return fmt.Errorf("cuda: optimizer %s needs %d state values per weight, but this program was compiled with %d", now.Optimizer.Kind, now.Optimizer.Slots(), r.slots)
	case len(now.Sigma) != len(r.parameters):
		return fmt.Errorf("cuda: %d standard deviations for %d parameters", len(now.Sigma), len(r.parameters))
	case r.contributions != nil && len(now.Unit) != len(r.parameters):
		return fmt.Errorf("cuda: %d lattice steps for %d parameters of an exact program", len(now.Unit), len(r.parameters))
	case now.ParamGroups != nil && len(now.ParamGroups) != len(r.parameters):
		return fmt.Errorf("cuda: %d parameter groups for %d parameters", len(now.ParamGroups), len(r.parameters))
	}
	if now.Average.Decay > 0 {
		for _, v := range r.parameters {
			if v.Sum != 0 && v.Average == 0 {
				return fmt.Errorf("cuda: cannot average the weights: this program was compiled without an average")
			}
		}
	}
	return nil
}

// setNoise sets the noise stream, and uploads the standard deviations if they changed.
func (r *releaser) setNoise(now *plan.Release) error {
	noisy, changed := false, false
	for v, s := range now.Sigma {
		if !(s >= 0) {
			return fmt.Errorf("cuda: noise standard deviation of parameter %d is %v: want 0 or more", v, s)
		}
		noisy = noisy || s > 0
		changed = changed || float32(s) != r.sigma[v]
	}
	if noisy {
		if now.Source == nil {
			return fmt.Errorf("cuda: a release with noise needs a noise source")
		}
		nonce, err := random.NormalsNonce(noise.Stream{Purpose: noise.Release, Lot: now.Lot})
		if err != nil {
			return err
		}
		r.args.Key, r.args.Lot = random.KeyOf(now.Source), [2]uint32{nonce[1], nonce[2]}
	}
	if !changed {
		return nil
	}
	for v, s := range now.Sigma {
		r.sigma[v] = float32(s)
	}
	return r.memory.upload(r.args.Sigma, bytesOf(r.sigma))
}

// setOptimizer converts the optimiser of a parameter to the kernel's arguments, each
// rounded once, as in package optim.
func (r *releaser) setOptimizer(now *plan.Release, parameter int) {
	o, rate := now.OptimizerOf(parameter)
	a := r.args
	a.Rule = releaseRules[o.Kind]
	a.Scale, a.Rate, a.Decay, a.Shrink = float32(now.Scale), float32(rate), float32(o.WeightDecay), 1
	a.Beta1, a.OneMinusBeta1, a.Beta2, a.OneMinusBeta2 = float32(o.Beta1), float32(1-o.Beta1), float32(o.Beta2), float32(1-o.Beta2)
	a.Scale2, a.Epsilon, a.Average = 1, float32(o.Epsilon), 0
	switch o.Kind {
	case plan.Momentum, plan.Nesterov:
		a.Beta1 = float32(o.Momentum)
	case plan.Adagrad:
		a.Beta2, a.OneMinusBeta2 = 1, 1
	case plan.AdamW:
		a.Decay, a.Shrink = 0, float32(1-rate*o.WeightDecay)
		fallthrough
	case plan.Adam:
		a.Rate = float32(rate / (1 - math.Pow(o.Beta1, float64(now.Step))))
		a.Scale2 = float32(1 / math.Sqrt(1-math.Pow(o.Beta2, float64(now.Step))))
	}
	if now.Average.Decay > 0 {
		a.Average = float32(now.Average.Weight(now.Step))
	}
}
