package network

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/frozen"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/host/memory"
	"github.com/dptrain/dptrain/internal/ranks"
	"github.com/dptrain/dptrain/internal/setting"
	"github.com/dptrain/dptrain/perexample"
)

// Options describe what is compiled. All of them are public.
type Options struct {
	Build  perexample.Build
	Check  func(*perexample.Network) error // refuses a network that the caller cannot train
	Device DeviceOptions                   // after Resolve
	Held   int64                           // bytes of data sets beside the program

	Train         data.Set
	Index         *load.Index
	Event         sample.Event // of a lot
	RowsPerRecord int
	Microbatch    int  // records computed together; 0: as many as keep the device busy and fit
	LocalBatch    int  // examples in a local step, which are the records of the program; 0: there are none
	ConstantWork  bool // each lot has the microbatches of the largest
	Rank, Ranks   int  // of this process, and how many the records of a lot are divided among; Ranks 0: 1

	Norms     bool // squared norms of the records' gradients
	Exact     bool // sums of integers
	L1        bool // ℓ₁ norms
	Output    bool // outputs and losses of each record, for statistics
	Optimizer plan.Optimizer
	Averaged  bool // the device keeps moving averages
	// Releasers each release a part of the elements where they reach one another's devices; nil: each process all.
	Releasers ranks.Communicator

	// KeepFrozen permits to compute the outputs of frozen first layers once: they are the same in every
	// lot, and the number of records is public. Reads is how often lots read the output of an example, together.
	KeepFrozen bool
	Reads      float64

	opened plan.Device // in tests: in place of Device
}

// Compile compiles a network for a microbatch and opens it on the device. A microbatch that it chooses is
// halved until the device has memory for it. Where a microbatch of one record, or one that is given, does not
// fit, results of the forward pass are computed again in place of kept: see plan.Program.Checkpoint.
func Compile(o Options) (*Network, error) {
	n := &Network{}
	device, err := o.opened, error(nil)
	if device == nil {
		device, err = o.Device.Open(o.Held, o.Releasers)
	}
	if err != nil {
		return nil, err
	}
	limit, err := device.MemoryLimit()
	if err != nil {
		return nil, err
	}
	records := min(o.Microbatch, o.Event.Records) // no lot has more, or its number is private
	switch {
	case o.LocalBatch > 0:
		records, o.RowsPerRecord = o.LocalBatch, 1
	case records == 0:
		records = chooseMicrobatch(device, o.Event, o.ConstantWork, max(1, o.Ranks))
	}
	for {
		network, err := perexample.Compile(o.Build, records, o.RowsPerRecord)
		if err != nil {
			return nil, err
		}
		keeps := o.keepsFrozenOutputs(device, network)
		n.Program, err = plan.LowerTraining(network, plan.TrainingOptions{Norms: o.Norms, Output: o.Output,
			Observed: len(network.BatchNorms) > 0, Exact: o.Exact, L1: o.L1, Frozen: keeps})
		if err != nil {
			return nil, err
		}
		isFinal := o.Microbatch != 0 || network.Records == 1
		records = max(1, network.Records/2)
		if bytes := int64(n.Program.MicrobatchBytes()); !isFinal &&
			(bytes > limit || device.PreferredMicrobatch(n.Program) < n.Program.Records) {
			// Half of the records take at least half of the memory.
			for bytes /= 2; bytes > limit && records > 1; bytes /= 2 {
				records /= 2
			}
			continue
		}
		if err := o.check(network.Network); err != nil {
			return nil, err
		}
		device.Optimize(n.Program)
		n.Executable, err = Open(device, n.Program, o.Optimizer, o.Averaged)
		if errors.Is(err, plan.ErrOutOfMemory) && isFinal && n.Program.Checkpoint() {
			n.checkpointed = true
			n.Executable, err = Open(device, n.Program, o.Optimizer, o.Averaged)
		}
		switch {
		case errors.Is(err, plan.ErrOutOfMemory) && !isFinal:
			continue
		case errors.Is(err, plan.ErrOutOfMemory) && network.Records > 1:
			return nil, setting.Errorf("Microbatch", "a microbatch of %d records: %w; use a smaller %v", network.Records, err, setting.Named("Microbatch"))
		case errors.Is(err, plan.ErrOutOfMemory):
			return nil, fmt.Errorf("a microbatch of one record: %w; use a smaller network, shorter examples or fewer examples in a record", err)
		case err != nil:
			return nil, err
		}
		if err := n.prepare(o, device, network, keeps); err != nil {
			n.Executable.Close()
			return nil, err
		}
		n.Program = n.Program.WithoutValues()
		debug.FreeOSMemory() // the memory of the graph
		return n, nil
	}
}

