package accountant

import (
	"fmt"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/dpevent"
)

// Composition is a history that is asked about more than once. What several accountants ask
// alike is computed once. It is for one goroutine at a time.
type Composition struct {
	history  ledger.History
	composed composed
	err      error // with the history: what every question is answered by
}

// Compose reads a history.
func Compose(h ledger.History) *Composition {
	s, err := dpevent.FromHistory(h)
	return &Composition{h, composed{Sequence: s, pldEpsilons: map[pldQuery]Guarantee{}}, err}
}

// Epsilon says the ε that the history spent at delta.
func (p *Composition) Epsilon(delta float64, accountant string) (Guarantee, error) {
	answer, err := p.guarantee(delta, accountant)
	if err == nil && p.composed.Shuffled {
		var poisson float64
		poisson, err = Compose(asPoisson(p.history)).PublishedEpsilon(delta, accountant)
		answer.addNote(fmt.Sprintf("%s Poisson sampling at the same rate would have given epsilon %.4g.", shuffleNote(answer.Adjacency), poisson))
	}
	return answer, err
}

// PublishedEpsilon is the Epsilon of that answer alone. What the answer has beside it, for lots
// of a fixed size and for shuffled ones, is not computed.
func (p *Composition) PublishedEpsilon(delta float64, accountant string) (float64, error) {
	answer, _, err := p.published(delta, accountant)
	return answer.Epsilon, err
}

// EpsilonUpperBound is the Bound of that answer alone.
func (p *Composition) EpsilonUpperBound(delta float64, accountant string) (float64, error) {
	answer, err := p.guarantee(delta, accountant)
	return answer.UpperBound(), err
}

// accountant is how an accountant answers, if there is one and there is something to answer.
func (p *Composition) method(accountant string) (method, error) {
	m, err := methodNamed(accountant)
	if err == nil {
		err = p.err
	}
	return m, err
}

// published is the published answer, without what is proven beside it.
func (p *Composition) published(delta float64, accountant string) (Guarantee, method, error) {
	m, err := p.method(accountant)
	if err == nil {
		err = checkDelta(delta)
	}
	if err != nil {
		return Guarantee{}, m, err
	}
	answer, err := m.epsilon(p.composed, delta)
	answer.Delta = delta
	answer.complete(m, p.composed)
	return answer, m, err
}

// guarantee is Epsilon but for what the note on shuffled lots compares with.
func (p *Composition) guarantee(delta float64, accountant string) (Guarantee, error) {
	answer, m, err := p.published(delta, accountant)
	if err == nil && p.composed.isPublished(m) {
		var proven Guarantee
		proven, err = pldEpsilon(p.composed.asSymmetric(), delta)
		answer.addProven("epsilon", answer.Epsilon, proven.Epsilon)
	}
	return answer, err
}
