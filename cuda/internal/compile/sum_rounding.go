//go:build gpu

package compile

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/random"
	"github.com/dptrain/dptrain/noise"
)

// A vector of sums is no longer than a stream of rounded noise.
const _ = uint64(random.MaxRounded - maxElements)

// sumRounding replaces integer sums by round((f + N)/g), with the bits of noise.RoundedGaussian. The
// device decides all but about one value in 10^11. The host decides the others.
//
// Release does not wait to see whether there are others: the device would be idle meanwhile. The kernels
// write the lengths of the lists to the host's memory, and settle reads them when the next microbatch is
// queued. If a list is not empty, the host decides its values, and the microbatch runs again.
type sumRounding struct {
	releaseUndecided, releaseRemaining driver.Kernel
	parameters                         []parameterRounding // a copy of the table
	table                              driver.Pointer
	undecided, remaining               driver.Pointer // lists of weights, a part for each launch
	counts                             driver.Pointer // [launches][4]: see struct Release
	published                          driver.Pointer // [launches][2]: the lengths of both lists, in lengths
	lengths                            []byte         // of the host, mapped
	queued                             *driver.Event  // after the kernels of a release
	pending                            bool           // settle has not read the lengths of the last release
	last                               plan.Release   // the last release
}

// parameterRounding is struct Rounding of kernels/rounded.h.
type parameterRounding struct {
	Steps, Unit        float64
	Grid, Bits         int32
	Scale, Slope, Base float32
	_                  int32
}

// listedWeight is struct Place of kernels/release.cu.
type listedWeight struct{ Parameter, Element int32 }

// remainingWeight is struct Remainder of kernels/release.cu.
type remainingWeight struct {
	listedWeight
	Sum int64
}

// The bytes of an entry of both lists and of the counts of a launch.
const undecidedBytes, remainingBytes, launchCountBytes = 8, 16, 16

func newSumRounding(m *deviceMemory, parameters []elements) (s *sumRounding, err error) {
	s = &sumRounding{parameters: make([]parameterRounding, len(parameters))}
	capacity := 0
	for _, v := range parameters {
		capacity += v.undecided()
	}
	alloc := func(bytes int) driver.Pointer {
		p, e := m.alloc(bytes)
		err = cmp.Or(err, e)
		return p
	}
	kernel := func(name string) driver.Kernel {
		k, e := m.device.Kernel(name)
		err = cmp.Or(err, e)
		return k
	}
	s.releaseUndecided, s.releaseRemaining = kernel("release_undecided"), kernel("release_remaining")
	s.table = alloc(len(bytesOf(s.parameters)))
	s.undecided, s.remaining, s.counts = alloc(undecidedBytes*capacity), alloc(remainingBytes*capacity),
		alloc(launchCountBytes*len(parameters))
	if err == nil {
		s.lengths, s.published, err = m.allocMapped(8 * len(parameters))
	}
	if err == nil {
		s.queued, err = m.device.NewEvent()
	}
	if err != nil {
		return nil, err
	}
	return s, m.device.Zero(s.counts, launchCountBytes*len(parameters))
}

// count returns how many weights of a launch float32 and the device did not decide.
func (s *sumRounding) count(launch int) (undecided, remaining int) {
	return int(binary.LittleEndian.Uint32(s.lengths[8*launch:])), int(binary.LittleEndian.Uint32(s.lengths[8*launch+4:]))
}

// runExact is run for an exact program. settle completes it.
func (r *releaser) runExact(now *plan.Release) error {
	s, device := r.rounding, r.memory.device
	if err := r.setRoundings(now); err != nil {
		return err
	}
	for i, l := range r.launches {
		r.setLaunch(now, i)
		// About one thread for each undecided value; more values take another turn.
		if err := cmp.Or(r.launch(r.kernel, l.blocks), r.launch(s.releaseUndecided, ceil(l.blocks*releaseBlock, 128*1024))); err != nil {
			return err
		}
	}
	sigma := append(s.last.Sigma[:0], now.Sigma...) // the caller may change its own
	s.last, s.pending = *now, true
	s.last.Sigma, s.last.ParamGroups = sigma, r.groups
	return device.RecordEvent(s.queued)
}

