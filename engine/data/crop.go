package data

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// CropSize is the height and width of the part of each picture that a network reads. The zero value
// stands for whole pictures.
type CropSize struct{ Height, Width int }

// ParseCropSize parses HxW, such as 24x24.
func ParseCropSize(text string) (CropSize, error) {
	height, width, _ := strings.Cut(text, "x")
	h, errHeight := strconv.Atoi(strings.TrimSpace(height))
	w, errWidth := strconv.Atoi(strings.TrimSpace(width))
	if errHeight != nil || errWidth != nil || h < 1 || w < 1 {
		return CropSize{}, fmt.Errorf("%q: write HxW, the height and the width in pixels, such as 24x24", text)
	}
	return CropSize{h, w}, nil
}

func (c CropSize) String() string { return fmt.Sprintf("%dx%d", c.Height, c.Width) }

// Cropped is a set of the windows in the middle of the pictures of another set. In training, the
// engine takes a random window of each view: see engine.Augmentation.
type Cropped struct {
	whole   Set
	columns []Column
	sizes   []int
	picture int       // the column of pictures
	buffers sync.Pool // of *cropBuffers
}

// cropBuffers are the arguments of Read of the whole set, for one example.
type cropBuffers struct {
	example [][]float32
	picture []float32
	rows    [1]int
}

// Crop returns the set of windows of a size in the middle of the pictures of a set, which has
// examples of one picture each.
func Crop(s Set, size CropSize) (*Cropped, error) {
	c := &Cropped{whole: s, columns: slices.Clone(s.Columns()), picture: pictureColumn(s.Columns())}
	if c.picture < 0 {
		return nil, fmt.Errorf("the examples are not pictures, and only pictures are cropped")
	}
	shape := c.columns[c.picture].Shape
	if size.Height < 1 || size.Width < 1 || size.Height > shape[1] || size.Width > shape[2] {
		return nil, fmt.Errorf("a window of %v pixels does not fit into pictures of %dx%d; give at most that", size, shape[1], shape[2])
	}
	c.columns[c.picture].Shape = []int{shape[0], size.Height, size.Width}
	c.sizes = sizesOf(c.columns)
	c.buffers.New = func() any {
		return &cropBuffers{example: make([][]float32, len(c.columns)), picture: make([]float32, s.Columns()[c.picture].Size())}
	}
	return c, nil
}

// pictureColumn returns the last column of pictures; -1 if there is none.
func pictureColumn(columns []Column) int {
	picture := -1
	for k, c := range columns {
		if c.Kind == Feature && len(c.Shape) == 3 {
			picture = k
		}
	}
	return picture
}

// Len returns the number of pictures.
func (c *Cropped) Len() int { return c.whole.Len() }

// Columns describes the windows and the other columns of the examples.
func (c *Cropped) Columns() []Column { return c.columns }

// Users, Blank and Weights are those of the whole pictures.
func (c *Cropped) Users() []int32 { return Users(c.whole) }

// Blank reports which pictures are blank.
func (c *Cropped) Blank() []bool { return Blank(c.whole) }

// Weights returns the weights of the pictures.
func (c *Cropped) Weights() []float64 { return Weights(c.whole) }

// Read copies the windows in the middle, and the other columns.
func (c *Cropped) Read(dst [][]float32, rows []int) error {
	if err := checkRead(c.columns, c.sizes, c.Len(), dst, rows); err != nil {
		return err
	}
	b := c.buffers.Get().(*cropBuffers)
	defer c.buffers.Put(b)
	whole, window := c.whole.Columns()[c.picture].Shape, c.columns[c.picture].Shape
	for i, row := range rows {
		for k, size := range c.sizes {
			b.example[k] = dst[k][i*size : (i+1)*size]
		}
		to := b.example[c.picture]
		b.example[c.picture], b.rows[0] = b.picture, row
		if err := c.whole.Read(b.example, b.rows[:]); err != nil {
			return err
		}
		cutWindow(to, b.picture, whole, window, (whole[1]-window[1])/2, (whole[2]-window[2])/2)
	}
	return nil
}

// cutWindow copies a window of a picture, whose first pixel is the given one. The shapes are channels,
// height and width.
func cutWindow(window, picture []float32, from, to []int, top, left int) {
	for channel := range to[0] {
		for y := range to[1] {
			begin := (channel*from[1]+top+y)*from[2] + left
			copy(window[(channel*to[1]+y)*to[2]:][:to[2]], picture[begin:])
		}
	}
}

// Uncropped returns the set of the whole pictures, in the same order, whose windows a set has; nil if
// the set has no windows.
func Uncropped(s Set) Set {
	switch s := s.(type) {
	case *Cropped:
		return s.whole
	case *subset:
		if whole := Uncropped(s.parent); whole != nil {
			larger := *s
			larger.parent = whole
			return &larger
		}
	case *partlyBlank:
		if whole := Uncropped(s.Set); whole != nil {
			return &partlyBlank{whole, s.blank}
		}
	case *weighted:
		if whole := Uncropped(s.Set); whole != nil {
			return &weighted{whole, s.weights}
		}
	case *withStates:
		if whole := Uncropped(s.Set); whole != nil {
			larger := *s
			larger.Set = whole
			return &larger
		}
	case *concat:
		larger := *s
		larger.parts = nil
		for _, part := range s.parts {
			whole := Uncropped(part)
			if whole == nil || len(larger.parts) > 0 && !slices.EqualFunc(whole.Columns(), larger.parts[0].Columns(), Column.equal) {
				return nil
			}
			larger.parts = append(larger.parts, whole)
		}
		larger.columns = larger.parts[0].Columns()
		larger.sizes = sizesOf(larger.columns)
		return &larger
	}
	return nil
}

// WindowReader reads windows of the whole pictures of a set at any place. Only one goroutine at a time
// may use it.
type WindowReader struct {
	whole   Set
	window  Column
	column  int
	buffers cropBuffers
}

// NewWindowReader returns a reader for a set of windows; nil if the set has none.
func NewWindowReader(s Set) *WindowReader {
	whole := Uncropped(s)
	if whole == nil {
		return nil
	}
	r := &WindowReader{whole: whole, column: pictureColumn(s.Columns())}
	r.window = s.Columns()[r.column]
	r.buffers.example = make([][]float32, len(s.Columns()))
	r.buffers.picture = make([]float32, whole.Columns()[r.column].Size())
	return r
}

// Places returns the numbers of places of a window from top to bottom and from left to right.
func (r *WindowReader) Places() (down, right int) {
	whole := r.whole.Columns()[r.column].Shape
	return whole[1] - r.window.Shape[1] + 1, whole[2] - r.window.Shape[2] + 1
}

// Read copies an example with the window whose first pixel is the given one.
func (r *WindowReader) Read(example [][]float32, row, top, left int) error {
	b := &r.buffers
	copy(b.example, example)
	b.example[r.column], b.rows[0] = b.picture, row
	if err := r.whole.Read(b.example, b.rows[:]); err != nil {
		return err
	}
	cutWindow(example[r.column], b.picture, r.whole.Columns()[r.column].Shape, r.window.Shape, top, left)
	return nil
}
