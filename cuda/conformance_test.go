//go:build gpu

package cuda

import (
	"testing"

	"github.com/dptrain/dptrain/internal/plan"
	"github.com/dptrain/dptrain/internal/plan/plantest"
)

func backend(p *plan.Program, o plan.Optimizer, average bool, _ int) (plan.Executable, error) {
	return New(p, o, average, Options{})
}

// device skips the test if there is no GPU, real or emulated.
func device(t testing.TB) {
	t.Helper()
	list, err := Devices()
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
