//go:build gpu

package cuda

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/dptrain/dptrain/cuda/batch"
	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/noise"
)

// releaseBlock is the number of elements that a block of kernels/release.cu processes.
const releaseBlock = 8 * noise.NormalBatch

// A parameter is no longer than a noise stream.
const _ = uint64(noise.MaxValues - maxElements)

// releaser launches the kernel that adds noise to all sums and updates all weights, once
// for each parameter group.
type releaser struct {
	memory          *deviceMemory
	kernel          driver.Kernel
	slots           int
	parameters      []releaseParameter
	blockParameters driver.Pointer // the parameter of each block of all launches
	launches        []releaseLaunch
	groups          []plan.ParamGroup // for which the launches are laid out
	sigma           []float32         // on the device; nil if the program is exact
	args            *releaseArgs

	contributions *contributions // nil unless the program is exact
	rounded       roundedNoise   // of an exact program
	unit          []float64      // of an exact program: on the device
}

// releaseLaunch updates the parameters of one group: parameter is one of them, first and
// blocks select its blocks.
type releaseLaunch struct{ parameter, first, blocks int }

// releaseArgs is struct Release of kernels/release.cu. It is rewritten in place for every
// release.
type releaseArgs struct {
	Parameters, BlockParameter, Sigma, Unit    driver.Pointer
	Key                                        noise.Key
	Lot                                        [2]uint32
	Rule                                       int32
	Scale, Rate, Shrink, Decay                 float32
	Beta1, OneMinusBeta1, Beta2, OneMinusBeta2 float32
	Scale2, Epsilon, Average                   float32
}

// releaseParameter is struct Parameter of kernels/release.cu.
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
	*r = releaser{memory: m, slots: o.Slots(), parameters: make([]releaseParameter, len(parameters)), args: &releaseArgs{}, contributions: c}
	kernel := "release"
	if c == nil {
		r.sigma = make([]float32, len(parameters))
	} else {
		kernel, r.unit = "release_exact", make([]float64, len(parameters))
	}
	if r.kernel, err = m.device.Kernel(kernel); err != nil {
		return err
	}
	blocks := 0
	var sums []integerSums
	for i, t := range parameters {
		if t.sum == 0 {
			continue
		}
		v := releaseParameter{Weights: t.weights, Sum: t.sum, Average: t.average, Size: int32(t.size)}
		switch {
		case r.slots == 2:
			v.First, v.Second = t.slots[0], t.slots[1]
		case r.slots == 1 && releaseRules[o.Kind] == releaseRules[plan.RMSProp]:
			v.Second = t.slots[0]
		case r.slots == 1:
			v.First = t.slots[0]
		}
		r.parameters[i] = v
		blocks += v.blocks()
		sums = append(sums, integerSums{i, t.sum, t.size})
	}
	if blocks == 0 {
		return nil
	}
	for _, x := range []struct {
		at    *driver.Pointer
		bytes int
	}{{&r.args.Parameters, len(r.parameters) * int(unsafe.Sizeof(r.parameters[0]))}, {&r.blockParameters, 4 * blocks}, {&r.args.Sigma, 4 * len(r.sigma)}, {&r.args.Unit, 8 * len(r.unit)}} {
		if *x.at, err = m.alloc(x.bytes); err != nil {
			return err
		}
	}
	if c != nil {
		err = r.rounded.prepare(m, sums)
	} else {
		err = m.upload(r.args.Sigma, bytesOf(r.sigma))
	}
	return cmp.Or(err, r.layOut(nil))
}

func (v releaseParameter) blocks() int { return ceil(int(v.Size), releaseBlock) }

