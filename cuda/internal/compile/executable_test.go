//go:build gpu

package compile

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
	"gorgonia.org/tensor"
)

// A data set for which there is less memory than the driver reported stays on the host:
// its examples are copied for each microbatch, and the allocated memory is freed.
func TestLoadDataSet_WithoutRoom(t *testing.T) {
	defer func(share float64) { maxDataSetShare = share }(maxDataSetShare)
	maxDataSetShare = math.Inf(1)
	device(t)
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	p := &pipeline{device: d, program: &plan.Program{Batch: 1}, memory: &deviceMemory{device: d}, host: &hostBuffers{}}
	_, total, err := d.MemoryInfo()
	if err != nil {
		t.Fatal(err)
	}
	const examples = 1 << 20
	for _, width := range []int{1, int(2 * total / (4 * examples))} { // the second input needs twice the memory
		p.host.inputs = append(p.host.inputs, &pinnedBuffer{values: make([]float32, width)})
	}
	sets, err := p.loadDataSet(examples, func([][]float32, []int) error { return errors.New("the data set was read") })
	if sets != nil || err != nil || len(p.memory.allocations) > 0 {
		t.Errorf("sets %v, error %v, %d allocations are not freed", sets, err, len(p.memory.allocations))
	}
}

// A buffer that is too large for kernels' indices is a lack of memory, so the caller
// halves the microbatch; New allocates none of it.
func TestNew_RefusesHugeBuffer(t *testing.T) {
	device(t)
	p := &plan.Program{Buffers: []plan.Buffer{{Name: "huge", Shape: tensor.Shape{1 << 15, 1 << 16}, Role: plan.RoleTemporary}}}
	_, err := New(p, plan.Optimizer{Kind: plan.SGD}, false, Options{})
	if !errors.Is(err, plan.ErrOutOfMemory) || !strings.Contains(err.Error(), "buffer huge has 2147483648 elements") {
		t.Error(err)
	}
}
