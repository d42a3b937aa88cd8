package data

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/host/memory"
)

func encodePNG(t *testing.T, picture image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// colorPicture returns a picture whose pixel i has red 10+i, green 20+i, blue 30+i.
func colorPicture(width, height int) image.Image {
	p := image.NewRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		p.Set(i%width, i/width, color.RGBA{byte(10 + i), byte(20 + i), byte(30 + i), 255})
	}
	return p
}

func grayPicture(width, height int) image.Image {
	p := image.NewGray(image.Rect(0, 0, width, height))
	for i := range p.Pix {
		p.Pix[i] = byte(100 + i)
	}
	return p
}

func TestOpenFolders_FoldersAndArchives(t *testing.T) {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, colorPicture(3, 2), nil); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		"train/dog/1.jpg":     b.Bytes(),
		"train/cat/1.PNG":     encodePNG(t, colorPicture(3, 2)),
		"train/cat/2.png":     encodePNG(t, grayPicture(3, 2)),
		"train/cat/.hidden":   nil,
		"train/dog/.DS_Store": nil,
		"test/dog/1.png":      encodePNG(t, colorPicture(3, 2)),
	}
	for _, path := range []string{writeFiles(t, files), writeZip(t, files)} {
		task, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(task.ClassNames, []string{"cat", "dog"}) || task.Train.Len() != 3 || task.Test.Len() != 1 || !task.Private {
			t.Fatalf("classes %v, %d + %d pictures, private %v", task.ClassNames, task.Train.Len(), task.Test.Len(), task.Private)
		}
		train := task.Train.(*Pictures)
		if shape := train.columns[0].Shape; !slices.Equal(shape, []int{3, 2, 3}) {
			t.Errorf("shape %v; want channels, height, width: [3 2 3]", shape)
		}
		if want := []byte{10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 30, 31, 32, 33, 34, 35}; !bytes.Equal(train.pixels[:18], want) {
			t.Errorf("planes %v; want %v", train.pixels[:18], want)
		}
		if want := []byte{100, 101, 102, 103, 104, 105}; !bytes.Equal(train.pixels[18:36], slices.Concat(want, want, want)) {
			t.Errorf("a grey picture became %v", train.pixels[18:36])
		}
		if !slices.Equal(train.labels, []int32{0, 0, 1}) {
			t.Errorf("labels %v; want 0, 0, 1", train.labels)
		}
		if labels := task.Test.(*Pictures).labels; labels[0] != 1 {
			t.Errorf("the test picture of a dog has class %d", labels[0])
		}
	}
}

func TestOpenFolders_GrayscaleHasOneChannel(t *testing.T) {
	task, err := Open(writeFiles(t, map[string][]byte{"a/1.png": encodePNG(t, grayPicture(2, 2)), "b/1.png": encodePNG(t, grayPicture(2, 2)), "__MACOSX/x": nil}), Options{Image: ImageShape{1, 2, 2}})
	if err != nil {
		t.Fatal(err)
	}
	p := task.Train.(*Pictures)
	if !slices.Equal(p.columns[0].Shape, []int{1, 2, 2}) || !bytes.Equal(p.pixels[:4], []byte{100, 101, 102, 103}) || task.Test != nil {
		t.Errorf("shape %v, pixels %v, test %v", p.columns[0].Shape, p.pixels[:4], task.Test)
	}
}

