package pretrained

import (
	"runtime"
	"testing"

	"github.com/dptrain/dptrain/engine/weights"
	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/perexample"
)

// A compiled network has its own copy of the checkpoint: the tensors that were read leave the memory.
func TestTensors_LeaveMemory(t *testing.T) {
	m, err := Parse("testdata/llama-next,lora=2")
	if err != nil {
		t.Fatal(err)
	}
	build := buildOf(m, 4)
	net, err := build.ForBatch(1)
	if err != nil {
		t.Fatal(err)
	}
	frozen, _, err := m.Parts(net)
	if err != nil {
		t.Fatal(err)
	}
	private, err := perexample.Compile(weights.Freeze(build, frozen...), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	program, err := plan.LowerTraining(private, plan.TrainingOptions{Norms: true, Exact: true})
	if err != nil {
		t.Fatal(err)
	}
	e, err := cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	stripped := program.WithoutValues()
	net, private, program = nil, nil, nil
	runtime.GC()
	if m.tensors.last.Value() != nil {
		t.Error("the tensors are still in memory")
	}
	if _, err := build.ForBatch(2); err != nil || m.tensors.last.Value() == nil {
		t.Errorf("they are read again: %v", err)
	}
	runtime.KeepAlive(stripped)
}
