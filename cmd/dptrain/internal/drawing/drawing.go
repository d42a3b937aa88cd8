// Package drawing writes pictures of lines and text, as SVG and as PNG.
//
// A Drawing is a list of shapes in points (1/72 inch), from the upper left corner. Both formats show the
// same shapes at the same places. An SVG names the fonts of text, and its viewer has them. A PNG has text
// in Go Regular, which is part of the program.
package drawing

import "image/color"

// Drawing is a picture on white ground.
type Drawing struct {
	width, height float64
	shapes        []shape
}

// shape is a line or a text.
type shape interface {
	svg() string
	raster(*canvas) error
}

// New returns an empty drawing.
func New(width, height float64) *Drawing { return &Drawing{width: width, height: height} }

// Point is a place in a drawing. Y grows downwards.
type Point struct{ X, Y float64 }

// Stroke is the style of a line.
type Stroke struct {
	Color  color.RGBA
	Width  float64
	Dashes []float64 // lengths of dashes and gaps in turn; a solid line without them
}

// Line draws a line that joins points. Fewer than two points draw nothing.
func (d *Drawing) Line(style Stroke, points ...Point) {
	if len(points) > 1 {
		d.shapes = append(d.shapes, line{style, points})
	}
}

// Anchor is the part of a text that lies at its point.
type Anchor string

// Anchors, as SVG names them.
const (
	Start  Anchor = "start"
	Middle Anchor = "middle"
	End    Anchor = "end"
)

// Font is the style of a text. Size is the height of a line.
type Font struct {
	Color  color.RGBA
	Size   float64
	Anchor Anchor
}

// Text writes a line of text whose baseline goes through a point.
func (d *Drawing) Text(style Font, at Point, content string) {
	d.shapes = append(d.shapes, text{style, at, content})
}

type line struct {
	style  Stroke
	points []Point
}

type text struct {
	style   Font
	at      Point
	content string
}
