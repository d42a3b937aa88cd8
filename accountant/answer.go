package accountant

import (
	"math"
	"slices"
	"strings"
)

// Answer is what a history spent: it satisfies (Epsilon, Delta)-differential
// privacy under Adjacency, unless Note says that the accountant is an
// approximation, or that lots of a fixed size are answered as they are published.
type Answer struct {
	Epsilon    float64   `json:"epsilon"`
	Delta      float64   `json:"delta"`
	Accountant string    `json:"accountant"`
	Adjacency  Adjacency `json:"adjacency"`
	Order      float64   `json:"order,omitempty"`  // rdp and moments: the order that gave the answer
	Lower      float64   `json:"lower,omitempty"`  // pld: what was asked for cannot be below this, unless Note calls it a bound
	Proven     float64   `json:"proven,omitempty"` // pld and rdp, lots of a fixed size: the bound for any data on what was asked for, where it is larger
	Note       string    `json:"note,omitempty"`   // sentences, where the answer needs them
}

// Bound is the ε that a budget is held to: what is proven for any data, where that is
// more than what is published.
func (a Answer) Bound() float64 { return max(a.Epsilon, a.Proven) }

// method answers one question about a spending.
type method struct {
	name    string
	epsilon func(s spending, delta float64) (Answer, error)
	delta   func(s spending, epsilon float64) (Answer, error)
}

var methods = []method{
	{"pld", spending.pld, pldDelta},
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
		return method{}, badArgument("accountant %q is unknown: use one of %s", accountant, strings.Join(Names(), ", "))
	}
	return methods[i], nil
}

// Epsilon says the ε that h spent at delta.
func Epsilon(h History, delta float64, accountant string) (Answer, error) {
	return Prepare(h).Epsilon(delta, accountant)
}

const replacedNote = "A record replaced in Poisson lots that have other than Gaussian noise is accounted by a bound that holds for any two records (Balle, Barthe and Gaboardi 2018), and is not tight."

// replacesPoisson tells that a record is replaced in some Poisson sample with noise for
// which the worst pair is not known.
func (s spending) replacesPoisson() bool {
	return slices.ContainsFunc(s.events, func(e counted) bool { return e.replace && e.sampled() && !e.fixed && !e.opposed() })
}

// Delta says the δ that h spent at epsilon.
func Delta(h History, epsilon float64, accountant string) (Answer, error) {
	if !(epsilon >= 0) || math.IsInf(epsilon, 0) {
		return Answer{}, badArgument("epsilon %v: must be a finite number, 0 or more", epsilon)
	}
	p := Prepare(h)
	m, err := p.method(accountant)
	if err != nil {
		return Answer{}, err
	}
	s := p.spending
	answer, err := m.delta(s, epsilon)
	if err != nil {
		return Answer{}, err
	}
	answer.Epsilon = epsilon
	if epsilon < mostLoss(s.events) { // else δ may be nothing; here it is only too little for a number
		answer.Delta = max(answer.Delta, leastDelta)
	}
	answer.complete(m, s)
	switch {
	case s.shuffled:
		answer.addNote(shuffleNote(s.adjacency))
	case s.published(m):
		var proven Answer
		proven, err = pldDelta(s.asProven(), epsilon)
		answer.prove("delta", answer.Delta, proven.Delta)
	}
	return answer, err
}

func (a *Answer) complete(m method, s spending) {
	a.Accountant, a.Adjacency = m.name, s.adjacency
	a.addNote(s.note)
	if s.replacesPoisson() && (m.name == "pld" || m.name == "rdp" || m.name == "moments") {
		a.addNote(replacedNote)
	}
}

func (a *Answer) addNote(sentence string) {
	if sentence == "" {
		return
	}
	if a.Note != "" {
		a.Note += " "
	}
	a.Note += sentence
}
