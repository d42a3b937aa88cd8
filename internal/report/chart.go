package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The canvas of a chart, in its own units: the page scales it.
const (
	chartWidth, chartHeight = 480.0, 260.0
	left, right             = 46.0, 14.0
	top, bottom             = 26.0, 44.0
)

// chart is a picture of lines, ready for the page's template.
type chart struct {
	ID             string
	Title, About   string // for those who cannot see it
	XLabel, YLabel string
	XTicks, YTicks []tick
	Lines          []line

	Width, Height            float64
	Left, Right, Top, Bottom float64 // the edges of the plotted area
}

type tick struct {
	At    float64
	Label string
}

// line is a line in a style, with dots where they are wanted.
type line struct {
	Style string
	Path  string
	Dots  []dot
}

type dot struct {
	X, Y  float64
	Title string
}

// axis maps values to the canvas.
type axis struct {
	low, high   float64
	from, to    float64
	logarithmic bool
}

func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.logarithmic {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	return math.Round(100*(a.from+(v-low)/(high-low)*(a.to-a.from))) / 100
}

func (a axis) ticks(label func(float64) string) []tick {
	values := RoundNumbers(a.low, a.high, 6)
	if a.logarithmic {
		values = powers(a.low, a.high)
	}
	var ticks []tick
	for _, v := range values {
		ticks = append(ticks, tick{a.at(v), label(v)})
	}
	return ticks
}

// RoundNumbers are at most about most multiples of 1, 2 or 5 times a power of ten,
// from low to high.
func RoundNumbers(low, high float64, most int) []float64 {
	if !(high > low) {
		return nil
	}
	unit := math.Pow(10, math.Floor(math.Log10(high-low)))
	for _, share := range []float64{0.1, 0.2, 0.5, 1, 2} {
		if step := unit * share; (high-low)/step <= float64(most-1) {
			unit = step
			break
		}
	}
	var values []float64
	for i := math.Ceil(low / unit * (1 - 1e-12)); i*unit <= high*(1+1e-9); i++ {
		values = append(values, i*unit)
	}
	return values
}

// powers are the powers of ten from low to high, every few where they are many, with
// 2 and 5 times them between where they are few.
func powers(low, high float64) []float64 {
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	factors, each := []float64{1}, math.Ceil((to-from)/6)
	if math.Log10(high/low) < 1.5 {
		factors = []float64{1, 2, 5}
	}
	var values []float64
	for e := from; e <= to; e += each {
		for _, f := range factors {
			if v := f * math.Pow(10, e); v >= low*(1-1e-9) && v <= high*(1+1e-9) {
				values = append(values, v)
			}
		}
	}
	return values
}

// newChart makes a chart without lines.
func newChart(id string, x, y axis, label func(float64) string) *chart {
	return &chart{
		ID: id, XTicks: x.ticks(numeral), YTicks: y.ticks(label),
		Width: chartWidth, Height: chartHeight,
		Left: left, Right: chartWidth - right, Top: top, Bottom: chartHeight - bottom,
	}
}

func across(low, high float64) axis {
	return axis{low: low, high: high, from: left, to: chartWidth - right}
}

func upwards(low, high float64) axis {
	return axis{low: low, high: high, from: chartHeight - bottom, to: top}
}

// numeral labels a tick.
func numeral(v float64) string {
	if v >= 1000 && v < 1e7 && v == math.Trunc(v) {
		return Thousands(int(v))
	}
	return raisedShort(v)
}