func TestOpenFolders_SixteenBitGrayscale(t *testing.T) {
	fine := image.NewGray16(image.Rect(0, 0, 2, 1))
	fine.SetGray16(0, 0, color.Gray16{Y: 0x1234})
	fine.SetGray16(1, 0, color.Gray16{Y: 0xff00})
	task, err := Open(writeFiles(t, map[string][]byte{"a/1.png": encodePNG(t, fine), "b/1.png": encodePNG(t, grayPicture(2, 1))}), Options{Image: ImageShape{1, 1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	if p := task.Train.(*Pictures); !bytes.Equal(p.pixels, []byte{0x12, 0xff, 100, 101}) {
		t.Errorf("pixels %v", p.pixels)
	}
}

// A transparent picture does not show the picture decoded before it.
func TestOpenFolders_TransparentPictures(t *testing.T) {
	clear := image.NewNRGBA(image.Rect(0, 0, 2, 2))
	files := map[string][]byte{"a/2.png": encodePNG(t, clear), "b/1.png": encodePNG(t, clear)}
	for _, name := range []string{"a/1.png", "a/3.png", "b/0.png", "b/2.png"} {
		files[name] = encodePNG(t, colorPicture(2, 2))
	}
	task, err := Open(writeFiles(t, files), Options{Image: ImageShape{3, 2, 2}})
	if err != nil {
		t.Fatal(err)
	}
	p := task.Train.(*Pictures)
	for i, empty := range []bool{false, true, false, false, true, false} {
		if got := bytes.Equal(p.pixels[12*i:12*i+12], make([]byte, 12)); got != empty {
			t.Errorf("picture %d is %v", i, p.pixels[12*i:12*i+12])
		}
	}
}

// Test pictures are standardized like training pictures.
func TestOpenFolders_Standardized(t *testing.T) {
	picture := encodePNG(t, colorPicture(2, 2))
	dir := writeFiles(t, map[string][]byte{"train/a/1.png": picture, "train/b/1.png": picture, "test/b/1.png": picture})
	task, err := openFolders(os.DirFS(dir), ".", dir, Options{OnBadRow: BlankBadRows}, cifarStandardization)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Set{task.Train, task.Test} {
		dst := newBuffers(s, 1)
		if err := s.Read(dst, []int{s.Len() - 1}); err != nil {
			t.Fatal(err)
		}
		for c, constants := range cifarStandardization {
			if want := (float64(10*(c+1))/255 - constants.Mean) / constants.Deviation; !(math.Abs(float64(dst[0][4*c])-want) <= 1e-6) {
				t.Errorf("channel %d begins with %v; want %v", c, dst[0][4*c], want)
			}
		}
	}
}

// The shape of the network, the number of examples and the absence of an error do not depend on a
// private picture: neighbouring folders differ in one file, which is the first, and of any size,
// color, format or name.
func TestOpenFolders_ShapeIsPublic(t *testing.T) {
	gray, inColor := encodePNG(t, grayPicture(4, 3)), encodePNG(t, colorPicture(4, 3))
	for _, public := range []Options{{Image: ImageShape{1, 3, 4}}, {Image: ImageShape{3, 2, 2}}, {}} {
		for name, file := range map[string][]byte{
			"a.png": gray, "b.png": inColor, "c.png": encodePNG(t, colorPicture(1, 9)), "d.png": encodePNG(t, grayPicture(50, 3)),
			"e.png": []byte("secret"), "f.png": nil, "g.png": inColor[:len(inColor)-20], "h.png": withFalseWidth(t, 1<<14+1), "secret.txt": gray, "secret": gray,
		} {
			files := map[string][]byte{"train/a/" + name: file, "train/a/z.png": gray, "train/b/z.png": inColor}
			if public.Image == (ImageShape{}) {
				files["test/a/1.png"] = gray
			}
			task, err := Open(writeFiles(t, files), public)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			want := cmp.Or(public.Image, ImageShape{1, 3, 4})
			if got := ImageShapeOf(task.Train.Columns()[0].Shape); got != want || task.Train.Len() != 3 {
				t.Errorf("%s: %d pictures of shape %v; want 3 of %v", name, task.Train.Len(), got, want)
			}
			isBad := name >= "e.png"
			if blank := Blank(task.Train); isBad && !slices.Equal(blank, []bool{true, false, false}) || !isBad && blank != nil {
				t.Errorf("%s: blank pictures %v", name, blank)
			}
			dst := newBuffers(task.Train, 1)
			if err := task.Train.Read(dst, []int{0}); err != nil {
				t.Fatal(err)
			}
			if isZero := slices.Max(dst[0]) == 0; isZero != isBad {
				t.Errorf("%s: the picture is %v", name, dst[0])
			}
		}
	}
}

// Pictures of other shapes are cropped in the middle and averaged.
func TestPictureDecoder_Converts(t *testing.T) {
	gray := func(width int, pixels ...byte) image.Image {
		return &image.Gray{Pix: pixels, Stride: width, Rect: image.Rect(0, 0, width, len(pixels)/width)}
	}
	for _, c := range []struct {
		picture image.Image
		shape   ImageShape
		want    []byte
	}{
		{gray(2, 10, 20, 30, 40), ImageShape{1, 1, 1}, []byte{25}},
		{gray(4, 10, 20, 30, 40), ImageShape{1, 1, 2}, []byte{20, 30}}, // the columns 1 and 2
		{gray(1, 10, 20, 30), ImageShape{1, 1, 1}, []byte{20}},
		{gray(2, 10, 20), ImageShape{1, 2, 4}, []byte{10, 10, 20, 20, 10, 10, 20, 20}},
		{gray(3, 0, 90, 180, 0, 90, 180), ImageShape{1, 2, 2}, []byte{45, 135, 45, 135}}, // the columns from 0.5 to 2.5
		{gray(3, 0, 90, 180, 0, 90, 180, 0, 90, 180), ImageShape{1, 2, 2}, []byte{30, 150, 30, 150}},
		{gray(1, 7), ImageShape{3, 1, 2}, []byte{7, 7, 7, 7, 7, 7}},
		{&image.NRGBA{Pix: []byte{255, 0, 0, 255, 0, 255, 0, 255}, Stride: 8, Rect: image.Rect(0, 0, 2, 1)}, ImageShape{1, 1, 2}, []byte{76, 150}},
	} {
		pixels := make([]byte, c.shape.size())
		if err := newPictureDecoder(c.shape, nil).convert(c.picture, pixels); err != nil || !bytes.Equal(pixels, c.want) {
			t.Errorf("%v to %v: %v, %v; want %v", c.picture.Bounds(), c.shape, pixels, err, c.want)
		}
	}
}

func TestParseImageShape_Invalid(t *testing.T) {
	if shape, err := ParseImageShape("3x32x24"); err != nil || shape != (ImageShape{3, 32, 24}) || shape.String() != "3x32x24" {
		t.Errorf("%v, %v", shape, err)
	}
	for _, text := range []string{"", "3", "3x32", "2x3x4", "3x0x1", "3x32x32x1", "3x-1x2", "axbxc", "1x20000x1"} {
		if shape, err := ParseImageShape(text); err == nil || shape != (ImageShape{}) {
			t.Errorf("%q: %v, %v", text, shape, err)
		}
	}
}

// withFalseWidth returns a picture whose header has a different width.
func withFalseWidth(t *testing.T, width uint32) []byte {
	file := encodePNG(t, grayPicture(1, 1))
	header := file[12:29] // IHDR and its 13 bytes
	binary.BigEndian.PutUint32(header[4:], width)
	binary.BigEndian.PutUint32(file[29:], crc32.ChecksumIEEE(header))
	return file
}

func TestOpenFolders_Invalid(t *testing.T) {
	good := encodePNG(t, colorPicture(2, 2))
	for _, c := range []struct {
		want  string
		files map[string][]byte
	}{
		{"has 0 folders", map[string][]byte{"x.png": good}},
		{"has 1 folders", map[string][]byte{"train/a/x.png": good}},
		{"a/notes.txt is neither", map[string][]byte{"a/notes.txt": good, "b/x.png": good}},
		{"a/x.png", map[string][]byte{"a/x.png": []byte("no picture"), "b/x.png": good}},
		{"b/x.png", map[string][]byte{"a/x.png": good, "b/x.png": good[:len(good)-20]}},
		{"test/a/y.png: the picture has a different size from the first test picture's 2×2 pixels", map[string][]byte{"train/a/x.png": good, "train/b/x.png": good, "test/a/x.png": good, "test/a/y.png": encodePNG(t, colorPicture(3, 2))}},
		{"test/b/x.png: the picture has color and the first test picture is grayscale; write Options.Image 3x2x2 or Options.Image 1x2x2", map[string][]byte{"train/a/x.png": good, "train/b/x.png": good, "test/a/x.png": encodePNG(t, grayPicture(2, 2)), "test/b/x.png": good}},
		{"has an unsupported size", map[string][]byte{"a/x.png": withFalseWidth(t, 1<<14+1), "b/x.png": good}},
		{`class folder "c"`, map[string][]byte{"train/a/x.png": good, "train/b/x.png": good, "test/c/x.png": good}},
		{"no pictures", map[string][]byte{"a/.x": nil, "b/.x": nil}},
	} {
		o := Options{}
		if c.files["test/a/x.png"] == nil {
			o.Image = ImageShape{3, 2, 2}
		}
		checkOpenError(t, writeFiles(t, c.files), o, c.want)
	}
	checkOpenError(t, writeFiles(t, map[string][]byte{"a/x.png": good, "b/x.png": good}), Options{}, "write Options.Image CxHxW")
	checkOpenError(t, writeFiles(t, map[string][]byte{"a/x.png": good, "b/x.png": good}), Options{Schema: peopleSchema}, "for CSV and JSONL files")
}

func cifarBatch(labels ...byte) []byte {
	var file []byte
	for i, l := range labels {
		record := make([]byte, 1+cifarPixels)
		record[0] = l
		record[1], record[1+1024], record[1+2048] = byte(i), 50, 255
		file = append(file, record...)
	}
	return file
}

func tinyCIFAR(folder string) map[string][]byte {
	files := map[string][]byte{folder + "test_batch.bin": cifarBatch(9)}
	for i := range 5 {
		files[folder+"data_batch_"+string(rune('1'+i))+".bin"] = cifarBatch(byte(i), byte(i+1))
	}
	return files
}

func TestOpenCIFAR_Binary(t *testing.T) {
	for _, folder := range []string{"", "cifar-10-batches-bin/"} {
		task, err := Open("cifar10", Options{Dir: writeFiles(t, tinyCIFAR(folder))})
		if err != nil {
			t.Fatal(err)
		}
		train := task.Train.(*Pictures)
		if !slices.Equal(train.labels, []int32{0, 1, 1, 2, 2, 3, 3, 4, 4, 5}) || task.Test.Len() != 1 || task.ClassNames[9] != "truck" || !task.Private {
			t.Errorf("labels %v, %d test pictures, class 9 %q, private %v", train.labels, task.Test.Len(), task.ClassNames[9], task.Private)
		}
		dst := newBuffers(train, 1)
		if err := train.Read(dst, []int{1}); err != nil {
			t.Fatal(err)
		}
		if r, g, b := dst[0][0], dst[0][1024], dst[0][2048]; r != 1./255 || g != 50./255 || b != 1 {
			t.Errorf("the first pixel is %v, %v, %v; want 1/255, 50/255, 1", r, g, b)
		}
	}
}

func TestOpenCIFAR_Standardized(t *testing.T) {
	task, err := Open("cifar10", Options{Dir: writeFiles(t, tinyCIFAR("")), Standardize: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Set{task.Train, task.Test} {
		dst := newBuffers(s, 1)
		if err := s.Read(dst, []int{0}); err != nil {
			t.Fatal(err)
		}
		for c, want := range []float64{-0.4914 / 0.2470, (50./255 - 0.4822) / 0.2435, (1 - 0.4465) / 0.2616} {
			if got := float64(dst[0][1024*c]); !(math.Abs(got-want) <= 1e-6) {
				t.Errorf("channel %d begins with %v; want %v", c, got, want)
			}
		}
	}
}

func TestOpenCIFAR_InvalidFiles(t *testing.T) {
	for want, batch := range map[string][]byte{
		"data_batch_3.bin: the file ends in picture 1":                  cifarBatch(1, 2)[:4000],
		"data_batch_3.bin: the file ends in picture 0":                  {},
		"data_batch_3.bin: picture 1: the label is not between 0 and 9": cifarBatch(1, 10),
	} {
		files := tinyCIFAR("")
		files["data_batch_3.bin"] = batch
		checkOpenError(t, "cifar10", Options{Dir: writeFiles(t, files)}, want)
	}
	files := tinyCIFAR("")
	delete(files, "data_batch_3.bin")
	checkOpenMissing(t, "cifar10", Options{Dir: writeFiles(t, files)}, "data_batch_3.bin")
	checkOpenError(t, "cifar10", Options{Dir: t.TempDir()}, "neither data_batch_1.bin", "Options.Dir")
	good := encodePNG(t, colorPicture(2, 2))
	checkOpenError(t, "cifar10", Options{Dir: writeFiles(t, map[string][]byte{"train/a/x.png": good, "train/b/x.png": good})}, "2 class folders; CIFAR-10 has 10")
}

// CIFAR-100 has two labels for each picture: the second is the class. A file has the names of the classes.
func TestOpenCIFAR100(t *testing.T) {
	var pictures []byte
	for _, fine := range []byte{99, 3} {
		picture := cifarBatch(fine)
		pictures = append(append(pictures, 7), picture...) // the coarse label comes first
	}
	names := ""
	for i := range 100 {
		names += fmt.Sprintf("name%d\n", i)
	}
	files := map[string][]byte{"cifar-100-binary/train.bin": pictures, "cifar-100-binary/test.bin": pictures[:2+cifarPixels], "cifar-100-binary/fine_label_names.txt": []byte(names)}
	task, err := Open("cifar100", Options{Dir: writeFiles(t, files), Standardize: true})
	if err != nil {
		t.Fatal(err)
	}
	if train := task.Train.(*Pictures); !slices.Equal(train.labels, []int32{99, 3}) || task.Test.Len() != 1 || task.Classes != 100 || task.ClassNames[99] != "name99" || !task.Private {
		t.Errorf("labels %v, %d test pictures, %d classes, class 99 %q, private %v", train.labels, task.Test.Len(), task.Classes, task.ClassNames[99], task.Private)
	}
	dst := newBuffers(task.Train, 1)
	if err := task.Train.Read(dst, []int{0}); err != nil {
		t.Fatal(err)
	}
	if got, want := float64(dst[0][1024]), (50./255-0.4867)/0.2565; math.Abs(got-want) > 1e-6 {
		t.Errorf("channel 1 begins with %v, want %v", got, want)
	}
	for want, change := range map[string]func(){
		"train.bin: picture 1: the label is not between 0 and 99":   func() { files["cifar-100-binary/train.bin"][2+cifarPixels+1] = 100 },
		"train.bin: the file ends in picture 1; a picture has 3074": func() { files["cifar-100-binary/train.bin"] = pictures[:5000] },
		"fine_label_names.txt: the file must have":                  func() { files["cifar-100-binary/fine_label_names.txt"] = []byte("apple\n") },
	} {
		saved := map[string][]byte{}
		for name, file := range files {
			saved[name] = bytes.Clone(file)
		}
		change()
		checkOpenError(t, "cifar100", Options{Dir: writeFiles(t, files), OnBadRow: FailOnBadRow}, want)
		pictures = saved["cifar-100-binary/train.bin"]
		files = saved
	}
	checkOpenError(t, "cifar100", Options{Dir: t.TempDir()}, "neither train.bin", "binary version of CIFAR-100")
}

// A set of the expected size allocates exactly the bytes that it needs.
func TestReadCIFARBatch_AllocatesOnce(t *testing.T) {
	const files, each = 3, 40
	var pixels []byte
	var labels []int32
	var err error
	for range files {
		if pixels, labels, err = cifar10.readPictures(bytes.NewReader(cifarBatch(make([]byte, each)...)), pixels, labels, files*each, rowPolicy{}); err != nil {
			t.Fatal(err)
		}
	}
	if want := files * each * cifarPixels; len(pixels) != want || cap(pixels) != want {
		t.Errorf("%d bytes of pixels with capacity %d; want %d", len(pixels), cap(pixels), want)
	}
}

func FuzzCIFAR(f *testing.F) {
	f.Add(cifarBatch(1, 9))
	f.Add(cifarBatch(1, 2, 3, 4, 5)) // more than expected
	f.Add([]byte{3})
	f.Fuzz(func(t *testing.T, file []byte) {
		pixels, labels, err := cifar10.readPictures(bytes.NewReader(file), nil, nil, 2, rowPolicy{})
		if err == nil && (len(labels)*(1+cifarPixels) != len(file) || len(pixels)+len(labels) != len(file)) {
			t.Errorf("%d bytes contain %d labels and %d pixels", len(file), len(labels), len(pixels))
		}
	})
}

// A class may be a symbolic link to a folder. A broken link is an error and not ignored.
func TestOpenFolders_SymbolicLinks(t *testing.T) {
	picture := encodePNG(t, grayPicture(2, 2))
	dir := writeFiles(t, map[string][]byte{"of/a/1.png": picture, "of/b/1.png": picture, "elsewhere/1.png": picture})
	if err := os.Symlink(filepath.Join("..", "elsewhere"), filepath.Join(dir, "of", "c")); err != nil {
		t.Skip(err)
	}
	task, err := Open(filepath.Join(dir, "of"), Options{Image: ImageShape{3, 2, 2}})
	if err != nil || !slices.Equal(task.ClassNames, []string{"a", "b", "c"}) || task.Train.Len() != 3 {
		t.Fatalf("%+v, %v", task, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	checkOpenError(t, filepath.Join(dir, "of"), Options{Image: ImageShape{3, 2, 2}}, "c: ")
}

// A file in a different format with the extension of a picture is not read, even if the
// program can decode the format.
func TestOpenFolders_WrongExtension(t *testing.T) {
	var b bytes.Buffer
	if err := gif.Encode(&b, grayPicture(2, 2), nil); err != nil {
		t.Fatal(err)
	}
	picture := encodePNG(t, colorPicture(2, 2))
	dir := writeFiles(t, map[string][]byte{"a/1.png": picture, "b/1.png": b.Bytes()})
	checkOpenError(t, dir, Options{Image: ImageShape{3, 2, 2}}, "b/1.png: the picture is a gif file")
}

// Pictures that do not fit in memory are an error before any allocation.
func TestDecodePictures_OutOfMemory(t *testing.T) {
	room := memory.Available()
	if room.LimitedBy == "" {
		t.Skip("the available memory is unknown")
	}
	files := make([]pictureFile, 2*room.Bytes/(3*maxSide*maxSide)+1)
	if _, err := decodePictures(os.DirFS(t.TempDir()), files, newPictureDecoder(ImageShape{3, maxSide, maxSide}, nil), rowPolicy{}, 2, nil); err == nil || !strings.Contains(err.Error(), "do not fit in memory") {
		t.Error(err)
	}
}
