package engine

// RunDescription is what is public about a run before it starts.
type RunDescription struct {
	Records       int     // in the data set, or Sampling.Population
	ExpectedLot   float64 // q·N
	Microbatch    int     // records computed together
	PerRecord     int     // examples in a record
	Bytes         int     // memory of the program's buffers, of the device's workspace and of frozen layers' outputs
	Device        string
	Threads       int
	Secure        bool // the operating system keyed the generator
	Delta         float64
	FilterOrder   float64 // with Mechanism.Choose: Budget.FilterOrder or its default
	Arithmetic    Arithmetic
	LocalTraining LocalTraining // with its defaults
	Warning       string
	Parameters    []ParameterDescription
}

// ParameterDescription describes how a parameter is used, and how it is clipped and noised in
// the next lot.
type ParameterDescription struct {
	Name   string
	Shape  []int
	Kind   string
	Method string
	Group  string
	Clip   float64 // the group's sensitivity
	Sigma  float64 // standard deviation of the noise on each element of the sum
}

// Describe describes the run.
func (r *Run) Describe() RunDescription {
	program := r.network.Program
	d := RunDescription{
		Records: r.Event().Records, ExpectedLot: r.Event().ExpectedLot(),
		Microbatch: program.Records, PerRecord: r.index.PerRecord,
		Bytes:  program.Bytes() + r.network.Executable.WorkspaceBytes() + r.network.Frozen.Bytes(),
		Device: r.config.Device.Name, Threads: r.config.Device.resolver().ThreadCount(), Secure: r.source.Secure(),
		Delta: r.config.Budget.Delta, FilterOrder: r.config.Budget.FilterOrder, Arithmetic: r.config.Mechanism.Arithmetic,
		LocalTraining: r.config.LocalTraining, Warning: r.network.Warning(),
	}
	for v, p := range program.Parameters {
		pd := ParameterDescription{Name: p.Name, Shape: p.Shape, Kind: p.Kind, Method: p.Method}
		if r.config.LocalTraining.Steps > 0 {
			pd.Method = "change" // the norm is that of a user's change, in float64
		}
		if m := r.lot.Mechanism; m.Clipper != nil {
			pd.Group = m.Clipper.Groups()[m.GroupOf(v)].Name
			pd.Clip = m.Clipper.Sensitivities()[m.GroupOf(v)]
			pd.Sigma = m.NoiseOf(v)
		}
		d.Parameters = append(d.Parameters, pd)
	}
	return d
}