// prepare checks the starting weights and the constants, and sets what a network has in addition to its program.
func (n *Network) prepare(o Options, device plan.Device, network *perexample.PrivateNetwork, keeps bool) (err error) {
	for _, b := range n.Program.Buffers {
		if b.Role != plan.RoleConstant {
			continue
		}
		finite := true
		b.EachPart(func(part []float32) { finite = finite && areFinite(part) })
		if !finite {
			return fmt.Errorf("constant %s contains a value that is not finite", b.Name)
		}
	}
	for v, w := range n.Executable.State().Weights {
		if !areFinite(w) {
			return fmt.Errorf("parameter %s starts with a value that is not finite", n.Program.Parameters[v].Name)
		}
	}
	if n.Running, err = newRunning(network.Network, n.Executable, len(network.Inputs), o.Averaged); err != nil || !keeps {
		return err
	}
	if n.Frozen, err = frozen.New(device, network, o.Train, o.Index.RowsOf(o.Rank, o.Ranks), o.Index.PerRecord); err != nil {
		return err
	}
	for k := range n.Frozen.Count() {
		n.Outputs = append(n.Outputs, n.Executable.Input(len(network.Inputs)+n.Running.Count()+k))
	}
	return nil
}

// keepsFrozenOutputs reports whether the run computes the outputs of frozen first layers once for
// each example and keeps them. They must be read more often than they are computed, and take at most half
// of the memory that is left. A GPU keeps the data set instead.
func (o *Options) keepsFrozenOutputs(device plan.Device, network *perexample.PrivateNetwork) bool {
	examples := o.Index.Records * o.Index.PerRecord // a public number
	return o.KeepFrozen && len(network.FrozenOutputs) > 0 && device.Name() == "cpu" && o.Reads > float64(examples) &&
		memory.AtStart().Without(o.Held).Fits(2*frozen.BytesFor(network, examples))
}

// check compares the network with its data.
func (o *Options) check(network *perexample.Network) error {
	if err := SignatureOf(network).Check(o.Train.Columns()); err != nil {
		return err
	}
	return o.Check(network)
}

// Open opens a program on a device. The user's code may draw the starting weights: a panic in it becomes
// an error.
func Open(device plan.Device, program *plan.Program, o plan.Optimizer, averaged bool) (e plan.Executable, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, err = nil, fmt.Errorf("initialising the network panicked: %v", p)
		}
	}()
	return device.Compile(program, o, averaged)
}

// chooseMicrobatch returns a microbatch that is large enough to keep the device busy, and small
// enough that the padding of a lot's last microbatch costs little.
func chooseMicrobatch(device plan.Device, e sample.Event, constantWork bool, ranks int) int {
	lot := e.ExpectedLot() / float64(ranks)
	if (e.Policy == sample.PolicyFixed || e.Policy == sample.PolicyShuffle) && ranks == 1 {
		return min(int(lot), 512)
	}
	// Two standard deviations above the mean of a Poisson lot, or of a rank's part of a lot, or the size to
	// which each lot is padded, cut into equal parts.
	most := lot + 2*math.Sqrt(lot)
	if constantWork {
		most = float64(e.LotSize) / float64(ranks)
	}
	parts := math.Ceil(most / float64(device.MaxMicrobatch()))
	n := int(math.Ceil(most/parts/8)) * 8
	return max(1, min(n, e.Records))
}

// LowerEvaluation lowers the forward pass of a network.
func LowerEvaluation(build perexample.Build, batch int) (*perexample.Network, *plan.Program, error) {
	net, err := build.ForBatch(batch)
	if err != nil {
		return nil, nil, err
	}
	program, err := plan.LowerEvaluation(net)
	return net, program, err
}

// LowerTrainedLayers lowers the forward pass of what follows the frozen first layers. The program is nil
// where a network has none, or computes fewer examples together.
func LowerTrainedLayers(build perexample.Build, batch int) (*perexample.PrivateNetwork, *plan.Program, error) {
	private, err := perexample.Compile(build, batch, 1)
	if err != nil || len(private.FrozenOutputs) == 0 || private.Batch != batch {
		return nil, nil, err
	}
	program, err := plan.LowerTrainedLayers(private)
	return private, program, err
}
