package accountant

import (
	"math"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/internal/dpevent"
	"github.com/dptrain/dptrain/internal/pld"
)

// Guarantee is what a history spent: it satisfies (Epsilon, Delta)-differential
// privacy under Adjacency, unless Note says that the accountant is an
// approximation, or that lots of a fixed size are answered as they are published.
type Guarantee struct {
	Epsilon     float64          `json:"epsilon"`
	Delta       float64          `json:"delta"`
	Accountant  string           `json:"accountant"`
	Adjacency   ledger.Adjacency `json:"adjacency"`
	Order       float64          `json:"order,omitempty"`  // rdp and moments: the order that gave the answer
	LowerBound  float64          `json:"lower,omitempty"`  // pld: what was asked for cannot be below this, unless Note calls it a bound
	ProvenBound float64          `json:"proven,omitempty"` // pld and rdp, lots of a fixed size: the bound for any data on what was asked for, where it is larger
	Note        string           `json:"note,omitempty"`   // sentences, where the answer needs them
}

// UpperBound is the ε that a budget is held to: what is proven for any data, where that is
// more than what is published.
func (a Guarantee) UpperBound() float64 { return max(a.Epsilon, a.ProvenBound) }

// accountant answers one question about a spending.
type method struct {
	name    string
	epsilon func(s composed, delta float64) (Guarantee, error)
	delta   func(s composed, epsilon float64) (Guarantee, error)
}

var methods = []method{
	{"pld", pldEpsilon, pldDelta},
	{"rdp", rdpEpsilon, rdpDelta},
	{"moments", momentsEpsilon, momentsDelta},
	{"gdp", gdpEpsilon, gdpDelta},
	{"zcdp", zcdpEpsilon, deltaBy(zcdpEpsilon)},
	{"strong", strongEpsilon, deltaBy(strongEpsilon)},
	{"naive", naiveEpsilon, deltaBy(naiveEpsilon)},
}

// Default is the accountant that answers where none is named: the tightest.
const Default = "pld"

// Names lists the accountants, the default first.
func Names() []string {
	names := make([]string, len(methods))
	for i, m := range methods {
		names[i] = m.name
	}
	return names
}

func nameOf(accountant string) string {
	if accountant == "" {
		return Default
	}
	return accountant
}

func methodNamed(accountant string) (method, error) {
	accountant = nameOf(accountant)
	i := slices.IndexFunc(methods, func(m method) bool { return m.name == accountant })
	if i < 0 {
		return method{}, dpevent.InvalidArgument("accountant %q is unknown: use one of %s", accountant, strings.Join(Names(), ", "))
	}
	return methods[i], nil
}

// Epsilon says the ε that h spent at delta.
func Epsilon(h ledger.History, delta float64, accountant string) (Guarantee, error) {
	return Compose(h).Epsilon(delta, accountant)
}

const looseReplaceOneNote = "A record replaced in Poisson lots that have other than Gaussian noise is accounted by a bound that holds for any two records (Balle, Barthe and Gaboardi 2018), and is not tight."

// hasLooseReplaceOne tells that a record is replaced in some Poisson sample with noise for
// which the worst pair is not known.
func (s composed) hasLooseReplaceOne() bool {
	return slices.ContainsFunc(s.Events, func(e dpevent.RepeatedEvent) bool {
		return e.ReplaceOne && e.Subsampled() && !e.FixedSize && !e.IsPoissonReplaceOne()
	})
}

// Delta says the δ that h spent at epsilon.
func Delta(h ledger.History, epsilon float64, accountant string) (Guarantee, error) {
	if !(epsilon >= 0) || math.IsInf(epsilon, 0) {
		return Guarantee{}, dpevent.InvalidArgument("epsilon %v: must be a finite number, 0 or more", epsilon)
	}
	p := Compose(h)
	m, err := p.method(accountant)
	if err != nil {
		return Guarantee{}, err
	}
	s := p.composed
	answer, err := m.delta(s, epsilon)
	if err != nil {
		return Guarantee{}, err
	}
	answer.Epsilon = epsilon
	if epsilon < pld.MaxLoss(s.Events) { // else δ may be nothing; here it is only too little for a number
		answer.Delta = max(answer.Delta, minDelta)
	}
	answer.complete(m, s)
	switch {
	case s.Shuffled:
		answer.addNote(shuffleNote(s.Adjacency))
	case s.isPublished(m):
		var proven Guarantee
		proven, err = pldDelta(s.asSymmetric(), epsilon)
		answer.addProven("delta", answer.Delta, proven.Delta)
	}
	return answer, err
}

func (a *Guarantee) complete(m method, s composed) {
	a.Accountant, a.Adjacency = m.name, s.Adjacency
	a.addNote(s.Note)
	if s.hasLooseReplaceOne() && (m.name == "pld" || m.name == "rdp" || m.name == "moments") {
		a.addNote(looseReplaceOneNote)
	}
}

func (a *Guarantee) addNote(sentence string) {
	if sentence == "" {
		return
	}
	if a.Note != "" {
		a.Note += " "
	}
	a.Note += sentence
}