// raisedShort writes a round number: 0.02, 500, 10⁷.
func raisedShort(v float64) string {
	if v >= 1e-3 && v < 1e7 || v == 0 {
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return raised(v)
}

// path draws straight lines between points.
func path(x, y axis, points [][2]float64) string {
	var b strings.Builder
	for i, p := range points {
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		fmt.Fprintf(&b, "%s%g %g", letter, x.at(p[0]), y.at(p[1]))
	}
	return b.String()
}

// epsilonChart draws ε over lots for every accountant, those that cost most first.
// It is nil where there is too little to draw.
func (a *account) epsilonChart() *chart {
	steps := a.history.LotCount()
	least, most := math.Inf(1), 0.0
	lowest := math.Inf(1)
	for _, c := range a.curves {
		if c.why != "" || math.IsInf(c.last(), 1) || c.last() <= 0 {
			continue
		}
		least, most = min(least, c.last()), max(most, c.last())
		// The first lots cost next to nothing: an axis that began there would be empty.
		lowest = min(lowest, c.epsilon[len(c.epsilon)/5])
	}
	if most == 0 || steps < 2 {
		return nil
	}
	x, y := across(0, float64(steps)), upwards(0, most*1.04)
	if most/least > 20 && lowest > 0 {
		y.logarithmic, y.low, y.high = true, min(lowest, least/4), most*1.2
	}
	c := newChart("cost", x, y, numeral)
	c.XLabel, c.YLabel = "lots", "ε"
	if _, beside := apart(a.history); len(beside) > 0 {
		c.XLabel = "releases"
	}
	c.Title = "ε over " + c.XLabel
	c.About = fmt.Sprintf("Line chart of ε at δ = %s after each number of %s, a line for each accountant. The table beside it has the last values.", raised(a.answer.Delta), c.XLabel)
	if y.logarithmic {
		c.YLabel = "ε, logarithmic"
	}
	for _, each := range a.curves {
		if each.why != "" || each.accountant == a.answer.Accountant {
			continue
		}
		c.Lines = append(c.Lines, line{Style: style(each.accountant), Path: each.path(x, y)})
	}
	for _, each := range a.curves { // the one that counts lies on top
		if each.accountant == a.answer.Accountant {
			c.Lines = append(c.Lines, line{Style: style(each.accountant) + " main", Path: each.path(x, y)})
		}
	}
	return c
}

// path leaves out what lies below a logarithmic axis or is infinite; a linear curve
// begins at the origin.
func (c curve) path(x, y axis) string {
	var points [][2]float64
	if !y.logarithmic {
		points = append(points, [2]float64{0, 0})
	}
	for i, e := range c.epsilon {
		if !math.IsInf(e, 1) && e >= y.low {
			points = append(points, [2]float64{float64(c.at[i]), e})
		}
	}
	return path(x, y, points)
}

// style is the class that colours an accountant's line.
func style(accountant string) string {
	if _, known := accountantNames[accountant]; known {
		return accountant
	}
	return "other"
}

// accuracyChart draws test accuracy, or the error of a regression, over ε, or over lots
// where ε is infinite. It is nil where there are no points.
func (r *Run) accuracyChart() (*chart, error) {
	of := accuracies
	if r.regressed() {
		of = rmses
	}
	var points [][2]float64
	var titles []string
	beyond := r.beyond()
	for _, p := range r.points {
		at, words := float64(p.Lot), plural(p.Lot, "lot")
		if r.account != nil {
			// Lots that a crash lost, and releases beside the lots, are charged to every
			// point, as which lots of the ledger were kept is not said: ε is then too large,
			// never too small.
			a, err := r.account.after(min(p.Lot+beyond, r.account.history.LotCount()))
			if err != nil {
				return nil, err
			}
			if math.IsInf(a, 1) {
				continue
			}
			at, words = a, "ε = "+rounded(a, 1, 4)
		}
		score, _ := p.score()
		points = append(points, [2]float64{at, score})
		titles = append(titles, of.words(score)+" at "+words)
	}
	if len(points) == 0 {
		return nil, nil
	}
	least, most := math.Inf(1), 0.0
	furthest := 0.0
	for _, p := range points {
		least, most, furthest = min(least, p[1]), max(most, p[1]), max(furthest, p[0])
	}
	room := max(of.room(most), (most-least)*0.08)
	x, y := across(0, furthest*1.04), upwards(max(0, least-room), min(of.highest, most+room))
	c := newChart("accuracy", x, y, of.tick)
	c.Title, c.YLabel = of.title+" over ε", of.label
	c.XLabel = "ε spent"
	if r.account == nil {
		c.Title, c.XLabel = of.title+" over lots", "lots"
	}
	c.About = "Line chart from " + titles[0] + " to " + titles[len(titles)-1] + "."
	l := line{Style: "measured", Path: path(x, y, points)}
	for i, p := range points {
		l.Dots = append(l.Dots, dot{x.at(p[0]), y.at(p[1]), titles[i]})
	}
	c.Lines = []line{l}
	return c, nil
}

// measure is what accuracyChart draws.
type measure struct {
	title, label string
	highest      float64
	room         func(most float64) float64 // above and below the points, at least
	tick, words  func(float64) string
}

var accuracies = measure{"Test accuracy", "accuracy on public test data", 1,
	func(float64) float64 { return 0.05 },
	func(v float64) string { return strconv.FormatFloat(100*v, 'g', 4, 64) + "%" }, percent}

var rmses = measure{"Test RMSE", "root mean squared error on public test data", math.Inf(1),
	func(most float64) float64 { return max(0.05*most, 1e-9) }, numeral, Short}
