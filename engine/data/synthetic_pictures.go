package data

import (
	"sync"

	"github.com/dptrain/dptrain/engine/data/internal/synthetic"
)

// The numbers of pictures that Digits and Shapes draw.
const (
	drawnTrain = 40000
	drawnTest  = 5000
)

// Digits returns a public data set of generated handwritten digits: 28×28 grayscale
// pictures of ten classes, drawn by strokes of a pen with random slant, rotation, size,
// position, width, distortion and noise. Picture i is the same on every call and for any
// number of processors. On a processor that fuses multiplication and addition, a gray level
// might differ by one, but no such pixel has been observed. The pictures are drawn once in a
// process, because a Set does not change.
func Digits() *Task {
	train, test := drawnDigits()
	return &Task{Name: "digits", Train: train, Test: test, Classes: 10, ClassNames: tenDigits()}
}

// shapesStandardization has the means and deviations of the channels of the first 10,000 drawn shapes.
var shapesStandardization = []Standardization{{0.4971, 0.2181}, {0.4979, 0.2171}, {0.5001, 0.2153}}

// Shapes returns a public data set of generated color pictures: 32×32, of 50 classes, an outline
// with a texture each. The lower layers of a network for private photographs can be trained on it
// without cost of privacy. Pictures are fixed and drawn once, as those of Digits are.
func Shapes() *Task {
	train, test := drawnShapes()
	names := shapeClasses()
	return &Task{Name: "shapes", Train: train, Test: test, Classes: len(names), ClassNames: names}
}

var (
	drawnDigits = sync.OnceValues(func() (train, test *Pictures) {
		return drawDigits(0, drawnTrain), drawDigits(drawnTrain, drawnTest)
	})
	drawnShapes = sync.OnceValues(func() (train, test *Pictures) {
		return drawShapes(0, drawnTrain), drawShapes(drawnTrain, drawnTest)
	})
)

func tenDigits() []string { return []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"} }

func shapeClasses() (names []string) {
	for _, outline := range synthetic.Outlines {
		for _, texture := range synthetic.Textures {
			names = append(names, texture+" "+outline)
		}
	}
	return names
}

// drawDigits returns n digits, starting with number first.
func drawDigits(first, n int) *Pictures {
	pixels, labels := synthetic.Digits(first, n)
	return drawnPictures(1, synthetic.DigitSide, pixels, labels, len(tenDigits()))
}

// drawShapes returns n shapes, starting with number first.
func drawShapes(first, n int) *Pictures {
	pixels, labels := synthetic.Shapes(first, n)
	return drawnPictures(3, synthetic.ShapeSide, pixels, labels, len(shapeClasses()))
}

func drawnPictures(channels, side int, pixels []byte, labels []int32, classes int) *Pictures {
	p, err := NewPictures(channels, side, side, pixels, labels, classes, nil)
	if err != nil {
		panic(err) // unreachable: the shapes and labels are valid
	}
	return p
}

// standardized returns drawn pictures with their numbers shifted and scaled.
func standardized(drawn Set, standardization []Standardization) Set {
	p := *drawn.(*Pictures)
	s, err := newPictures(p.columns, p.pixels, p.labels, standardization)
	if err != nil {
		panic(err) // unreachable: the shapes and labels are valid
	}
	return s
}
