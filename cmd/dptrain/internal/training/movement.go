package training

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// noteMovement says whether the lots so far changed what is trained of a checkpoint, and nothing else.
func (p *Progress) noteMovement(lots int) error {
	parameters, err := p.run.BorrowParameters()
	if err != nil {
		return err
	}
	m, err := p.spec.CheckMovement(parameters)
	if m == nil || err != nil {
		return err
	}
	if m.Frozen > 0 {
		if err := p.run.CheckConstants(); err != nil {
			return err
		}
	}
	debug.FreeOSMemory() // the memory of the checkpoint
	after := "After the first lot"
	if lots > 1 {
		after = fmt.Sprintf("After %d lots", lots)
	}
	p.term.Note("%s: %s moved, %s of the checkpoint did not.", after, number.Plural(m.Moved, "trained parameter"), number.Plural(m.Frozen, "frozen parameter"))
	if len(m.Still) > 0 {
		p.term.Warn("%s: %s did not change, although training includes them", strings.ToLower(after), strings.Join(m.Still, ", "))
	}
	return nil
}
