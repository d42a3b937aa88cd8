package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dptrain/dptrain/accountant"
)

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	pageStyle string

	pageTemplate = template.Must(template.New("page").Parse(strings.Replace(pageText, "/*style*/", pageStyle, 1)))
)

// page is what page.html shows. All of it is text that the template escapes.
type page struct {
	Title, Lede string
	Warnings    []warning
	Figures     []figure
	Privacy     *privacy
	Cost        *cost
	Accuracy    *chart
	Predicted   string // the target of a regression
	Tested      string
	Known       string // where nothing was tested
	Score       []row
	Groups      []groupRow
	Shares      bool
	Confusion   *confusion
	Settings    []row
	Machine     []row
	Ledger      *ledger
	Version     string
}

type warning struct{ Level, Title, Text string }

type figure struct{ Value, Label, Note string }

// Upper is the title as it is shouted where there is no colour.
func (w warning) Upper() string { return strings.ToUpper(w.Title) }

type row struct{ Name, Value string }

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

type cost struct {
	Chart *chart
	Rows  []costRow
}

type costRow struct {
	Style, Name, Epsilon, Note string
	Main                       bool
}

type groupRow struct {
	Name, Sensitivity, Noise, Share string
	Width                           float64 // of 100
}

type ledger struct {
	Head, State, Verify, Account string
}

