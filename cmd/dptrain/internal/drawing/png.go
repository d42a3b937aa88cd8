package drawing

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"

	"golang.org/x/image/vector"
)

// PNG returns the drawing as a PNG file with a number of dots per inch.
func (d *Drawing) PNG(dpi float64) ([]byte, error) {
	scale := dpi / 72
	c := &canvas{image.NewRGBA(image.Rect(0, 0, int(math.Ceil(d.width*scale)), int(math.Ceil(d.height*scale)))), scale}
	draw.Draw(c.pixels, c.pixels.Rect, image.White, image.Point{}, draw.Src)
	for _, s := range d.shapes {
		if err := s.raster(c); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	err := png.Encode(&b, c.pixels)
	return b.Bytes(), err
}

// canvas is a picture of pixels; scale is the number of pixels in a point.
type canvas struct {
	pixels *image.RGBA
	scale  float64
}

// outline is a closed polygon, in pixels.
type outline []Point

// fill fills the union of outlines that turn the same way. An outline inside that turns the other way is a hole.
func (c *canvas) fill(ink color.RGBA, outlines []outline) {
	low, high := Point{math.Inf(1), math.Inf(1)}, Point{math.Inf(-1), math.Inf(-1)}
	for _, o := range outlines {
		for _, p := range o {
			low, high = Point{min(low.X, p.X), min(low.Y, p.Y)}, Point{max(high.X, p.X), max(high.Y, p.Y)}
		}
	}
	if !(low.X < high.X) {
		return
	}
	box := image.Rect(int(math.Floor(low.X)), int(math.Floor(low.Y)), int(math.Ceil(high.X)), int(math.Ceil(high.Y)))
	raster := vector.NewRasterizer(box.Dx(), box.Dy())
	at := func(p Point) (x, y float32) {
		return float32(p.X - float64(box.Min.X)), float32(p.Y - float64(box.Min.Y))
	}
	for _, o := range outlines {
		raster.MoveTo(at(o[0]))
		for _, p := range o[1:] {
			raster.LineTo(at(p))
		}
		raster.ClosePath()
	}
	mask := image.NewAlpha(image.Rect(0, 0, box.Dx(), box.Dy()))
	raster.Draw(mask, mask.Rect, image.Opaque, image.Point{})
	draw.DrawMask(c.pixels, box, image.NewUniform(ink), image.Point{}, mask, image.Point{}, draw.Over)
}

func (l line) raster(c *canvas) error {
	var outlines []outline
	radius := l.style.Width * c.scale / 2
	for _, dash := range l.dashes() {
		for i, p := range dash {
			p = Point{p.X * c.scale, p.Y * c.scale}
			if i > 0 {
				from := Point{dash[i-1].X * c.scale, dash[i-1].Y * c.scale}
				outlines = append(outlines, strip(from, p, radius))
			}
			if 0 < i && i < len(dash)-1 {
				outlines = append(outlines, disc(p, radius)) // joins two strips
			}
		}
	}
	c.fill(l.style.Color, outlines)
	return nil
}

// strip is the rectangle around the straight line between two points.
func strip(a, b Point, radius float64) outline {
	length := math.Hypot(b.X-a.X, b.Y-a.Y)
	if length == 0 {
		return disc(a, radius)
	}
	x, y := -(b.Y-a.Y)/length*radius, (b.X-a.X)/length*radius
	return outline{{a.X + x, a.Y + y}, {a.X - x, a.Y - y}, {b.X - x, b.Y - y}, {b.X + x, b.Y + y}}
}

// disc turns in the same direction as a strip.
func disc(at Point, radius float64) outline {
	const corners = 16
	var o outline
	for i := range corners {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / corners)
		o = append(o, Point{at.X + radius*cos, at.Y + radius*sin})
	}
	return o
}

// dashes divides the line into its dashes.
func (l line) dashes() [][]Point {
	if len(l.style.Dashes) == 0 {
		return [][]Point{l.points}
	}
	var dashes [][]Point
	next, left := 0, l.style.Dashes[0] // left is what remains of the current dash or gap
	dash := []Point{l.points[0]}
	for i, b := range l.points[1:] {
		a := l.points[i]
		length := math.Hypot(b.X-a.X, b.Y-a.Y)
		for done := 0.0; done < length; {
			step := min(left, length-done)
			done += step
			left -= step
			p := Point{a.X + (b.X-a.X)*done/length, a.Y + (b.Y-a.Y)*done/length}
			if dash != nil {
				dash = append(dash, p)
			}
			if left > 0 {
				continue
			}
			if dash != nil {
				dashes = append(dashes, dash)
			}
			next++
			left = l.style.Dashes[next%len(l.style.Dashes)]
			dash = nil
			if next%2 == 0 {
				dash = []Point{p}
			}
		}
	}
	if len(dash) > 1 {
		dashes = append(dashes, dash)
	}
	return dashes
}
