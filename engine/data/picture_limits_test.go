package data

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// withChunk returns a PNG file with a chunk of zeros that decoders skip.
func withChunk(file []byte, length int) []byte {
	const afterHeader = 8 + 25
	chunk := make([]byte, 12+length)
	binary.BigEndian.PutUint32(chunk, uint32(length))
	copy(chunk[4:], "zzZz")
	binary.BigEndian.PutUint32(chunk[8+length:], crc32.ChecksumIEEE(chunk[4:8+length]))
	return slices.Concat(file[:afterHeader], chunk, file[afterHeader:])
}

// withScans returns a JPEG file of a gray picture with copies of its only scan.
func withScans(t *testing.T, scans int) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := jpeg.Encode(&file, image.NewGray(image.Rect(0, 0, 16, 16)), nil); err != nil {
		t.Fatal(err)
	}
	at, end := bytes.Index(file.Bytes(), []byte{0xff, 0xda}), file.Len()-2
	return slices.Concat(file.Bytes()[:at], bytes.Repeat(file.Bytes()[at:end], scans), file.Bytes()[end:])
}

// zipped returns a file of a .zip archive with these files.
func zipped(t *testing.T, files map[string][]byte) string {
	t.Helper()
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for name, content := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "pictures.zip")
	if err := os.WriteFile(name, archive.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// A picture whose file is much longer than its pixels is blank and takes little memory, and one whose
// file makes a decoder visit its pixels again and again is blank.
func TestOpenFolders_HostileFiles(t *testing.T) {
	good := encodePNG(t, grayPicture(2, 2))
	for name, c := range map[string]struct {
		file  []byte
		blank bool
	}{
		"a short chunk": {withChunk(good, 1<<20), false}, "a long chunk": {withChunk(good, 64<<20), true},
		"two scans": {withScans(t, 2), false}, "200 scans": {withScans(t, 200), true},
	} {
		archive := zipped(t, map[string][]byte{"a/1.png": good, "a/2.jpg": c.file, "b/3.png": good})
		c.file = nil
		var task *Task
		var err error
		peak := peakMemory(func() { task, err = Open(archive, Options{Image: ImageShape{1, 2, 2}}) })
		if err != nil {
			t.Fatal(err)
		}
		if blank := Blank(task.Train); task.Train.Len() != 3 || (blank != nil) != c.blank || c.blank && !slices.Equal(blank, []bool{false, true, false}) {
			t.Errorf("%s: blank %v", name, blank)
		}
		if peak > 30e6 {
			t.Errorf("%s takes %.0f MB", name, float64(peak)/1e6)
		}
	}
}

// Large pictures are decoded one at a time: the memory does not grow with the processors.
func TestOpenFolders_LargePicturesTakeLimitedMemory(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
	const side = 2050
	large := encodePNG(t, image.NewNRGBA(image.Rect(0, 0, side, side)))
	files := map[string][]byte{"b/1.png": large}
	for i := range 8 {
		files["a/"+string(rune('a'+i))+".png"] = large
	}
	dir := writeFiles(t, files)
	var err error
	peak := peakMemory(func() { _, err = Open(dir, Options{Image: ImageShape{3, 4, 4}}) })
	if one := 4 * side * side; err != nil || peak > int64(3*one) {
		t.Errorf("%.0f MB, where a picture has %.0f MB; %v", float64(peak)/1e6, float64(one)/1e6, err)
	}
}

// A progressive JPEG takes a decoder more memory than other pictures.
func TestCheckScans_Progressive(t *testing.T) {
	header := []byte{0xff, 0xd8, 0xff, 0xe1, 0, 6, 0xff, 0xc2, 0xff, 0xda, 0xff, 0xff, 0xc2, 0, 4, 1, 2, 0xff, 0xd9}
	for _, c := range []struct {
		pixels int
		want   string
	}{{maxProgressive, ""}, {maxProgressive + 1, "progressive"}} {
		err := checkScans(newLineReader(bytes.NewReader(header), 0).file, c.pixels)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d pixels: %v", c.pixels, err)
		}
	}
	// The same marker in other metadata is none.
	if err := checkScans(newLineReader(bytes.NewReader(header[:10]), 0).file, maxPixels); err != nil {
		t.Error(err)
	}
}
