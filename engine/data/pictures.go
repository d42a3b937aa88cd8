package data

import (
	"fmt"
	"math"
	"slices"
)

// Pictures is a Set of pictures with or without labels. It stores pixels as bytes, in a
// quarter of the memory that float32 takes.
type Pictures struct {
	columns []Column
	sizes   []int
	pixels  []byte
	count   int
	labels  []int32        // nil if there are none
	values  [][256]float32 // the number for each byte, by channel or one table for all
}

// Standardization maps a pixel's byte b to the number (b/255 - Mean) / Deviation. The
// constants must be public: published for the data set, or 0 and 1.
type Standardization struct{ Mean, Deviation float64 }

// unitInterval maps bytes to [0, 1].
var unitInterval = Standardization{Mean: 0, Deviation: 1}

// PublishedStandardization returns the constants that --standardize applies to a named
// data set, or nil if none are published.
func PublishedStandardization(name string) []Standardization {
	if format, ok := mnistFormats[name]; ok {
		return []Standardization{format.standardization}
	}
	switch name {
	case "cifar10":
		return cifarStandardization
	case "cifar100":
		return cifar100Standardization
	case "shapes":
		return shapesStandardization
	}
	return nil
}

// NewPictures makes a set of pictures of one shape. The pixels are the concatenated
// pictures, each in the order channels × height × width. Standardization has one entry for
// each channel; nil scales bytes to [0, 1]. The columns are "picture" and "label". The set
// keeps the slices.
func NewPictures(channels, height, width int, pixels []byte, labels []int32, classes int,
	standardization []Standardization) (*Pictures, error) {
	if standardization != nil && len(standardization) != channels {
		return nil, fmt.Errorf("%d standardizations for %d channels; give each channel one", len(standardization), channels)
	}
	return newPictures([]Column{
		{Name: "picture", Kind: Feature, Shape: []int{channels, height, width}},
		{Name: "label", Kind: Label, Classes: classes},
	}, pixels, labels, standardization)
}

func newPictures(columns []Column, pixels []byte, labels []int32, standardization []Standardization) (*Pictures, error) {
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
		return nil, fmt.Errorf("%d labels but %d bytes of pixels; a picture of shape %v has %d bytes", len(labels), len(pixels), columns[0].Shape, size)
	}
	for i, l := range labels {
		if l < 0 || int(l) >= columns[1].Classes {
			return nil, fmt.Errorf("picture %d: the label is not between 0 and %d", i, columns[1].Classes-1)
		}
	}
	if standardization == nil {
		standardization = []Standardization{unitInterval}
	}
	p.values = make([][256]float32, len(standardization))
	for c, t := range standardization {
		if !(t.Deviation > 0) {
			return nil, fmt.Errorf("the standardization of channel %d has a deviation that is not positive", c)
		}
		for b := range 256 {
			p.values[c][b] = float32((float64(b)/255 - t.Mean) / t.Deviation)
			if v := float64(p.values[c][b]); math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("the standardization of channel %d gives numbers that are not finite", c)
			}
		}
	}
	return p, nil
}

// Len returns the number of pictures.
func (p *Pictures) Len() int { return p.count }

// Columns describes the picture and its label, if there are labels.
func (p *Pictures) Columns() []Column { return p.columns }

// Read copies the given pictures and their labels.
func (p *Pictures) Read(dst [][]float32, rows []int) error {
	if err := checkRead(p.columns, p.sizes, p.count, dst, rows); err != nil {
		return err
	}
	size := p.sizes[0]
	plane := size / len(p.values)
	for i, r := range rows {
		to, from := dst[0][i*size:(i+1)*size], p.pixels[r*size:(r+1)*size]
		for c := range p.values {
			values := &p.values[c]
			out := to[c*plane : (c+1)*plane]
			for j, b := range from[c*plane : (c+1)*plane] {
				out[j] = values[b]
			}
		}
		if p.labels != nil {
			dst[1][i] = float32(p.labels[r])
		}
	}
	return nil
}
