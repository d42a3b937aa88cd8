package cpu

import (
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/plan/plantest"
)

func backend(p *plan.Program, o plan.Optimizer, average bool, threads int) (plan.Executable, error) {
	return New(p, o, average, threads)
}

func TestConformance_Operations(t *testing.T) { plantest.Operations(t, backend, 3) }
func TestConformance_Sums(t *testing.T)       { plantest.Sums(t, backend, 2) }
func TestConformance_Norms(t *testing.T)      { plantest.Norms(t, backend) }
func TestConformance_Release(t *testing.T)    { plantest.Release(t, backend, 3) }

func TestContributions_OfNetworks(t *testing.T)   { plantest.Contributions(t, backend, 2) }
func TestL1Contributions_OfNetworks(t *testing.T) { plantest.L1Contributions(t, backend, 2) }

func TestContributions_AreBounded(t *testing.T) { plantest.ContributionBounds(t, backend, 2) }

func TestContributions_LoseNothing(t *testing.T) { plantest.Losses(t, backend, 16) }
