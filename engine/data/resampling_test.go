package data

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// noisyPicture has random pixels, which are the largest or smallest values in a third of the picture.
func noisyPicture(width, height int, seed uint64) *image.NRGBA {
	r := rand.New(rand.NewPCG(seed, 1))
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			v := func() uint8 {
				if y*3 < height {
					return uint8(255 * r.IntN(2))
				}
				return uint8(r.IntN(256))
			}
			picture.SetNRGBA(x, y, color.NRGBA{v(), v(), v(), 255})
		}
	}
	return picture
}

// resampledSizes are the widths and heights of pictures, and how they are resized and cropped.
var resampledSizes = []struct {
	width, height int
	by            Resampling
	shape         ImageShape
}{
	{47, 31, Resampling{Bilinear, 16, 16}, ImageShape{3, 16, 16}},
	{47, 31, Resampling{Bicubic, 20, 20}, ImageShape{3, 16, 16}},
	{5, 4, Resampling{Bilinear, 24, 32}, ImageShape{3, 24, 32}},
	{5, 4, Resampling{Bicubic, 33, 31}, ImageShape{3, 16, 30}},
	{300, 17, Resampling{Bicubic, 24, 0}, ImageShape{3, 23, 16}},
	{17, 300, Resampling{Bilinear, 24, 0}, ImageShape{3, 16, 21}},
	{1, 1, Resampling{Bicubic, 8, 9}, ImageShape{3, 8, 8}},
	{640, 480, Resampling{Bicubic, 256, 256}, ImageShape{3, 224, 224}},
	{16, 40, Resampling{Bicubic, 16, 16}, ImageShape{3, 16, 16}}, // one side stays
	{1000, 2, Resampling{Bilinear, 16, 16}, ImageShape{1, 16, 16}},
}

// pillow prints the pixels of pictures, resized and cropped, plane by plane.
const pillow = `
import json, sys
import numpy
from PIL import Image
for c in json.load(sys.stdin):
    picture = Image.open(c["file"])
    if c["channels"] == 1:
        picture = picture.convert("L")
    width, height = picture.size
    if c["to"][1]:
        to = c["to"][1], c["to"][0]
    else:
        to = tuple(c["to"][0] * side // min(width, height) for side in (width, height))
    picture = picture.resize(to, Image.BILINEAR if c["filter"] == "bilinear" else Image.BICUBIC)
    left, top = (to[0] - c["width"]) // 2, (to[1] - c["height"]) // 2
    pixels = numpy.asarray(picture.crop((left, top, left + c["width"], top + c["height"])))
    print(json.dumps(numpy.moveaxis(pixels, -1, 0).ravel().tolist() if pixels.ndim == 3 else pixels.ravel().tolist()))
`

// Pictures have the bytes of Pillow, whose gray differs from ours by at most one.
func TestResampling_SameBytesAsPillow(t *testing.T) {
	python := cmp.Or(os.Getenv("DPTRAIN_PYTHON"), "python3")
	if exec.Command(python, "-c", "import PIL, numpy").Run() != nil {
		t.Skip("this Python does not have pillow and numpy")
	}
	type request struct {
		File     string `json:"file"`
		Channels int    `json:"channels"`
		Height   int    `json:"height"`
		Width    int    `json:"width"`
		Filter   Filter `json:"filter"`
		To       [2]int `json:"to"`
	}
	var requests []request
	dir := t.TempDir()
	for i, c := range resampledSizes {
		var encoded bytes.Buffer
		if err := png.Encode(&encoded, noisyPicture(c.width, c.height, uint64(i))); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, fmt.Sprintf("%d.png", i))
		if err := os.WriteFile(file, encoded.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		requests = append(requests, request{file, c.shape.Channels, c.shape.Height, c.shape.Width, c.by.Filter, [2]int{c.by.Height, c.by.Width}})
	}
	input, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	program := exec.Command(python, "-c", pillow)
	program.Stdin = bytes.NewReader(input)
	out, err := program.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i, c := range resampledSizes {
		var want []int
		if err := json.Unmarshal([]byte(lines[i]), &want); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, c.shape.size())
		if err := newPictureDecoder(c.shape, &c.by).convert(noisyPicture(c.width, c.height, uint64(i)), got); err != nil {
			t.Fatal(err)
		}
		allowed := 0
		if c.shape.Channels == 1 {
			allowed = 1
		}
		for k, v := range want {
			if d := int(got[k]) - v; max(d, -d) > allowed {
				t.Errorf("%d×%d by %v to %v: pixel %d is %d, and %d by Pillow", c.width, c.height, &c.by, c.shape, k, got[k], v)
				break
			}
		}
	}
}

// A picture of the network's size stays as it is. Others are converted to its size, and rows of one color
// keep it.
func TestResampling_Pictures(t *testing.T) {
	shape := ImageShape{3, 6, 5}
	by := &Resampling{Bicubic, 9, 0}
	same := noisyPicture(5, 6, 1)
	got := make([]byte, shape.size())
	if err := newPictureDecoder(shape, by).convert(same, got); err != nil {
		t.Fatal(err)
	}
	for k, v := range got {
		c := same.NRGBAAt(k%5, k/5%6)
		if want := []uint8{c.R, c.G, c.B}[k/30]; v != want {
			t.Fatalf("number %d is %d, and was %d", k, v, want)
		}
	}
	rows := image.NewGray(image.Rect(0, 0, 40, 31))
	for i := range rows.Pix {
		rows.Pix[i] = uint8(i / 40 * 8)
	}
	d := newPictureDecoder(shape, by).clone()
	for range 2 { // the memory of the first picture is used again
		if err := d.convert(rows, got); err != nil {
			t.Fatal(err)
		}
		for k, v := range got {
			if v != got[k/5*5] || v != got[k%30] || k%30 >= 5 && v <= got[k-5] {
				t.Fatalf("gray rows become %v", got[:30])
			}
		}
	}
}

// knownBytes are the bytes that Pillow 13.0.0 writes for a picture of 7×5 gray pixels: the upper three rows of 4×4.
var knownBytes = map[Filter][]byte{
	Bilinear: {29, 114, 106, 112, 70, 115, 154, 146, 164, 109, 130, 133},
	Bicubic:  {20, 119, 102, 111, 58, 118, 161, 149, 179, 104, 129, 136},
}

// The bytes are known without Pillow.
func TestResampling_KnownBytes(t *testing.T) {
	picture := image.NewGray(image.Rect(0, 0, 7, 5))
	for i := range picture.Pix {
		picture.Pix[i] = uint8(i * i * 37 % 256)
	}
	for filter, want := range knownBytes {
		got := make([]byte, 12)
		if err := newPictureDecoder(ImageShape{1, 3, 4}, &Resampling{filter, 4, 4}).convert(picture, got); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", filter, got, err, want)
		}
	}
}

// Sizes that the part for the network is not inside of, and other filters, are refused.
func TestResampling_Refused(t *testing.T) {
	shape := ImageShape{3, 16, 20}
	for _, by := range []Resampling{{Bilinear, 16, 19}, {Bicubic, 15, 20}, {Bilinear, 19, 0}, {"lanczos", 32, 32}, {Bilinear, 1 << 15, 32}, {Bilinear, 0, 0}} {
		if by.Check(shape) == nil {
			t.Errorf("%+v is accepted", by)
		}
	}
	for _, by := range []Resampling{{Bilinear, 16, 20}, {Bicubic, 20, 0}} {
		if err := by.Check(shape); err != nil {
			t.Error(err)
		}
	}
}
