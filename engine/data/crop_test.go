package data

import (
	"slices"
	"strings"
	"testing"
)

// numberedPictures has pictures of 2 channels, 4×5 pixels, whose pixels are numbered.
func numberedPictures(t *testing.T, count int) *Pictures {
	t.Helper()
	pixels := make([]byte, count*40)
	for i := range pixels {
		pixels[i] = byte(i)
	}
	labels := make([]int32, count)
	for i := range labels {
		labels[i] = int32(i % 2)
	}
	p, err := NewPictures(2, 4, 5, pixels, labels, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// pixelNumbers returns the numbers of the pixels of numberedPictures in a buffer.
func pixelNumbers(values []float32) (numbers []int) {
	for _, v := range values {
		numbers = append(numbers, int(v*255+0.5))
	}
	return numbers
}

func TestCrop_ReadsMiddle(t *testing.T) {
	s, err := Crop(numberedPictures(t, 3), CropSize{2, 2})
	if err != nil {
		t.Fatal(err)
	}
	if shape := s.Columns()[0].Shape; !slices.Equal(shape, []int{2, 2, 2}) || s.Columns()[0].ElementType != Bytes {
		t.Errorf("the columns are %v", s.Columns())
	}
	dst := [][]float32{make([]float32, 16), make([]float32, 2)}
	if err := s.Read(dst, []int{2, 1}); err != nil {
		t.Fatal(err)
	}
	// The middle begins at line 1 of 4 and at pixel 1 of 5.
	want := []int{86, 87, 91, 92, 106, 107, 111, 112, 46, 47, 51, 52, 66, 67, 71, 72}
	if got := pixelNumbers(dst[0]); !slices.Equal(got, want) || !slices.Equal(dst[1], []float32{0, 1}) {
		t.Errorf("the pixels are %v, want %v; the labels are %v", got, want, dst[1])
	}
	if allocations := testing.AllocsPerRun(20, func() {
		if err := s.Read(dst, []int{0, 1}); err != nil {
			t.Fatal(err)
		}
	}); allocations > 0 && !raceDetector {
		t.Errorf("Read allocates %v times", allocations)
	}
	if err := Check(s); err != nil {
		t.Error(err)
	}
}

// Every wrapper of a set of windows keeps the whole pictures in its own order.
func TestUncropped_OfWrappedSets(t *testing.T) {
	cropped, err := Crop(numberedPictures(t, 4), CropSize{2, 3})
	if err != nil {
		t.Fatal(err)
	}
	weights, err := WithWeights(cropped, []float64{1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	part, err := Subset(withBlank(weights, []bool{false, true, false, false}), []int{3, 1})
	if err != nil {
		t.Fatal(err)
	}
	both, err := Concat(part, cropped)
	if err != nil {
		t.Fatal(err)
	}
	whole := Uncropped(both)
	dst := [][]float32{make([]float32, 40*6), make([]float32, 6)}
	if err := whole.Read(dst, []int{0, 1, 2, 3, 4, 5}); err != nil {
		t.Fatal(err)
	}
	for i, picture := range []int{3, 1, 0, 1, 2, 3} {
		if got := pixelNumbers(dst[0])[40*i]; got != 40*picture {
			t.Errorf("picture %d begins with pixel %d, want %d", i, got, 40*picture)
		}
	}
	if got := Weights(whole); !slices.Equal(got, []float64{4, 2, 1, 1, 1, 1}) {
		t.Errorf("the weights are %v", got)
	}
	if got := Blank(whole); !slices.Equal(got, []bool{false, true, false, false, false, false}) {
		t.Errorf("blank are %v", got)
	}
	if Uncropped(numberedPictures(t, 2)) != nil {
		t.Error("whole pictures are windows")
	}
}

func TestWindowReader_ReadsEveryPlace(t *testing.T) {
	cropped, err := Crop(numberedPictures(t, 2), CropSize{3, 4})
	if err != nil {
		t.Fatal(err)
	}
	r := NewWindowReader(cropped)
	if down, right := r.Places(); down != 2 || right != 2 {
		t.Fatalf("%d×%d places", down, right)
	}
	example := [][]float32{make([]float32, 24), make([]float32, 1)}
	for top := range 2 {
		for left := range 2 {
			if err := r.Read(example, 1, top, left); err != nil {
				t.Fatal(err)
			}
			var want []int
			for channel := range 2 {
				for y := range 3 {
					for x := range 4 {
						want = append(want, 40+channel*20+(top+y)*5+left+x)
					}
				}
			}
			if got := pixelNumbers(example[0]); !slices.Equal(got, want) || example[1][0] != 1 {
				t.Errorf("at %d, %d: %v, want %v", top, left, got, want)
			}
		}
	}
}

func TestCrop_Refusals(t *testing.T) {
	if _, err := Crop(numberedPictures(t, 1), CropSize{5, 2}); err == nil || !strings.Contains(err.Error(), "does not fit into pictures of 4x5") {
		t.Error(err)
	}
	table, err := NewTable([]Column{{Name: "x"}}, [][]float32{{1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Crop(table, CropSize{1, 1}); err == nil || !strings.Contains(err.Error(), "not pictures") {
		t.Error(err)
	}
	for _, text := range []string{"", "24", "0x3", "axb", "3x", "24x24x3"} {
		if _, err := ParseCropSize(text); err == nil {
			t.Errorf("%q was parsed", text)
		}
	}
}
