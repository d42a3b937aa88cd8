package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/budget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
)

// printSummary prints how well the run did, what it cost, and what to do next.
func printSummary(term *terminal.Terminal, s *rundir.Summary, dataDir string) error {
	return term.Print(s, bareSummary(s), func(w io.Writer) { writeSummary(w, s, dataDir) })
}

// noResult stands in the line of --quiet where no data measured the model, so that ε stays the second
// word.
const noResult = "-"

// bareSummary is the result on public test data or, without them, on private records held
// out, and ε.
func bareSummary(s *rundir.Summary) string {
	result := noResult
	switch v := s.Validation; {
	case s.TestLabels > 0:
		result = fmt.Sprintf("%.4f", s.TestAccuracy)
	case s.RegressionMetrics != nil:
		result = number.Short(float64(s.RMSE))
	case v != nil && v.MAE != nil:
		result = number.Short(*v.MAE)
	case v != nil:
		result = fmt.Sprintf("%.4f", *v.Accuracy)
	}
	return result + " " + budget.FormatBound(s.Epsilon, s.Approximate)
}

// relateEpsilon writes an ε after a sign of equality or of approximation.
func relateEpsilon(epsilon number.Float, approximate bool) string {
	if approximate {
		return budget.FormatBound(epsilon, true)
	}
	return "= " + budget.FormatBound(epsilon, false)
}

func writeSummary(w io.Writer, s *rundir.Summary, dataDir string) {
	if s.TestLabels > 0 {
		fmt.Fprintf(w, "accuracy\t%.2f%% on %s\n", 100*float64(s.TestAccuracy), number.Plural(s.TestExamples, "public test example"))
	}
	if s.RegressionMetrics != nil {
		s.RegressionMetrics.Print(w, fmt.Sprintf(" (%s) on %s", s.Target, number.Plural(s.TestExamples, "public test example")))
	}
	if s.Validation != nil {
		s.Validation.Print(w, s.Target)
	}
	if s.Projection != nil {
		s.Projection.Print(w)
	}
	if s.PrivateSchema != nil {
		s.PrivateSchema.Print(w)
	}
	if s.Private {
		fmt.Fprintf(w, "privacy\tε %s at δ = %s, by the %s accountant\n", relateEpsilon(s.Epsilon, s.Approximate), number.RoundUp(float64(s.Delta)), s.Accountant)
		if s.PublishedEpsilon != 0 {
			fmt.Fprintf(w, "\tpublished ε = %s\n", budget.DescribePublished(s.PublishedEpsilon))
		}
		fmt.Fprintf(w, "\tadjacency %s, %s, %s of about %.0f from %d\n", s.Adjacency, report.DescribeUnit(s.Unit), number.Plural(s.Steps, "lot"), s.ExpectedLot, s.Lots.Records)
		if s.Split != nil {
			fmt.Fprintf(w, "\t%s\n", report.DescribeSplit(s.TestExamples, s.Split.Rows))
		}
		fmt.Fprintf(w, "\tarithmetic %s: %s\n", s.Arithmetic, report.ArithmeticMeaning(s.Arithmetic))
		if s.PlannedEpsilon > 0 {
			fmt.Fprintf(w, "\t%s\n", describeEarlyEnd(s))
		}
		if s.LostLots > 0 {
			fmt.Fprintf(w, "\tε includes %s whose work a crash lost\n", number.Plural(s.LostLots, "lot"))
		}
	} else {
		fmt.Fprintf(w, "privacy\tNONE: trained without clipping and noise, ε = ∞\n")
	}
	if s.Private && !s.Secure {
		fmt.Fprintf(w, "\t%s\n", insecureWarning)
	}
	if d := budget.DeltaWarning(float64(s.Delta), s.Lots.Records); d != "" {
		fmt.Fprintf(w, "warning\t%s\n", d)
	}
	if s.Note != "" {
		fmt.Fprintf(w, "note\t%s\n", s.Note)
	}
	speed := ""
	if s.ExamplesPerSec > 0 {
		speed = "lots at " + terminal.Speed(s.ExamplesPerSec) + " "
	}
	fmt.Fprintf(w, "time\t%.1f s, %son %s, %d threads\n", s.Seconds, speed, s.Device, s.Threads)
	if len(s.RankSeconds) > 1 {
		var each []string
		for _, seconds := range s.RankSeconds {
			each = append(each, fmt.Sprintf("%.1f s", seconds))
		}
		fmt.Fprintf(w, "ranks\t%s, without waiting for the others\n", strings.Join(each, ", "))
	}
	fmt.Fprintf(w, "files\t%s\n", s.Out)
	fmt.Fprintf(w, "report\t%s\n", filepath.Join(s.Out, rundir.ReportFile))
	evalFlags := ""
	switch {
	case s.TestExamples == 0:
		evalFlags = " --data TEST.FILE"
	case dataDir != "":
		evalFlags = " --data-dir " + rundir.ShellQuote(dataDir)
	}
	if s.Private {
		fmt.Fprintf(w, "next\tdptrain eval %s%s\n", rundir.ShellQuote(s.Out), evalFlags)
		fmt.Fprintf(w, "\tdptrain ledger epsilon %s --delta %s --accountant rdp\n", rundir.ShellQuote(filepath.Join(s.Out, rundir.LedgerFile)), number.RoundUp(float64(s.Delta)))
	} else {
		fmt.Fprintf(w, "next\tdptrain train (the same, with privacy)\n")
	}
}
