//go:build gpu

package cuda

import (
	"errors"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/internal/plan"
	"gorgonia.org/tensor"
)

// What is too large for kernels to count is a lack of memory: who chose the microbatch
// halves it, and nothing of the size is taken before.
func TestBufferOfTooManyElements(t *testing.T) {
	device(t)
	p := &plan.Program{Buffers: []plan.Buffer{{Name: "huge", Shape: tensor.Shape{1 << 15, 1 << 16}, Role: plan.Temporary}}}
	_, err := New(p, optim.Optimizer{Kind: optim.KindSGD}, false, Options{})
	if !errors.Is(err, ErrMemory) || !strings.Contains(err.Error(), "buffer huge has 2147483648 elements") {
		t.Error(err)
	}
}
