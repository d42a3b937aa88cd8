package engine

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"

	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/perexample"
)

// compile builds the network for a microbatch and makes it ready on the device. A
// microbatch that the engine chose is halved until the device has memory for it.
func (r *Run) compile() error {
	place := r.place()
	var err error
	if r.note, err = place.settle(); err != nil {
		return err
	}
	r.config.Device.Name = place.Name
	device, err := place.open()
	if err != nil {
		return err
	}
	limit, err := device.MemoryLimit()
	if err != nil {
		return err
	}
	records := min(r.config.Microbatch, r.deck.count) // no lot has more
	if records == 0 {
		records = r.comfortable(device)
	}
	for {
		network, err := r.lower(records)
		if err != nil {
			return err
		}
		small := r.config.Microbatch != 0 || network.Records == 1
		records = max(1, network.Records/2)
		if bytes := int64(r.program.MicrobatchBytes()); !small && (bytes > limit || device.PreferredMicrobatch(r.program) < r.program.Records) {
			// Half the records take half the memory or more.
			for bytes /= 2; bytes > limit && records > 1; bytes /= 2 {
				records /= 2
			}
			continue
		}
		if err := r.checkProgram(network); err != nil {
			return err
		}
		device.Optimize(r.program)
		r.machine, err = r.build(device)
		switch {
		case errors.Is(err, plan.ErrOutOfMemory) && !small:
			continue
		case errors.Is(err, plan.ErrOutOfMemory) && network.Records > 1:
			return fmt.Errorf("a microbatch of %d records: %w; use a smaller --microbatch", network.Records, err)
		case errors.Is(err, plan.ErrOutOfMemory):
			return fmt.Errorf("even a microbatch of one record: %w; use a smaller network, or shorter examples", err)
		case err != nil:
			return err
		}
		if err := r.checkStart(); err != nil {
			r.machine.Close()
			return err
		}
		r.program = r.program.Stripped()
		debug.FreeOSMemory() // that the graph took
		r.newMicrobatch()
		return nil
	}
}

// lower compiles the network for a microbatch of so many records.
func (r *Run) lower(records int) (*perexample.PrivateNetwork, error) {
	network, err := perexample.Compile(r.config.Network, records, r.slots())
	if err != nil {
		return nil, err
	}
	r.program, err = plan.LowerTraining(network, plan.Options{Norms: !r.config.Mechanism.NonPrivate, Output: len(r.config.Statistics) > 0})
	return network, err
}

// build makes the program ready on the run's device. What draws the starting weights
// may be the user's: a panic in it is an error of the network.
func (r *Run) build(device plan.Device) (m plan.Executable, err error) {
	defer func() {
		if p := recover(); p != nil {
			m, err = nil, fmt.Errorf("making the network ready failed: %v", p)
		}
	}()
	c := &r.config
	return device.Compile(r.program, c.Optimization.Optimizer.ForDevice(), c.Optimization.Average.Decay > 0)
}

// comfortable is a microbatch large enough to keep the processor busy and small
// enough that the padding of a lot's last one costs little.
func (r *Run) comfortable(device plan.Device) int {
	lot := r.Event().ExpectedLot()
	if r.config.Sampling.Policy != sample.PolicyPoisson {
		return min(int(lot), 512)
	}
	// Room for what a Poisson lot varies by, cut into equal parts.
	most := lot + 2*math.Sqrt(lot)
	parts := math.Ceil(most / float64(device.MaxMicrobatch()))
	n := int(math.Ceil(most/parts/8)) * 8
	return max(1, min(n, r.deck.count))
}

// checkProgram compares the network with what it is to be fed and asked.
func (r *Run) checkProgram(network *perexample.PrivateNetwork) error {
	if err := faceOf(network.Network).check(r.config.Train.Columns()); err != nil {
		return err
	}
	for _, s := range r.config.Statistics {
		if s.Output && network.Output == nil || s.Loss && network.Losses == nil {
			return fmt.Errorf("statistic %s: the network keeps no answers or losses to compute it from: set Output and Losses of the network", s.Name)
		}
	}
	for _, b := range r.program.Buffers {
		if b.Role == plan.RoleConstant && !finite(b.Value) {
			return fmt.Errorf("constant %s holds a value that is not finite", b.Name)
		}
	}
	return nil
}

// checkStart looks at the weights where the machine has them.
func (r *Run) checkStart() error {
	for v, w := range r.machine.State().Weights {
		if !finite(w) {
			return fmt.Errorf("parameter %s starts with a value that is not finite", r.program.Parameters[v].Name)
		}
	}
	return nil
}

func finite(values []float32) bool {
	return !slices.ContainsFunc(values, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) })
}
