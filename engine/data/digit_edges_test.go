package data

import (
	"math"
	"slices"
	"testing"
)

// The numbers of a picture do not depend on the other pictures, and have norm 1.
func TestDigitEdges_OfEachPictureAlone(t *testing.T) {
	const n = 10
	together := edgesOf(drawDigits(drawnTrain, n))
	for i := range n {
		alone := edgesOf(drawDigits(drawnTrain+i, 1))
		x, y := readEdges(t, together, i), readEdges(t, alone, 0)
		if !slices.Equal(x, y) {
			t.Errorf("picture %d: other numbers among other pictures", i)
		}
		square := 0.0
		for _, v := range x {
			square += float64(v) * float64(v)
		}
		if math.Abs(square-1) > 1e-5 {
			t.Errorf("picture %d: the norm is %v", i, math.Sqrt(square))
		}
	}
}

// A picture that brightens from left to right has edges of one direction, and one that is turned by a
// quarter those of the direction a quarter of a turn away.
func TestDigitEdges_Directions(t *testing.T) {
	const side = 28
	right, down := make([]float32, side*side), make([]float32, side*side)
	for y := range side {
		for x := range side {
			right[y*side+x], down[y*side+x] = float32(x)/side, float32(y)/side
		}
	}
	for _, c := range []struct {
		pixels []float32
		bin    int
	}{{right, 0}, {down, edgeDirections / 2}} {
		into := make([]float32, edgeNumbers)
		edgeHistograms(into, c.pixels)
		for i, v := range into {
			if (v > 0) != (i%edgeDirections == c.bin) {
				t.Fatalf("direction %d has strength %v; only direction %d occurs", i%edgeDirections, v, c.bin)
			}
		}
	}
}

func readEdges(t *testing.T, s Set, row int) []float32 {
	t.Helper()
	x, label := make([]float32, edgeNumbers), make([]float32, 1)
	if err := s.Read([][]float32{x, label}, []int{row}); err != nil {
		t.Fatal(err)
	}
	return x
}
