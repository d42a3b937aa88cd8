package synthetic

import "math"

// ShapeSide is the side of a picture of Shapes, in pixels. It has three channels.
const ShapeSide = 32

const shapesSeed = 0x736861706573

// Outlines and Textures name the two parts of a class of Shapes: class c has the outline
// c / len(Textures) and the texture c % len(Textures).
var (
	Outlines = []string{"disc", "square", "triangle", "ring", "cross", "flower", "crescent", "bar", "hexagon", "pair"}
	Textures = []string{"plain", "striped", "checked", "dotted", "shaded"}
)

// Shapes draws n color pictures, starting with number first: an object with the outline and the
// texture of its class, with random colors, place, size, rotation and distortion, before a smooth
// background with edges of its own, and with noise. It is meant for training the lower layers of a
// network for photographs on public data, as Kataoka et al. ("Pre-training without natural images",
// ACCV 2020) and Baradad et al. ("Learning to see by looking at noise", NeurIPS 2021) do with other
// drawn pictures.
//
// The three planes of a picture follow one another: red, green, blue.
func Shapes(first, n int) (pixels []byte, labels []int32) {
	return drawAll(first, n, 3*ShapeSide*ShapeSide, func() func(uint64, []byte) int {
		b := shapeBrush{generator: newGenerator()}
		return func(number uint64, picture []byte) int {
			b.source.Seed(shapesSeed, number)
			class := b.rng.IntN(len(Outlines) * len(Textures))
			b.draw(class/len(Textures), class%len(Textures), picture)
			return class
		}
	})
}

// color is red, green and blue, from 0 to 1.
type color [3]float64

func (c color) mix(d color, share float64) color {
	for i := range c {
		c[i] += share * (d[i] - c[i])
	}
	return c
}

func (c color) distance(d color) float64 {
	var squares float64
	for i := range c {
		squares += (c[i] - d[i]) * (c[i] - d[i])
	}
	return math.Sqrt(squares)
}

// wave is a plane wave sin(x·point + phase).
type wave struct {
	direction point
	phase     float64
}

func (w wave) at(x, y float64) float64 { return math.Sin(x*w.direction.x + y*w.direction.y + w.phase) }

// shapeBrush draws shapes.
type shapeBrush struct {
	*generator
	background [3]wave
	colors     [2]color // of the background
	edge       wave     // only its direction and phase: a half plane of other colors
}

func (b *shapeBrush) color() color { return color{b.rng.Float64(), b.rng.Float64(), b.rng.Float64()} }

// contrasting draws a color that is far from both colors of the background.
func (b *shapeBrush) contrasting() color {
	const contrast = .35
	for {
		if c := b.color(); c.distance(b.colors[0]) > contrast && c.distance(b.colors[1]) > contrast {
			return c
		}
	}
}

// wave draws a wave with a period between two lengths in pixels.
func (b *shapeBrush) wave(shortest, longest float64) wave {
	sin, cos := math.Sincos(b.uniform(0, 2*math.Pi))
	frequency := 2 * math.Pi / b.uniform(shortest, longest)
	return wave{point{cos * frequency, sin * frequency}, b.uniform(0, 2*math.Pi)}
}

// draw draws an object into a picture.
func (b *shapeBrush) draw(outline, texture int, picture []byte) {
	b.colors = [2]color{b.color(), b.color()}
	for i := range b.background {
		b.background[i] = b.wave(10, 60)
	}
	b.edge = b.wave(20, 60)
	edgeColor, edgeShare := b.color(), b.uniform(0, .6)

	body := newShape(b, outline)
	paint := newTexture(b, texture)
	noise := b.uniform(0, .12) * 255
	const plane = ShapeSide * ShapeSide
	var random uint64
	for i := range plane {
		x, y := float64(i%ShapeSide)-(ShapeSide-1)/2., float64(i/ShapeSide)-(ShapeSide-1)/2.
		level := .5
		for _, w := range b.background {
			level += w.at(x, y) / 6
		}
		c := b.colors[0].mix(b.colors[1], level)
		if beyond := x*b.edge.direction.x + y*b.edge.direction.y + b.edge.phase - math.Pi; beyond > 0 {
			c = c.mix(edgeColor, edgeShare)
		}
		if u, v, cover := body.cover(x, y); cover > 0 {
			c = c.mix(paint.at(x, y, u, v), cover)
		}
		random = b.rng.Uint64()
		for k, level := range c {
			grain := float64(int(random&255)-int(random>>8&255)) / 255
			random >>= 16
			picture[k*plane+i] = byte(min(max(255*level+noise*grain+.5, 0), 255))
		}
	}
}