// settle waits for the last release, unless it has already, and decides the values that the device left to
// the host. It reports whether there are any. Then a microbatch that was queued after the release has
// used weights that were not final: settle waits for it and clears what it has added.
func (r *releaser) settle() (changed bool, err error) {
	s := r.rounding
	if s == nil || !s.pending {
		return false, nil
	}
	s.pending = false
	if err := s.queued.Synchronize(); err != nil {
		return false, err
	}
	for i, l := range r.launches {
		undecided, remaining := s.count(i)
		if max(undecided, remaining) > l.capacity {
			return false, fmt.Errorf("cuda: the list of undecided noise values is full: this has a probability below 2^-1000 on a device that works; check the device's memory")
		}
		changed = changed || remaining > 0
	}
	if !changed {
		return false, nil
	}
	if err := r.clearSums(); err != nil {
		return true, err
	}
	for i, l := range r.launches {
		if _, remaining := s.count(i); remaining > 0 {
			if err := r.decide(&s.last, l, remaining); err != nil {
				return true, err
			}
			r.setLaunch(&s.last, i)
			r.args.Capacity = int32(remaining)
			if err := r.launch(s.releaseRemaining, ceil(remaining, 128)); err != nil {
				return true, err
			}
		}
	}
	return true, nil
}

// clearSums clears the sums and the counters of a lot.
func (r *releaser) clearSums() error {
	err := r.contributions.counters.clear()
	for _, v := range r.parameters {
		if v.Sum != 0 {
			err = cmp.Or(err, r.memory.device.Zero(v.Sum, 8*int(v.Size)))
		}
	}
	return err
}

// setLaunch sets the arguments of a launch.
func (r *releaser) setLaunch(now *plan.Release, launch int) {
	l := r.launches[launch]
	r.setOptimizer(now, l.parameter)
	r.args.BlockParameter = r.blockParameters + driver.Pointer(4*l.first)
	if s := r.rounding; s != nil {
		at := driver.Pointer(l.listed)
		r.args.Undecided, r.args.Remaining, r.args.Capacity = s.undecided+undecidedBytes*at,
			s.remaining+remainingBytes*at, int32(l.capacity)
		r.args.Counts, r.args.Published = s.counts+driver.Pointer(launchCountBytes*launch), s.published+driver.Pointer(8*launch)
	}
}

// setRoundings sets the noise stream, and uploads the table of roundings if it changed.
func (r *releaser) setRoundings(now *plan.Release) error {
	if now.Source == nil {
		return fmt.Errorf("cuda: an exact release needs a noise source")
	}
	words, digits, err := random.RoundedNonces(now.Stream(0))
	if err != nil {
		return err
	}
	changed := false
	for i, v := range r.parameters {
		if v.Size == 0 {
			continue
		}
		c, err := random.ConstantsOf(noise.RoundedGaussian{Sigma: now.Sigma[i]})
		if err != nil {
			return err
		}
		p := parameterRounding{
			Steps: c.SigmaInGrid, Unit: math.Ldexp(now.Unit[i]*now.Scale, c.Grid), Grid: int32(c.Grid), Bits: int32(c.Bits),
			Scale: c.Scale, Slope: c.Slope, Base: c.Base,
		}
		changed = changed || p != r.rounding.parameters[i]
		r.rounding.parameters[i] = p
	}
	r.args.Key, r.args.Lot, r.args.Digits = random.KeyOf(now.Source), [2]uint32(words[1:]), [2]uint32(digits[1:])
	if !changed {
		return nil
	}
	return r.memory.upload(r.rounding.table, bytesOf(r.rounding.parameters))
}

// decide sets the sums of the weights that the device left to the released integers.
func (r *releaser) decide(now *plan.Release, l releaseLaunch, count int) error {
	device := r.memory.device
	weights, sum := make([]remainingWeight, count), make([]int64, 1)
	if err := cmp.Or(device.CopyOut(bytesOf(weights), r.rounding.remaining+driver.Pointer(remainingBytes*l.listed)),
		device.Synchronize()); err != nil {
		return err
	}
	for _, w := range weights {
		v := int(w.Parameter)
		sum[0] = w.Sum
		if err := (noise.RoundedGaussian{Sigma: now.Sigma[v]}).Add(now.Source, sum, now.Stream(v), uint64(w.Element)); err != nil {
			return err
		}
		if err := r.memory.upload(r.parameters[v].Sum+driver.Pointer(8*int(w.Element)), bytesOf(sum)); err != nil {
			return err
		}
	}
	return nil
}

func (r *releaser) close() {
	if r.rounding != nil {
		r.rounding.queued.Close()
	}
}
