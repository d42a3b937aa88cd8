package cpu

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/host/memory"
	"gorgonia.org/tensor"
)

// The size includes the optimiser's slots and the average.
func TestSize_MatchesAllocation(t *testing.T) {
	shape := tensor.Shape{16, 32}
	p := &plan.Program{
		Arena: 160,
		Buffers: []plan.Buffer{
			{Shape: tensor.Shape{160}},
			{Shape: shape, Role: plan.RoleParameter, Base: 1, Value: make([]float32, 512)},
			{Shape: shape, Role: plan.RoleClippedSum, Base: 2},
		},
		Parameters: []plan.Parameter{{Shape: shape, Value: 1, SquaredNorms: -1, ClipFactors: -1, ClippedSum: 2}},
	}
	for _, kind := range []plan.OptimizerKind{plan.SGD, plan.Momentum, plan.Adam} {
		for _, average := range []bool{false, true} {
			m, o := &Executable{program: p}, plan.Optimizer{Kind: kind}
			m.allocate(o, average)
			floats := 0
			for _, b := range m.memory {
				floats += len(b)
			}
			for _, s := range m.state.Slots[0] {
				floats += len(s)
			}
			for _, a := range m.state.Average {
				floats += len(a)
			}
			if got := size(p, o, average); got != 4*floats {
				t.Errorf("%s, average %v: size is %d bytes, allocated are %d", kind, average, got, 4*floats)
			}
		}
	}
}

func TestCheckMemory_ComparesWithHeadroom(t *testing.T) {
	room := memory.Headroom{Bytes: 2e9, LimitedBy: "control group /job"}
	if err := checkMemory(2e9, room); err != nil {
		t.Error(err)
	}
	if err := checkMemory(2e9+1, room); !errors.Is(err, plan.ErrOutOfMemory) || !strings.Contains(err.Error(), "control group /job has room for 2.0 GB") {
		t.Error(err)
	}
	if err := checkMemory(math.MaxInt, memory.Headroom{}); err != nil {
		t.Errorf("without a known limit: %v", err)
	}
}
