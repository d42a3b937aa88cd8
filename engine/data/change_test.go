package data

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func pictures(shape ...int) []Column {
	return []Column{{Name: "label", Kind: Label, Classes: 2}, {Name: "x", Shape: shape}}
}

// changed are all that a change makes of a picture whose pixels are numbered from 0, and how
// often.
func changed(t *testing.T, text string, shape ...int) map[string]int {
	t.Helper()
	change, err := ParseAugmentation(text, pictures(shape...))
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

// equally checks that these were all that was seen, each as often: of 4000 throws to within
// 6.5 deviations, which a fair one of thirty passes but for once in 10⁸ seeds.
func equally(t *testing.T, seen map[string]int, want ...string) {
	t.Helper()
	share := 4000 / float64(len(want))
	for _, w := range want {
		if n := float64(seen[w]); math.Abs(n-share) > 6.5*math.Sqrt(share) {
			t.Errorf("%s came %v times, want about %v", w, n, share)
		}
		delete(seen, w)
	}
	for w, n := range seen {
		t.Errorf("%s came %d times", w, n)
	}
}

func TestFlip(t *testing.T) {
	equally(t, changed(t, "flip", 2, 1, 3), "[0 1 2 3 4 5]", "[2 1 0 5 4 3]")
	equally(t, changed(t, "flip", 1, 2, 2), "[0 1 2 3]", "[1 0 3 2]")
}

// A shifted picture is a window of the picture between its mirror images, in which the border
// itself is not repeated (NumPy's pad, mode reflect); all windows are as likely.
func TestShift(t *testing.T) {
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
	equally(t, changed(t, "shift:2", channels, height, width), want...)
}

func TestChangeAllocatesNothing(t *testing.T) {
	change, err := ParseAugmentation("flip,shift:1", pictures(2, 3, 4))
	if err != nil {
		t.Fatal(err)
	}
	r, example := rand.New(rand.NewPCG(1, 2)), [][]float32{{1}, make([]float32, 24)}
	if n := testing.AllocsPerRun(100, func() { change(example, r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseChangeRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":           `"" is no change of pictures: use flip or shift:P`,
		"turn":       `"turn" is no change`,
		"flip:2":     `"flip:2" is no change`,
		"shift":      "from 1 to 3 pixels",
		"shift:4":    "from 1 to 3 pixels, for pictures of 4 by 5",
		"shift:0":    "from 1 to 3",
		"flip,shift": `"shift": give shift:P`,
	} {
		if _, err := ParseAugmentation(text, pictures(3, 4, 5)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	if _, err := ParseAugmentation("flip", []Column{{Name: "x", Shape: []int{20}}}); err == nil || !strings.Contains(err.Error(), "no pictures") {
		t.Errorf("a table: %v", err)
	}
}
