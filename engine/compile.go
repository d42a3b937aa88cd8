package engine

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/frozen"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/host/memory"
	"github.com/dptrain/dptrain/internal/setting"
	"github.com/dptrain/dptrain/perexample"
)

// compiledNetwork is a network compiled for a microbatch and ready on a device.
type compiledNetwork struct {
	program    *plan.Program
	executable plan.Executable
	running    *runningStatistics // nil if the network has none
	frozen     *frozen.Outputs    // what the program reads of frozen layers; nil where it computes them itself
	outputs    [][]float32        // inputs of the executable for frozen
	deviceNote string             // what the user should know about the device; may be empty
}

// compileNetwork compiles the network of c for a microbatch and opens it on the device. A
// microbatch that the engine chooses is halved until the device has memory for it. The
// device's name replaces auto in c.
func compileNetwork(c *Config, index *load.Index, rowsPerRecord int, e sample.Event) (*compiledNetwork, error) {
	n := &compiledNetwork{}
	var err error
	if n.deviceNote, err = c.Device.resolve(); err != nil {
		return nil, err
	}
	held := heldBytes(c, index)
	device, err := c.Device.open(held)
	if err != nil {
		return nil, err
	}
	if err := c.Mechanism.resolveArithmetic(); err != nil {
		return nil, err
	}
	limit, err := device.MemoryLimit()
	if err != nil {
		return nil, err
	}
	records := min(c.Microbatch, e.Records) // no lot has more, or its number is private
	local := c.LocalTraining.Steps > 0
	switch {
	case local: // a record of the program is an example of a local step
		records, rowsPerRecord = c.LocalTraining.Batch, 1
	case records == 0:
		records = chooseMicrobatch(device, e, c.Sampling.ConstantWork, c.rankCount())
	}
	for {
		network, err := perexample.Compile(c.Network, records, rowsPerRecord)
		if err != nil {
			return nil, err
		}
		keeps := c.keepsFrozenOutputs(device, network, index, e, memory.AtStart().Without(held))
		n.program, err = plan.LowerTraining(network, plan.Options{
			Norms: !c.Mechanism.NonPrivate && !local, Output: len(c.Statistics) > 0, Observed: len(network.BatchNorms) > 0,
			Exact: c.Mechanism.Arithmetic == ExactArithmetic && !local, L1: c.Mechanism.addsLaplace(), Frozen: keeps,
		})
		if err != nil {
			return nil, err
		}
		isFinal := c.Microbatch != 0 || network.Records == 1
		records = max(1, network.Records/2)
		if bytes := int64(n.program.MicrobatchBytes()); !isFinal &&
			(bytes > limit || device.PreferredMicrobatch(n.program) < n.program.Records) {
			// Half of the records take at least half of the memory.
			for bytes /= 2; bytes > limit && records > 1; bytes /= 2 {
				records /= 2
			}
			continue
		}
		if err := n.check(c, network); err != nil {
			return nil, err
		}
		device.Optimize(n.program)
		n.executable, err = openExecutable(device, n.program, &c.Optimization)
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
		if err := n.checkWeights(); err != nil {
			n.executable.Close()
			return nil, err
		}
		if n.running, err = newRunningStatistics(network.Network, n.executable, len(network.Inputs),
			c.Optimization.Average.Decay > 0); err != nil {
			n.executable.Close()
			return nil, err
		}
		if keeps {
			if n.frozen, err = frozen.New(device, network, c.Train, index.Blank); err != nil {
				n.executable.Close()
				return nil, err
			}
			for k := range n.frozen.Count() {
				n.outputs = append(n.outputs, n.executable.Input(len(network.Inputs)+n.running.count()+k))
			}
		}
		n.program = n.program.Stripped()
		debug.FreeOSMemory() // the memory of the graph
		return n, nil
	}
}

// buffers returns what a loader writes and reads.
func (n *compiledNetwork) buffers() load.Buffers {
	return load.Buffers{Executable: n.executable, Records: n.program.Records, Rows: n.program.Batch, Running: n.running.count()}
}

// heldBytes returns the memory of the data sets as it follows from public numbers: the number of
// records and the declared examples of each.
func heldBytes(c *Config, index *load.Index) int64 {
	bytesOf := func(s data.Set, records int) float64 {
		return float64(records) * float64(index.PerRecord) * float64(data.ExampleBytes(s))
	}
	held := bytesOf(c.Train, c.publicRecords(index.Records))
	if v := c.Validation.Set; v != nil {
		held += bytesOf(v, c.Records.Count(v))
	}
	return int64(min(held, 1<<62))
}

