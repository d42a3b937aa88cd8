package accountant

import (
	"math"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/accountant/internal/dpevent"
	"github.com/dptrain/dptrain/accountant/internal/pld"
	"github.com/dptrain/dptrain/accountant/ledger"
)

// Guarantee is the privacy cost of a history: the history satisfies (Epsilon, Delta)-differential
// privacy under Adjacency, for any data. The one exception is an accountant
// that is an approximation: then Approximate is set, and Note states it.
type Guarantee struct {
	Epsilon    float64          `json:"epsilon"` // compare it with a budget
	Delta      float64          `json:"delta"`
	Accountant string           `json:"accountant"`
	Adjacency  ledger.Adjacency `json:"adjacency"`
	Order      float64          `json:"order,omitempty"` // rdp and moments: the Rényi order that gives the result
	LowerBound float64          `json:"lower,omitempty"` // pld: a lower bound of the computed quantity, unless Note calls the result a bound
	// Published, of pld and rdp for lots of a fixed size, is the published figure of the computed
	// quantity, where it is smaller than the proven one: see fixed_size.go.
	Published   float64 `json:"published,omitempty"`
	Approximate bool    `json:"approximate,omitempty"` // the computed quantity is not a bound: more may have been spent
	Note        string  `json:"note,omitempty"`        // restrictions of the guarantee, in sentences
}

// method computes ε at δ and δ at ε by one accountant.
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
	{"tcdp", tcdpEpsilon, deltaBy(tcdpEpsilon)},
	{"zcdp", zcdpEpsilon, deltaBy(zcdpEpsilon)},
	{"strong", strongEpsilon, deltaBy(strongEpsilon)},
	{"naive", naiveEpsilon, deltaBy(naiveEpsilon)},
}

// Default is the accountant used for an empty name. It is the tightest.
const Default = "pld"

// Names returns the names of the accountants, the default first.
func Names() []string {
	names := make([]string, len(methods))
	for i, m := range methods {
		names[i] = m.name
	}
	return names
}

func orDefault(accountant string) string {
	if accountant == "" {
		return Default
	}
	return accountant
}

func methodNamed(accountant string) (method, error) {
	accountant = orDefault(accountant)
	i := slices.IndexFunc(methods, func(m method) bool { return m.name == accountant })
	if i < 0 {
		return method{}, dpevent.InvalidArgument("accountant %q is unknown: use one of %s", accountant, strings.Join(Names(), ", "))
	}
	return methods[i], nil
}

// Epsilon computes the ε that h spends at delta.
func Epsilon(h ledger.History, delta float64, accountant string) (Guarantee, error) {
	return Compose(h).Epsilon(delta, accountant)
}

const looseReplaceOneNote = "Under replace-one adjacency, Poisson lots with noise that is not Gaussian are accounted by a bound for any two records (Balle, Barthe and Gaboardi 2018), which is not tight."

// hasLooseReplaceOne reports whether a record is replaced in some Poisson lot with noise for
// which the dominating pair is not known.
func (s composed) hasLooseReplaceOne() bool {
	return slices.ContainsFunc(s.Events, func(e dpevent.RepeatedEvent) bool {
		return e.ReplaceOne && e.Subsampled() && !e.FixedSize && !e.IsPoissonReplaceOne()
	})
}

// Delta computes the δ that h spends at epsilon.
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
	if epsilon < pld.MaxLoss(s.Events) { // δ is positive here, even if it underflows
		answer.Delta = max(answer.Delta, minDelta)
	}
	answer.complete(m, s)
	switch {
	case s.Shuffled:
		answer.addNote(shuffleNote(s.Adjacency))
	case s.isPublished(m):
		var proven Guarantee
		proven, err = pldDelta(s.asSymmetric(), epsilon)
		answer.prove("delta", &answer.Delta, proven.Delta)
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
