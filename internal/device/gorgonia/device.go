package gorgonia

import (
	"errors"

	"github.com/dptrain/dptrain/internal/device/plan"
)

// device runs networks on Gorgonia's operations. Microbatches are chosen as for the
// embedded device, so that results can be compared with it.
type device struct{ plan.Device }

// NewDevice is the device gorgonia. It chooses microbatches as the given device does.
func NewDevice(like plan.Device) plan.Device { return device{like} }

func (device) Name() string { return "gorgonia" }

func (device) Compile(p *plan.Program, o plan.Optimizer, average bool) (plan.Executable, error) {
	if p.Network == nil {
		return nil, errors.New("gorgonia: the program has no graph: this device runs training programs only")
	}
	if p.L1 {
		return nil, errors.New("gorgonia: this device computes no ℓ₁ norms")
	}
	e, err := New(p.Network, p.Parameters[0].SquaredNorms >= 0, o, average)
	if err != nil {
		return nil, err
	}
	if p.Exact {
		e.setExact(p)
	}
	return e, nil
}
