package drawing

import (
	"fmt"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

var goRegular = sync.OnceValues(func() (*sfnt.Font, error) { return sfnt.Parse(goregular.TTF) })

// narrowSpace, which Go Regular lacks, is half as wide as a space.
const narrowSpace = '\u202f'

func (t text) raster(c *canvas) error {
	outlines, width, err := outlinesOf(t.content, t.style.Size*c.scale)
	if err != nil {
		return err
	}
	origin := Point{t.at.X * c.scale, t.at.Y * c.scale}
	switch t.style.Anchor {
	case Middle:
		origin.X -= width / 2
	case End:
		origin.X -= width
	}
	for _, o := range outlines {
		for i := range o {
			o[i] = Point{o[i].X + origin.X, o[i].Y + origin.Y}
		}
	}
	c.fill(t.style.Color, outlines)
	return nil
}

// outlinesOf returns the outlines and the width of a text that starts at (0, 0).
func outlinesOf(content string, size float64) (outlines []outline, width float64, err error) {
	face, err := goRegular()
	if err != nil {
		return nil, 0, fmt.Errorf("reading the font: %w", err)
	}
	var buffer sfnt.Buffer
	height := fixed.Int26_6(size * 64)
	for _, r := range content {
		shown := r
		if r == narrowSpace {
			shown = ' '
		}
		index, err := face.GlyphIndex(&buffer, shown)
		if err != nil {
			return nil, 0, fmt.Errorf("reading the glyph of %q: %w", r, err)
		}
		segments, err := face.LoadGlyph(&buffer, index, height, nil)
		if err != nil {
			return nil, 0, fmt.Errorf("reading the glyph of %q: %w", r, err)
		}
		outlines = append(outlines, outlinesFrom(segments, width)...)
		advance, err := face.GlyphAdvance(&buffer, index, height, font.HintingNone)
		if err != nil {
			return nil, 0, fmt.Errorf("reading the width of %q: %w", r, err)
		}
		if r == narrowSpace {
			advance /= 2
		}
		width += float64(advance) / 64
	}
	return outlines, width, nil
}

// outlinesFrom converts a glyph of a TrueType font, whose curves are quadratic, to polygons.
func outlinesFrom(segments sfnt.Segments, x float64) (outlines []outline) {
	const pieces = 8 // of a curve
	at := func(p fixed.Point26_6) Point { return Point{x + float64(p.X)/64, float64(p.Y) / 64} }
	for _, s := range segments {
		if s.Op == sfnt.SegmentOpMoveTo {
			outlines = append(outlines, outline{at(s.Args[0])})
			continue
		}
		o := &outlines[len(outlines)-1]
		if s.Op == sfnt.SegmentOpLineTo {
			*o = append(*o, at(s.Args[0]))
			continue
		}
		a, b, c := (*o)[len(*o)-1], at(s.Args[0]), at(s.Args[1])
		for i := 1; i <= pieces; i++ {
			u := float64(i) / pieces
			v := 1 - u
			*o = append(*o, Point{v*v*a.X + 2*u*v*b.X + u*u*c.X, v*v*a.Y + 2*u*v*b.Y + u*u*c.Y})
		}
	}
	return outlines
}