// Page is report.html: one file that loads nothing.
func (r *Run) Page() ([]byte, error) {
	s := &r.summary
	p := &page{
		Title: s.Model + " trained on " + s.data(), Lede: r.lede(),
		Warnings: r.warnings(), Figures: r.figures(),
		Confusion: r.confusion(), Settings: r.settings(), Machine: r.machine(), Version: s.Version, Predicted: s.Target, Known: s.known(),
	}
	var err error
	if p.Accuracy, err = r.accuracyChart(); err != nil {
		return nil, err
	}
	p.Tested, p.Score = r.tests()
	if r.account != nil {
		p.Privacy, p.Cost, p.Ledger = r.privacy(), r.account.cost(), r.ledger()
		p.Groups, p.Shares = r.account.groupRows()
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// tests says what was measured on public test data: nothing where there were none.
func (r *Run) tests() (words string, score []row) {
	s := &r.summary
	if !r.tested() {
		return "", nil
	}
	words, score = "Measured on public test data, which are not protected.", []row{{"accuracy", percent(s.TestAccuracy)}}
	if r.regressed() {
		words += " Errors are in the units of " + s.Target + s.between() + "."
		score = s.errors()
	}
	return words, append(score, row{"mean loss", finite(s.TestLoss)}, row{"test examples", Thousands(s.TestExamples)})
}

// finite is a number, if it is one.
func finite(x *float64) string {
	if x == nil {
		return "no finite number"
	}
	return Short(*x)
}

// between says what a target's limits do.
func (s *summary) between() string {
	if len(s.TargetBounds) != 2 {
		return ""
	}
	return fmt.Sprintf(", which lies between %s and %s: what lies beyond counts as the limit", Short(s.TargetBounds[0]), Short(s.TargetBounds[1]))
}

// errors are those of a regression.
func (s *summary) errors() []row {
	rows := []row{{"root mean squared error", finite(s.TestRMSE)}, {"mean absolute error", finite(s.TestMAE)}}
	if s.TestR2 != nil {
		rows = append(rows, row{"R²", Short(*s.TestR2)})
	}
	return rows
}

func (r *Run) lede() string {
	s := &r.summary
	text := fmt.Sprintf("%s trained in %s", plural(s.Parameters, "weight"), plural(s.Steps, "lot"))
	if s.Records > 0 {
		text += fmt.Sprintf(" of about %s from %s", Thousands(int(math.Round(s.ExpectedLot))), plural(s.Records, "record"))
	}
	if day := s.day(); day != "" {
		text += ", " + day
	}
	return text + "."
}

// day is the date on which the run ended, if it says so.
func (s *summary) day() string {
	at, err := time.Parse(time.RFC3339, s.Finished)
	if err != nil {
		return ""
	}
	return at.UTC().Format("2 January 2006")
}

func (r *Run) warnings() (all []warning) {
	if r.account == nil {
		return []warning{{"danger", "Not private", "This model was trained without clipping and without noise: ε = ∞. Its weights may give away any record that it was trained on. It is a baseline to compare with, not a model to publish."}}
	}
	a := r.account.answer
	if !r.secure() {
		all = append(all, warning{"caution", "Insecure", "The noise or the lots came from a seed, not from the operating system's cryptographic generator. Whoever knows or guesses the seed can subtract the noise. The ε below holds only against those who cannot: this run is for experiments."})
	}
	switch {
	case a.Proven > 0:
		all = append(all, warning{"caution", "Published, not proven", a.Note})
	case a.Accountant == "gdp":
		all = append(all, warning{"caution", "Approximate", a.Note})
	}
	if w := DeltaWarning(a.Delta, r.account.history.Header.Records); w != "" {
		all = append(all, warning{"caution", "Delta too large", "The " + w + "."})
	}
	return all
}

func (r *Run) figures() []figure {
	var all []figure
	if r.account == nil {
		all = append(all, figure{"∞", "ε", "no guarantee"})
	} else {
		a := r.account.answer
		note := "by the " + a.Accountant + " accountant"
		switch {
		case !r.secure():
			note = "insecure: seeded"
		case a.Proven > 0:
			note = "published; proven for any data is " + rounded(a.Proven, 1, 4)
		}
		all = append(all, figure{rounded(a.Epsilon, 1, 4), "ε", note}, figure{raised(a.Delta), "δ", r.deltaNote()})
	}
	switch {
	case r.regressed():
		all = append(all, figure{finite(r.summary.TestRMSE), "test RMSE", "of " + r.summary.Target + ", on public data"})
	case r.tested():
		all = append(all, figure{percent(r.summary.TestAccuracy), "test accuracy", "on public data"})
	}
	if r.account != nil {
		all = append(all, figure{unitShort(r.account.history.Header.Unit), "protected", Thousands(r.account.history.Header.Records) + " in the data"})
	}
	return all
}

// deltaNote compares δ with one over the records.
func (r *Run) deltaNote() string {
	n := r.account.history.Header.Records
	if DeltaWarning(r.account.answer.Delta, n) == "" {
		return "below 1 / " + Thousands(n) + " records"
	}
	return "TOO LARGE: not below 1 / " + Thousands(n) + " records"
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

func (r *Run) privacy() *privacy {
	h, a := r.account.history, r.account.answer
	bound := a.Bound()
	p := &privacy{
		Statement: Statement(h, a) + r.endedEarly() + r.startedFrom(),
		Differ:    differBy(a.Adjacency, unitWords(h.Header.Unit)),
		Epsilon:   RoundUp(bound), Delta: raised(a.Delta), Factor: rounded(math.Exp(bound), 1, 4),
		Approximate: a.Accountant == "gdp",
	}
	bracket := "ε ≤ " + RoundUp(a.Epsilon)
	switch {
	case p.Approximate:
		bracket = "ε ≈ " + RoundUp(a.Epsilon) + ", an approximation that may be too small"
	case a.Proven > 0:
		bracket = fmt.Sprintf("ε = %s as published, ε ≤ %s as proven for any data", RoundUp(a.Epsilon), RoundUp(a.Proven))
	case a.Lower > 0:
		bracket = fmt.Sprintf("%s ≤ ε ≤ %s", RoundDown(a.Lower), RoundUp(a.Epsilon))
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
		{"unit", unitWords(h.Header.Unit)},
		{"adjacency", string(a.Adjacency)},
		{"randomness", generator},
	}
	if low, high, ok := noiseMultipliers(h); ok {
		p.Facts = append(p.Facts, row{"noise multiplier", span(low, high)})
	}
	if len(h.Spent) > 0 && !math.IsInf(bound, 1) && !p.Approximate {
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
		p.Guess = &guess{who, inQuestion(a.Adjacency, unitWords(h.Header.Unit)), strconv.FormatFloat(shown, 'f', digits, 64) + "%", math.Round(10*(shown-50)) / 10}
	}
	if n := r.lost(); n > 0 {
		p.Lost = fmt.Sprintf("The ledger holds %s that a crash lost, counted in every ε here.", plural(n, "lot"))
	}
	return p
}

// cost lists what every accountant says.
func (a *account) cost() *cost {
	if len(a.history.Spent) == 0 {
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

// groupRows are the groups of vectors and, where there are several whose shares add
// up, their shares of the budget.
func (a *account) groupRows() (rows []groupRow, shares bool) {
	for _, g := range a.groups {
		one := groupRow{Name: g.Name, Sensitivity: span(g.LeastS, g.MostS), Noise: span(g.LeastNoise, g.MostNoise)}
		if g.Mechanism != accountant.Gaussian {
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

func (r *Run) settings() []row {
	s := &r.summary
	rows := []row{{"network", s.Model}, {"weights", Thousands(s.Parameters)}, {"data", s.data()}, {"records", Thousands(s.Records)}}
	if s.Target != "" {
		rows = slices.Insert(rows, 3, row{"predicted", s.Target})
	}
	add := func(show bool, name, value string) {
		if show {
			rows = append(rows, row{name, value})
		}
	}
	add(s.ValidationRecords > 0, "held out", plural(s.ValidationRecords, "record"))
	if s.ValidationRecords > 0 {
		measure, value := s.validation()
		add(true, measure+" on them", value)
	}
	add(s.Projection > 0, "first layer", plural(s.Projection, "principal direction")+s.found())
	add(s.Views > 0, "views of a picture", fmt.Sprintf("%d, changed by %s", s.Views, s.Augment))
	add(s.Preset != "", "preset", s.Preset)
	add(s.Start != "", "starting weights", s.Start)
	add(s.Frozen != "", "layers that keep them", s.Frozen)
	add(true, "sampling", s.Sampling)
	add(true, "expected lot", Short(s.ExpectedLot))
	add(s.Rate > 0, "sampling rate", Short(s.Rate))
	add(true, "lots", Thousands(s.Steps))
	add(s.epochs() > 0, "epochs", Short(s.epochs()))
	add(s.Private, "clipping", s.Clipping)
	bound := "clip bound"
	if s.Clipping == "adaptive" {
		bound = "first clip bound"
	}
	add(s.Private && s.Clip > 0, bound, Short(s.Clip))
	add(s.Private && s.Allocation != "" && len(r.account.groups) > 1, "noise among groups", s.Allocation)
	add(s.Optimizer != "", "optimizer", s.Optimizer)
	add(s.DecayOf != "", "weight decay of", s.DecayOf)
	add(s.LearningRate > 0, "learning rate", Short(s.LearningRate))
	add(s.RateOf != "", "learning rate of layers", s.RateOf+" (times that)")
	add(s.Schedule != "", "schedule", s.Schedule)
	add(s.Average > 0, "moving average", "decay "+strconv.FormatFloat(s.Average, 'g', -1, 64))
	return rows
}

// found says how the directions of a projection were.
func (s *summary) found() string {
	if s.ProjectionNoise == 0 {
		return ""
	}
	return fmt.Sprintf(", released with noise of %s times a record's share, paid for", Short(s.ProjectionNoise))
}

// validation is what was released of the records held out, with the deviation of its noise.
func (s *summary) validation() (measure, value string) {
	noise := func(unit float64, sign string) string {
		if s.ValidationDeviation == 0 {
			return ""
		}
		return fmt.Sprintf(" ± %.2g%s of noise, paid for", unit*s.ValidationDeviation, sign)
	}
	if s.ValidationMAE == nil {
		return "accuracy", percent(s.ValidationAccuracy) + noise(100, "%")
	}
	return "mean absolute error", Short(*s.ValidationMAE) + noise(1, "") + "; in the units of " + s.Target + ", answers beyond its limits counting as these"
}

// known is all that is known of how well the network does where there are no public test
// data; "" where that is nothing.
func (s *summary) known() string {
	if s.ValidationRecords == 0 {
		return ""
	}
	measure, value := s.validation()
	return fmt.Sprintf("the %s on %s held out: %s", measure, plural(s.ValidationRecords, "record"), value)
}

func (r *Run) machine() []row {
	s := &r.summary
	device := s.Device
	if s.Threads > 0 {
		device += ", " + plural(s.Threads, "thread")
	}
	rows := []row{{"device", device}}
	if s.Platform != "" {
		rows = append(rows, row{"platform", s.Platform})
	}
	return append(rows,
		row{"time", duration(s.Seconds)},
		row{"speed", Thousands(int(s.Speed)) + " examples/s"},
		row{"microbatch", Thousands(s.Microbatch)},
		row{"dptrain", s.Version})
}

// duration keeps two units at most.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

func (r *Run) ledger() *ledger {
	seal, a := r.account.seal, r.account.answer
	state := fmt.Sprintf("%s, %s, %s; verified when this page was made", plural(seal.Entries, "line"), plural(seal.Lots, "lot"), plural(seal.Runs, "run"))
	return &ledger{
		Head: seal.Head, State: state,
		Verify:  "dptrain ledger verify ledger.jsonl --head " + seal.Head,
		Account: fmt.Sprintf("dptrain ledger epsilon ledger.jsonl --delta %s --accountant %s", written(a.Delta, -1), a.Accountant),
	}
}
