package sweep

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
)

// ReadRow reads the results of a setting from the directories of its runs, which differ in their random
// numbers only. Epsilon is the largest.
func ReadRow(s Setting, dirs []string) (report.SweepRow, error) {
	row := report.SweepRow{Settings: map[string]string{}, Name: s.String(), Dirs: dirs}
	for _, v := range s {
		row.Settings[v.Flag] = v.Value
	}
	var values []float64
	for i, dir := range dirs {
		run, err := rundir.Read(dir)
		if err != nil {
			return row, err
		}
		if row.Regression = run.RegressionMetrics != nil; row.Regression {
			values = append(values, float64(run.RMSE))
		} else {
			values = append(values, float64(run.TestAccuracy))
		}
		row.Epsilon, row.Delta, row.Steps = max(row.Epsilon, run.Epsilon), run.Delta, max(row.Steps, run.Steps)
		if i == 0 {
			if row.Course, err = readCourse(dir, run.Rate); err != nil {
				return row, err
			}
		}
	}
	row.Runs, row.Low, row.High = len(values), values[0], values[0]
	for _, v := range values {
		row.Mean += v / float64(len(values))
		row.Low, row.High = min(row.Low, v), max(row.High, v)
	}
	for _, v := range values {
		row.Deviation += (v - row.Mean) * (v - row.Mean)
	}
	row.Deviation = math.Sqrt(row.Deviation / float64(max(1, len(values)-1)))
	return row, nil
}

// readCourse reads the test results of a run over epochs.
func readCourse(dir string, rate float64) ([][2]float64, error) {
	text, err := os.ReadFile(filepath.Join(dir, rundir.MetricsFile))
	if err != nil {
		return nil, err
	}
	var points [][2]float64
	for line := range bytes.Lines(text) {
		var entry struct {
			Lot      int      `json:"lot"`
			Accuracy *float64 `json:"test_accuracy"`
			RMSE     *float64 `json:"test_rmse"`
		}
		if json.Unmarshal(line, &entry) != nil { // of a crash: the run goes on in the next line
			continue
		}
		v := entry.Accuracy
		if entry.RMSE != nil {
			v = entry.RMSE
		}
		if v != nil {
			points = append(points, [2]float64{float64(entry.Lot) * rate, *v})
		}
	}
	return points, nil
}

// Table writes the rows as CSV, with a column for each axis.
func Table(axes []Axis, rows []report.SweepRow) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	metric := "test_accuracy"
	if len(rows) > 0 && rows[0].Regression {
		metric = "test_rmse"
	}
	var head []string
	for _, a := range axes {
		head = append(head, a.Flag)
	}
	w.Write(append(head, metric, "deviation", "low", "high", "runs", "epsilon", "delta", "steps"))
	float := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	for _, r := range rows {
		var cells []string
		for _, a := range axes {
			cells = append(cells, r.Settings[a.Flag])
		}
		w.Write(append(cells, float(r.Mean), float(r.Deviation), float(r.Low), float(r.High),
			strconv.Itoa(r.Runs), float(float64(r.Epsilon)), float(float64(r.Delta)), strconv.Itoa(r.Steps)))
	}
	w.Flush()
	return b.Bytes(), w.Error()
}
