package data

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func pictureColumns(shape ...int) []Column {
	return []Column{{Name: "label", Kind: Label, Classes: 2}, {Name: "x", Shape: shape}}
}

// countResults counts the pictures that 4000 random changes make from a picture whose pixels are
// numbered from 0.
func countResults(t *testing.T, text string, shape ...int) map[string]int {
	t.Helper()
	change, err := ParseAugmentation(text, pictureColumns(shape...))
	if err != nil {
		t.Fatal(err)
	}
	r, seen := rand.New(rand.NewPCG(1, 2)), map[string]int{}
	for range 4000 {
		picture := make([]float32, shape[0]*shape[1]*shape[2])
		for i := range picture {
			picture[i] = float32(i)
		}
		label := []float32{1}
		change([][]float32{label, picture}, r)
		if label[0] != 1 {
			t.Fatalf("%s changed the label", text)
		}
		seen[fmt.Sprint(picture)]++
	}
	return seen
}

// checkUniform checks that the results are exactly want, with equal frequency. The tolerance is
// 6.5 standard deviations of 4000 draws: with 30 equally likely results the check fails for one
// seed in 10⁸.
func checkUniform(t *testing.T, seen map[string]int, want ...string) {
	t.Helper()
	share := 4000 / float64(len(want))
	for _, w := range want {
		if n := float64(seen[w]); math.Abs(n-share) > 6.5*math.Sqrt(share) {
			t.Errorf("%s occurs %v times, want about %v", w, n, share)
		}
		delete(seen, w)
	}
	for w, n := range seen {
		t.Errorf("unexpected result %s occurs %d times", w, n)
	}
}

func TestParseAugmentation_Flip(t *testing.T) {
	checkUniform(t, countResults(t, "flip", 2, 1, 3), "[0 1 2 3 4 5]", "[2 1 0 5 4 3]")
	checkUniform(t, countResults(t, "flip", 1, 2, 2), "[0 1 2 3]", "[1 0 3 2]")
}

// A shifted picture is a window of the picture extended by its mirror images. The border itself is
// not repeated (mode "reflect" of numpy.pad). All windows are equally likely.
func TestParseAugmentation_Shift(t *testing.T) {
	const channels, height, width, pixels = 2, 4, 5, 2
	mirror := func(n int) (places []int) { // …, 2, 1, 0, 1, …, n-1, n-2, …
		for at := pixels; at > 0; at-- {
			places = append(places, at)
		}
		for at := range n {
			places = append(places, at)
		}
		for at := range pixels {
			places = append(places, n-2-at)
		}
		return places
	}
	lines, columns := mirror(height), mirror(width)
	var want []string
	for top := range 2*pixels + 1 {
		for left := range 2*pixels + 1 {
			var window []int
			for c := range channels {
				for _, y := range lines[top : top+height] {
					for _, x := range columns[left : left+width] {
						window = append(window, (c*height+y)*width+x)
					}
				}
			}
			want = append(want, fmt.Sprint(window))
		}
	}
	checkUniform(t, countResults(t, "shift:2", channels, height, width), want...)
}

func TestParseAugmentation_AllocatesNothing(t *testing.T) {
	change, err := ParseAugmentation("flip,shift:1", pictureColumns(2, 3, 4))
	if err != nil {
		t.Fatal(err)
	}
	r, example := rand.New(rand.NewPCG(1, 2)), [][]float32{{1}, make([]float32, 24)}
	if n := testing.AllocsPerRun(100, func() { change(example, r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseAugmentation_Invalid(t *testing.T) {
	for text, want := range map[string]string{
		"":           `unknown change of pictures ""; use flip or shift:P`,
		"turn":       `pictures "turn"`,
		"flip:2":     `pictures "flip:2"`,
		"shift":      "from 1 to 3 pixels",
		"shift:4":    "from 1 to 3 pixels, for pictures of 4 by 5",
		"shift:0":    "from 1 to 3",
		"flip,shift": `"shift": write shift:P`,
	} {
		if _, err := ParseAugmentation(text, pictureColumns(3, 4, 5)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	if _, err := ParseAugmentation("flip", []Column{{Name: "x", Shape: []int{20}}}); err == nil || !strings.Contains(err.Error(), "not pictures") {
		t.Errorf("a table: error %v", err)
	}
}
