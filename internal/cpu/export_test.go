package cpu

import "github.com/dptrain/dptrain/internal/plan"

// SquaredNormTaken returns what record r took of its budget in a group in the last
// microbatch.
func (m *Executable) SquaredNormTaken(group, r int) int64 {
	return plan.Bound*plan.Bound - m.contributions.budgets[group][r]
}
