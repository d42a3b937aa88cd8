package drawing

import (
	"encoding/xml"
	"fmt"
	"image/color"
	"strings"
)

// SVG returns the drawing as an SVG file.
func (d *Drawing) SVG() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%gpt" height="%gpt" viewBox="0 0 %g %g" `, d.width, d.height, d.width, d.height)
	b.WriteString(`font-family="Liberation Sans, Arial, Helvetica, sans-serif">` + "\n" + `<rect width="100%" height="100%" fill="#ffffff"/>` + "\n")
	for _, s := range d.shapes {
		b.WriteString(s.svg() + "\n")
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

func (l line) svg() string {
	var points []string
	for _, p := range l.points {
		points = append(points, fmt.Sprintf("%g,%g", p.X, p.Y))
	}
	dashes := ""
	if len(l.style.Dashes) > 0 {
		dashes = ` stroke-dasharray="` + strings.Trim(fmt.Sprint(l.style.Dashes), "[]") + `"`
	}
	return fmt.Sprintf(`<polyline points="%s" fill="none" stroke="%s" stroke-width="%g" stroke-linejoin="round"%s/>`,
		strings.Join(points, " "), hexColor(l.style.Color), l.style.Width, dashes)
}

func (t text) svg() string {
	var escaped strings.Builder
	xml.EscapeText(&escaped, []byte(t.content))
	return fmt.Sprintf(`<text x="%g" y="%g" font-size="%g" text-anchor="%s" fill="%s">%s</text>`,
		t.at.X, t.at.Y, t.style.Size, t.style.Anchor, hexColor(t.style.Color), escaped.String())
}

func hexColor(c color.RGBA) string { return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B) }
