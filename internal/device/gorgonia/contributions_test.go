package gorgonia_test

import (
	"testing"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/gorgonia"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/plan/plantest"
)

func compile(p *plan.Program, o plan.Optimizer, average bool, threads int) (plan.Executable, error) {
	return gorgonia.NewDevice(cpu.NewDevice(threads)).Compile(p, o, average)
}

// The skipped network takes as long as all others together; wrn16-4 and TestContributions_AreBounded
// have its kinds of parameters.
func TestContributions_OfNetworks(t *testing.T) {
	plantest.Contributions(t, compile, 1, "wrn16-4:standardized")
}

func TestContributions_AreBounded(t *testing.T) { plantest.ContributionBounds(t, compile, 1) }
