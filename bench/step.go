package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/cuda"
	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
	"github.com/dptrain/dptrain/perexample"
	"gorgonia.org/tensor"
)

// The mechanism of a private step.
const (
	clipNorm        = 1.0 // of each record's gradient, all parameters together
	noiseMultiplier = 1.1 // noise over bound
)

// Step is a training step of a workload whose whole batch is in memory. On a GPU the batch is one
// microbatch. On the CPU the batch is split into microbatches of the engine's size.
//
// A private step computes the norm of each record's gradient, clips, sums, adds noise and updates by
// SGD. A plain step has no norms and no noise, and all clip factors are 1.
type Step struct {
	executable   plan.Executable
	columns      [][]float32   // the batch
	pipeline     plan.Pipeline // nil if the host computes clip factors
	bounds       []float64
	counts       plan.LotCounts
	clipper      *clipping.Clipper // nil for a plain step
	squaredNorms [][]float32
	clipFactors  [][]float32 // one slice per parameter, owned by the executable
	release      plan.Release
	batch        int
	microbatch   int // records per microbatch
}

// Kind is the kind of a step.
type Kind string

const (
	Private Kind = "private" // with the arithmetic that the engine chooses on the device
	Float   Kind = "float"   // private, with floating-point arithmetic
	Plain   Kind = "plain"
)

// Kinds are all kinds.
var Kinds = []Kind{Private, Float, Plain}

// DeviceConfig selects the device of a step.
type DeviceConfig struct {
	GPU       bool // false: the CPU
	Ordinal   int  // number of the GPU
	Precision cuda.Precision
	Threads   int // CPU threads; 0: one per processor
}

func (h DeviceConfig) device() (plan.Device, error) {
	if h.GPU {
		return cuda.NewDevice(cuda.Options{Ordinal: h.Ordinal, Precision: h.Precision})
	}
	return cpu.NewDevice(h.Threads), nil
}

