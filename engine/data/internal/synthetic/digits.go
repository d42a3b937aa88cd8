package synthetic

import "math"

// DigitSide is the side of a digit's picture, in pixels. It has one channel.
const DigitSide = 28

const digitsSeed = 0x64696769747321

// Digits draws n handwritten digits, starting with number first: strokes of a pen with random slant,
// rotation, size, position, width, distortion and noise.
func Digits(first, n int) (pixels []byte, labels []int32) {
	return drawAll(first, n, DigitSide*DigitSide, func() func(uint64, []byte) int {
		p := digitPen{generator: newGenerator()}
		return func(number uint64, picture []byte) int {
			p.source.Seed(digitsSeed, number)
			digit := p.rng.IntN(10)
			p.draw(digit, picture)
			return digit
		}
	})
}

// digitPen draws digits.
type digitPen struct {
	*generator
	ink    canvas
	points stroke
}

// draw draws a digit into a picture.
func (p *digitPen) draw(digit int, picture []byte) {
	clear(p.ink[:])
	variants := glyphs[digit]
	variant := variants[p.rng.IntN(len(variants))]

	height := 19.5 + p.bell(4.5)
	width := height * (.68 + p.bell(.26))
	slant := .12 + p.bell(.55)
	sin, cos := math.Sincos(p.bell(.48))
	center := point{float64(side-1)/2 + p.bell(3.7), float64(side-1)/2 + p.bell(3.7)}
	pen := p.uniform(1.5, 3.4)
	for _, s := range variant {
		p.points = p.points[:0]
		for i, at := range s {
			if i > 0 && at == s[i-1] { // the second half of a corner
				p.points = append(p.points, p.points[i-1])
				continue
			}
			y := (at.y - .5 + p.bell(.16)) * height
			x := (at.x-.5+p.bell(.16))*width - slant*y
			p.points = append(p.points, point{center.x + x*cos - y*sin, center.y + x*sin + y*cos})
		}
		p.ink.draw(p.points, pen*p.uniform(.8, 1.2), pen*p.uniform(.7, 1.1))
	}
	p.toPixels(picture)
}

// toPixels converts ink to gray levels, scaled by the pen's darkness, and adds noise to
// every pixel.
func (p *digitPen) toPixels(picture []byte) {
	dark := p.uniform(.75, 1) * 255
	noise := p.uniform(0, .25)
	var random uint64
	for i, ink := range p.ink {
		if i%4 == 0 {
			random = p.rng.Uint64()
		}
		// The difference of two bytes has a triangular distribution on [-255, 255].
		grain := float64(int(random&255) - int(random>>8&255))
		random >>= 16
		level := dark*ink + noise*grain + .5
		if level > 255 {
			level = 255
		} else if level < 0 {
			level = 0
		}
		picture[i] = byte(level)
	}
}
