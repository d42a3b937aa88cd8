package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

var (
	//go:embed head.html
	pageHead string
	//go:embed page.html
	pageText string
	//go:embed page.css
	pageStyle string

	pageTemplate = parsePage(template.New("page"), pageText)
)

// parsePage reads the text of a page after the head and the style of all pages.
func parsePage(t *template.Template, text string) *template.Template {
	return template.Must(t.Parse(strings.Replace(pageHead, "/*style*/", pageStyle, 1) + text))
}

// page has the values that page.html shows. The template escapes all of them.
type page struct {
	Title, Summary string
	Warnings       []warning
	Figures        []figure
	EndedEarly     bool // before the plan
	Privacy        *privacySection
	Detection      *detectionSection // nil without a proven bound
	DeltaRecords   row               // δ against 1/n, and its explanation
	Cost           *costSection
	ScoreChart     *chart
	Target         string // of a regression
	TestNote       string // empty without a score on public test data
	Validation     string
	Score          []row
	Metrics        *metricsSection // nil if no lot released a metric
	Groups         []groupRow
	HaveShares     bool
	Confusion      *confusionMatrix
	Probabilities  *probabilitySection // nil without public test data
	Residuals      *chart              // nil without public test data
	AboutResiduals string
	Weights        *weightsSection // nil unless the model is linear
	Data           *dataSection
	Settings       []row
	Machine        []row
	Ledger         *ledgerSection
	Version        string
}

type warning struct{ Level, Title, Text string }

// Upper is the title in capitals, for documents without colours.
func (w warning) Upper() string { return strings.ToUpper(w.Title) }

type figure struct{ Value, Label, Note string }

type row struct{ Name, Value string }

