package budget

import (
	"fmt"
	"image/color"
	"math"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/drawing"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
)

// ChartFormats are the formats of Render, as file name extensions.
var ChartFormats = []string{".svg", ".png", ".csv"}

// Render writes the curves in one of ChartFormats.
func (c *Curves) Render(format string) ([]byte, error) {
	switch format {
	case ".csv":
		return c.table()
	case ".png":
		return c.draw().PNG(200)
	}
	return c.draw().SVG(), nil
}

// lineColors gives each accountant the same colour in every chart. Colour-blind readers can
// distinguish them (Okabe and Ito 2008).
var lineColors = map[string]color.RGBA{
	"pld":     {0x00, 0x72, 0xb2, 0xff},
	"rdp":     {0xd5, 0x5e, 0x00, 0xff},
	"moments": {0x00, 0x9e, 0x73, 0xff},
	"gdp":     {0xcc, 0x79, 0xa7, 0xff},
	"tcdp":    {0xf0, 0xe4, 0x42, 0xff},
	"zcdp":    {0x56, 0xb4, 0xe9, 0xff},
	"strong":  {0xe6, 0x9f, 0x00, 0xff},
	"naive":   {0x80, 0x80, 0x80, 0xff},
}

var black, gray, pale = color.RGBA{A: 0xff}, color.RGBA{0x55, 0x55, 0x55, 0xff}, color.RGBA{0xe8, 0xe8, 0xe8, 0xff}

// The size of a chart and the edges of its plotted area, in points. The legend is to the right.
const (
	chartWidth, chartHeight = 566.93, 283.46 // 20 cm and 10 cm
	chartLeft, chartRight   = 52, 402
	chartTop, chartBottom   = 40, 238
	legendLeft              = 416
)

// tickLimit is about the largest number of ticks of an axis.
const tickLimit = 9

// draw draws the chart, and a legend in the order of the last ε.
func (c *Curves) draw() *drawing.Drawing {
	d := drawing.New(chartWidth, chartHeight)
	x, y := c.axes()
	heading := drawing.Font{Color: black, Size: 11, Anchor: drawing.Middle}
	d.Text(heading, drawing.Point{X: chartWidth / 2, Y: 20}, c.title())
	unit := "steps"
	if c.inEpochs {
		unit = "epochs"
	}
	d.Text(heading, drawing.Point{X: (chartLeft + chartRight) / 2, Y: chartBottom + 34}, unit)
	d.Text(drawing.Font{Color: black, Size: 11, Anchor: drawing.End}, drawing.Point{X: chartLeft - 7, Y: chartTop - 9}, "ε")
	drawAxes(d, x, y)
	for i, curve := range c.costliestFirst() {
		style := drawing.Stroke{Color: gray, Width: 1.6}
		if known, ok := lineColors[curve.Accountant]; ok {
			style.Color = known
		}
		if curve.Accountant == "gdp" {
			style.Dashes = []float64{5, 3}
		}
		d.Line(style, c.points(curve, x, y)...)
		at := chartTop + 12 + 15*float64(i)
		d.Line(style, drawing.Point{X: legendLeft, Y: at - 3.5}, drawing.Point{X: legendLeft + 20, Y: at - 3.5})
		name := drawing.Font{Color: black, Size: 10, Anchor: drawing.Start}
		d.Text(name, drawing.Point{X: legendLeft + 25, Y: at}, report.AccountantName(curve.Accountant))
	}
	return d
}

// axes returns the axes of steps or epochs, and of ε. The latter is logarithmic if one accountant would
// flatten the other curves.
func (c *Curves) axes() (x, y drawing.Axis) {
	x = drawing.Axis{High: float64(c.At[len(c.At)-1]), From: chartLeft, To: chartRight}
	if c.inEpochs {
		x.High = c.Epochs[len(c.Epochs)-1]
	}
	y = drawing.Axis{From: chartBottom, To: chartTop}
	for _, curve := range c.Curves {
		for _, epsilon := range curve.Epsilon {
			if e := float64(epsilon); !math.IsInf(e, 1) && e > y.High {
				y.High = e
			}
		}
	}
	switch {
	case y.High == 0:
		y.High = 1
	case c.lastRatio() > 20:
		y.Logarithmic, y.Low = true, c.logarithmicMin()
	default:
		y.High *= 1.05
	}
	return x, y
}

// drawAxes draws the grid, the axes and their ticks.
func drawAxes(d *drawing.Drawing, x, y drawing.Axis) {
	grid, ink := drawing.Stroke{Color: pale, Width: 1}, drawing.Stroke{Color: gray, Width: 0.5}
	for _, v := range x.Ticks(tickLimit) {
		at := x.Position(v)
		d.Line(grid, drawing.Point{X: at, Y: chartTop}, drawing.Point{X: at, Y: chartBottom})
		d.Line(ink, drawing.Point{X: at, Y: chartBottom}, drawing.Point{X: at, Y: chartBottom + 5})
		d.Text(drawing.Font{Color: gray, Size: 9, Anchor: drawing.Middle}, drawing.Point{X: at, Y: chartBottom + 15}, tickLabel(v))
	}
	for _, v := range y.Ticks(tickLimit) {
		at := y.Position(v)
		d.Line(grid, drawing.Point{X: chartLeft, Y: at}, drawing.Point{X: chartRight, Y: at})
		d.Line(ink, drawing.Point{X: chartLeft - 5, Y: at}, drawing.Point{X: chartLeft, Y: at})
		d.Text(drawing.Font{Color: gray, Size: 9, Anchor: drawing.End}, drawing.Point{X: chartLeft - 7, Y: at + 3}, tickLabel(v))
	}
	corner := drawing.Point{X: chartLeft, Y: chartBottom}
	d.Line(ink, drawing.Point{X: chartLeft, Y: chartTop}, corner, drawing.Point{X: chartRight, Y: chartBottom})
}

func (c *Curves) title() string {
	sampling := "rate " + number.Short(c.Rate)
	if c.Sampling != "poisson" {
		sampling = c.Sampling + ", " + sampling
	}
	return fmt.Sprintf("Privacy cost of a run: %s, noise %s, δ = %s", sampling, number.Short(c.Noise), number.Short(c.Delta))
}

// points returns the places of a curve's values that can be drawn. A curve on a linear axis starts at the
// origin. On a logarithmic axis it enters at the lower edge.
func (c *Curves) points(curve Curve, x, y drawing.Axis) []drawing.Point {
	var points []drawing.Point
	if !y.Logarithmic {
		points = append(points, drawing.Point{X: x.Position(0), Y: y.Position(0)})
	}
	var below *drawing.Point // the last value under the axis
	for i, epsilon := range curve.Epsilon {
		e := float64(epsilon)
		if math.IsInf(e, 1) || y.Logarithmic && e <= 0 {
			continue
		}
		at := float64(c.At[i])
		if c.inEpochs {
			at = c.Epochs[i]
		}
		p := drawing.Point{X: x.Position(at), Y: y.Position(e)}
		if e < y.Low {
			below = &p
			continue
		}
		if below != nil {
			share := (y.From - below.Y) / (p.Y - below.Y)
			points = append(points, drawing.Point{X: below.X + share*(p.X-below.X), Y: y.From})
			below = nil
		}
		points = append(points, p)
	}
	return points
}

// tickLabel labels a tick mark with four digits.
func tickLabel(v float64) string {
	if v >= 1000 && v < 1e7 && v == math.Trunc(v) {
		return number.Thousands(int(v))
	}
	return number.Short(v)
}
