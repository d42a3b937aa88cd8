//go:build gpu

package compile

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// Executable is a program compiled for a GPU. All its memory is allocated by New, so every
// kernel launch has fixed arguments and a run launches a few captured graphs.
type Executable struct {
	program      *plan.Program
	device       *driver.Device
	memory       *deviceMemory
	host         *hostBuffers
	front, back  stepSequence
	scratchBytes int
	libraryCalls []*driver.PreparedCall
	state        *trainingState
	parts        *rankParts // nil where this rank releases all elements
	release      releaser
	pipeline     *pipeline // nil where the host computes clip factors

	contributions *contributions // nil unless the program is exact
	counters      *lotCounters
}

// New compiles a program for a GPU.
func New(p *plan.Program, o plan.Optimizer, average bool, options Options) (plan.Executable, error) {
	d, err := Open(options.Ordinal)
	if err != nil {
		return nil, err
	}
	if d.Arch() < 80 { // its tensor cores take neither TF32 nor bfloat16
		options.Precision = FP32
	}
	e := &Executable{program: p, device: d, memory: &deviceMemory{device: d}}
	if err := e.prepare(o, average, options); err != nil {
		e.Close()
		if errors.Is(err, driver.ErrOutOfMemory) {
			err = fmt.Errorf("%w: %v", plan.ErrOutOfMemory, err)
		}
		return nil, err
	}
	return e, nil
}

func (e *Executable) prepare(o plan.Optimizer, average bool, options Options) error {
	buffers, err := newBufferLayout(e.program, e.memory)
	if err != nil {
		return err
	}
	e.parts = newRankParts(e.program, e.device, options.Ranks)
	if e.state, err = newTrainingState(e.program, o, average, e.memory, buffers, e.parts); err != nil {
		return err
	}
	if err := e.parts.layOut(e.state.parameters); err != nil {
		return err
	}
	if e.host, err = newHostBuffers(e.program, e.memory, buffers); err != nil {
		return err
	}
	if e.counters, err = newLotCounters(e.memory, len(e.program.Parameters)); err != nil { // no more groups than parameters
		return err
	}
	if e.program.Exact {
		if e.contributions, err = newContributions(e.program, e.memory, e.counters); err != nil {
			return err
		}
	}
	c := newCompiler(e.program, e.memory, buffers, options)
	c.contributions = e.contributions
	err = c.compile()
	e.front, e.back, e.libraryCalls, e.scratchBytes = c.front, c.back, c.calls, c.scratch.bytes
	if err != nil {
		return err
	}
	if err := e.capture(); err != nil {
		return err
	}
	if err := e.release.prepare(e.memory, e.state.parameters, o, e.contributions); err != nil {
		return err
	}
	if err := e.LoadState(); err != nil {
		return err
	}
	return e.device.Synchronize()
}

// capture builds the graphs that exchange data with the host: they copy in what the host
// fills and copy out what it reads.
func (e *Executable) capture() error {
	copyIn := func(b *pinnedBuffer) step {
		return copyInStep(b.span(), func() error { return b.copyIn(e.device) })
	}
	copyOut := func(b *pinnedBuffer) step {
		return step{name: "copy out", access: &access{reads: []span{b.span()}}, queue: func() error { return b.copyOut(e.device) }}
	}
	stepsOf := func(newStep func(*pinnedBuffer) step, buffers []*pinnedBuffer) (steps []step) {
		for _, b := range buffers {
			if b != nil {
				steps = append(steps, newStep(b))
			}
		}
		return steps
	}
	before, after := stepsOf(copyIn, e.host.filled()), stepsOf(copyOut, e.host.read())
	if err := e.front.capture(e.device, before, after); err != nil {
		return err
	}
	before = stepsOf(copyIn, e.host.factors)
	if c := e.contributions; c != nil {
		before = append(before, c.copyIn(c.host))
	}
	return e.back.capture(e.device, before, nil)
}

// WorkspaceBytes is the size of the memory that instructions use as scratch memory.
func (e *Executable) WorkspaceBytes() int { return e.scratchBytes }

// Input is the memory for column k of the next microbatch.
func (e *Executable) Input(k int) []float32 {
	if e.pipeline != nil && e.pipeline.copyStream != nil {
		return floats(e.pipeline.slot().inputs[k])[:len(e.host.inputs[k].values)]
	}
	return e.host.inputs[k].slice()
}

// ExampleWeights is the memory for the examples' weights within their records.
func (e *Executable) ExampleWeights() []float32 {
	if e.pipeline != nil && e.host.weights != nil {
		return floats(e.pipeline.slot().weights)[:len(e.host.weights.values)]
	}
	return e.host.weights.slice()
}

// MaskSeed is the memory for the examples' mask seeds.
func (e *Executable) MaskSeed() []float32 {
	if e.pipeline != nil && e.host.maskSeed != nil {
		return floats(e.pipeline.slot().maskSeed)[:len(e.host.maskSeed.values)]
	}
	return e.host.maskSeed.slice()
}

