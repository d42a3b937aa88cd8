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
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
)

// Guarantee is an accountant's answer in the JSON that commands print.
type Guarantee struct {
	Epsilon          number.Float     `json:"epsilon"`
	PublishedEpsilon number.Float     `json:"epsilon_published,omitempty"` // a smaller published figure, which is not proven for any data
	Delta            number.Float     `json:"delta"`
	PublishedDelta   number.Float     `json:"delta_published,omitempty"` // likewise, where δ was computed
	Approximate      bool             `json:"approximate,omitempty"`     // the computed quantity is not a bound
	Accountant       string           `json:"accountant"`
	Adjacency        ledger.Adjacency `json:"adjacency,omitempty"`
	Order            float64          `json:"order,omitempty"`
	LowerBound       number.Float     `json:"lower,omitempty"`
	Note             string           `json:"note,omitempty"`
}

// NewGuarantee converts an accountant's ε.
func NewGuarantee(a accountant.Guarantee) Guarantee {
	return Guarantee{Epsilon: number.Float(a.Epsilon), PublishedEpsilon: number.Float(a.Published),
		Delta: number.Float(a.Delta), Approximate: a.Approximate,
		Accountant: a.Accountant, Adjacency: a.Adjacency, Order: a.Order, LowerBound: number.Float(a.LowerBound), Note: a.Note}
}

// Accounted is the inverse of NewGuarantee.
func (g Guarantee) Accounted() accountant.Guarantee {
	return accountant.Guarantee{Epsilon: float64(g.Epsilon), Delta: float64(g.Delta), Accountant: g.Accountant,
		Adjacency: g.Adjacency, Order: g.Order, LowerBound: float64(g.LowerBound),
		Published: float64(g.PublishedEpsilon), Approximate: g.Approximate, Note: g.Note}
}

// FormatBound writes an ε or a δ, rounded up, and marks an approximation, which is not a
// bound.
func FormatBound(x number.Float, approximate bool) string {
	if approximate {
		return "≈ " + number.RoundUp(float64(x))
	}
	return number.RoundUp(float64(x))
}

// DescribePublished describes a published figure that is not proven for any data.
func DescribePublished(x number.Float) string {
	return number.RoundUp(float64(x)) + " (holds only for some data: see the note)"
}

// Print writes the rows of a table. It omits δ if δ was computed, and the published ε if ε
// was given, because the command prints them separately.
func (g Guarantee) Print(w io.Writer, computed Quantity) {
	fmt.Fprintf(w, "epsilon\t%s\n", FormatBound(g.Epsilon, g.Approximate && computed == Epsilon))
	if computed == Epsilon && g.PublishedEpsilon != 0 {
		fmt.Fprintf(w, "published epsilon\t%s\n", DescribePublished(g.PublishedEpsilon))
	}
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

// EpsilonWarning warns about an ε that hardly limits what an adversary learns; "" if it does.
func EpsilonWarning(epsilon float64) string {
	if w := report.EpsilonWarning(epsilon); w != "" {
		return w + "; give more noise, fewer lots or a smaller lot"
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
