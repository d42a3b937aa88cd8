package pretrained

import (
	"runtime"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// compiledFrozen returns the network of a model that reads texts of four ids, the names of its frozen parameters, and the network
// compiled without these for some records.
func compiledFrozen(t *testing.T, m *Model, records int) (net *perexample.Network, frozen []string, private *perexample.PrivateNetwork) {
	t.Helper()
	build := buildOf(m, 4)
	net, err := build.ForBatch(1)
	if err != nil {
		t.Fatal(err)
	}
	if frozen, _, err = m.Parts(net); err != nil {
		t.Fatal(err)
	}
	if private, err = perexample.Compile(weights.Freeze(build, frozen...), records, 1); err != nil {
		t.Fatal(err)
	}
	return net, frozen, private
}

// A compiled network has the only copy of the frozen tensors of a checkpoint, which leaves the memory with it.
func TestTensors_OneCopy(t *testing.T) {
	m, err := Parse("testdata/llama-next,lora=2")
	if err != nil {
		t.Fatal(err)
	}
	net, frozen, private := compiledFrozen(t, m, 1)
	program, err := plan.LowerTraining(private, plan.TrainingOptions{Norms: true, Exact: true})
	if err != nil {
		t.Fatal(err)
	}
	e, err := cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 1)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]*perexample.InitialValue{}
	for _, p := range net.Params {
		if slices.Contains(frozen, p.Name()) {
			values[p.Name()] = p.Value().(*perexample.InitialValue)
		}
	}
	other, err := buildOf(m, 4).ForBatch(2)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range other.Params {
		if v := values[p.Name()]; v != nil && (p.Value() != G.Value(v) || !v.IsInMemory()) {
			t.Errorf("%s: another network has another value, or it is not in memory", p.Name())
		}
	}
	stripped := program.WithoutValues()
	net, private, program, other = nil, nil, nil, nil
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = nil
	runtime.GC()
	for name, v := range values {
		if v.Size() > 4 && v.IsInMemory() {
			t.Errorf("%s is still in memory", name)
		}
	}
	runtime.KeepAlive(stripped)
}
