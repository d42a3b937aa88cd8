package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/drawing"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// canvas is the size of a chart, in its own units. The page scales it.
type canvas struct{ width, height float64 }

var (
	wideCanvas   = canvas{480, 260}
	squareCanvas = canvas{340, 330}
)

// The margins around the plotted area.
const (
	left, right = 46.0, 14.0
	top, bottom = 26.0, 44.0
)

// chart is a line chart, ready for the page's template.
type chart struct {
	ID             string
	Title, About   string // for screen readers
	XLabel, YLabel string
	XTicks, YTicks []tick
	Bars           string // a path of filled bars
	Lines          []line

	Width, Height            float64
	Left, Right, Top, Bottom float64 // the edges of the plotted area
}

type tick struct {
	At    float64
	Label string
}

// line is one line of a chart, with optional dots.
type line struct {
	Style string
	Path  string
	Dots  []dot
}

type dot struct {
	X, Y  float64
	Title string
}

// ticksOf returns the tick marks of an axis.
func ticksOf(a drawing.Axis, label func(float64) string) []tick {
	var ticks []tick
	for _, v := range a.Ticks(6) {
		ticks = append(ticks, tick{a.Position(v), label(v)})
	}
	return ticks
}

// newChart returns a wide chart without lines.
func newChart(id string, x, y drawing.Axis, label func(float64) string) *chart {
	return wideCanvas.newChart(id, x, y, tickLabel, label)
}

// newChart returns a chart without lines; xLabel and yLabel label the ticks.
func (c canvas) newChart(id string, x, y drawing.Axis, xLabel, yLabel func(float64) string) *chart {
	return &chart{
		ID: id, XTicks: ticksOf(x, xLabel), YTicks: ticksOf(y, yLabel),
		Width: c.width, Height: c.height,
		Left: left, Right: c.width - right, Top: top, Bottom: c.height - bottom,
	}
}

func (c canvas) horizontalAxis(low, high float64) drawing.Axis {
	return drawing.Axis{Low: low, High: high, From: left, To: c.width - right}
}

func (c canvas) verticalAxis(low, high float64) drawing.Axis {
	return drawing.Axis{Low: low, High: high, From: c.height - bottom, To: top}
}

func horizontalAxis(low, high float64) drawing.Axis { return wideCanvas.horizontalAxis(low, high) }
func verticalAxis(low, high float64) drawing.Axis   { return wideCanvas.verticalAxis(low, high) }

// IsSquare reports whether the chart is on the square canvas.
func (c *chart) IsSquare() bool { return c.Width == squareCanvas.width }

// svgRectangle is a rectangle between two points.
func svgRectangle(x, y drawing.Axis, left, low, right, high float64) string {
	return svgPath(x, y, [][2]float64{{left, low}, {left, high}, {right, high}, {right, low}}) + "Z"
}

// svgPath joins points by straight lines.
func svgPath(x, y drawing.Axis, points [][2]float64) string {
	var b strings.Builder
	for i, p := range points {
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		fmt.Fprintf(&b, "%s%g %g", letter, x.Position(p[0]), y.Position(p[1]))
	}
	return b.String()
}

// epsilonChart draws ε over lots for every accountant. It returns nil if there are not
// enough points.
func (a *accounting) epsilonChart() *chart {
	steps := a.history.LotCount()
	least, most := math.Inf(1), 0.0
	lowest := math.Inf(1)
	for _, c := range a.curves {
		if c.failure != "" || math.IsInf(c.last(), 1) || c.last() <= 0 {
			continue
		}
		least, most = min(least, c.last()), max(most, c.last())
		// The first lots cost little: an axis that started at their ε would be mostly empty.
		lowest = min(lowest, c.epsilon[len(c.epsilon)/5])
	}
	if most == 0 || steps < 2 {
		return nil
	}
	x, y := horizontalAxis(0, float64(steps)), verticalAxis(0, most*1.04)
	if most/least > 20 && lowest > 0 {
		y.Logarithmic, y.Low, y.High = true, min(lowest, least/4), most*1.2
	}
	c := newChart("cost", x, y, tickLabel)
	c.XLabel, c.YLabel = "lots", "ε"
	if _, others := splitTraining(a.history); len(others) > 0 {
		c.XLabel = "releases"
	}
	c.Title = "ε over " + c.XLabel
	c.About = fmt.Sprintf("Line chart of ε at δ = %s after each number of %s, with one line for each accountant. The table next to it has the final values.", powerOfTen(a.answer.Delta), c.XLabel)
	if y.Logarithmic {
		c.YLabel = "ε, logarithmic"
	}
	for _, each := range a.curves {
		if each.failure != "" || each.accountant == a.answer.Accountant {
			continue
		}
		c.Lines = append(c.Lines, line{Style: lineStyle(each.accountant), Path: each.path(x, y)})
	}
	for _, each := range a.curves { // draw the run's own accountant on top
		if each.accountant == a.answer.Accountant {
			c.Lines = append(c.Lines, line{Style: lineStyle(each.accountant) + " main", Path: each.path(x, y)})
		}
	}
	return c
}

