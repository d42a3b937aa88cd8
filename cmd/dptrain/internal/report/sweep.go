package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/drawing"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

var (
	//go:embed sweep.html
	sweepText string

	sweepTemplate = parsePage(template.Must(pageTemplate.Clone()).New("sweep"), sweepText)
)

// SweepRow is the result of the runs with one setting.
type SweepRow struct {
	Settings   map[string]string // values of flags
	Name       string
	Regression bool    // Mean is an RMSE and not an accuracy
	Mean       float64 // on public test data
	Deviation  float64 // standard deviation among the runs; 0 of one run
	Low, High  float64
	Runs       int
	Epsilon    number.Float
	Delta      number.Float
	Steps      int
	Dirs       []string
	Course     [][2]float64 // epochs and test result of the first run
}

// MarshalJSON names the measure of the row.
func (r SweepRow) MarshalJSON() ([]byte, error) {
	metric := "test_accuracy"
	if r.Regression {
		metric = "test_rmse"
	}
	return json.Marshal(map[string]any{
		"settings": r.Settings, metric: r.Mean, metric + "_deviation": r.Deviation, metric + "_low": r.Low, metric + "_high": r.High,
		"runs": r.Runs, "epsilon": r.Epsilon, "delta": r.Delta, "steps": r.Steps, "out": r.Dirs,
	})
}

// Result writes the mean and, of several runs, the range.
func (r SweepRow) Result() string {
	format := percent
	if r.Regression {
		format = number.Short
	}
	if r.Runs == 1 {
		return format(r.Mean)
	}
	return fmt.Sprintf("%s (%s to %s)", format(r.Mean), format(r.Low), format(r.High))
}

// Sweep is the result of a sweep.
type Sweep struct {
	Rows    []SweepRow `json:"rows"`
	Flags   []string   `json:"over"` // in their order
	Command string     `json:"command"`
	Data    string     `json:"data"`
	Seconds float64    `json:"seconds"`
	Version string     `json:"version"`
	Out     string     `json:"out"`
}

type sweepPage struct {
	Title, Summary string
	Panels         []panel
	Course         *panel
	Legend         []legendEntry
	Head           []string
	Rows           [][]string
	Command        string
	Version        string
}

