//go:build gpu

package compile

import (
	"cmp"
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/plan/plantest"
)

func backend(p *plan.Program, o plan.Optimizer, average bool, _ int) (plan.Executable, error) {
	return New(p, o, average, Options{})
}

// device skips the test if there is no GPU, real or emulated.
func device(t testing.TB) {
	t.Helper()
	list, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 0 {
		t.Skip("no GPU: make test-emu runs this on the emulated device")
	}
}

func TestConformance_Operations(t *testing.T) { device(t); plantest.Operations(t, backend, 1) }
func TestConformance_Sums(t *testing.T)       { device(t); plantest.Sums(t, backend, 1) }
func TestConformance_Norms(t *testing.T)      { device(t); plantest.Norms(t, backend) }
func TestConformance_Release(t *testing.T)    { device(t); plantest.Release(t, backend, 1) }

func TestContributions_OfNetworks(t *testing.T) {
	device(t)
	// Little memory for built gradients, because each instruction has memory of its own here.
	defer func(bytes int) { maxGradientBytes = bytes }(maxGradientBytes)
	maxGradientBytes = 8 << 20
	plantest.Contributions(t, backend, 1)
}

func TestContributions_AreBounded(t *testing.T) {
	device(t)
	plantest.ContributionBounds(t, backend, 1)
}

func TestContributions_LoseNothing(t *testing.T) {
	device(t)
	defer func(bytes int) { maxGradientBytes = bytes }(maxGradientBytes)
	maxGradientBytes = 8 << 20
	plantest.Losses(t, backend, 4, "wrn16-4", "wrn16-4:standardized", "cifar-abadi", "cifar-tanh") // the emulated device takes minutes
}

// SquaredNormTaken returns what record r took of its budget in a group in the last microbatch.
func (e *Executable) SquaredNormTaken(group, r int) (int64, error) {
	left := make([]int64, 1)
	at := e.contributions.budgets + driver.Pointer(budgetSize*(group*e.program.Records+r))
	err := cmp.Or(e.device.CopyOut(bytesOf(left), at), e.device.Synchronize())
	return plan.Bound*plan.Bound - left[0], err
}

// PartCounts returns the parts that were rounded again and omitted since the last call.
func (e *Executable) PartCounts() (reduced, omitted int, err error) {
	c := e.contributions
	err = cmp.Or(c.counters.queueCopy(), e.device.Synchronize())
	c.addCounts()
	reduced, omitted = c.Reduced, c.Omitted
	c.Reduced, c.Omitted = 0, 0
	return reduced, omitted, err
}