// path omits values that are infinite or below a logarithmic axis. A curve on a linear axis
// starts at the origin.
func (c epsilonCurve) path(x, y drawing.Axis) string {
	var points [][2]float64
	if !y.Logarithmic {
		points = append(points, [2]float64{0, 0})
	}
	for i, e := range c.epsilon {
		if !math.IsInf(e, 1) && e >= y.Low {
			points = append(points, [2]float64{float64(c.lots[i]), e})
		}
	}
	return svgPath(x, y, points)
}

// lineStyle is the CSS class of an accountant's line.
func lineStyle(accountant string) string {
	if _, known := accountantNames[accountant]; known {
		return accountant
	}
	return "other"
}

// scoreChart draws the test accuracy, or the RMSE of a regression, over ε. It draws it over
// lots if the run is not private. It returns nil if there are no points.
func (r *Run) scoreChart() (*chart, error) {
	style := accuracyStyle
	if r.isRegression() {
		style = rmseStyle
	}
	var points [][2]float64
	var titles []string
	extra := r.extraReleases()
	for _, p := range r.points {
		score, measured := p.score()
		if !measured {
			continue
		}
		x, label := float64(p.Lot), plural(p.Lot, "lot")
		if r.accounting != nil {
			// Every point is charged for the lots that a crash lost and for releases other than
			// training lots, because the ledger does not state which lots were kept. The shown ε
			// may be too large, but never too small.
			epsilon, err := r.accounting.epsilonAfter(min(p.Lot+extra, r.accounting.history.LotCount()))
			if err != nil {
				return nil, err
			}
			if math.IsInf(epsilon, 1) {
				continue
			}
			x, label = epsilon, "ε = "+number.Round(epsilon, 1, 4)
		}
		points = append(points, [2]float64{x, score})
		titles = append(titles, style.format(score)+" at "+label)
	}
	if len(points) == 0 {
		return nil, nil
	}
	least, most := math.Inf(1), 0.0
	furthest := 0.0
	for _, p := range points {
		least, most, furthest = min(least, p[1]), max(most, p[1]), max(furthest, p[0])
	}
	margin := max(style.margin(most), (most-least)*0.08)
	x, y := horizontalAxis(0, furthest*1.04), verticalAxis(max(0, least-margin), min(style.highest, most+margin))
	c := newChart("accuracy", x, y, style.tick)
	c.Title, c.YLabel = style.title+" over ε", style.label
	c.XLabel = "ε spent"
	if r.accounting == nil {
		c.Title, c.XLabel = style.title+" over lots", "lots"
	}
	c.About = "Line chart from " + titles[0] + " to " + titles[len(titles)-1] + "."
	l := line{Style: "measured", Path: svgPath(x, y, points)}
	for i, p := range points {
		l.Dots = append(l.Dots, dot{x.Position(p[0]), y.Position(p[1]), titles[i]})
	}
	c.Lines = []line{l}
	return c, nil
}

// scoreStyle describes how scoreChart draws a score.
type scoreStyle struct {
	title, label string
	highest      float64
	margin       func(most float64) float64 // least space above and below the points
	tick, format func(float64) string
}

var accuracyStyle = scoreStyle{"Test accuracy", "accuracy on public test data", 1,
	func(float64) float64 { return 0.05 },
	func(v float64) string { return strconv.FormatFloat(100*v, 'g', 4, 64) + "%" }, percent}

var rmseStyle = scoreStyle{"Test RMSE", "root mean squared error on public test data", math.Inf(1),
	func(most float64) float64 { return max(0.05*most, 1e-9) }, tickLabel, number.Short}
