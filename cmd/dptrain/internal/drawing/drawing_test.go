package drawing

import (
	"bytes"
	"encoding/xml"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"
)

var (
	ink  = color.RGBA{0, 0x72, 0xb2, 0xff}
	dark = color.RGBA{A: 0xff}
)

// paint returns the pixels of a drawing at one dot a point.
func paint(t *testing.T, d *Drawing) *image.RGBA {
	t.Helper()
	file, err := d.PNG(72)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	pixels := image.NewRGBA(picture.Bounds())
	for i := range pixels.Rect.Dx() * pixels.Rect.Dy() {
		x, y := i%pixels.Rect.Dx(), i/pixels.Rect.Dx()
		pixels.Set(x, y, picture.At(x, y))
	}
	return pixels
}

// covered is the area of a drawing's dark ink, in pixels, in a rectangle.
func covered(pixels *image.RGBA, in image.Rectangle) (area float64) {
	for y := in.Min.Y; y < in.Max.Y; y++ {
		for x := in.Min.X; x < in.Max.X; x++ {
			area += 1 - float64(pixels.RGBAAt(x, y).R)/255
		}
	}
	return area
}

// A line has its colour and its area, to the rounding of 8 bits, in each direction and for each order of
// its points.
func TestPNG_LineArea(t *testing.T) {
	for _, ends := range [][2]Point{{{5, 10}, {45, 10}}, {{45, 10}, {5, 10}}, {{20, 40}, {20, 3}}, {{5, 5}, {35, 45}}, {{38.3, 4.2}, {7.7, 44.1}}} {
		d := New(50, 50)
		d.Line(Stroke{Color: dark, Width: 4}, ends[:]...)
		want := 4 * math.Hypot(ends[1].X-ends[0].X, ends[1].Y-ends[0].Y)
		if got := covered(paint(t, d), image.Rect(0, 0, 50, 50)); math.Abs(got-want) > 0.01*want {
			t.Errorf("%v: an area of %v, want %v", ends, got, want)
		}
	}
	d := New(50, 50)
	d.Line(Stroke{Color: ink, Width: 4}, Point{5, 10}, Point{45, 10})
	if c := paint(t, d).RGBAAt(25, 10); c != ink {
		t.Errorf("the line has the colour %v", c)
	}
}

// Dashes start with a dash, go around corners and cover their share of the line.
func TestPNG_Dashes(t *testing.T) {
	d := New(60, 60)
	d.Line(Stroke{Color: dark, Width: 2, Dashes: []float64{6, 4}}, Point{5, 5}, Point{45, 5}, Point{45, 45})
	pixels := paint(t, d)
	if got := covered(pixels, image.Rect(0, 0, 60, 60)); math.Abs(got-2*48) > 2 {
		t.Errorf("an area of %v, want %v", got, 2*48)
	}
	for place, want := range map[image.Point]bool{{6, 5}: true, {13, 5}: false, {17, 5}: true, {44, 8}: true, {44, 13}: false} {
		if inked := pixels.RGBAAt(place.X, place.Y).R == 0; inked != want {
			t.Errorf("ink at %v: %v", place, inked)
		}
	}
}

// Text is where its anchor puts it, and holes of letters are empty. A character without a glyph is no error.
func TestPNG_Text(t *testing.T) {
	left, right := image.Rect(0, 0, 50, 30), image.Rect(50, 0, 100, 30)
	for anchor, want := range map[Anchor][2]bool{Start: {false, true}, Middle: {true, true}, End: {true, false}} {
		d := New(100, 30)
		d.Text(Font{Color: dark, Size: 20, Anchor: anchor}, Point{50, 22}, "oεδ")
		pixels := paint(t, d)
		if a, b := covered(pixels, left) > 5, covered(pixels, right) > 5; a != want[0] || b != want[1] {
			t.Errorf("%s: ink to the left %v, to the right %v", anchor, a, b)
		}
	}
	d := New(100, 100)
	d.Text(Font{Color: dark, Size: 100, Anchor: Start}, Point{10, 80}, "o")
	if pixels := paint(t, d); pixels.RGBAAt(38, 54).R != 0xff || covered(pixels, image.Rect(10, 30, 70, 80)) < 500 {
		t.Error("the letter o has no ring with a hole")
	}
	outlines, wide, err := outlinesOf("1 ooo", 10)
	if err != nil || len(outlines) != 1+2*3 {
		t.Fatalf("%d outlines, %v", len(outlines), err)
	}
	if _, narrow, err := outlinesOf("1\u202fooo", 10); err != nil || !(narrow < wide) {
		t.Errorf("a narrow space: %v of %v, %v", narrow, wide, err)
	}
	if _, _, err := outlinesOf("\U0001f600", 10); err != nil {
		t.Error(err)
	}
}

// What lies outside is cut off, and what has no extent draws nothing.
func TestPNG_Outside(t *testing.T) {
	d := New(20, 20)
	d.Line(Stroke{Color: dark, Width: 4}, Point{-50, 10}, Point{70, 10})
	d.Text(Font{Color: dark, Size: 10, Anchor: Middle}, Point{10, -30}, strings.Repeat("wide ", 20))
	d.Line(Stroke{Color: dark, Width: 4}, Point{10, 2})
	d.Text(Font{Color: dark, Size: 10, Anchor: Start}, Point{10, 2}, "")
	if got := covered(paint(t, d), image.Rect(0, 0, 20, 20)); math.Abs(got-80) > 1 {
		t.Errorf("an area of %v, want 80", got)
	}
}

// An SVG is XML, with each shape once and its text escaped.
func TestSVG(t *testing.T) {
	d := New(100, 50)
	d.Line(Stroke{Color: ink, Width: 1.5, Dashes: []float64{5, 3}}, Point{1, 2}, Point{3.5, 4})
	d.Text(Font{Color: dark, Size: 9, Anchor: End}, Point{7, 8}, `a < "b" & δ`)
	file := string(d.SVG())
	content := ""
	for decoder := xml.NewDecoder(strings.NewReader(file)); ; {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if text, ok := token.(xml.CharData); ok {
			content += string(text)
		}
	}
	if strings.TrimSpace(content) != `a < "b" & δ` {
		t.Errorf("the text is %q", content)
	}
	for _, part := range []string{`points="1,2 3.5,4"`, `stroke="#0072b2"`, `stroke-dasharray="5 3"`, `text-anchor="end"`, `width="100pt"`} {
		if strings.Count(file, part) != 1 {
			t.Errorf("%s is not there once:\n%s", part, file)
		}
	}
}