// layOut arranges the launches: one for each parameter group, with the blocks of its
// parameters.
func (r *releaser) layOut(groups []plan.ParamGroup) error {
	var launches []releaseLaunch
	var parameters []int32
	placed := make([]bool, len(r.parameters))
	for i := range r.parameters {
		if placed[i] || r.parameters[i].Size == 0 {
			continue
		}
		l := releaseLaunch{parameter: i, first: len(parameters)}
		for k := i; k < len(r.parameters); k++ {
			if placed[k] || groups != nil && groups[k] != groups[i] {
				continue
			}
			placed[k] = true
			r.parameters[k].Block = int32(l.blocks)
			parameters = append(parameters, slices.Repeat([]int32{int32(k)}, r.parameters[k].blocks())...)
			l.blocks = len(parameters) - l.first
		}
		launches = append(launches, l)
	}
	table := unsafe.Slice((*byte)(unsafe.Pointer(&r.parameters[0])), len(r.parameters)*int(unsafe.Sizeof(r.parameters[0])))
	if err := r.memory.upload(r.args.Parameters, table); err != nil {
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
	if err := r.check(now); err != nil {
		return err
	}
	if !slices.Equal(now.ParamGroups, r.groups) {
		if err := r.layOut(now.ParamGroups); err != nil {
			return err
		}
	}
	a := r.args
	defer func() { a.Key = noise.Key{} }()
	setNoise := r.setNoise
	if r.contributions != nil {
		setNoise = r.addRoundedNoise
	}
	if err := setNoise(now); err != nil {
		return err
	}
	packed := unsafe.Slice((*byte)(unsafe.Pointer(a)), unsafe.Sizeof(*a))
	for _, l := range r.launches {
		r.setOptimizer(now, l.parameter)
		a.BlockParameter = r.blockParameters + driver.Pointer(4*l.first)
		if err := r.memory.device.Launch(r.kernel, dim{uint32(l.blocks), 1, 1}, dim{128, 1, 1}, packed); err != nil {
			return err
		}
	}
	return nil
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

// addRoundedNoise adds noise to the integer sums of an exact program and waits for the result. It
// uploads the values of the released integers if they changed.
func (r *releaser) addRoundedNoise(now *plan.Release) error {
	if now.Source == nil {
		return fmt.Errorf("cuda: an exact release needs a noise source")
	}
	if err := r.contributions.queueCounts(); err != nil {
		return err
	}
	stream := func(v int) (noise.RoundedGaussian, noise.Stream) {
		return noise.RoundedGaussian{Sigma: now.Sigma[v]}, now.Stream(v)
	}
	if err := r.rounded.add(now.Source, stream); err != nil {
		return err
	}
	r.contributions.addCounts()
	changed := false
	for _, s := range r.rounded.sums {
		gaussian, _ := stream(s.vector)
		unit := math.Ldexp(now.Unit[s.vector]*now.Scale, gaussian.Grid())
		changed = changed || unit != r.unit[s.vector]
		r.unit[s.vector] = unit
	}
	if !changed {
		return nil
	}
	return r.memory.upload(r.args.Unit, bytesOf(r.unit))
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

// A vector of sums is no longer than a stream of rounded noise.
const _ = uint64(noise.MaxRounded - maxElements)

// roundedNoise replaces integer sums on the device by round((f + N)/g), with the bits of
// noise.RoundedGaussian. The device decides all but about one value in 10^11. The host decides the others.
type roundedNoise struct {
	memory                    *deviceMemory
	roundSums, roundUndecided driver.Kernel
	sums                      []integerSums
	batches                   []roundingBatch
	args                      []roundingArgs // [sums]; without keys
	counts                    driver.Pointer // [sums][2]: the lengths of both lists
	counters                  []byte         // page-locked copy of counts
}

// roundingBatch is the arguments of a launch of each kernel, for the vectors from one on. They are
// rewritten in place.
type roundingBatch struct {
	first           int
	sums, undecided batchArgument
}

// batchArgument is the argument of a batch with this many blocks.
type batchArgument struct {
	bytes  []byte
	blocks int
}

// integerSums is a vector of integer sums on the device.
type integerSums struct {
	vector int // of the noise stream
	at     driver.Pointer
	size   int
}

// roundingArgs is struct Rounding of kernels/rounded.h.
type roundingArgs struct {
	Sums, Undecided, Remaining, Counts driver.Pointer
	Steps                              float64
	Size, Capacity                     int32
	Grid, Bits                         int32
	Scale, Slope, Base                 float32
	Key                                noise.Key
	Words, Digits                      [3]uint32
}

const roundingArgBytes = int(unsafe.Sizeof(roundingArgs{}))

// of is the arguments of part i.
func (a batchArgument) of(i int) *roundingArgs {
	return (*roundingArgs)(unsafe.Pointer(&a.bytes[batch.Offset(roundingArgBytes, i)]))
}

// prepare allocates the lists of undecided values. A thousandth of the values is undecided in
// float32. The capacity of a list is that of its vector or many times that: it overflows with a
// probability below 2^-1000.
func (r *roundedNoise) prepare(m *deviceMemory, sums []integerSums) (err error) {
	*r = roundedNoise{memory: m, sums: sums, args: make([]roundingArgs, len(sums))}
	if r.roundSums, err = m.device.Kernel("round_sums"); err != nil {
		return err
	}
	if r.roundUndecided, err = m.device.Kernel("round_undecided"); err != nil {
		return err
	}
	list := func(capacity int) driver.Pointer {
		p, e := m.alloc(4 * capacity)
		err = cmp.Or(err, e)
		return p
	}
	r.counts = list(2 * len(sums))
	for i, s := range sums {
		capacity := min(s.size, s.size/64+4096)
		r.args[i] = roundingArgs{
			Sums: s.at, Size: int32(s.size), Capacity: int32(capacity),
			Undecided: list(capacity), Remaining: list(capacity), Counts: r.counts + driver.Pointer(8*i),
		}
	}
	for first := 0; first < len(sums); first += batch.Capacity(roundingArgBytes) {
		var rounding, deciding batch.Table
		for _, s := range sums[first:min(len(sums), first+batch.Capacity(roundingArgBytes))] {
			threads := ceil(s.size, noise.NormalBatch) * 16
			rounding.Add(dim{uint32(ceil(threads, 128)), 1, 1}, make([]byte, roundingArgBytes))
			// About one thread for each undecided value; more values take another turn.
			deciding.Add(dim{uint32(ceil(s.size, 128*1024)), 1, 1}, make([]byte, roundingArgBytes))
		}
		r.batches = append(r.batches, roundingBatch{first,
			batchArgument{rounding.Argument(), rounding.Blocks()}, batchArgument{deciding.Argument(), deciding.Blocks()},
		})
	}
	if err == nil {
		r.counters, err = m.allocPinned(8 * len(sums))
	}
	return err
}

// add replaces all sums and waits for the result. noiseOf returns the noise of a vector and its
// stream.
func (r *roundedNoise) add(source *noise.Source, noiseOf func(vector int) (noise.RoundedGaussian, noise.Stream)) error {
	device, bytes := r.memory.device, 8*len(r.sums)
	if err := device.Zero(r.counts, bytes); err != nil {
		return err
	}
	for _, b := range r.batches {
		if err := r.launch(b, source, noiseOf); err != nil {
			return err
		}
	}
	if err := device.CopyOut(r.counters[:bytes], r.counts); err != nil {
		return err
	}
	if err := device.Synchronize(); err != nil {
		return err
	}
	for i, s := range r.sums {
		undecided, remaining := r.count(i)
		if max(undecided, remaining) > int(r.args[i].Capacity) {
			return fmt.Errorf("cuda: the list of undecided noise values is full: this has a probability below 2^-1000 on a device that works; check the device's memory")
		}
		if remaining == 0 {
			continue
		}
		gaussian, stream := noiseOf(s.vector)
		if err := r.decide(i, gaussian, source, stream, remaining); err != nil {
			return err
		}
	}
	return nil
}

// count returns how many values of a vector float32 and the device did not decide.
func (r *roundedNoise) count(i int) (undecided, remaining int) {
	return int(binary.LittleEndian.Uint32(r.counters[8*i:])), int(binary.LittleEndian.Uint32(r.counters[8*i+4:]))
}

// launch queues the kernels for the vectors of a batch. The key is in launch arguments, and these
// copies of it are wiped, as in releaser.run.
func (r *roundedNoise) launch(b roundingBatch, source *noise.Source, noiseOf func(vector int) (noise.RoundedGaussian, noise.Stream)) error {
	sums := r.sums[b.first:min(len(r.sums), b.first+batch.Capacity(roundingArgBytes))]
	defer func() {
		for i := range sums {
			b.sums.of(i).Key, b.undecided.of(i).Key = noise.Key{}, noise.Key{}
		}
	}()
	for i, s := range sums {
		gaussian, stream := noiseOf(s.vector)
		constants, err := gaussian.Constants()
		if err != nil {
			return err
		}
		a := r.args[b.first+i]
		if a.Words, a.Digits, err = stream.RoundedNonces(); err != nil {
			return err
		}
		a.Steps, a.Grid, a.Bits = constants.Steps, int32(constants.Grid), int32(constants.Bits)
		a.Scale, a.Slope, a.Base = constants.Scale, constants.Slope, constants.Base
		*b.sums.of(i), *b.undecided.of(i) = a, a
		b.sums.of(i).Key, b.undecided.of(i).Key = source.Key(), source.Key()
	}
	device, block := r.memory.device, dim{128, 1, 1}
	return cmp.Or(device.Launch(r.roundSums, dim{uint32(b.sums.blocks), 1, 1}, block, b.sums.bytes),
		device.Launch(r.roundUndecided, dim{uint32(b.undecided.blocks), 1, 1}, block, b.undecided.bytes))
}

// decide computes the values of a vector that the device left.
func (r *roundedNoise) decide(i int, gaussian noise.RoundedGaussian, source *noise.Source, stream noise.Stream, count int) error {
	device := r.memory.device
	values := make([]int32, count)
	if err := device.CopyOut(bytesOf(values), r.args[i].Remaining); err != nil {
		return err
	}
	if err := device.Synchronize(); err != nil {
		return err
	}
	for _, v := range values {
		sum, at := make([]int64, 1), r.sums[i].at+driver.Pointer(8*v)
		if err := device.CopyOut(bytesOf(sum), at); err != nil {
			return err
		}
		if err := device.Synchronize(); err != nil {
			return err
		}
		if err := gaussian.Add(source, sum, stream, uint64(v)); err != nil {
			return err
		}
		if err := r.memory.upload(at, bytesOf(sum)); err != nil {
			return err
		}
	}
	return nil
}
