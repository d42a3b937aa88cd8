package engine

import "slices"

// Parameter is a trained parameter.
type Parameter struct {
	Name   string
	Shape  []int
	Values []float32
}

// Values returns the values of parameters, as an [Evaluator] takes them.
func Values(parameters []Parameter) [][]float32 {
	values := make([][]float32, len(parameters))
	for i, p := range parameters {
		values[i] = p.Values
	}
	return values
}

// Parameters returns the trained weights, or their moving average where the run keeps one.
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
		r.checkpoints.waitUntilRead()
		if err := r.compiled.executable.SyncState(); err != nil {
			return nil, err
		}
	}
	state := r.compiled.executable.State()
	values := state.Weights
	if state.Average != nil && r.step > 0 {
		values = state.Average
	}
	out := make([]Parameter, len(values))
	for v, p := range r.compiled.program.Parameters {
		out[v] = Parameter{Name: p.Name, Shape: p.Shape, Values: values[v]}
	}
	return out, nil
}
