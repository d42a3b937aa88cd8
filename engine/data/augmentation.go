package data

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// ParseAugmentation parses a list of random changes to pictures, with commas between
// several, and returns a function that applies them to an example:
//
//	flip      mirror left to right with probability 1/2
//	shift:P   shift by up to P pixels in each direction; the picture's mirror image
//	          fills the border
//
// The function is for engine.Augmentation. It has its own buffer, so only one goroutine
// at a time may call it.
func ParseAugmentation(text string, columns []Column) (func(example [][]float32, r *rand.Rand), error) {
	column := -1
	for k, c := range columns {
		if c.Kind == Feature && len(c.Shape) == 3 {
			column = k
		}
	}
	if column < 0 {
		return nil, fmt.Errorf("the examples are not pictures; flip and shift:P change only pictures")
	}
	shape := columns[column].Shape
	var steps []func(picture []float32, r *rand.Rand)
	for item := range strings.SplitSeq(text, ",") {
		name, argument, hasArgument := strings.Cut(strings.TrimSpace(item), ":")
		switch pixels, err := strconv.Atoi(argument); {
		case name == "flip" && !hasArgument:
			steps = append(steps, func(picture []float32, r *rand.Rand) {
				if r.IntN(2) == 0 {
					flip(picture, shape[2])
				}
			})
		case name == "shift" && err == nil && pixels > 0 && pixels < min(shape[1], shape[2]):
			channel := make([]float32, shape[1]*shape[2])
			steps = append(steps, func(picture []float32, r *rand.Rand) {
				shift(picture, channel, shape[2], r.IntN(2*pixels+1)-pixels, r.IntN(2*pixels+1)-pixels)
			})
		case name == "shift":
			return nil, fmt.Errorf("%q: write shift:P with P from 1 to %d pixels, for pictures of %d by %d pixels", item, min(shape[1], shape[2])-1, shape[1], shape[2])
		default:
			return nil, fmt.Errorf("unknown change of pictures %q; use flip or shift:P", item)
		}
	}
	return func(example [][]float32, r *rand.Rand) {
		for _, step := range steps {
			step(example[column], r)
		}
	}, nil
}

// flip reverses each line of pixels.
func flip(picture []float32, width int) {
	for ; len(picture) > 0; picture = picture[width:] {
		for i, j := 0, width-1; i < j; i, j = i+1, j-1 {
			picture[i], picture[j] = picture[j], picture[i]
		}
	}
}

// shift moves the picture down and to the right. It copies each channel to the buffer
// channel first.
func shift(picture, channel []float32, width, down, right int) {
	height := len(channel) / width
	for ; len(picture) > 0; picture = picture[len(channel):] {
		copy(channel, picture)
		for y := range height {
			line := channel[mirrored(y-down, height)*width:]
			for x := range width {
				picture[y*width+x] = line[mirrored(x-right, width)]
			}
		}
	}
}

// mirrored reflects an index outside [0, size) at the border: -1 becomes 1. The border
// itself is not repeated.
func mirrored(i, size int) int {
	if i < 0 {
		return -i
	}
	if i >= size {
		return 2*(size-1) - i
	}
	return i
}
