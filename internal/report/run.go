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
	"strings"

	"github.com/dptrain/dptrain/accountant/ledger"
)

// Run is a run as its folder tells of it.
type Run struct {
	summary summary
	points  []point
	account *account // nil where the run is not private
}

// summary is what is shown of run.json. Keys that are not here are not shown.
type summary struct {
	Private     bool    `json:"private"`
	Accountant  string  `json:"accountant"`
	Delta       float64 `json:"delta"`
	Planned     epsilon `json:"epsilon_planned"` // of a run that was ended early
	LedgerHead  string  `json:"ledger_head"`
	Unit        string  `json:"unit"`
	Sampling    string  `json:"sampling"`
	Records     int     `json:"records"`
	ExpectedLot float64 `json:"expected_lot"`
	Rate        float64 `json:"rate"`
	Steps       int     `json:"steps"`

	Data       string `json:"data"`
	Task       string `json:"task"`
	Model      string `json:"model"`
	Parameters int    `json:"parameters"`

	TestAccuracy float64   `json:"test_accuracy"`
	TestLoss     *float64  `json:"test_loss"` // nil where it is no finite number
	TestExamples int       `json:"test_examples"`
	TestLabels   int       `json:"test_labels"`
	TestRMSE     *float64  `json:"test_rmse"` // of a target; nil where there is none, or it is no number
	TestMAE      *float64  `json:"test_mae"`
	TestR2       *float64  `json:"test_r2"` // nil where the targets do not vary
	Target       string    `json:"target"`
	TargetBounds []float64 `json:"target_bounds"`
	Confusion    [][]int   `json:"confusion"`
	ClassNames   []string  `json:"class_names"`

	ValidationAccuracy  float64  `json:"validation_accuracy"`
	ValidationMAE       *float64 `json:"validation_mae"` // in place of it, where a target is predicted
	ValidationDeviation float64  `json:"validation_deviation"`
	ValidationRecords   int      `json:"validation_records"`

	Projection      int     `json:"projection"`
	ProjectionNoise float64 `json:"projection_noise"`

	Clipping     string  `json:"clipping"`
	Clip         float64 `json:"clip"`
	Allocation   string  `json:"allocation"`
	Optimizer    string  `json:"optimizer"`
	DecayOf      string  `json:"decay_of"`
	LearningRate float64 `json:"learning_rate"`
	RateOf       string  `json:"lr_of"`
	Schedule     string  `json:"schedule"`
	Average      float64 `json:"ema"`
	Augment      string  `json:"augment"`
	Views        int     `json:"views"`
	Preset       string  `json:"preset"`
	Start        string  `json:"init"`
	Frozen       string  `json:"freeze"`
	Microbatch   int     `json:"microbatch"`

	Device   string  `json:"device"`
	Threads  int     `json:"threads"`
	Platform string  `json:"platform"`
	Resumed  int     `json:"resumed_at"`
	Seconds  float64 `json:"seconds"`
	Speed    float64 `json:"examples_per_second"`
	Version  string  `json:"version"`
	Finished string  `json:"finished"`
}

// epsilon is a number, or "Infinity", which JSON has no number for.
type epsilon float64

func (e *epsilon) UnmarshalJSON(text []byte) error {
	if string(text) == `"Infinity"` {
		*e = epsilon(math.Inf(1))
		return nil
	}
	return json.Unmarshal(text, (*float64)(e))
}

// point is what is shown of a line of metrics.jsonl.
type point struct {
	Lot      int      `json:"lot"`
	Accuracy *float64 `json:"test_accuracy"`
	RMSE     *float64 `json:"test_rmse"`
}

// score is what the chart shows of a point, and whether it has that.
func (p *point) score() (float64, bool) {
	switch {
	case p.Accuracy != nil && *p.Accuracy >= 0 && *p.Accuracy <= 1:
		return *p.Accuracy, true
	case p.RMSE != nil && *p.RMSE >= 0:
		return *p.RMSE, true
	}
	return 0, false
}

// Open reads a run's folder: run.json, metrics.jsonl and, where the run is
// private, its ledger, which it verifies.
func Open(dir string) (*Run, error) {
	path := filepath.Join(dir, "run.json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s holds no run.json, which a run writes at its end: name a run's folder", dir)
	}
	if err != nil {
		return nil, err
	}
	r := &Run{}
	if err := json.Unmarshal(text, &r.summary); err != nil {
		return nil, fmt.Errorf("%s is no summary of a run: %w; dptrain train --resume %s writes it again", path, err, dir)
	}
	if err := r.summary.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.points, err = readPoints(filepath.Join(dir, "metrics.jsonl")); err != nil {
		return nil, err
	}
	if !r.summary.Private {
		return r, nil
	}
	s := &r.summary
	r.account, err = readAccount(filepath.Join(dir, "ledger.jsonl"), s.LedgerHead, s.Delta, s.Accountant)
	return r, err
}

