package report

import (
	"bytes"
	_ "embed"
	"text/template"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

var (
	//go:embed safeguards.md
	safeguardsText     string
	safeguardsTemplate = template.Must(template.New("safeguards").Parse(safeguardsText))
)

// Safeguards writes, as Markdown, the evidence that section 12.3 (differential-privacy safeguards) of the
// OWASP AI Security Verification Standard 1.0 asks for.
func (r *Run) Safeguards() ([]byte, error) {
	if err := r.requireGuarantee("the evidence for AISVS 12.3"); err != nil {
		return nil, err
	}
	a := r.accounting
	proof := "`docs/guarantee.md` has the theorem and its proof, for the released bits."
	if Arithmetic(a.history) == FloatArithmetic {
		proof = "`docs/guarantee.md` has the theorem. It is proved over the reals and does not cover the rounding of floating-point sums."
	}
	var b bytes.Buffer
	err := safeguardsTemplate.Execute(&b, map[string]string{
		"Title": markdown(r.summary.Model + " trained on " + r.summary.dataName()), "Head": a.seal.Head,
		"Lots": plural(a.history.LotCount(), "lot"), "Epsilon": number.RoundUp(a.answer.Epsilon), "Delta": number.RoundUp(a.answer.Delta),
		"Account": a.ledgerSection().Account, "PlainDelta": number.Format(a.answer.Delta, -1), "Proof": proof, "Statement": markdown(r.Statement()),
	})
	return b.Bytes(), err
}