// Page writes report.html: one file that loads no other file.
func (s *Sweep) Page() ([]byte, error) {
	p := &sweepPage{Title: "Sweep over " + strings.Join(s.Flags, ", "), Command: s.Command, Version: s.Version}
	runs := 0
	for _, r := range s.Rows {
		runs += r.Runs
	}
	p.Summary = fmt.Sprintf("%s with %s on %s. Results are on public test data.", plural(runs, "run"), plural(len(s.Rows), "setting"), s.Data)
	for i, flag := range s.Flags {
		if c := s.panel(i, flag); c != nil {
			p.Panels = append(p.Panels, panel{flag, c})
		}
	}
	p.Course, p.Legend = s.course()
	p.Head = append(slices.Clone(s.Flags), "result", "runs", "ε", "lots")
	for _, r := range s.Rows {
		var cells []string
		for _, flag := range s.Flags {
			cells = append(cells, r.Settings[flag])
		}
		p.Rows = append(p.Rows, append(cells, r.Result(), strconv.Itoa(r.Runs), epsilonCell(r.Epsilon), number.Thousands(r.Steps)))
	}
	var b bytes.Buffer
	if err := sweepTemplate.Execute(&b, p); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func epsilonCell(e number.Float) string {
	if math.IsInf(float64(e), 1) {
		return "∞"
	}
	return number.RoundUp(float64(e))
}

// panel draws the result over the values of one flag: a line for each combination of the others. Values
// that are not numbers have equal distances.
func (s *Sweep) panel(index int, flag string) *chart {
	var values []string
	var lines []string // the combinations of the other flags
	group := map[string][]SweepRow{}
	for _, r := range s.Rows {
		v, ok := r.Settings[flag]
		if !ok {
			continue
		}
		if !slices.Contains(values, v) {
			values = append(values, v)
		}
		var rest []string
		for _, other := range s.Flags {
			if o, ok := r.Settings[other]; ok && other != flag {
				rest = append(rest, other+"="+o)
			}
		}
		name := strings.Join(rest, " ")
		if group[name] == nil {
			lines = append(lines, name)
		}
		group[name] = append(group[name], r)
	}
	if len(values) == 0 {
		return nil
	}
	place, low, high, isNumber := places(values)
	x, y, style := horizontalAxis(low, high), s.resultAxis(), s.scoreStyle()
	c := newChart(fmt.Sprintf("over-%d", index), x, y, style.tick)
	if !isNumber {
		c.XTicks = nil
		for _, v := range values {
			c.XTicks = append(c.XTicks, tick{x.Position(place[v]), shortened(v)})
		}
	}
	c.Title, c.XLabel, c.YLabel = style.title+" over "+flag, flag, style.label
	c.About = "A line for each combination of the other settings; the table has all values."
	for i, name := range lines {
		rows := slices.SortedStableFunc(slices.Values(group[name]), func(a, b SweepRow) int {
			return cmpFloat(place[a.Settings[flag]], place[b.Settings[flag]])
		})
		l := line{Style: fmt.Sprintf("series-%d", i%seriesColors)}
		var points [][2]float64
		for _, r := range rows {
			at := place[r.Settings[flag]]
			points = append(points, [2]float64{at, r.Mean})
			l.Dots = append(l.Dots, dot{x.Position(at), y.Position(r.Mean), r.Name + ": " + r.Result()})
			if r.Runs > 1 { // the range
				c.Lines = append(c.Lines, line{Style: l.Style, Path: svgPath(x, y, [][2]float64{{at, r.Low}, {at, r.High}})})
			}
		}
		l.Path = svgPath(x, y, points)
		c.Lines = append(c.Lines, l)
	}
	return c
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// shortened keeps the label of a tick short.
func shortened(text string) string {
	const most = 14
	if r := []rune(text); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return text
}

// places returns where values are on an axis, and its limits.
func places(values []string) (at map[string]float64, low, high float64, isNumber bool) {
	at, low, high, isNumber = map[string]float64{}, math.Inf(1), math.Inf(-1), true
	for _, v := range values {
		f, err := strconv.ParseFloat(v, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			isNumber = false
		}
		at[v], low, high = f, min(low, f), max(high, f)
	}
	if !isNumber {
		for i, v := range values {
			at[v] = float64(i)
		}
		low, high = 0, float64(len(values)-1)
	}
	margin := (high - low) * 0.05
	if margin == 0 {
		margin = max(1, math.Abs(high)) * 0.05
	}
	return at, low - margin, high + margin, isNumber
}

func (s *Sweep) scoreStyle() scoreStyle {
	if len(s.Rows) > 0 && s.Rows[0].Regression {
		return rmseStyle
	}
	return accuracyStyle
}

// resultAxis covers the results of all rows.
func (s *Sweep) resultAxis() drawing.Axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, r := range s.Rows {
		low, high = min(low, r.Low), max(high, r.High)
	}
	style := s.scoreStyle()
	margin := max((high-low)*0.1, style.margin(high)*0.1)
	return verticalAxis(max(0, low-margin), min(style.highest, high+margin))
}

// maxCourses is the number of lines that a chart over epochs can have.
const maxCourses = 12

// course draws the results of the first runs over epochs; nil if there are too many, or too few points.
func (s *Sweep) course() (*panel, []legendEntry) {
	if len(s.Rows) > maxCourses {
		return nil, nil
	}
	last, low, high, points := 0.0, math.Inf(1), math.Inf(-1), 0
	for _, r := range s.Rows {
		for _, p := range r.Course {
			last, low, high, points = max(last, p[0]), min(low, p[1]), max(high, p[1]), points+1
		}
	}
	if points < 2*len(s.Rows) || last == 0 {
		return nil, nil
	}
	style := s.scoreStyle()
	margin := max((high-low)*0.08, style.margin(high)*0.1)
	x, y := horizontalAxis(0, last*1.04), verticalAxis(max(0, low-margin), min(style.highest, high+margin))
	c := newChart("course", x, y, style.tick)
	c.Title, c.XLabel, c.YLabel = style.title+" over epochs", "epochs", style.label
	c.About = "One line for each setting, of its first run."
	var legend []legendEntry
	for i, r := range s.Rows {
		name := fmt.Sprintf("series-%d", i%seriesColors)
		if i >= seriesColors {
			name = fmt.Sprintf("dashed-%d", i%seriesDashes)
		}
		c.Lines = append(c.Lines, line{Style: name, Path: svgPath(x, y, r.Course)})
		legend = append(legend, legendEntry{r.Name, name})
	}
	return &panel{"", c}, legend
}
