package training

import (
	"runtime/debug"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// noteMovement says whether the first lot changed what is trained of a checkpoint, and nothing else.
func (p *Progress) noteMovement() error {
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
	p.term.Note("After the first lot: %s moved, %s of the checkpoint did not.", number.Plural(m.Moved, "trained parameter"), number.Plural(m.Frozen, "frozen parameter"))
	if len(m.Still) > 0 {
		p.term.Warn("the first lot did not change %s, although training includes them", strings.Join(m.Still, ", "))
	}
	return nil
}
