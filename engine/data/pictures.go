package data

import (
	"fmt"
	"math"
	"slices"
)

// Pictures is a Set of pictures, with labels or without, kept as bytes, a quarter of what
// the numbers would take.
type Pictures struct {
	columns []Column
	sizes   []int
	pixels  []byte
	count   int
	labels  []int32        // nil where there are none
	tone    [][256]float32 // by channel, or one for all: the number that a byte stands for
}

// Standardization turns a pixel's byte b into the number (b/255 - Mean) / Deviation. Its
// constants must be public: published for the data set, or simply 0 and 1.
type Standardization struct{ Mean, Deviation float64 }

// unit is the tone that maps bytes to [0, 1].
var unit = Standardization{Mean: 0, Deviation: 1}

// publishedStandardization are the tones that --standardize takes for a data set; nil where none are known.
func publishedStandardization(name string) []Standardization {
	if kind, is := mnistLike[name]; is {
		return []Standardization{kind.tone}
	}
	if name == "cifar10" {
		return cifarTones
	}
	return nil
}

// NewPictures makes a set of pictures of one shape, channels × height × width,
// their bytes one after the other in that order; tones has one entry a channel,
// or is nil for bytes scaled to [0, 1]. Its columns are "picture" and "label". It
// keeps the slices.
func NewPictures(channels, height, width int, pixels []byte, labels []int32, classes int, tones []Standardization) (*Pictures, error) {
	if tones != nil && len(tones) != channels {
		return nil, fmt.Errorf("%d tones for %d channels; give one a channel", len(tones), channels)
	}
	return newPictures([]Column{
		{Name: "picture", Kind: Feature, Shape: []int{channels, height, width}},
		{Name: "label", Kind: Label, Classes: classes},
	}, pixels, labels, tones)
}

func newPictures(columns []Column, pixels []byte, labels []int32, tones []Standardization) (*Pictures, error) {
	p := &Pictures{columns: slices.Clone(columns), pixels: pixels, labels: labels}
	p.columns[0].ElementType = Bytes
	for _, c := range p.columns {
		if err := c.validate(); err != nil {
			return nil, err
		}
	}
	p.sizes = sizesOf(p.columns)
	p.count = len(pixels) / p.sizes[0]
	if size := p.sizes[0]; len(columns) > 1 && len(pixels) != len(labels)*size {
		return nil, fmt.Errorf("%d labels but %d bytes of pixels; a picture of shape %v has %d", len(labels), len(pixels), columns[0].Shape, size)
	}
	for i, l := range labels {
		if l < 0 || int(l) >= columns[1].Classes {
			return nil, fmt.Errorf("picture %d: the label is not from 0 to %d", i, columns[1].Classes-1)
		}
	}
	if tones == nil {
		tones = []Standardization{unit}
	}
	p.tone = make([][256]float32, len(tones))
	for c, t := range tones {
		if !(t.Deviation > 0) {
			return nil, fmt.Errorf("the tone of channel %d has a deviation that is not positive", c)
		}
		for b := range 256 {
			p.tone[c][b] = float32((float64(b)/255 - t.Mean) / t.Deviation)
			if v := float64(p.tone[c][b]); math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("the tone of channel %d makes numbers that are not finite", c)
			}
		}
	}
	return p, nil
}

// Len is the number of pictures.
func (p *Pictures) Len() int { return p.count }

// Columns describes the picture and its label, where it has one.
func (p *Pictures) Columns() []Column { return p.columns }

// Read copies the given pictures and their labels.
func (p *Pictures) Read(dst [][]float32, rows []int) error {
	if err := checkRead(p.columns, p.sizes, p.count, dst, rows); err != nil {
		return err
	}
	size := p.sizes[0]
	plane := size / len(p.tone)
	for i, r := range rows {
		to, from := dst[0][i*size:(i+1)*size], p.pixels[r*size:(r+1)*size]
		for c := range p.tone {
			tone := &p.tone[c]
			out := to[c*plane : (c+1)*plane]
			for j, b := range from[c*plane : (c+1)*plane] {
				out[j] = tone[b]
			}
		}
		if p.labels != nil {
			dst[1][i] = float32(p.labels[r])
		}
	}
	return nil
}
