// Package budget plans private training runs. It relates five quantities: noise, steps,
// sampling rate, ε and δ. [Solve] computes one of them from the others, [Compare] computes ε
// by every accountant, and [ComputeCurves] computes ε as training progresses.
//
// A computed quantity is conservative: [Solve] with that quantity given never exceeds the
// target ε.
package budget

import (
	"fmt"
	"io"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/report"
)

// Guarantee is an accountant's answer in the JSON that commands print.
type Guarantee struct {
	Epsilon    number.Float     `json:"epsilon"`
	Delta      number.Float     `json:"delta"`
	Accountant string           `json:"accountant"`
	Adjacency  ledger.Adjacency `json:"adjacency,omitempty"`
	Order      float64          `json:"order,omitempty"`
	LowerBound number.Float     `json:"lower,omitempty"`
	Proven     number.Float     `json:"proven,omitempty"` // the bound proven for any data, if it exceeds ε
	Note       string           `json:"note,omitempty"`
}

// NewGuarantee converts an accountant's answer.
func NewGuarantee(a accountant.Guarantee) Guarantee {
	return Guarantee{number.Float(a.Epsilon), number.Float(a.Delta), a.Accountant, a.Adjacency, a.Order, number.Float(a.LowerBound), number.Float(a.ProvenBound), a.Note}
}

// Accounted is the inverse of NewGuarantee.
func (g Guarantee) Accounted() accountant.Guarantee {
	return accountant.Guarantee{Epsilon: float64(g.Epsilon), Delta: float64(g.Delta), Accountant: g.Accountant,
		Adjacency: g.Adjacency, Order: g.Order, LowerBound: float64(g.LowerBound), ProvenBound: float64(g.Proven), Note: g.Note}
}

// FormatEpsilon writes an ε and, if it is larger, the bound that is proven for any data.
func FormatEpsilon(epsilon, proven number.Float) string {
	if proven == 0 {
		return number.RoundUp(float64(epsilon))
	}
	return fmt.Sprintf("%s (published), %s (proven for any data)", number.RoundUp(float64(epsilon)), number.RoundUp(float64(proven)))
}

// Print writes the rows of a table. It omits δ if δ was computed, and the proven ε if ε was
// given, because the command prints them separately.
func (g Guarantee) Print(w io.Writer, computed Quantity) {
	epsilon := number.RoundUp(float64(g.Epsilon))
	if computed == Epsilon {
		epsilon = FormatEpsilon(g.Epsilon, g.Proven)
	}
	fmt.Fprintf(w, "epsilon\t%s\n", epsilon)
	if computed != Delta {
		fmt.Fprintf(w, "delta\t%s\n", number.RoundUp(float64(g.Delta)))
	}
	name := g.Accountant
	if g.Order != 0 {
		name = fmt.Sprintf("%s (order %g)", g.Accountant, g.Order)
	}
	fmt.Fprintf(w, "accountant\t%s\n", name)
	fmt.Fprintf(w, "adjacency\t%s\n", g.Adjacency)
	if g.Note != "" {
		fmt.Fprintf(w, "note\t%s\n", g.Note)
	}
}

// Remark is the accountant's note, or the order of its divergence.
func (g Guarantee) Remark() string {
	switch {
	case g.Note != "":
		return g.Note
	case g.Order != 0:
		return fmt.Sprintf("order %g", g.Order)
	}
	return ""
}

// DeltaWarning warns about a δ that is too large for the number of records; "" if it is not.
func DeltaWarning(delta float64, records int) string {
	if w := report.DeltaWarning(delta, records); w != "" {
		return w + "; give a smaller --delta"
	}
	return ""
}

// CheckDelta checks the value of --delta.
func CheckDelta(delta float64) error {
	if !(delta > 0 && delta < 1) {
		return exitcode.Usagef("--delta %v is out of range: give a value above 0 and below 1, usually well below one over the number of records", delta)
	}
	return nil
}
