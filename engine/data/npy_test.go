package data

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// encodeNPY encodes little-endian numbers as numpy.save does.
func encodeNPY(kind, order, shape string, numbers ...any) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': %s, }\n", kind, order, shape)
	file := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	file = append(file, header...)
	for _, n := range numbers {
		var err error
		if file, err = binary.Append(file, binary.LittleEndian, n); err != nil {
			panic(err)
		}
	}
	return file
}

func writeZip(t *testing.T, files map[string][]byte) string {
	t.Helper()
	return writeZipWithMethod(t, zip.Deflate, files)
}

func writeZipWithMethod(t *testing.T, method uint16, files map[string][]byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "archive.zip")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	for name, content := range files {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
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
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return name
}

// numpy.savez_compressed wrote testdata/arrays.npz: x_train contains
// i/8 - 1 for i from 0 to 23 in shape (4, 2, 3).
func TestOpenArrays_WrittenByNumPy(t *testing.T) {
	task, err := Open("testdata/arrays.npz", Options{Schema: Schema{Classes: Classes{"a", "b", "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	dst := newBuffers(task.Train, 2)
	if err := task.Train.Read(dst, []int{3, 1}); err != nil {
		t.Fatal(err)
	}
	for i, v := range dst[0] {
		want := float32(18+i)/8 - 1
		if i >= 6 {
			want = float32(i)/8 - 1
		}
		if v != want {
			t.Errorf("number %d is %v; want %v", i, v, want)
		}
	}
	if !slices.Equal(dst[1], []float32{2, 2}) {
		t.Errorf("labels %v; want 2 and 2", dst[1])
	}
	if x := task.Train.Columns()[0]; !slices.Equal(x.Shape, []int{2, 3}) || task.Train.Len() != 4 || task.Test.Len() != 2 || !task.Private {
		t.Errorf("shape %v, %d + %d examples, private %v; want [2 3], 4 + 2, true", x.Shape, task.Train.Len(), task.Test.Len(), task.Private)
	}
}

func TestReadArray_AllElementTypes(t *testing.T) {
	for kind, numbers := range map[string][]any{
		"<f4": {float32(1.5), float32(-2)},
		"<f8": {1.5, -2.},
		"|b1": {true, false},
		"|u1": {uint8(255), uint8(1)},
		"|i1": {int8(-128), int8(1)},
		"<u2": {uint16(65535), uint16(1)},
		"<i2": {int16(-300), int16(1)},
		"<u4": {uint32(70000), uint32(1)},
		"<i4": {int32(-70000), int32(1)},
		"<u8": {uint64(70000), uint64(1)},
		"<i8": {int64(-70000), int64(1)},
	} {
		r := bytes.NewReader(encodeNPY(kind, "False", "(2,)", numbers...))
		a, err := readHeader(r)
		if err != nil {
			t.Error(kind, err)
			continue
		}
		got, err := a.numbers(r)
		if err != nil {
			t.Error(kind, err)
			continue
		}
		for i, n := range numbers {
			want := fmt.Sprint(n)
			if b, ok := n.(bool); ok {
				want = map[bool]string{true: "1", false: "0"}[b]
			}
			if fmt.Sprint(got[i]) != want {
				t.Errorf("%s: %v was read as %v", kind, want, got[i])
			}
		}
	}
}

// Versions 2 and 3 allow longer headers.
func TestReadHeader_Versions(t *testing.T) {
	old := encodeNPY("|u1", "False", "(2,)", uint8(7), uint8(9))
	for version := range byte(4) {
		file := slices.Concat([]byte("\x93NUMPY"), []byte{version, 0, old[8], old[9], 0, 0}, old[10:])
		if version == 1 {
			file = old
		}
		r := bytes.NewReader(file)
		a, err := readHeader(r)
		if version == 0 {
			if err == nil {
				t.Error("version 0 was read")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := a.numbers(r); err != nil || !slices.Equal(got, []float32{7, 9}) {
			t.Errorf("version %d: %v, %v", version, got, err)
		}
	}
}

// Bytes are stored as bytes, and Read scales them to float32.
func TestOpenArrays_BytesStayBytes(t *testing.T) {
	greys, numbers := make([]byte, 256), make([]float32, 256)
	for b := range 256 {
		greys[b], numbers[b] = byte(b), float32(b)/255
	}
	var sets [2]Set
	for i, x := range [][]byte{encodeNPY("|u1", "False", "(2, 8, 16)", greys), encodeNPY("<f4", "False", "(2, 8, 16)", numbers)} {
		dir := writeFiles(t, map[string][]byte{"x_train.npy": x, "y_train.npy": encodeNPY("|u1", "False", "(2,)", uint8(0), uint8(1))})
		task, err := Open(dir, Options{Schema: Schema{Classes: Classes{"0", "1"}}})
		if err != nil {
			t.Fatal(err)
		}
		if task.Test != nil {
			t.Error("there is an unexpected test set")
		}
		sets[i] = task.Train
	}
	if !slices.EqualFunc(sets[0].Columns(), sets[1].Columns(), Column.equal) {
		t.Errorf("columns %v; want %v", sets[0].Columns(), sets[1].Columns())
	}
	if p, ok := sets[0].(*Pictures); !ok || !slices.Equal(p.pixels, greys) {
		t.Errorf("bytes became a %T", sets[0])
	}
	got, want := newBuffers(sets[0], 2), newBuffers(sets[1], 2)
	for i, dst := range [][][]float32{got, want} {
		if err := sets[i].Read(dst, []int{1, 0}); err != nil {
			t.Fatal(err)
		}
	}
	for k := range got {
		if !slices.Equal(got[k], want[k]) {
			t.Errorf("column %d: %v; want %v", k, got[k], want[k])
		}
	}
}

// An array that does not match its checksum in the archive is damaged.
func TestOpenArrays_DamagedArchive(t *testing.T) {
	for _, kind := range []string{"|u1", "|i1"} {
		x := encodeNPY(kind, "False", "(2, 1)", []byte{1, 2})
		damaged, err := os.ReadFile(writeZipWithMethod(t, zip.Store, map[string][]byte{"x_train.npy": x, "y_train.npy": encodeNPY("|u1", "False", "(2,)", []byte{0, 1})}))
		if err != nil {
			t.Fatal(err)
		}
		damaged[bytes.Index(damaged, x)+len(x)-1] ^= 1
		dir := writeFiles(t, map[string][]byte{"a.npz": damaged})
		checkOpenError(t, filepath.Join(dir, "a.npz"), Options{Schema: Schema{Classes: Classes{"0", "1"}}}, "x_train.npy is damaged")
	}
}

func TestOpenArrays_Invalid(t *testing.T) {
	two := Schema{Classes: Classes{"0", "1"}}
	good := encodeNPY("<f4", "False", "(2, 1)", float32(1), float32(2))
	labels := encodeNPY("<i4", "False", "(2,)", int32(0), int32(1))
	for _, c := range []struct {
		want string
		x, y []byte
	}{
		{"x_train.npy is not a .npy array", []byte("x"), labels},
		{"x_train.npy has .npy version 9", []byte("\x93NUMPY\x09\x00\x00\x00"), labels},
		{"in its header", good[:20], labels},
		{"a header of 4294967295", []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), labels},
		{"without descr", encodeNPY("<f4", "Maybe", "(2, 1)"), labels},
		{"unsupported element type", encodeNPY(">f4", "False", "(2, 1)"), labels},
		{"unsupported element type", encodeNPY("|O", "False", "(2, 1)"), labels},
		{"impossible length", encodeNPY("<f4", "False", "(2, 0)"), labels},
		{"impossible length", encodeNPY("<f4", "False", "(2, 99999999999999999999)"), labels},
		{"impossible length", encodeNPY("<f4", "False", "(99999999, 99999999, 99999999)"), labels},
		{"single number", encodeNPY("<f4", "False", "()", float32(1)), labels},
		{"ascontiguousarray", encodeNPY("<f4", "True", "(2, 1)", float32(1), float32(2)), labels},
		{"ends before the 2 numbers", good[:len(good)-1], labels},
		{"is longer than its header", append(slices.Clone(good), 0), labels},
		{`example 1, column "x": the value is not a finite number`, encodeNPY("<f4", "False", "(2, 1)", float32(1), float32(math.NaN())), labels},
		{"does not contain whole numbers", good, encodeNPY("<f4", "False", "(2,)", float32(0), float32(1))},
		{"has shape [3]; 2 examples", good, encodeNPY("|u1", "False", "(3,)", []byte{0, 1, 0})},
		{"has shape [2 2]", good, encodeNPY("|u1", "False", "(2, 2)", []byte{0, 1, 0, 0})},
		{`example 1, column "y": the label is not a whole number from 0 to 1`, good, encodeNPY("|u1", "False", "(2,)", []byte{0, 2})},
		{`example 1, column "y": the label is not a whole number from 0 to 1`, encodeNPY("|u1", "False", "(2, 1)", []byte{0, 2}), encodeNPY("<i8", "False", "(2,)", []int64{0, 1 << 32})},
		{"ends after 1 of the 2 bytes", encodeNPY("|u1", "False", "(2, 1)", []byte{0}), labels},
		{"y_train.npy: the file does not exist", good, nil},
	} {
		files := map[string][]byte{"x_train.npy": c.x}
		if c.y != nil {
			files["y_train.npy"] = c.y
		}
		checkOpenError(t, writeZip(t, files), Options{Schema: two}, c.want)
	}
	checkOpenError(t, writeZip(t, map[string][]byte{"x_test.npy": good, "y_test.npy": labels}), Options{Schema: two}, "x_train.npy: the file does not exist")
	all := map[string][]byte{"x_train.npy": good, "y_train.npy": labels}
	checkOpenError(t, writeZip(t, all), Options{}, "classes")
	checkOpenError(t, writeZip(t, all), Options{Schema: Schema{Classes: Classes{"0"}}}, "classes")
	checkOpenError(t, writeZip(t, all), Options{Schema: Schema{Classes: Classes{"0", "0"}}}, "twice")
	checkOpenError(t, writeZip(t, all), Options{Schema: Schema{Classes: two.Classes, Label: "y"}}, "no named columns")
	checkOpenError(t, writeZip(t, all), Options{Schema: two, Test: "x"}, "their own test examples")
	all["x_test.npy"], all["y_test.npy"] = encodeNPY("<f4", "False", "(2, 2)", make([]float32, 4)), labels
	checkOpenError(t, writeZip(t, all), Options{Schema: two}, "different shapes")
	all["x_test.npy"] = encodeNPY("|u1", "False", "(2, 1)", []byte{0, 1})
	checkOpenError(t, writeZip(t, all), Options{Schema: two}, "x_test.npy contains bytes and x_train.npy contains numbers")
}

func FuzzNPY(f *testing.F) {
	f.Add(encodeNPY("<f4", "False", "(2, 1)", float32(1), float32(2)))
	f.Add(encodeNPY("|u1", "False", "(3,)", []byte{1, 2, 3}))
	f.Add([]byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"))
	f.Add(encodeNPY("<i8", "False", "(1000000, 1000)"))
	f.Fuzz(func(t *testing.T, file []byte) {
		r := bytes.NewReader(file)
		a, err := readHeader(r)
		if err != nil {
			return
		}
		values, err := a.numbers(r)
		if err == nil && (len(values) != a.total() || len(values)*a.elementSize >= len(file)) {
			t.Errorf("%d bytes contain %d numbers of shape %v", len(file), len(values), a.shape)
		}
	})
}

// Arrays that are piped in are those of the file.
func TestOpen_ArraysOnStandardInput(t *testing.T) {
	name := writeZip(t, map[string][]byte{
		"x_train.npy": encodeNPY("<f4", "False", "(2, 3)", []float32{1, 2, 3, 4, 5, 6}),
		"y_train.npy": encodeNPY("|u1", "False", "(2,)", []uint8{1, 0}),
	})
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	classes := Schema{Classes: Classes{"no", "yes"}}
	task, err := Open(StandardInput, Options{Input: bytes.NewReader(content), Schema: classes})
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]float32, 6), make([]float32, 2)
	if err := task.Train.Read([][]float32{x, y}, []int{1, 0}); err != nil || !slices.Equal(x, []float32{4, 5, 6, 1, 2, 3}) || !slices.Equal(y, []float32{0, 1}) {
		t.Errorf("%v, %v, %v", x, y, err)
	}
	if task.Name != "standard input" || task.Test != nil || !task.Private {
		t.Errorf("%+v", task)
	}
	for _, damaged := range [][]byte{content[:len(content)/2], []byte("PK\x03\x04")} {
		if _, err := Open(StandardInput, Options{Input: bytes.NewReader(damaged), Schema: classes}); err == nil {
			t.Errorf("%d bytes are read", len(damaged))
		}
	}
}
