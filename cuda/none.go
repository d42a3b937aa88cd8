//go:build !gpu

package cuda

import (
	"errors"

	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/internal/plan"
)

// Built tells whether this binary can use a GPU.
const Built = false

var errNotBuilt = errors.New("this build has no CUDA: build it with `make gpu`, or use --device cpu")

// Devices describes the GPUs of this host.
func Devices() ([]Device, error) { return nil, errNotBuilt }

// New makes a program ready on a GPU.
func New(*plan.Program, optim.Optimizer, bool, Options) (plan.Machine, error) {
	return nil, errNotBuilt
}
