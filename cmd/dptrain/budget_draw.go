package main

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/report"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// render makes the file's contents.
func (c *curves) render(format string) ([]byte, error) {
	if format == ".csv" {
		return c.table()
	}
	p, key, err := c.draw()
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
	const margin, keyWidth = 8, 5.2 * vg.Centimeter
	whole := draw.Crop(draw.New(canvas), margin, -margin, margin, -margin)
	p.Draw(draw.Crop(whole, 0, -keyWidth, 0, 0))
	key.Draw(draw.Crop(whole, width-keyWidth, 0, 0, -28))
	var b bytes.Buffer
	_, err = canvas.WriteTo(&b)
	return b.Bytes(), err
}

func (c *curves) table() ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	row := []string{"steps", "epochs"}
	for _, line := range c.Curves {
		row = append(row, line.Accountant)
	}
	w.Write(row)
	for i, at := range c.At {
		row = append(row[:0], strconv.Itoa(at), strconv.FormatFloat(c.Epochs[i], 'g', -1, 64))
		for _, line := range c.Curves {
			row = append(row, strconv.FormatFloat(float64(line.Epsilon[i]), 'g', -1, 64))
		}
		w.Write(row)
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// A line's colour tells its accountant in every picture; they stay apart for the
// colour-blind (Okabe and Ito 2008).
var lineColors = map[string]color.Color{
	"pld":     color.RGBA{0x00, 0x72, 0xb2, 0xff},
	"rdp":     color.RGBA{0xd5, 0x5e, 0x00, 0xff},
	"moments": color.RGBA{0x00, 0x9e, 0x73, 0xff},
	"gdp":     color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	"zcdp":    color.RGBA{0x56, 0xb4, 0xe9, 0xff},
	"strong":  color.RGBA{0xe6, 0x9f, 0x00, 0xff},
	"naive":   color.RGBA{0x80, 0x80, 0x80, 0xff},
}

// draw makes the picture, and the key to its lines in the order of what they end
// at. The cost axis is logarithmic where one accountant would flatten the others.
func (c *curves) draw() (*plot.Plot, plot.Legend, error) {
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
	key := plot.NewLegend()
	key.TextStyle.Font = sans(10)
	key.Top, key.Left = true, true
	key.Padding = 3
	grid := plotter.NewGrid()
	grid.Vertical.Color = color.Gray{0xe8}
	grid.Horizontal.Color = color.Gray{0xe8}
	p.Add(grid)

	logarithmic := c.spread() > 20
	for _, each := range c.costliestFirst() {
		line, err := plotter.NewLine(c.points(each, logarithmic))
		if err != nil {
			return nil, key, fmt.Errorf("drawing %s: %w", each.Accountant, err)
		}
		line.Width = 1.6
		line.Color = gray
		if own, ok := lineColors[each.Accountant]; ok {
			line.Color = own
		}
		if each.Accountant == "gdp" {
			line.Dashes = []vg.Length{5, 3}
		}
		p.Add(line)
		key.Add(report.AccountantName(each.Accountant), line)
	}
	p.X.Min = 0
	p.X.Tick.Marker = ticks{}
	if logarithmic {
		p.Y.Scale = plot.LogScale{}
		p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
		p.Y.Min = c.floor()
	} else {
		p.Y.Min = 0
		p.Y.Max *= 1.05
		p.Y.Tick.Marker = ticks{}
	}
	return p, key, nil
}

func (c *curves) title() string {
	sampling := "rate " + number.Short(c.Rate)
	if c.Sampling != "poisson" {
		sampling = c.Sampling + ", " + sampling
	}
	return fmt.Sprintf("Cost of a run: %s, noise %s, δ = %s", sampling, number.Short(c.Noise), number.Short(c.Delta))
}

// last is what the run costs in the end.
func (c curve) last() float64 { return float64(c.Epsilon[len(c.Epsilon)-1]) }

func (c *curves) costliestFirst() []curve {
	return slices.SortedStableFunc(slices.Values(c.Curves), func(a, b curve) int { return cmp.Compare(b.last(), a.last()) })
}

// spread is how many times the largest final ε is the smallest.
func (c *curves) spread() float64 {
	least, most := math.Inf(1), 0.0
	for _, line := range c.Curves {
		if last := line.last(); !math.IsInf(last, 1) && last > 0 {
			least, most = min(least, last), max(most, last)
		}
	}
	return most / least
}

// floor is where a logarithmic axis begins: at the least ε of the tenth point, as
// the first steps cost next to nothing.
func (c *curves) floor() float64 {
	floor := math.Inf(1)
	for _, line := range c.Curves {
		if at := float64(line.Epsilon[min(9, len(line.Epsilon)-1)]); at > 0 {
			floor = min(floor, at)
		}
	}
	return floor
}

// points leaves out what cannot be drawn; a linear curve begins at the origin.
func (c *curves) points(line curve, logarithmic bool) plotter.XYs {
	var points plotter.XYs
	if !logarithmic {
		points = append(points, plotter.XY{})
	}
	for i, epsilon := range line.Epsilon {
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

// ticks are at most nine round numbers, with thousands apart.
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
