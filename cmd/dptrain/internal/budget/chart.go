package budget

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/report"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// ChartFormats are the formats of Render, as file name extensions.
var ChartFormats = []string{".svg", ".png", ".csv"}

// Render writes the curves in one of ChartFormats.
func (c *Curves) Render(format string) ([]byte, error) {
	if format == ".csv" {
		return c.table()
	}
	p, legend, err := c.draw()
	if err != nil {
		return nil, err
	}
	const width, height = 20 * vg.Centimeter, 10 * vg.Centimeter
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	} = vgsvg.New(width, height)
	if format == ".png" {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(200))}
	}
	const margin, legendWidth = 8, 5.2 * vg.Centimeter
	whole := draw.Crop(draw.New(canvas), margin, -margin, margin, -margin)
	p.Draw(draw.Crop(whole, 0, -legendWidth, 0, 0))
	legend.Draw(draw.Crop(whole, width-legendWidth, 0, 0, -28))
	var b bytes.Buffer
	_, err = canvas.WriteTo(&b)
	return b.Bytes(), err
}

// lineColors gives each accountant the same colour in every chart. Colour-blind readers can
// distinguish them (Okabe and Ito 2008).
var lineColors = map[string]color.Color{
	"pld":     color.RGBA{0x00, 0x72, 0xb2, 0xff},
	"rdp":     color.RGBA{0xd5, 0x5e, 0x00, 0xff},
	"moments": color.RGBA{0x00, 0x9e, 0x73, 0xff},
	"gdp":     color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	"tcdp":    color.RGBA{0xf0, 0xe4, 0x42, 0xff},
	"zcdp":    color.RGBA{0x56, 0xb4, 0xe9, 0xff},
	"strong":  color.RGBA{0xe6, 0x9f, 0x00, 0xff},
	"naive":   color.RGBA{0x80, 0x80, 0x80, 0xff},
}

// draw draws the chart, and a legend in the order of the last ε. The ε axis is logarithmic
// if one accountant would flatten the other curves.
func (c *Curves) draw() (*plot.Plot, plot.Legend, error) {
	sans := func(size vg.Length) font.Font { return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size} }
	gray := color.Gray{0x55}
	p := plot.New()
	p.Title.Text = c.title()
	p.Title.TextStyle.Font = sans(11)
	p.Title.Padding = 8
	p.X.Label.Text, p.Y.Label.Text = "steps", "ε"
	if c.inEpochs {
		p.X.Label.Text = "epochs"
	}
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font = sans(11)
		axis.Tick.Label.Font = sans(9)
		axis.Tick.Label.Color = gray
		axis.Color, axis.Tick.Color = gray, gray
		axis.Padding = 0
	}
	legend := plot.NewLegend()
	legend.TextStyle.Font = sans(10)
	legend.Top, legend.Left = true, true
	legend.Padding = 3
	grid := plotter.NewGrid()
	grid.Vertical.Color = color.Gray{0xe8}
	grid.Horizontal.Color = color.Gray{0xe8}
	p.Add(grid)

	logarithmic := c.lastRatio() > 20
	for _, curve := range c.costliestFirst() {
		line, err := plotter.NewLine(c.points(curve, logarithmic))
		if err != nil {
			return nil, legend, fmt.Errorf("drawing the curve of %s: %w", curve.Accountant, err)
		}
		line.Width = 1.6
		line.Color = gray
		if known, ok := lineColors[curve.Accountant]; ok {
			line.Color = known
		}
		if curve.Accountant == "gdp" {
			line.Dashes = []vg.Length{5, 3}
		}
		p.Add(line)
		legend.Add(report.AccountantName(curve.Accountant), line)
	}
	p.X.Min = 0
	p.X.Tick.Marker = ticks{}
	if logarithmic {
		p.Y.Scale = plot.LogScale{}
		p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
		p.Y.Min = c.logarithmicMin()
	} else {
		p.Y.Min = 0
		p.Y.Max *= 1.05
		p.Y.Tick.Marker = ticks{}
	}
	return p, legend, nil
}

func (c *Curves) title() string {
	sampling := "rate " + number.Short(c.Rate)
	if c.Sampling != "poisson" {
		sampling = c.Sampling + ", " + sampling
	}
	return fmt.Sprintf("Privacy cost of a run: %s, noise %s, δ = %s", sampling, number.Short(c.Noise), number.Short(c.Delta))
}

// points omits values that cannot be drawn. A curve on a linear axis starts at the origin.
func (c *Curves) points(curve Curve, logarithmic bool) plotter.XYs {
	var points plotter.XYs
	if !logarithmic {
		points = append(points, plotter.XY{})
	}
	for i, epsilon := range curve.Epsilon {
		x := float64(c.At[i])
		if c.inEpochs {
			x = c.Epochs[i]
		}
		y := float64(epsilon)
		if math.IsInf(y, 1) || logarithmic && y <= 0 {
			continue
		}
		points = append(points, plotter.XY{X: x, Y: y})
	}
	return points
}

// ticks marks at most nine round numbers.
type ticks struct{}

func (ticks) Ticks(low, high float64) []plot.Tick {
	var marks []plot.Tick
	for _, x := range number.Multiples(low, high, 9) {
		label := strconv.FormatFloat(x, 'g', 4, 64)
		if x >= 1000 && x < 1e9 && x == math.Trunc(x) {
			label = number.Thousands(int(x))
		}
		marks = append(marks, plot.Tick{Value: x, Label: label})
	}
	return marks
}
