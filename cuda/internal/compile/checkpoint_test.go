//go:build gpu

package compile

import (
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
)

// A program that computes results of the forward pass again has the bits of one that keeps them.
func TestCheckpoint_SameBits(t *testing.T) {
	device(t)
	changed := 0
	for _, n := range networks() {
		if n.model != "transformer" && n.model != "digits-cnn" && !strings.HasPrefix(n.model, "hf") {
			continue
		}
		for _, exact := range []bool{false, true} {
			open := func(checkpoint bool) func(*plan.Program, plan.Optimizer) (plan.Executable, error) {
				return func(p *plan.Program, o plan.Optimizer) (plan.Executable, error) {
					if checkpoint && p.Checkpoint() {
						changed++
					}
					return New(p, o, false, Options{})
				}
			}
			n.steps = 2
			want, got := n.trainWith(t, exact, open(false)), n.trainWith(t, exact, open(true))
			for v := range want {
				if !slices.Equal(got[v], want[v]) {
					t.Errorf("%s, exact %v: vector %d differs by %.2g of the largest", n.model, exact, v, apart(got[v], want[v]))
				}
			}
		}
	}
	if changed < 4 {
		t.Errorf("only %d programs changed", changed)
	}
}
