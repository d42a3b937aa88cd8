package synthetic

import "math"

const side = DigitSide

// canvas contains the ink on each pixel, from 0 to 1.
type canvas [side * side]float64

// line draws a pen stroke from a to b, both in pixels, with round ends and a width that
// changes linearly. The ink falls from 1 to 0 over one pixel across the edge.
func (c *canvas) line(a, b point, widthA, widthB float64) {
	reach := max(widthA, widthB)/2 + 1
	left, right := span(a.x, b.x, reach)
	top, bottom := span(a.y, b.y, reach)
	dx, dy := b.x-a.x, b.y-a.y
	scale := 0.0
	if squared := dx*dx + dy*dy; squared > 0 {
		scale = 1 / squared
	}
	for y := top; y < bottom; y++ {
		for x := left; x < right; x++ {
			px, py := float64(x)-a.x, float64(y)-a.y
			along := (px*dx + py*dy) * scale
			if along > 1 { // min and max are calls where the processor has no instruction for them
				along = 1
			} else if !(along > 0) {
				along = 0
			}
			px -= along * dx
			py -= along * dy
			radius := (widthA + along*(widthB-widthA)) / 2
			ink := radius + .5 - math.Sqrt(px*px+py*py)
			if ink > 1 {
				ink = 1
			}
			if at := y*side + x; ink > c[at] {
				c[at] = ink
			}
		}
	}
}

// span returns the range of pixels from a to b, extended by reach on both sides.
func span(a, b, reach float64) (first, end int) {
	return max(int(math.Ceil(min(a, b)-reach)), 0), min(int(max(a, b)+reach)+1, side)
}

// draw draws a stroke along a Catmull–Rom curve through its points. The pen's width
// changes linearly from begin to end.
func (c *canvas) draw(s stroke, begin, end float64) {
	const pieces = 5
	at := func(i int) point { return s[min(max(i, 0), len(s)-1)] }
	width := begin
	for i := range len(s) - 1 {
		p0, p1, p2, p3 := at(i-1), at(i), at(i+1), at(i+2)
		if p1 == p2 {
			continue
		}
		from := p1
		for j := 1; j <= pieces; j++ {
			t := float64(j) / pieces
			to := point{catmullRom(p0.x, p1.x, p2.x, p3.x, t), catmullRom(p0.y, p1.y, p2.y, p3.y, t)}
			next := begin + (end-begin)*(float64(i)+t)/float64(len(s)-1)
			c.line(from, to, width, next)
			from, width = to, next
		}
	}
}

// catmullRom interpolates between b and c. The point before them is a, the point after
// them is d
// (Catmull and Rom, "A class of local interpolating splines", 1974).
func catmullRom(a, b, c, d, t float64) float64 {
	return b + t/2*(c-a+t*(2*a-5*b+4*c-d+t*(3*(b-c)+d-a)))
}