// NewStep compiles a workload for a device and loads its batch.
func NewStep(w Workload, kind Kind, h DeviceConfig) (*Step, error) {
	device, err := h.device()
	if err != nil {
		return nil, err
	}
	private := kind != Plain
	options := plan.TrainingOptions{Norms: private, Exact: kind == Private}
	program, err := w.microbatchProgram(options, device)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	sgd := plan.Optimizer{Kind: plan.SGD}
	machine, err := device.Compile(program, sgd, false)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	program = program.Stripped()
	debug.FreeOSMemory() // returns the memory of the graph
	s := &Step{executable: machine, columns: w.columns(), batch: w.Batch, microbatch: program.Records, release: plan.Release{
		Source: noise.NewSeeded(1), Sigma: make([]float64, len(program.Parameters)),
		Scale: 1 / float64(w.Batch), Optimizer: sgd, Rate: 0.01,
	}}
	s.loadMicrobatch(0)
	names := make([]string, len(program.Parameters))
	for v, vector := range program.Parameters {
		names[v] = vector.Name
		s.clipFactors = append(s.clipFactors, machine.ClipFactors(v))
		if private {
			s.squaredNorms = append(s.squaredNorms, machine.SquaredNorms(v))
			s.release.Sigma[v] = noiseMultiplier * clipNorm
			continue
		}
		for r := range s.clipFactors[v] {
			s.clipFactors[v][r] = 1
		}
	}
	if private {
		accuracy := clipping.Float32Accuracy
		if options.Exact {
			accuracy = clipping.LatticeAccuracy
			s.useLattice()
		}
		s.clipper, err = clipping.NewClipper(names, clip.Flat(clip.Constant(clipNorm), clip.Threshold{}), accuracy)
	}
	if err == nil {
		err = s.configurePipeline()
	}
	if err != nil {
		machine.Close()
		return nil, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	return s, nil
}

// useLattice gives the executable and the release lattice steps.
func (s *Step) useLattice() {
	s.release.Unit = make([]float64, len(s.release.Sigma))
	for v := range s.release.Sigma {
		s.release.Sigma[v] = noiseMultiplier * plan.Bound
		s.release.Unit[v] = clipNorm / plan.Bound
		s.executable.Contributions().Steps[v] = 1 / s.release.Unit[v]
	}
}

// configurePipeline gives the clipping formula and the batch to a device that computes clip factors
// itself.
func (s *Step) configurePipeline() (err error) {
	p, ok := s.executable.(plan.Pipeline)
	if !ok {
		return nil
	}
	var formula clipping.Formula
	if s.clipper != nil {
		if err := s.clipper.BeginLot(0); err != nil {
			return err
		}
		formula, _ = s.clipper.Formula()
		s.bounds = s.clipper.Sensitivities()
	}
	s.pipeline = p
	return p.Configure(formula, s.batch, func(dst [][]float32, rows []int) error {
		for k, column := range s.columns {
			width := len(column) / s.batch
			for i, row := range rows {
				copy(dst[k][i*width:(i+1)*width], column[row*width:])
			}
		}
		return nil
	})
}

// microbatchProgram lowers a step for the microbatch that the engine would choose on the device.
func (w Workload) microbatchProgram(o plan.TrainingOptions, device plan.Device) (p *plan.Program, err error) {
	p, err = w.lower(o, w.Batch)
	for err == nil && device.PreferredMicrobatch(p) < p.Records && p.Records%2 == 0 {
		p, err = w.lower(o, p.Records/2)
	}
	if err == nil {
		device.Optimize(p)
	}
	return p, err
}

func (w Workload) lower(o plan.TrainingOptions, records int) (*plan.Program, error) {
	build, err := w.build()
	if err != nil {
		return nil, err
	}
	network, err := perexample.Compile(build, records, 1)
	if err != nil {
		return nil, err
	}
	if network.Warning != "" {
		return nil, fmt.Errorf("the network cannot be computed in batches: %s", network.Warning)
	}
	return plan.LowerTraining(network, o)
}

// columns returns a batch of features (normal deviates or indices) and labels.
func (w Workload) columns() [][]float32 {
	r := rand.New(rand.NewPCG(1, 2))
	features := make([]float32, w.Batch*tensor.ProdInts(w.Example.Shape))
	labels := make([]float32, w.Batch*tensor.ProdInts(w.Example.LabelShape))
	for i := range features {
		if w.Example.Vocabulary > 0 {
			features[i] = float32(r.IntN(w.Example.Vocabulary))
		} else {
			features[i] = float32(r.NormFloat64())
		}
	}
	for i := range labels {
		labels[i] = float32(r.IntN(w.Example.Classes))
	}
	return [][]float32{features, labels}
}

// loadMicrobatch copies the records from the given one on into the inputs of the executable.
func (s *Step) loadMicrobatch(record int) {
	for k, column := range s.columns {
		copy(s.executable.Input(k), column[record*(len(column)/s.batch):])
	}
}

// Run executes one step. On a device with a pipeline it returns before the step is complete; see
// [Step.Wait].
func (s *Step) Run() error {
	if err := s.accumulate(); err != nil {
		return err
	}
	s.release.Lot++
	s.release.Step++
	return s.executable.Release(&s.release)
}

// accumulate adds the clipped sums of all microbatches.
func (s *Step) accumulate() error {
	if s.pipeline != nil {
		return s.pushBatch()
	}
	for record := 0; record < s.batch; record += s.microbatch {
		if s.microbatch < s.batch {
			s.loadMicrobatch(record)
		}
		if err := s.accumulateMicrobatch(); err != nil {
			return err
		}
	}
	return nil
}

// accumulateMicrobatch adds the clipped sums of one microbatch.
func (s *Step) accumulateMicrobatch() error {
	if err := s.executable.Forward(); err != nil {
		return err
	}
	if s.clipper != nil {
		if err := s.computeClipFactors(); err != nil {
			return err
		}
	}
	if err := s.drawSeeds(); err != nil {
		return err
	}
	return s.executable.AddClippedSums()
}

// drawSeeds draws what the roundings of an exact program start from.
func (s *Step) drawSeeds() error {
	c := s.executable.Contributions()
	if c == nil {
		return nil
	}
	return s.release.Source.Uint64s(c.Seeds, noise.Stream{Purpose: noise.ExampleRandomness, Lot: s.release.Lot}, 0)
}

// pushBatch sends the whole batch to the pipeline.
func (s *Step) pushBatch() error {
	rows := s.pipeline.Rows()
	for i := range rows {
		rows[i] = int32(i)
	}
	if err := s.drawSeeds(); err != nil {
		return err
	}
	return s.pipeline.Push(s.batch, s.bounds)
}

// Wait blocks until all steps are complete.
func (s *Step) Wait() error {
	if s.pipeline == nil {
		return nil
	}
	return s.pipeline.FinishLot(&s.counts)
}

// computeClipFactors computes the factors of the single group and copies them to every parameter.
func (s *Step) computeClipFactors() error {
	if err := s.clipper.BeginLot(s.release.Step); err != nil {
		return err
	}
	if err := s.clipper.ComputeFactors(s.clipFactors[:1], s.squaredNorms, s.microbatch); err != nil {
		return err
	}
	for _, f := range s.clipFactors[1:] {
		copy(f, s.clipFactors[0])
	}
	return nil
}

// Close releases the executable and its threads.
func (s *Step) Close() error { return s.executable.Close() }
