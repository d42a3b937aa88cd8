package engine

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// Parameter is a trained parameter: its name, shape and values.
type Parameter struct {
	Name   string
	Shape  []int
	Values []float32
}

// Values are the parameters' numbers, as an [Evaluator] takes them.
func Values(parameters []Parameter) [][]float32 {
	values := make([][]float32, len(parameters))
	for i, p := range parameters {
		values[i] = p.Values
	}
	return values
}

// Parameters are the trained weights, or their moving average where one is kept.
// They are a released value: public once the ledger is.
func (r *Run) Parameters() ([]Parameter, error) {
	out, err := r.BorrowParameters()
	for v := range out {
		out[v].Values = slices.Clone(out[v].Values)
	}
	return out, err
}

// BorrowParameters is Parameters without a copy: the next lot overwrites the values.
func (r *Run) BorrowParameters() ([]Parameter, error) {
	if !r.closed {
		r.keeper.still()
		if err := r.machine.SyncState(); err != nil {
			return nil, err
		}
	}
	state := r.machine.State()
	values := state.Weights
	if state.Average != nil && r.step > 0 {
		values = state.Average
	}
	out := make([]Parameter, len(values))
	for v, p := range r.program.Parameters {
		out[v] = Parameter{Name: p.Name, Shape: p.Shape, Values: values[v]}
	}
	return out, nil
}

// StepsDone is how many lots were released.
func (r *Run) StepsDone() int { return r.step }

// Spent is what the run cost by its ledger, after Close; before it, lots that the
// ledger has reserved count too. The accountant is one of accountant.Names, or ""
// for the default.
func (r *Run) Spent(name string) (accountant.Guarantee, error) {
	if r.config.Mechanism.NonPrivate {
		return accountant.Guarantee{}, fmt.Errorf("a run without privacy has no ledger: its ε is infinite")
	}
	h, err := ledger.Read(r.config.Files.Ledger)
	if err != nil {
		return accountant.Guarantee{}, err
	}
	return accountant.Epsilon(h, r.config.Budget.Delta, name)
}

// PlannedEpsilon is ε of the whole plan, as a budget is held to it: of all lots to the last, or to
// the budget's end, of a projection and of a validation. A run that was ended early because
// of what it had shown has cost that much: how many lots it ran is then an answer, too
// (Rogers et al. 2016, "Privacy odometers and filters"), and the plan was the most that it
// could run.
func (r *Run) PlannedEpsilon() (float64, error) {
	if r.meter == nil {
		return math.Inf(1), nil
	}
	return r.meter.cost(r.meter.done + min(r.config.Steps-r.step, r.meter.allowed))
}

// Description is what is public about a run before it starts.
type Description struct {
	Records     int     // in the data set
	ExpectedLot float64 // q·N
	Microbatch  int     // records computed together
	PerRecord   int     // examples in a record
	Bytes       int     // memory of the device's buffers, and of what it works in
	Device      string
	Threads     int
	Secure      bool // the generator was keyed by the operating system
	Delta       float64
	Warning     string
	Parameters  []ParameterDescription
}

// ParameterDescription is one parameter: how it is used, clipped and noised in the
// lot to come.
type ParameterDescription struct {
	Name   string
	Shape  []int
	Kind   string
	Method string
	Group  string
	Clip   float64 // the group's sensitivity
	Sigma  float64 // the deviation of the noise on each element of the sum
}

// Describe says what the run is about to do.
func (r *Run) Describe() Description {
	e := r.Event()
	d := Description{
		Records: r.deck.count, ExpectedLot: e.ExpectedLot(),
		Microbatch: r.program.Records, PerRecord: r.deck.per, Bytes: r.program.Bytes() + r.machine.WorkspaceBytes(),
		Device: r.config.Device.Name, Threads: r.threads(), Secure: r.source.Secure(),
		Delta: r.config.Budget.Delta, Warning: r.warning(),
	}
	for v, p := range r.program.Parameters {
		vd := ParameterDescription{Name: p.Name, Shape: p.Shape, Kind: p.Kind, Method: p.Method}
		if m := &r.mechanism; m.clipper != nil {
			vd.Group = m.clipper.Groups()[m.groups[v]].Name
			vd.Clip = m.clipper.Sensitivities()[m.groups[v]]
			vd.Sigma = r.release.Sigma[v]
		}
		d.Parameters = append(d.Parameters, vd)
	}
	return d
}

// warning is what the user should know of the network and the device.
func (r *Run) warning() string {
	if r.note == "" || r.program.Warning == "" {
		return r.note + r.program.Warning
	}
	return r.program.Warning + "; " + r.note
}