// SquaredNorms are the squared norms of parameter i.
func (e *Executable) SquaredNorms(i int) []float32 { return e.host.squared[i].slice() }

// ClipFactors is the memory for the clip factors of parameter i.
func (e *Executable) ClipFactors(i int) []float32 { return e.host.factors[i].slice() }

// Output is the network's output.
func (e *Executable) Output() []float32 { return e.host.output.slice() }

// Losses are the examples' losses.
func (e *Executable) Losses() []float32 { return e.host.losses.slice() }

// Observed is what the i-th statistic behind running statistics reads.
func (e *Executable) Observed(i int) []float32 {
	if i >= len(e.host.observed) {
		return nil
	}
	return e.host.observed[i].slice()
}

// Forward copies the microbatch in, runs the forward and the backward pass, and copies
// the squared norms and outputs out.
func (e *Executable) Forward() error {
	if err := e.completeRelease(); err != nil {
		return err
	}
	if err := e.front.launch(e.device); err != nil {
		return err
	}
	return e.device.Synchronize()
}

// Contributions are what an exact program reads in addition to clip factors; nil if the program
// adds floating-point numbers. Release updates the counts.
func (e *Executable) Contributions() *plan.Contributions {
	if e.contributions == nil {
		return nil
	}
	return e.contributions.Contributions
}

// AddClippedSums copies the clip factors in and adds clipped sums to the accumulators,
// asynchronously. The host may fill the factors again after the next Forward.
func (e *Executable) AddClippedSums() error {
	if err := e.completeRelease(); err != nil {
		return err
	}
	if c := e.contributions; c != nil {
		c.write(c.host)
	}
	return e.back.launch(e.device)
}

// Release adds noise to the sums, updates the weights and clears the sums. If the device computes the clip
// factors of a process alone, it does not wait for the device; the next call completes the release.
func (e *Executable) Release(r *plan.Release) error {
	err := e.release.run(r)
	if err == nil {
		err = e.parts.clearOthers()
	}
	switch {
	case err != nil:
		return err
	case e.pipeline == nil && e.contributions != nil:
		if err := cmp.Or(e.counters.queueCopy(), e.device.Synchronize()); err != nil {
			return err
		}
		e.contributions.addCounts()
	case e.parts == nil:
		return nil
	}
	return e.completeRelease()
}

// completeRelease waits for a release and decides the noise values that the device left to the host.
func (e *Executable) completeRelease() error {
	_, err := e.release.settle()
	return err
}

// State is the host's copy of weights, averages and optimiser state.
func (e *Executable) State() plan.State { return e.state.host }

// SyncState copies the state from the device.
func (e *Executable) SyncState() error {
	if err := e.completeRelease(); err != nil {
		return err
	}
	return e.state.copyOut()
}

// LoadState copies the state to the device.
func (e *Executable) LoadState() error {
	if err := e.completeRelease(); err != nil {
		return err
	}
	return e.state.copyIn()
}

// Sum is the accumulator of parameter i.
func (e *Executable) Sum(i int) ([]float32, error) {
	x := make([]float32, e.state.parameters[i].size)
	return x, readSum(e, i, x)
}

// IntegerSum is the accumulator of parameter i of an exact program.
func (e *Executable) IntegerSum(i int) ([]int64, error) {
	x := make([]int64, e.state.parameters[i].size)
	return x, readSum(e, i, x)
}

// ReadSum copies the accumulator of parameter i of an exact program to dst.
func (e *Executable) ReadSum(i int, dst []int64) error { return readSum(e, i, dst) }

// Configure makes the device compute clip factors. The caller calls it at most once.
func (e *Executable) Configure(f clipping.Formula, examples int, read func(dst [][]float32, rows []int) error) error {
	if e.front.runsOnHost() || e.back.runsOnHost() {
		return plan.ErrNoPipeline
	}
	e.pipeline = &pipeline{program: e.program, device: e.device, memory: e.memory, host: e.host, groups: len(f.Groups),
		contributions: e.contributions, counters: e.counters, release: &e.release}
	return e.pipeline.prepare(f, e.front.steps, e.back.steps, examples, read)
}

// Rows is the memory for the data-set rows of the next microbatch's examples; nil where
// the data set is not on the device.
func (e *Executable) Rows() []int32 {
	if e.pipeline == nil || e.pipeline.copyStream != nil {
		return nil
	}
	return e.pipeline.rows()
}

// Push queues the microbatch in the current slot, and waits for the other slot, whose
// memory the next microbatch uses.
func (e *Executable) Push(records int, bounds []float64) error {
	return e.pipeline.push(records, bounds)
}

// FinishLot waits for the lot's microbatches, reads their counts and clears them.
func (e *Executable) FinishLot(c *plan.LotCounts) error { return e.pipeline.finishLot(c) }

// Close destroys the graphs and frees the memory.
func (e *Executable) Close() error {
	err := e.device.Synchronize()
	e.release.close()
	e.parts.close()
	e.front.close()
	e.back.close()
	e.pipeline.close()
	for _, c := range e.libraryCalls {
		c.Close()
	}
	return cmp.Or(err, e.memory.close())
}