// check refuses what cannot be drawn.
func (s *summary) check() error {
	classes := len(s.Confusion)
	for _, row := range s.Confusion {
		if len(row) < classes {
			return fmt.Errorf("confusion: a row has %d counts, %d classes need as many", len(row), classes)
		}
		for _, n := range row {
			if n < 0 {
				return fmt.Errorf("confusion: a count is %d", n)
			}
		}
	}
	if s.TestLabels < 0 || !(s.TestAccuracy >= 0 && s.TestAccuracy <= 1) {
		return fmt.Errorf("test_accuracy %v of %d: a share between 0 and 1 is needed", s.TestAccuracy, s.TestLabels)
	}
	if s.TestRMSE != nil && *s.TestRMSE < 0 {
		return fmt.Errorf("test_rmse %v: it cannot be negative", *s.TestRMSE)
	}
	if len(s.TargetBounds) != 0 && len(s.TargetBounds) != 2 {
		return fmt.Errorf("target_bounds are %d numbers: a low and a high limit are needed", len(s.TargetBounds))
	}
	if s.Model == "" {
		return errors.New("it names no model, as the summary of a run does")
	}
	if s.Planned < 0 {
		return fmt.Errorf("epsilon_planned %v: it cannot be negative", s.Planned)
	}
	if s.Steps < 0 || s.Records < 0 {
		return fmt.Errorf("%d steps on %d records: neither can be negative", s.Steps, s.Records)
	}
	return nil
}

// readPoints reads the lines with an accuracy, or the error of a regression, in the order
// of the lots. Of a lot that a resumed run repeated, and of those that it had yet to
// repeat, the later line holds. A last line cut short by a crash is passed over.
func readPoints(path string) ([]point, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var points []point
	number := 0
	for line := range bytes.Lines(text) {
		number++
		var p point
		if err := json.Unmarshal(line, &p); err != nil {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break
			}
			return nil, fmt.Errorf("%s: line %d: %w", path, number, err)
		}
		for len(points) > 0 && points[len(points)-1].Lot >= p.Lot {
			points = points[:len(points)-1]
		}
		if _, ok := p.score(); ok && p.Lot > 0 {
			points = append(points, p)
		}
	}
	return points, nil
}

// tested reports whether there is an accuracy, or an error, on public test data.
func (r *Run) tested() bool { return r.summary.TestLabels > 0 || r.regressed() }

// regressed reports whether the errors of a regression were measured on public test data.
func (r *Run) regressed() bool { return r.summary.Target != "" && r.summary.TestExamples > 0 }

// secure reports whether the ledger says that no seed was used.
func (r *Run) secure() bool { return r.account != nil && r.account.history.Header.Secure }

// lost is how many training lots the ledger holds beyond those that made the model:
// a crash had them stated and not kept.
func (r *Run) lost() int {
	if r.account == nil {
		return 0
	}
	training, _ := apart(r.account.history)
	return max(0, training.LotCount()-r.summary.Steps)
}

// beyond is how many lots of any kind the ledger holds beyond those that made the
// model, releases beside the training among them.
func (r *Run) beyond() int {
	if r.account == nil {
		return 0
	}
	return max(0, r.account.history.LotCount()-r.summary.Steps)
}

// data is the data set's name; of a path only the last part, as folders may tell of
// people.
func (s *summary) data() string {
	name := filepath.Base(strings.ReplaceAll(s.Data, `\`, "/"))
	if name == "." || name == "/" {
		return "data without a name"
	}
	return name
}

// className is what a class is called.
func (s *summary) className(i int) string {
	if i < len(s.ClassNames) && s.ClassNames[i] != "" {
		return s.ClassNames[i]
	}
	return fmt.Sprint(i)
}

// epochs is how often each record was drawn, on average.
func (s *summary) epochs() float64 {
	if s.Records == 0 {
		return 0
	}
	records, lots := float64(s.Records), float64(s.Steps)
	if s.Sampling == string(ledger.Shuffle) && s.ExpectedLot > 0 { // the last lot of a pass may be smaller
		pass := math.Ceil(records / s.ExpectedLot)
		return math.Floor(lots/pass) + math.Mod(lots, pass)*s.ExpectedLot/records
	}
	return s.ExpectedLot * lots / records
}

// guessing is how often, at most, someone who tosses a fair coin between two
// neighbouring data sets beforehand guesses right afterwards: the point of the
// region of Kairouz et al. (2015, "The Composition Theorem for Differential
// Privacy", section 2) at which both kinds of error are alike.
func guessing(epsilon, delta float64) float64 {
	if math.IsInf(epsilon, 1) {
		return 1
	}
	// (e^ε + δ)/(1 + e^ε), without overflow.
	return min(1, (1+delta*math.Exp(-epsilon))/(1+math.Exp(-epsilon)))
}
