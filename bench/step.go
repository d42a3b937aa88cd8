package bench

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/cuda"
	"github.com/dptrain/dptrain/internal/cpu"
	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/noise"
	"github.com/dptrain/dptrain/perexample"
	"gorgonia.org/tensor"
)

// The mechanism of a private step.
const (
	bound      = 1.0 // of each record's gradient, all parameters together
	multiplier = 1.1 // noise over bound
)

// Step is a training step of a workload whose whole batch is in memory already. On
// a GPU the batch is one microbatch, on the CPU it is cut as the engine would cut it.
// A private step is norms per record, clipping, the sum, noise and an update by SGD; a
// plain one has neither norms nor noise, and every factor is 1.
type Step struct {
	machine plan.Executable
	columns [][]float32   // the batch
	pipe    plan.Pipeline // nil where the host computes factors
	bounds  []float64
	tally   plan.LotCounts
	clipper *clip.Clipper // nil: the step is plain
	squared [][]float32
	factors [][]float32 // the machine's, one slice a parameter
	release plan.Release
	batch   int
	records int // in a microbatch
}

// Host says where a step runs.
type Host struct {
	GPU       bool // else the CPU
	Ordinal   int  // of the GPU
	Precision cuda.Precision
	Threads   int // of the CPU; 0: one a processor
}

func (h Host) device() (plan.Device, error) {
	if h.GPU {
		return cuda.NewDevice(cuda.Options{Ordinal: h.Ordinal, Precision: h.Precision})
	}
	return cpu.NewDevice(h.Threads), nil
}

// NewStep makes a workload ready.
func NewStep(w Workload, private bool, h Host) (*Step, error) {
	device, err := h.device()
	if err != nil {
		return nil, err
	}
	program, err := w.cut(private, device)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	sgd := plan.Optimizer{Kind: plan.SGD}
	machine, err := device.Compile(program, sgd, false)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	program = program.Stripped()
	debug.FreeOSMemory() // that the graph took
	s := &Step{machine: machine, columns: w.columns(), batch: w.Batch, records: program.Records, release: plan.Release{
		Source: noise.Seeded(1), Sigma: make([]float64, len(program.Parameters)),
		Scale: 1 / float64(w.Batch), Optimizer: sgd, Rate: 0.01,
	}}
	s.fill(0)
	names := make([]string, len(program.Parameters))
	for v, vector := range program.Parameters {
		names[v] = vector.Name
		s.factors = append(s.factors, machine.ClipFactors(v))
		if private {
			s.squared = append(s.squared, machine.SquaredNorms(v))
			s.release.Sigma[v] = multiplier * bound
			continue
		}
		for r := range s.factors[v] {
			s.factors[v][r] = 1
		}
	}
	if private {
		s.clipper, err = clip.Bind(names, clip.Flat(clip.Constant(bound), clip.Threshold{}), clip.Single)
	}
	if err == nil {
		err = s.follow()
	}
	if err != nil {
		machine.Close()
		return nil, fmt.Errorf("workload %s: %w", w.Name, err)
	}
	return s, nil
}

// follow leaves factors, and a data set of one batch, to a device that can.
func (s *Step) follow() (err error) {
	p, ok := s.machine.(plan.Pipeline)
	if !ok {
		return nil
	}
	var formula clip.Formula
	if s.clipper != nil {
		if err := s.clipper.Begin(0); err != nil {
			return err
		}
		formula, _ = s.clipper.Formula()
		s.bounds = s.clipper.Sensitivities()
	}
	s.pipe = p
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

// cut is a step's program for as many records as the engine would compute together on a
// device.
func (w Workload) cut(private bool, device plan.Device) (p *plan.Program, err error) {
	p, err = w.program(private, w.Batch)
	for err == nil && device.PreferredMicrobatch(p) < p.Records && p.Records%2 == 0 {
		p, err = w.program(private, p.Records/2)
	}
	if err == nil {
		device.Optimize(p)
	}
	return p, err
}

func (w Workload) program(private bool, records int) (*plan.Program, error) {
	build, err := w.build()
	if err != nil {
		return nil, err
	}
	network, err := perexample.Compile(build, records, 1)
	if err != nil {
		return nil, err
	}
	if network.Warning != "" {
		return nil, fmt.Errorf("it is not computed with many records at once: %s", network.Warning)
	}
	return plan.LowerTraining(network, plan.Options{Norms: private})
}

// columns are a batch of normals, or of indices, and of labels.
func (w Workload) columns() [][]float32 {
	r := rand.New(rand.NewPCG(1, 2))
	features := make([]float32, w.Batch*tensor.ProdInts(w.Example.Shape))
	labels := make([]float32, w.Batch*tensor.ProdInts(w.Example.Labels))
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

// fill puts the records from one on into the machine.
func (s *Step) fill(record int) {
	for k, column := range s.columns {
		copy(s.machine.Input(k), column[record*(len(column)/s.batch):])
	}
}

// Run is one whole step. A device that computes factors itself works on when it returns.
func (s *Step) Run() error {
	if err := s.sum(); err != nil {
		return err
	}
	s.release.Lot++
	s.release.Step++
	return s.machine.Release(&s.release)
}

// sum adds the clipped sums of the whole batch.
func (s *Step) sum() error {
	if s.pipe != nil {
		return s.push()
	}
	for record := 0; record < s.batch; record += s.records {
		if s.records < s.batch {
			s.fill(record)
		}
		if err := s.add(); err != nil {
			return err
		}
	}
	return nil
}

// add adds a microbatch's clipped sums.
func (s *Step) add() error {
	if err := s.machine.Forward(); err != nil {
		return err
	}
	if s.clipper != nil {
		if err := s.clip(); err != nil {
			return err
		}
	}
	return s.machine.AddClippedSums()
}

// push leaves the batch to a device that computes factors itself.
func (s *Step) push() error {
	rows := s.pipe.Rows()
	for i := range rows {
		rows[i] = int32(i)
	}
	return s.pipe.Push(s.batch, s.bounds)
}

// Wait returns when the steps so far have run.
func (s *Step) Wait() error {
	if s.pipe == nil {
		return nil
	}
	return s.pipe.FinishLot(&s.tally)
}

// clip hands every parameter the factors of the one group.
func (s *Step) clip() error {
	if err := s.clipper.Begin(s.release.Step); err != nil {
		return err
	}
	if err := s.clipper.Factors(s.factors[:1], s.squared, s.records); err != nil {
		return err
	}
	for _, f := range s.factors[1:] {
		copy(f, s.factors[0])
	}
	return nil
}

// Close ends the machine's threads.
func (s *Step) Close() error { return s.machine.Close() }
