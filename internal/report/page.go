package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
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
	Ledger      *ledgerCard
	Version     string
}

type warning struct{ Level, Title, Text string }

type figure struct{ Value, Label, Note string }

// Upper is the title as it is shouted where there is no colour.
func (w warning) Upper() string { return strings.ToUpper(w.Title) }

type row struct{ Name, Value string }

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
	case a.ProvenBound > 0:
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
		case a.ProvenBound > 0:
			note = "published; proven for any data is " + rounded(a.ProvenBound, 1, 4)
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
		all = append(all, figure{unitShort(r.account.history.Header.Unit), "protected", Thousands(r.account.history.Header.Records) + " trained on"})
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
