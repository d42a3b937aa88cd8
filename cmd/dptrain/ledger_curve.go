package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/budget"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/internal/host/atomicfile"
)

// ledgerCurve is ε over the lots of a ledger, at one δ.
type ledgerCurve struct {
	Delta  float64            `json:"delta"`
	Points []ledgerCurvePoint `json:"points"`
}

// ledgerCurvePoint is ε after some releases, and the results on public test data that the run measured
// then.
type ledgerCurvePoint struct {
	Lots     int          `json:"lots"`
	Epsilon  number.Float `json:"epsilon"`
	Accuracy *float64     `json:"test_accuracy,omitempty"`
	RMSE     *float64     `json:"test_rmse,omitempty"`
}

// ledgerCurves is the JSON output of ledger epsilon --curve.
type ledgerCurves struct {
	Curves     []ledgerCurve    `json:"curves"`
	Accountant string           `json:"accountant"`
	Adjacency  ledger.Adjacency `json:"adjacency"`
	Out        string           `json:"out,omitempty"`
}

// curvePoints is the number of points of a curve without test results.
const curvePoints = 20

// printLedgerCurves prints ε over the lots of a ledger for each δ. Where the directory of the run has
// test results, the points are theirs: figure 4 of Abadi et al. 2016 draws accuracy over ε for several δ.
func printLedgerCurves(term *terminal.Terminal, args []string, deltas []float64, adjacency, name, out string) error {
	f, err := readLedger(args)
	if err != nil {
		return err
	}
	if err := setAdjacency(&f.history, adjacency); err != nil {
		return err
	}
	if len(deltas) == 0 {
		deltas = []float64{accountant.DefaultDelta(f.history.Header.Records)}
	}
	points := measuredPoints(f)
	if len(points) == 0 {
		for _, n := range report.CurvePoints(f.history.LotCount(), curvePoints) {
			points = append(points, ledgerCurvePoint{Lots: n})
		}
	}
	result := ledgerCurves{Accountant: name, Out: out}
	prefixes := make([]*accountant.Composition, len(points))
	for i, p := range points {
		prefixes[i] = accountant.Compose(report.FirstLots(f.history, p.Lots))
	}
	for _, delta := range deltas {
		c := ledgerCurve{Delta: delta}
		for i, p := range points {
			g, err := prefixes[i].Epsilon(delta, name)
			if err != nil {
				return fmt.Errorf("%s: %w", f.path, err)
			}
			p.Epsilon, result.Adjacency = number.Float(g.Epsilon), g.Adjacency
			c.Points = append(c.Points, p)
		}
		result.Curves = append(result.Curves, c)
	}
	if !f.history.Header.Secure {
		term.Warn("this ledger is insecure: its noise or sampling was seeded or not cryptographic; the ε holds only against adversaries who cannot guess the random numbers")
	}
	if out != "" {
		file, err := result.table()
		if err == nil {
			err = atomicfile.Write(out, file)
		}
		if err != nil {
			return exitcode.Usagef("--out: %w; choose a file that can be written", err)
		}
	}
	return term.Print(result, out, result.print)
}

// measuredPoints are the lots at which the run of a ledger measured its test data. Each counts all
// releases that are not lots of the training, and lots that a crash lost, because the ledger does not
// state where they are: ε may be too large, and never too small.
func measuredPoints(f ledgerFile) (points []ledgerCurvePoint) {
	dir := filepath.Dir(f.path)
	run, err := rundir.Read(dir)
	if err != nil {
		return nil
	}
	metrics, err := os.ReadFile(filepath.Join(dir, rundir.MetricsFile))
	if err != nil {
		return nil
	}
	total := f.history.LotCount()
	extra := max(0, total-run.Steps)
	for line := range bytes.Lines(metrics) {
		var entry struct {
			Lot      int      `json:"lot"`
			Accuracy *float64 `json:"test_accuracy"`
			RMSE     *float64 `json:"test_rmse"`
		}
		if json.Unmarshal(line, &entry) == nil && (entry.Accuracy != nil || entry.RMSE != nil) && entry.Lot > 0 {
			points = append(points, ledgerCurvePoint{Lots: min(entry.Lot+extra, total), Accuracy: entry.Accuracy, RMSE: entry.RMSE})
		}
	}
	return points
}

// setAdjacency states the guarantee for another relation of data sets, where the lots of the ledger
// permit it.
func setAdjacency(h *ledger.History, name string) error {
	stated := h.Header.Adjacency
	switch wanted := adjacencyOf(name); {
	case name == "" || wanted == stated:
	case wanted == ledger.ReplaceOne:
		h.Header.Adjacency = wanted
	case stated == ledger.ReplaceOne && wanted == ledger.ZeroOut && !hasFixedLots(*h):
		h.Header.Adjacency = wanted
	case wanted == ledger.AddRemove:
		return exitcode.Usagef("--adjacency add-remove does not hold for this ledger, which states %s: its number of records comes from the data; train with --population to declare it", stated)
	default:
		return exitcode.Usagef("--adjacency %s does not hold for this ledger, which states %s; use that, or replace-one", name, stated)
	}
	return nil
}

// adjacencies are the values of --adjacency.
var adjacencies = []string{"zero-out", "add-remove", "replace-one"}

func adjacencyOf(name string) ledger.Adjacency {
	if name == "add-remove" {
		return ledger.AddRemove
	}
	return ledger.Adjacency(name)
}

func hasFixedLots(h ledger.History) bool {
	for _, l := range h.Lots {
		if l.Lot.Sampling.Policy == ledger.FixedSize {
			return true
		}
	}
	return false
}

// table writes the curves as CSV: a line for each δ and number of lots.
func (c ledgerCurves) table() ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.Write([]string{"delta", "lots", "epsilon", "test_accuracy", "test_rmse"})
	text := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}
	for _, curve := range c.Curves {
		for _, p := range curve.Points {
			epsilon := float64(p.Epsilon)
			w.Write([]string{text(&curve.Delta), strconv.Itoa(p.Lots), text(&epsilon), text(p.Accuracy), text(p.RMSE)})
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// print writes a line for each number of lots and a column for each δ.
func (c ledgerCurves) print(w io.Writer) {
	fmt.Fprintf(w, "lots\tresult")
	for _, curve := range c.Curves {
		fmt.Fprintf(w, "\tε at δ = %s", number.RoundUp(curve.Delta))
	}
	fmt.Fprintln(w)
	for i, p := range c.Curves[0].Points {
		result := ""
		switch {
		case p.Accuracy != nil:
			result = fmt.Sprintf("%.2f%%", 100**p.Accuracy)
		case p.RMSE != nil:
			result = number.Short(*p.RMSE)
		}
		fmt.Fprintf(w, "%d\t%s", p.Lots, result)
		for _, curve := range c.Curves {
			fmt.Fprintf(w, "\t%s", budget.FormatBound(curve.Points[i].Epsilon, c.Accountant == "gdp"))
		}
		fmt.Fprintln(w)
	}
	if c.Out != "" {
		fmt.Fprintf(w, "wrote\t%s\n", c.Out)
	}
}