// Page writes report.html: one file that loads no other file.
func (r *Run) Page() ([]byte, error) {
	s := &r.summary
	p := &page{
		Title: s.Model + " trained on " + s.dataName(), Summary: r.summaryLine(),
		Warnings: r.warnings(), Figures: r.figures(),
		Confusion: r.confusionMatrix(), Settings: r.settingRows(), Machine: r.machineRows(),
		Version: s.Version, Target: s.Target, Validation: s.validationSummary(),
	}
	var err error
	if p.ScoreChart, err = r.scoreChart(); err != nil {
		return nil, err
	}
	p.TestNote, p.Score = r.testScore()
	p.Metrics = r.metricsSection()
	p.Probabilities, p.Weights, p.Data = s.probabilitySection(), s.weightsSection(), s.dataSection()
	if p.Residuals = s.residualChart(); p.Residuals != nil {
		p.AboutResiduals = s.aboutResiduals()
	}
	if r.accounting != nil {
		p.EndedEarly = s.PlannedEpsilon > 0
		p.Privacy, p.Cost, p.Ledger = r.privacySection(), r.accounting.costSection(), r.accounting.ledgerSection()
		p.Groups, p.HaveShares = r.accounting.groupRows()
		p.Detection = r.detectionSection()
		p.DeltaRecords.Name, p.DeltaRecords.Value = r.deltaAgainstRecords()
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// testScore describes what was measured on public test data. The note is empty if nothing
// was measured.
func (r *Run) testScore() (note string, score []row) {
	s := &r.summary
	if !r.hasTestScore() {
		return "", nil
	}
	note, score = "Measured on test data, which the user declares public: the guarantee does not protect them.", []row{{"accuracy", percent(float64(s.TestAccuracy))}}
	if r.isRegression() {
		note += " Errors are in the units of " + s.Target + "." + s.boundsSentence()
		score = s.regressionErrors()
	}
	if b, explanation := s.baselineRow(); explanation != "" {
		note, score = note+explanation, append(score, b)
	}
	return note, append(score, row{"mean loss", finiteNumber(s.TestLoss)}, row{"test examples", number.Thousands(s.TestExamples)})
}

// baselineRow is the result of a constant prediction, with its explanation; empty if it is unknown.
func (s *summary) baselineRow() (baseline row, explanation string) {
	switch {
	case s.Baseline == nil:
		return row{}, ""
	case s.Target != "":
		return row{"baseline", number.Short(*s.Baseline)}, " The baseline is the root mean squared error of always predicting the mean of the test data."
	}
	return row{"baseline", percent(*s.Baseline)}, " The baseline is the accuracy of always predicting the most frequent class of the test data."
}

// boundsSentence states the bounds of the target.
func (s *summary) boundsSentence() string {
	if s.TargetBounds == nil {
		return ""
	}
	return fmt.Sprintf(" Values are clipped to its bounds, %s and %s.", number.Short(s.TargetBounds[0]), number.Short(s.TargetBounds[1]))
}

func (s *summary) regressionErrors() []row {
	rows := []row{{"root mean squared error", finiteNumber(s.RMSE)}, {"mean absolute error", finiteNumber(s.RegressionMetrics.MAE)}}
	if r := float64(s.R2); !math.IsNaN(r) {
		rows = append(rows, row{"R²", number.Short(r)})
	}
	return rows
}

// summaryLine is the line below the title.
func (r *Run) summaryLine() string {
	s := &r.summary
	text := fmt.Sprintf("%s trained in %s", plural(s.Parameters, "weight"), plural(s.Steps, "lot"))
	if s.Lots.Records > 0 {
		text += fmt.Sprintf(" of about %s from %s", number.Thousands(int(math.Round(s.ExpectedLot))), plural(s.Lots.Records, "record"))
	}
	if date := s.date(); date != "" {
		text += ", " + date
	}
	return text + "."
}

// date is the day on which the run ended; "" if the summary has none.
func (s *summary) date() string {
	if s.Finished.IsZero() {
		return ""
	}
	return s.Finished.UTC().Format("2 January 2006")
}

func (r *Run) warnings() (all []warning) {
	if w := r.testStopWarning(); w != "" {
		all = append(all, warning{"caution", "Chosen on test data", w})
	}
	if r.accounting == nil {
		return append([]warning{{"danger", "Not private", "This model was trained without clipping and without noise: ε = ∞. Its weights may reveal any training record. Use it as a baseline for comparison; do not publish it."}}, all...)
	}
	a := r.accounting.answer
	if !r.isSecure() {
		all = append(all, warning{"caution", "Insecure", "The noise or the lots came from a seed and not from the operating system's cryptographic generator. An adversary who knows or guesses the seed can subtract the noise. The ε below holds only against other adversaries. Use this run for experiments only."})
	}
	if a.Approximate {
		all = append(all, warning{"caution", "Approximate", a.Note})
	}
	if w := EpsilonWarning(a.Epsilon); w != "" {
		all = append(all, warning{"caution", "Weak guarantee", w + "."})
	}
	if w := DeltaWarning(a.Delta, r.accounting.history.Header.Records); w != "" {
		all = append(all, warning{"caution", "Delta too large", "The " + w + "."})
	}
	return all
}

// testStopWarning states what a condition on the test data does to the test results.
func (r *Run) testStopWarning() string {
	if !strings.HasPrefix(r.summary.StopWhen, "test-") {
		return ""
	}
	return "The condition " + r.summary.StopWhen + " could end the run by its results on the public test data. This costs no privacy budget, because the test data are public and not protected. The test results below are too optimistic: the number of lots was chosen by them."
}

// figures are the large numbers at the top of the page.
func (r *Run) figures() []figure {
	var all []figure
	if r.accounting == nil {
		all = append(all, figure{"∞", "ε", "no guarantee"})
	} else {
		a := r.accounting.answer
		note := "by the " + a.Accountant + " accountant"
		switch {
		case !r.isSecure():
			note = "insecure: seeded"
		case a.Approximate:
			note = "an approximation, not a bound"
		case r.summary.NoiseSchedule != "":
			note = "enforced by a privacy filter"
		case r.summary.PlannedEpsilon > 0:
			note = "of the whole plan, which the run did not complete"
		case a.Published > 0:
			note = "proven for any data; published: " + number.Round(a.Published, 1, 4)
		}
		epsilon := number.Round(a.Epsilon, 1, 4)
		if a.Approximate {
			epsilon = "≈ " + epsilon
		}
		all = append(all, figure{epsilon, "ε", note}, figure{powerOfTen(a.Delta), "δ", r.deltaNote()})
	}
	switch {
	case r.isRegression():
		all = append(all, figure{finiteNumber(r.summary.RMSE), "test RMSE", "of " + r.summary.Target + ", on public data" + r.baselineNote()})
	case r.hasTestScore():
		all = append(all, figure{percent(float64(r.summary.TestAccuracy)), "test accuracy", "on public data" + r.baselineNote()})
	}
	if r.accounting != nil {
		all = append(all, figure{shortUnit(r.accounting.history.Header.Unit), "protected",
			"of " + number.Thousands(r.accounting.history.Header.Records) + " training records"})
	}
	return all
}

// baselineNote compares a test result with a constant prediction.
func (r *Run) baselineNote() string {
	s := &r.summary
	switch {
	case s.Baseline == nil:
		return ""
	case s.Target != "":
		return "; always the mean: " + number.Short(*s.Baseline)
	}
	return "; always one class: " + percent(*s.Baseline)
}

// deltaNote compares δ with one over the number of records.
func (r *Run) deltaNote() string {
	n := r.accounting.history.Header.Records
	if DeltaWarning(r.accounting.answer.Delta, n) == "" {
		return "below 1 / " + number.Thousands(n) + " records"
	}
	return "TOO LARGE: not below 1 / " + number.Thousands(n) + " records"
}
