package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// privacySection is the page's section on the guarantee.
type privacySection struct {
	Statement      string
	Difference     string // how neighbouring data sets differ
	Epsilon, Delta string // the proven bound
	Factor         string // e^ε
	Approximate    bool
	Facts          []row
	Guess          *guessBound
	Lost           string
	Assumptions    string // where the assumptions and their tests are listed
}

// guaranteePage is the page of this module's repository that lists the assumptions of the
// guarantee. The report names it and links to nothing: it is read without a network.
const (
	guaranteePage = "docs/guarantee.md"
	repository    = "github.com/dptrain/dptrain"
)

// describeAssumptions names the page for a reader who has only the run's files.
func (s *summary) describeAssumptions() string {
	text := fmt.Sprintf("The page %s in the repository %s lists what this guarantee assumes, what it does not cover, and the test behind each claim", guaranteePage, repository)
	if s.Version != "" {
		text += fmt.Sprintf("; this run used version %s", s.Version)
	}
	return text + "."
}

// guessBound is the bar that shows how often an adversary can guess right.
type guessBound struct {
	Adversary, Secret string
	Percent           string
	AboveHalf         float64 // percent above one half
}

func (r *Run) privacySection() *privacySection {
	h, a := r.accounting.history, r.accounting.answer
	bound := a.Epsilon
	p := &privacySection{
		Statement:  Statement(h, a) + r.earlyStopSentence() + r.startingWeightsSentence() + r.splitSentence(),
		Difference: describeDifference(a.Adjacency, DescribeUnit(h.Header.Unit)),
		Epsilon:    number.RoundUp(bound), Delta: powerOfTen(a.Delta), Factor: number.Round(math.Exp(bound), 1, 4),
		Approximate: a.Approximate, Assumptions: r.summary.describeAssumptions(),
	}
	epsilon := "ε ≤ " + number.RoundUp(a.Epsilon)
	switch {
	case p.Approximate:
		epsilon = "ε ≈ " + number.RoundUp(a.Epsilon) + ", an approximation that may be too small"
	case a.Published > 0:
		epsilon = fmt.Sprintf("ε ≤ %s, proven for any data; the published ε = %s holds only for some data", number.RoundUp(a.Epsilon), number.RoundUp(a.Published))
	case a.LowerBound > 0:
		epsilon = fmt.Sprintf("%s ≤ ε ≤ %s", number.RoundDown(a.LowerBound), number.RoundUp(a.Epsilon))
	}
	switch {
	case r.summary.NoiseSchedule != "":
		epsilon += ", enforced by a privacy filter, because releases chose the noise"
	case r.summary.PlannedEpsilon > 0:
		epsilon += ", the cost of the whole plan, which the run did not complete"
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
		{"ε", epsilon}, {"δ", p.Delta},
		{"accountant", a.Accountant + " (" + AccountantName(a.Accountant) + order + ")"},
		{"unit", DescribeUnit(h.Header.Unit)},
		{"adjacency", string(a.Adjacency)},
		{"randomness", generator},
		{"arithmetic", Arithmetic(h) + ": " + ArithmeticMeaning(Arithmetic(h))},
	}
	if low, high, ok := noiseMultipliers(h); ok {
		p.Facts = append(p.Facts, row{"noise multiplier", ValueRange(low, high)})
	}
	if len(h.Lots) > 0 && !math.IsInf(bound, 1) && !p.Approximate {
		p.Guess = newGuessBound(guessProbability(bound, a.Delta))
		p.Guess.Adversary = "Suppose that an adversary"
		if !h.Header.Secure {
			p.Guess.Adversary += " who does not know the seed"
		}
		p.Guess.Secret = describeSecret(a.Adjacency, DescribeUnit(h.Header.Unit))
	}
	if n := r.lostLots(); n > 0 {
		p.Lost = fmt.Sprintf("The ledger also contains %s that a crash lost. Every ε on this page includes their cost.", plural(n, "lot"))
	}
	return p
}

// newGuessBound rounds a probability up, with two decimals of a percent above 99%.
func newGuessBound(probability float64) *guessBound {
	digits := 1
	if probability > 0.99 {
		digits = 2
	}
	percent := math.Ceil(100*probability*math.Pow10(digits)-1e-9) / math.Pow10(digits)
	return &guessBound{Percent: strconv.FormatFloat(percent, 'f', digits, 64) + "%", AboveHalf: math.Round(10*(percent-50)) / 10}
}

// shortUnit is the unit of privacy in one or two words.
func shortUnit(unit string) string {
	kind, detail, _ := strings.Cut(unit, ":")
	switch {
	case kind == "microbatch" && detail != "":
		return detail + " examples"
	case kind == "user":
		return "a user"
	}
	return "an " + kind
}