// keepsFrozenOutputs reports whether the run computes the outputs of frozen first layers once for
// each example and keeps them. They must be the same in every lot, be read more often than they are
// computed, and take at most half of the memory that is left. Their number must be public. A GPU
// keeps the data set instead.
func (c *Config) keepsFrozenOutputs(device plan.Device, network *perexample.PrivateNetwork,
	index *load.Index, e sample.Event, room memory.Headroom) bool {
	if len(network.FrozenOutputs) == 0 || device.Name() != "cpu" || c.Augmentation.Views > 0 ||
		c.LocalTraining.Steps > 0 || c.Records.Users || c.Sampling.Population > 0 {
		return false
	}
	read := float64(c.Steps) * e.ExpectedLot() * float64(index.PerRecord)
	return read > float64(index.Rows) && room.Fits(2*frozen.BytesFor(network, index.Rows))
}

// EstimateFrozenOutputs returns the time that Train takes before its first lot to compute the
// outputs of frozen first layers, which it then keeps in memory; 0 if it keeps none. Train does
// not compute them afterwards, so call this only for a run that is only timed.
func (r *Run) EstimateFrozenOutputs() (time.Duration, error) { return r.compiled.frozen.Estimate() }

// resolveArithmetic sets the default, exact arithmetic. A run without privacy adds floating-point
// numbers.
func (m *Mechanism) resolveArithmetic() error {
	switch {
	case m.NonPrivate:
		m.Arithmetic = FloatArithmetic
	case m.Arithmetic == "":
		m.Arithmetic = ExactArithmetic
	case m.Arithmetic != ExactArithmetic && m.Arithmetic != FloatArithmetic:
		return fmt.Errorf("arithmetic %q is unknown: use %s or %s", m.Arithmetic, ExactArithmetic, FloatArithmetic)
	}
	return nil
}

// openExecutable opens a program on a device. The user's code may draw the starting weights: a
// panic in it becomes an error.
func openExecutable(device plan.Device, program *plan.Program, o *Optimization) (e plan.Executable, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, err = nil, fmt.Errorf("initialising the network panicked: %v", p)
		}
	}()
	return device.Compile(program, o.ofDevice(), o.Average.Decay > 0)
}

// chooseMicrobatch returns a microbatch that is large enough to keep the device busy, and small
// enough that the padding of a lot's last microbatch costs little. Every rank gets one.
func chooseMicrobatch(device plan.Device, e sample.Event, constantWork bool, ranks int) int {
	lot := e.ExpectedLot()
	if e.Policy == sample.PolicyFixed || e.Policy == sample.PolicyShuffle {
		return min((int(lot)+ranks-1)/ranks, 512)
	}
	// Two standard deviations above the mean of a Poisson lot, or the size to which each lot is
	// padded, cut into equal parts.
	most := lot + 2*math.Sqrt(lot)
	if constantWork {
		most = float64(e.LotSize)
	}
	parts := math.Ceil(most/float64(device.MaxMicrobatch())/float64(ranks)) * float64(ranks)
	n := int(math.Ceil(most/parts/8)) * 8
	return max(1, min(n, e.Records))
}

// check compares the network with its data and statistics.
func (n *compiledNetwork) check(c *Config, network *perexample.PrivateNetwork) error {
	if err := signatureOf(network.Network).check(c.Train.Columns()); err != nil {
		return err
	}
	for _, s := range c.Statistics {
		if s.Output && network.Output == nil || s.Loss && network.Losses == nil {
			return fmt.Errorf("statistic %s reads outputs or losses that the network does not keep; set Output and Losses of the network", s.Name)
		}
	}
	if err := c.checkBatchStatistics(network.Network); err != nil {
		return err
	}
	for _, b := range n.program.Buffers {
		if b.Role == plan.RoleConstant && !areFinite(b.Value) {
			return fmt.Errorf("constant %s contains a value that is not finite", b.Name)
		}
	}
	return nil
}

// checkWeights checks the starting weights in the executable.
func (n *compiledNetwork) checkWeights() error {
	for v, w := range n.executable.State().Weights {
		if !areFinite(w) {
			return fmt.Errorf("parameter %s starts with a value that is not finite", n.program.Parameters[v].Name)
		}
	}
	return nil
}

// warning returns what the user should know about the network and the device.
func (n *compiledNetwork) warning() string {
	if n.deviceNote == "" || n.program.Warning == "" {
		return n.deviceNote + n.program.Warning
	}
	return n.program.Warning + "; " + n.deviceNote
}

func areFinite(values []float32) bool {
	return !slices.ContainsFunc(values, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) })
}
