package accountant

import (
	"fmt"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// Composition computes several guarantees of one history and shares intermediate results.
// It is not safe for concurrent use.
type Composition struct {
	history  ledger.History
	composed composed
	err      error // about the history; every method returns it
}

// Compose converts a history for the accountants.
func Compose(h ledger.History) *Composition {
	s, err := dpevent.FromHistory(h)
	return &Composition{h, composed{Sequence: s, pldEpsilons: map[pldQuery]Guarantee{}}, err}
}

// Epsilon computes the ε that the history spends at delta.
func (p *Composition) Epsilon(delta float64, accountant string) (Guarantee, error) {
	answer, err := p.guarantee(delta, accountant)
	if err == nil && p.composed.Shuffled {
		var poisson float64
		poisson, err = Compose(asPoisson(p.history)).ProvenEpsilon(delta, accountant)
		answer.addNote(fmt.Sprintf("%s Poisson sampling at the same rate would have given epsilon %s.", shuffleNote(answer.Adjacency), formatUp(poisson)))
	}
	return answer, err
}

// ProvenEpsilon returns only the Epsilon of that guarantee. It does not compute the
// comparison for shuffled lots. The ε of an approximate accountant is not proven.
func (p *Composition) ProvenEpsilon(delta float64, accountant string) (float64, error) {
	answer, err := p.guarantee(delta, accountant)
	return answer.Epsilon, err
}

// method returns the accountant of that name, or the error about the history.
func (p *Composition) method(accountant string) (method, error) {
	m, err := methodNamed(accountant)
	if err == nil {
		err = p.err
	}
	return m, err
}

// guarantee computes what Epsilon does, without the comparison in the note on shuffled lots.
func (p *Composition) guarantee(delta float64, accountant string) (Guarantee, error) {
	m, err := p.method(accountant)
	if err == nil {
		err = checkDelta(delta)
	}
	if err != nil {
		return Guarantee{}, err
	}
	answer, err := m.epsilon(p.composed, delta)
	answer.Delta = delta
	answer.complete(m, p.composed)
	if err == nil && p.composed.isPublished(m) {
		var proven Guarantee
		proven, err = pldEpsilon(p.composed.asSymmetric(), delta)
		answer.prove("epsilon", &answer.Epsilon, proven.Epsilon)
	}
	return answer, err
}
