package data

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// ParseAugmentation reads how pictures are changed at random, as a flag gives it, several with
// commas between:
//
//	flip      from left to right, every other one
//	shift:P   by up to P pixels each way, which the picture's own mirror image fills
//
// The change is for engine.Augmentation; it has memory of its own and serves one goroutine.
func ParseAugmentation(text string, columns []Column) (func(example [][]float32, r *rand.Rand), error) {
	column := -1
	for k, c := range columns {
		if c.Kind == Feature && len(c.Shape) == 3 {
			column = k
		}
	}
	if column < 0 {
		return nil, fmt.Errorf("examples are no pictures, which alone are changed by flip or shift:P")
	}
	shape := columns[column].Shape
	var steps []func(picture []float32, r *rand.Rand)
	for word := range strings.SplitSeq(text, ",") {
		name, by, given := strings.Cut(strings.TrimSpace(word), ":")
		switch pixels, err := strconv.Atoi(by); {
		case name == "flip" && !given:
			steps = append(steps, func(picture []float32, r *rand.Rand) {
				if r.IntN(2) == 0 {
					flip(picture, shape[2])
				}
			})
		case name == "shift" && err == nil && pixels > 0 && pixels < min(shape[1], shape[2]):
			old := make([]float32, shape[1]*shape[2])
			steps = append(steps, func(picture []float32, r *rand.Rand) {
				shift(picture, old, shape[2], r.IntN(2*pixels+1)-pixels, r.IntN(2*pixels+1)-pixels)
			})
		case name == "shift":
			return nil, fmt.Errorf("%q: give shift:P with P from 1 to %d pixels, for pictures of %d by %d", word, min(shape[1], shape[2])-1, shape[1], shape[2])
		default:
			return nil, fmt.Errorf("%q is no change of pictures: use flip or shift:P", word)
		}
	}
	return func(example [][]float32, r *rand.Rand) {
		for _, step := range steps {
			step(example[column], r)
		}
	}, nil
}

// flip turns each line of pixels round.
func flip(picture []float32, width int) {
	for ; len(picture) > 0; picture = picture[width:] {
		for i, j := 0, width-1; i < j; i, j = i+1, j-1 {
			picture[i], picture[j] = picture[j], picture[i]
		}
	}
}

// shift has each pixel come from so many lines above it and columns left of it; old is
// room for a channel.
func shift(picture, old []float32, width, down, right int) {
	height := len(old) / width
	for ; len(picture) > 0; picture = picture[len(old):] {
		copy(old, picture)
		for y := range height {
			line := old[mirrored(y-down, height)*width:]
			for x := range width {
				picture[y*width+x] = line[mirrored(x-right, width)]
			}
		}
	}
}

// mirrored is the place inside [0, size) that a place near it is the mirror image of: -1 is
// that of 1.
func mirrored(at, size int) int {
	if at < 0 {
		return -at
	}
	if at >= size {
		return 2*(size-1) - at
	}
	return at
}