// earlyStopSentence explains the ε of a run that ended before its plan: the cost of the whole
// plan, because the end may depend on what was released. Where releases chose the noise, it is the budget
// of a filter.
func (r *Run) earlyStopSentence() string {
	if r.summary.PlannedEpsilon == 0 {
		return ""
	}
	if r.summary.NoiseSchedule != "" {
		return fmt.Sprintf(" The noise followed released metrics (%s). A Rényi filter of order %s admitted each lot only within ε = %s, which is the guarantee for all such choices (Feldman and Zrnic 2021, theorem 4.3; Lécuyer 2021, theorem 1). The same lots with noise that was fixed beforehand cost ε = %s.",
			r.summary.NoiseSchedule, number.Short(r.summary.FilterOrder),
			number.RoundUp(r.accounting.answer.Epsilon), number.RoundUp(r.accounting.spent.Epsilon))
	}
	plan := "its last planned lot"
	if r.summary.PlannedSteps > 0 {
		plan = "its plan of " + plural(r.summary.PlannedSteps, "lot")
	}
	end := "and its end may depend on what it had released"
	if r.summary.Stopped {
		end = "because what it had released fulfilled the condition " + r.summary.StopWhen
	}
	text := fmt.Sprintf(" The run ended before %s, %s, so the guarantee is that of the whole plan: ε = %s. The releases in the ledger alone cost ε = %s, which is the guarantee only if their number did not depend on a released value.",
		plan, end, number.RoundUp(r.accounting.answer.Epsilon), number.RoundUp(r.accounting.spent.Epsilon))
	if r.summary.OdometerEpsilon > 0 {
		text += fmt.Sprintf(" The privacy loss of what was released is at most %s with probability 1 - δ, also at such an end (a privacy odometer).", number.RoundUp(float64(r.summary.OdometerEpsilon)))
	}
	return text
}

// startingWeightsSentence states that the ledger does not cover the starting weights.
func (r *Run) startingWeightsSentence() string {
	if r.summary.StartingWeights == "" {
		return ""
	}
	return " The guarantee does not cover the data that the starting weights, from " + r.summary.StartingWeights + ", were trained on."
}

// splitSentence states that the guarantee does not cover the rows of --split.
func (r *Run) splitSentence() string {
	if r.summary.Split == nil {
		return ""
	}
	return fmt.Sprintf(" Of the %s rows of the data, %s, drawn at random, are public by the user's declaration: the guarantee does not cover them.", number.Thousands(r.summary.Split.Rows), number.Thousands(r.summary.TestExamples))
}

// costSection compares all accountants.
type costSection struct {
	Chart *chart
	Rows  []costRow
}

type costRow struct {
	Style, Name, Epsilon, Note string
	Main                       bool // the run's own accountant
}

func (a *accounting) costSection() *costSection {
	if len(a.history.Lots) == 0 {
		return nil
	}
	section := &costSection{Chart: a.epsilonChart()}
	for _, c := range a.curves {
		r := costRow{Style: lineStyle(c.accountant), Name: AccountantName(c.accountant), Main: c.accountant == a.answer.Accountant}
		if c.failure != "" {
			r.Epsilon, r.Note = "–", c.failure
		} else {
			r.Epsilon = number.Round(c.last(), 1, 4)
			if c.last() >= 1000 {
				r.Epsilon = "above 1000"
			}
			if c.accountant == "gdp" {
				r.Epsilon = "≈ " + r.Epsilon
			}
		}
		section.Rows = append(section.Rows, r)
	}
	return section
}

type groupRow struct {
	Name, Sensitivity, Noise, Share string
	Width                           float64 // of 100
}

// groupRows lists the groups. haveShares reports whether several groups share the budget
// and their shares add up.
func (a *accounting) groupRows() (rows []groupRow, haveShares bool) {
	for _, g := range a.groups {
		r := groupRow{Name: g.Name, Sensitivity: ValueRange(g.MinSensitivity, g.MaxSensitivity), Noise: ValueRange(g.MinNoise, g.MaxNoise)}
		if g.Mechanism != ledger.Gaussian {
			r.Name += " (" + string(g.Mechanism) + ")"
		}
		if len(a.groups) > 1 && !math.IsNaN(g.Share) {
			haveShares = true
			r.Share, r.Width = budgetShare(g.Share), math.Round(1000*g.Share)/10
		}
		rows = append(rows, r)
	}
	return rows, haveShares
}

// ledgerSection shows the ledger's head and the commands that check the ledger.
type ledgerSection struct {
	Head, State, Verify, Account string
}

func (a *accounting) ledgerSection() *ledgerSection {
	return &ledgerSection{
		Head:    a.seal.Head,
		State:   fmt.Sprintf("%s, %s, %s; verified when this page was written", plural(a.seal.Entries, "line"), plural(a.seal.Lots, "release"), plural(a.seal.Runs, "run")),
		Verify:  "dptrain ledger verify ledger.jsonl --head " + a.seal.Head,
		Account: fmt.Sprintf("dptrain ledger epsilon ledger.jsonl --delta %s --accountant %s", number.Format(a.answer.Delta, -1), a.answer.Accountant),
	}
}

// Statement is the paragraph on privacy for a paper or a model card.
func (r *Run) Statement() string {
	if r.accounting == nil {
		return "There is no privacy guarantee (ε = ∞). The model was trained without clipping and without noise."
	}
	return r.privacySection().Statement
}
