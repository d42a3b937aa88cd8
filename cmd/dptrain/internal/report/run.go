package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/quality"
)

// Run is a training run, read from its directory.
type Run struct {
	summary    summary
	points     []metricPoint
	accounting *accounting // nil if the run is not private
}

// summary is run.json. The report shows values of it by name, and no other.
type summary struct{ rundir.Summary }

// metricPoint has the keys of a line of metrics.jsonl that are shown.
type metricPoint struct {
	Lot      int              `json:"lot"`
	Epsilon  *number.Float    `json:"epsilon"`
	Accuracy *float64         `json:"test_accuracy"`
	Loss     *number.Float    `json:"test_loss"`
	RMSE     *float64         `json:"test_rmse"`
	MAE      *float64         `json:"test_mae"`
	Released []releasedMetric `json:"released"`
	Rate     *float64         `json:"learning_rate"`
	Seconds  float64          `json:"seconds"`
}

// score returns the accuracy or the RMSE. It reports false if the line has neither.
func (p *metricPoint) score() (float64, bool) {
	switch {
	case p.Accuracy != nil && *p.Accuracy >= 0 && *p.Accuracy <= 1:
		return *p.Accuracy, true
	case p.RMSE != nil && *p.RMSE >= 0:
		return *p.RMSE, true
	}
	return 0, false
}

// Open reads a run's directory: run.json, metrics.jsonl and, if the run is private, the
// ledger. It verifies the ledger.
func Open(dir string) (*Run, error) {
	saved, err := rundir.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s contains no run.json, which a run writes at its end: give the directory of a finished run", dir)
	}
	if err != nil {
		return nil, err
	}
	r := &Run{summary: summary{*saved}}
	if r.summary.Measures == nil {
		r.summary.Measures = &quality.Measures{}
	}
	if err := r.summary.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, rundir.SummaryFile), err)
	}
	if r.points, err = readMetrics(filepath.Join(dir, "metrics.jsonl")); err != nil {
		return nil, err
	}
	if !r.summary.Private {
		return r, nil
	}
	s := &r.summary
	r.accounting, err = accountFor(filepath.Join(dir, "ledger.jsonl"), s.LedgerHead, float64(s.Delta), s.Accountant, float64(s.PlannedEpsilon))
	return r, err
}

// check rejects values that cannot be shown.
func (s *summary) check() error {
	classes := len(s.Confusion)
	for _, row := range s.Confusion {
		if len(row) < classes {
			return fmt.Errorf("confusion: a row has %d counts; it needs one for each of the %d classes", len(row), classes)
		}
		for _, n := range row {
			if n < 0 {
				return fmt.Errorf("confusion: a count is %d; counts cannot be negative", n)
			}
		}
	}
	if s.TestLabels < 0 || s.TestLabels > 0 && !(s.TestAccuracy >= 0 && s.TestAccuracy <= 1) {
		return fmt.Errorf("test_accuracy %v of test_labels %d: the accuracy must be between 0 and 1 and the number of labels cannot be negative", s.TestAccuracy, s.TestLabels)
	}
	if m := s.RegressionMetrics; m != nil && m.RMSE < 0 {
		return fmt.Errorf("test_rmse %v: it cannot be negative", m.RMSE)
	}
	if b := s.TargetBounds; b != nil && !(b[0] < b[1]) {
		return fmt.Errorf("target_bounds %v: they need a lower and an upper bound", *b)
	}
	if v := s.Validation; v != nil && v.Accuracy == nil && v.MAE == nil {
		return errors.New("validation_records without validation_accuracy or validation_mae: give one of them")
	}
	if err := checkMeasures(s.Measures); err != nil {
		return err
	}
	if s.Model == "" {
		return errors.New("the summary names no model; is it the run.json of a dptrain run?")
	}
	if s.PlannedEpsilon < 0 {
		return fmt.Errorf("epsilon_planned %v: it cannot be negative", s.PlannedEpsilon)
	}
	if s.Steps < 0 || s.Lots.Records < 0 {
		return fmt.Errorf("steps %d, records %d: they cannot be negative", s.Steps, s.Lots.Records)
	}
	return nil
}

// readMetrics reads the lines in the order of their lots.
// A resumed run repeats the lots after its checkpoint: the later line replaces earlier ones
// of the same or a later lot. A last line that a crash truncated is ignored.
func readMetrics(path string) ([]metricPoint, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var points []metricPoint
	lineNumber := 0
	for line := range bytes.Lines(text) {
		lineNumber++
		var p metricPoint
		if err := json.Unmarshal(line, &p); err != nil {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break
			}
			return nil, fmt.Errorf("%s: line %d is not valid: %w", path, lineNumber, err)
		}
		for len(points) > 0 && points[len(points)-1].Lot >= p.Lot {
			points = points[:len(points)-1]
		}
		if p.Lot > 0 {
			points = append(points, p)
		}
	}
	return points, nil
}

// hasTestScore reports whether the run measured an accuracy or an error on public test data.
func (r *Run) hasTestScore() bool { return r.summary.TestLabels > 0 || r.isRegression() }

// isRegression reports whether the run measured regression errors on public test data.
func (r *Run) isRegression() bool {
	return r.summary.Target != "" && r.summary.RegressionMetrics != nil && r.summary.TestExamples > 0
}

// isSecure reports whether the ledger states that the run used no seed.
func (r *Run) isSecure() bool { return r.accounting != nil && r.accounting.history.Header.Secure }

// lostLots is the number of training lots in the ledger beyond the lots that made the
// model. A crash lost their results after the ledger recorded them.
func (r *Run) lostLots() int {
	if r.accounting == nil {
		return 0
	}
	training, _ := splitTraining(r.accounting.history)
	return max(0, training.LotCount()-r.summary.Steps)
}

// extraReleases is the number of releases in the ledger beyond the lots that made the model:
// lost lots, and releases other than training lots.
func (r *Run) extraReleases() int {
	if r.accounting == nil {
		return 0
	}
	return max(0, r.accounting.history.LotCount()-r.summary.Steps)
}

// dataName is the name of the data set. Of a path it keeps only the last element, because
// directory names may identify people.
func (s *summary) dataName() string {
	name := baseName(s.Data)
	if name == "." || name == "/" {
		return "unnamed data"
	}
	return name
}

func (s *summary) className(i int) string {
	if i < len(s.ClassNames) && s.ClassNames[i] != "" {
		return s.ClassNames[i]
	}
	return fmt.Sprint(i)
}

// epochs is the average number of times that each record was drawn.
func (s *summary) epochs() float64 {
	if s.Lots.Records == 0 {
		return 0
	}
	records, lots := float64(s.Lots.Records), float64(s.Steps)
	if s.Sampling == string(ledger.Shuffle) && s.ExpectedLot > 0 { // the last lot of a pass may be smaller
		pass := math.Ceil(records / s.ExpectedLot)
		return math.Floor(lots/pass) + math.Mod(lots, pass)*s.ExpectedLot/records
	}
	return s.ExpectedLot * lots / records
}
