package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/accountant/ledger"
)

type privacy struct {
	Statement      string
	Differ         string // how neighbouring data sets differ
	Epsilon, Delta string // of what holds for all of them
	Factor         string // e^ε
	Approximate    bool
	Facts          []row
	Guess          *guess
	Lost           string
}

// guess is the bar that shows how sure an attacker can become.
type guess struct {
	Who, What string
	Percent   string
	Past      float64 // percent above one half
}

func (r *Run) privacy() *privacy {
	h, a := r.account.history, r.account.answer
	bound := a.UpperBound()
	p := &privacy{
		Statement: Statement(h, a) + r.endedEarly() + r.startedFrom(),
		Differ:    differBy(a.Adjacency, UnitWords(h.Header.Unit)),
		Epsilon:   RoundUp(bound), Delta: raised(a.Delta), Factor: rounded(math.Exp(bound), 1, 4),
		Approximate: a.Accountant == "gdp",
	}
	bracket := "ε ≤ " + RoundUp(a.Epsilon)
	switch {
	case p.Approximate:
		bracket = "ε ≈ " + RoundUp(a.Epsilon) + ", an approximation that may be too small"
	case a.ProvenBound > 0:
		bracket = fmt.Sprintf("ε = %s as published, ε ≤ %s as proven for any data", RoundUp(a.Epsilon), RoundUp(a.ProvenBound))
	case a.LowerBound > 0:
		bracket = fmt.Sprintf("%s ≤ ε ≤ %s", RoundDown(a.LowerBound), RoundUp(a.Epsilon))
	}
	order := ""
	if a.Order != 0 {
		order = fmt.Sprintf(", order %g", a.Order)
	}
	generator := "cryptographic generator, keyed by the operating system"
	if !h.Header.Secure {
		generator = "INSECURE: from a seed"
	}
	p.Facts = []row{
		{"ε", bracket}, {"δ", p.Delta},
		{"accountant", a.Accountant + " (" + AccountantName(a.Accountant) + order + ")"},
		{"unit", UnitWords(h.Header.Unit)},
		{"adjacency", string(a.Adjacency)},
		{"randomness", generator},
	}
	if low, high, ok := noiseMultipliers(h); ok {
		p.Facts = append(p.Facts, row{"noise multiplier", span(low, high)})
	}
	if len(h.Lots) > 0 && !math.IsInf(bound, 1) && !p.Approximate {
		sure := guessing(bound, a.Delta)
		digits := 1
		if sure > 0.99 {
			digits = 2
		}
		shown := math.Ceil(100*sure*math.Pow10(digits)-1e-9) / math.Pow10(digits)
		who := "Suppose that someone"
		if !h.Header.Secure {
			who += " who does not know the seed"
		}
		p.Guess = &guess{who, inQuestion(a.Adjacency, UnitWords(h.Header.Unit)), strconv.FormatFloat(shown, 'f', digits, 64) + "%", math.Round(10*(shown-50)) / 10}
	}
	if n := r.lost(); n > 0 {
		p.Lost = fmt.Sprintf("The ledger holds %s that a crash lost, counted in every ε here.", plural(n, "lot"))
	}
	return p
}

// unitShort is the unit in a word or two.
func unitShort(unit string) string {
	kind, detail, _ := strings.Cut(unit, ":")
	switch {
	case kind == "microbatch" && detail != "":
		return detail + " examples"
	case kind == "user":
		return "a user"
	}
	return "an " + kind
}

// endedEarly says what else a run may have cost that was ended before its last lot.
func (r *Run) endedEarly() string {
	if r.summary.Planned == 0 {
		return ""
	}
	return " The run was ended before its last lot; if what it had shown, such as its accuracy on public data, told when to end it, ε = " + RoundUp(float64(r.summary.Planned)) + " holds instead, which all lots of its plan would have cost."
}

// startedFrom says what the ledger of a run cannot know of its starting weights.
func (r *Run) startedFrom() string {
	if r.summary.Start == "" {
		return ""
	}
	return " Nor does it cover what the starting weights, from " + r.summary.Start + ", tell of data that they were trained on."
}

type cost struct {
	Chart *chart
	Rows  []costRow
}

type costRow struct {
	Style, Name, Epsilon, Note string
	Main                       bool
}

// cost lists what every accountant says.
func (a *account) cost() *cost {
	if len(a.history.Lots) == 0 {
		return nil
	}
	c := &cost{Chart: a.epsilonChart()}
	for _, each := range a.curves {
		one := costRow{Style: style(each.accountant), Name: AccountantName(each.accountant), Main: each.accountant == a.answer.Accountant}
		if each.why != "" {
			one.Epsilon, one.Note = "–", each.why
		} else {
			if each.bound > each.last() {
				one.Note = "published; proven for any data is " + rounded(each.bound, 1, 4)
			}
			one.Epsilon = rounded(each.last(), 1, 4)
			if each.last() >= 1000 {
				one.Epsilon = "above 1000"
			}
		}
		c.Rows = append(c.Rows, one)
	}
	return c
}

type groupRow struct {
	Name, Sensitivity, Noise, Share string
	Width                           float64 // of 100
}

// groupRows are the groups of vectors and, where there are several whose shares add
// up, their shares of the budget.
func (a *account) groupRows() (rows []groupRow, shares bool) {
	for _, g := range a.groups {
		one := groupRow{Name: g.Name, Sensitivity: span(g.LeastS, g.MostS), Noise: span(g.LeastNoise, g.MostNoise)}
		if g.Mechanism != ledger.Gaussian {
			one.Name += " (" + string(g.Mechanism) + ")"
		}
		if len(a.groups) > 1 && !math.IsNaN(g.Share) {
			shares = true
			one.Share, one.Width = part(g.Share), math.Round(1000*g.Share)/10
		}
		rows = append(rows, one)
	}
	return rows, shares
}

// part writes a share that is neither nothing nor everything.
func part(share float64) string {
	switch {
	case share < 0.0005:
		return "< 0.1%"
	case share > 0.9995:
		return "> 99.9%"
	}
	return strconv.FormatFloat(100*share, 'f', 1, 64) + "%"
}

type ledgerCard struct {
	Head, State, Verify, Account string
}

func (r *Run) ledger() *ledgerCard {
	seal, a := r.account.seal, r.account.answer
	state := fmt.Sprintf("%s, %s, %s; verified when this page was made", plural(seal.Entries, "line"), plural(seal.Lots, "release"), plural(seal.Runs, "run"))
	return &ledgerCard{
		Head: seal.Head, State: state,
		Verify:  "dptrain ledger verify ledger.jsonl --head " + seal.Head,
		Account: fmt.Sprintf("dptrain ledger epsilon ledger.jsonl --delta %s --accountant %s", written(a.Delta, -1), a.Accountant),
	}
}