// shape is an outline at a place of the picture.
type shape struct {
	outline       int
	center        point
	sin, cos      float64
	radius, width float64 // in pixels, along the shape's two axes
	bend          float64
	phase         float64
}

func newShape(b *shapeBrush, outline int) shape {
	s := shape{outline: outline, center: point{b.bell(6), b.bell(6)}, radius: b.uniform(7, 13),
		bend: b.uniform(0, .08), phase: b.uniform(0, 2*math.Pi)}
	s.sin, s.cos = math.Sincos(b.uniform(0, 2*math.Pi))
	s.width = s.radius * b.uniform(.75, 1)
	return s
}

// cover returns a pixel's coordinates in the shape, whose parts lie within [-1, 1], and the share of the
// pixel that the shape covers, which falls from 1 to 0 over one pixel across the edge.
func (s *shape) cover(x, y float64) (u, v, share float64) {
	x, y = x-s.center.x, y-s.center.y
	u, v = (x*s.cos+y*s.sin)/s.radius, (y*s.cos-x*s.sin)/s.width
	if u*u+v*v > 2.6 { // beyond the corners of a square
		return u, v, 0
	}
	u += s.bend * math.Sin(3*v+s.phase)
	v += s.bend * math.Sin(3*u-s.phase)
	return u, v, min(max(.5-outside(s.outline, u, v)*s.width, 0), 1)
}

// outside returns about how far a point lies outside an outline: negative inside.
func outside(outline int, u, v float64) float64 {
	r := math.Sqrt(u*u + v*v)
	switch Outlines[outline] {
	case "square":
		return max(math.Abs(u), math.Abs(v)) - .82
	case "triangle":
		return max(-v-.5, .5*v+.8660254*u-.5, .5*v-.8660254*u-.5)
	case "ring":
		return math.Abs(r-.72) - .25
	case "cross":
		return min(max(math.Abs(u)-.28, math.Abs(v)-1), max(math.Abs(u)-1, math.Abs(v)-.28))
	case "flower":
		return r - .72 - .26*math.Cos(5*math.Atan2(v, u))
	case "crescent":
		return max(r-1, .8-math.Sqrt((u-.55)*(u-.55)+v*v))
	case "bar":
		return max(math.Abs(u)-1, math.Abs(v)-.26)
	case "hexagon":
		return max(math.Abs(v), .8660254*math.Abs(u)+.5*math.Abs(v)) - .85
	case "pair":
		left, right := u+.52, u-.52
		return math.Sqrt(min(left*left, right*right)+v*v) - .44
	default: // disc
		return r - .95
	}
}

// texture colors a shape.
type texture struct {
	kind   int
	colors [2]color
	waves  [2]wave
	share  float64
}

func newTexture(b *shapeBrush, kind int) texture {
	t := texture{kind: kind, colors: [2]color{b.contrasting(), b.contrasting()}, waves: [2]wave{b.wave(3.5, 6), {}},
		share: b.uniform(-.3, .3)}
	for t.colors[0].distance(t.colors[1]) < .4 {
		t.colors[1] = b.color()
	}
	first := t.waves[0]
	t.waves[1] = wave{point{-first.direction.y, first.direction.x}, b.uniform(0, 2*math.Pi)} // across the first
	return t
}

// at returns the color of a pixel, which is also given by its place in the shape.
func (t *texture) at(x, y, u, v float64) color {
	share := 0.0
	switch Textures[t.kind] {
	case "striped":
		share = t.waves[0].at(x, y)*2 + .5
	case "checked":
		share = t.waves[0].at(x, y)*t.waves[1].at(x, y)*4 + .5
	case "dotted":
		share = (t.waves[0].at(x, y)+t.waves[1].at(x, y)-.7)*2 + .5
	case "shaded":
		share = .5 + .5*(u+t.share)
	}
	return t.colors[0].mix(t.colors[1], min(max(share, 0), 1))
}
