package data

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/host/memory"
)

// encodeIDX encodes bytes of the given shape.
func encodeIDX(content []byte, shape ...int) []byte {
	file := []byte{0, 0, 8, byte(len(shape))}
	for _, n := range shape {
		file = binary.BigEndian.AppendUint32(file, uint32(n))
	}
	return append(file, content...)
}

func gzipped(t *testing.T, content []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// writeFiles writes files to a new folder. The keys are their paths with slashes.
func writeFiles(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		full := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// checkOpenError opens a data set and checks that the error is one line with the given texts.
func checkOpenError(t *testing.T, name string, o Options, want ...string) {
	t.Helper()
	o.OnBadRow = FailOnBadRow
	_, err := Open(name, o)
	for _, words := range want {
		if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v; want an error in one line with %q", err, words)
		}
	}
}

// checkOpenMissing checks that the error is one line and reports that the file does not exist. The
// message is that of the operating system.
func checkOpenMissing(t *testing.T, name string, o Options, file string) {
	t.Helper()
	checkOpenError(t, name, o, file)
	if _, err := Open(name, o); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v does not report that %s is missing", err, file)
	}
}

func tinyMNIST() map[string][]byte {
	return map[string][]byte{
		"train-images-idx3-ubyte": encodeIDX([]byte{0, 51, 102, 153, 204, 255, 0, 255}, 2, 2, 2),
		"train-labels-idx1-ubyte": encodeIDX([]byte{9, 0}, 2),
		"t10k-images-idx3-ubyte":  encodeIDX([]byte{255, 255, 255, 255}, 1, 2, 2),
		"t10k-labels-idx1-ubyte":  encodeIDX([]byte{4}, 1),
	}
}

func TestOpenMNIST_AllFileNames(t *testing.T) {
	for _, folder := range []string{"", "mnist/", "MNIST/raw/"} {
		for _, dotted := range []bool{false, true} {
			for _, gz := range []bool{false, true} {
				files := map[string][]byte{}
				for name, content := range tinyMNIST() {
					if dotted {
						name = strings.Replace(name, "-idx", ".idx", 1)
					}
					if gz {
						name, content = name+".gz", gzipped(t, content)
					}
					files[folder+name] = content
				}
				task, err := Open("mnist", Options{Dir: writeFiles(t, files)})
				if err != nil {
					t.Error(err)
					continue
				}
				dst := newBuffers(task.Train, 2)
				if err := task.Train.Read(dst, []int{1, 0}); err != nil {
					t.Error(err)
				}
				if want := []float32{.8, 1, 0, 1, 0, .2, .4, .6}; !slices.Equal(dst[0], want) || dst[1][0] != 0 || dst[1][1] != 9 {
					t.Errorf("read pictures %v with labels %v; want %v and 0, 9", dst[0], dst[1], want)
				}
				if task.Test.Len() != 1 || task.Classes != 10 || !task.Private || task.Name != "mnist" {
					t.Errorf("%s: %d test pictures, %d classes, private %v", task.Name, task.Test.Len(), task.Classes, task.Private)
				}
			}
		}
	}
}

func TestOpenMNIST_Standardized(t *testing.T) {
	for name, tone := range map[string][2]float64{"mnist": {0.1307, 0.3081}, "fashion-mnist": {0.2860, 0.3530}} {
		task, err := Open(name, Options{Dir: writeFiles(t, tinyMNIST()), Standardize: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []Set{task.Train, task.Test} {
			dst := newBuffers(s, 1)
			if err := s.Read(dst, []int{s.Len() - 1}); err != nil {
				t.Fatal(err)
			}
			if want := (1 - tone[0]) / tone[1]; !(math.Abs(float64(dst[0][3])-want) <= 1e-6) {
				t.Errorf("%s: white is %v; want %v", name, dst[0][3], want)
			}
		}
	}
}

func TestOpenMNIST_InvalidFiles(t *testing.T) {
	const images, labels = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
	truncated := gzipped(t, encodeIDX([]byte{1, 2}, 2)) // without its checksum
	for _, c := range []struct {
		want    string
		file    string
		content []byte
	}{
		{"searched ., mnist, MNIST/raw for train-labels-idx1-ubyte, train-labels.idx1-ubyte", labels, nil},
		{"too short", labels, []byte{0}},
		{"two zero bytes", labels, []byte("PK\x03\x04 and so on")},
		{"type 0xd", labels, []byte{0, 0, 13, 1, 0, 0, 0, 1, 0}},
		{"with 3 axes; unsigned bytes", labels, encodeIDX([]byte{1}, 1, 1, 1)},
		{"in its header", images, []byte{0, 0, 8, 3, 0, 0, 0, 1}},
		{"impossible length", images, encodeIDX(nil, 0, 28, 28)},
		{"impossible length", images, encodeIDX(nil, 1<<30, 1<<30, 1<<30)},
		{"ends after 7 of the 8", images, encodeIDX(make([]byte, 7), 2, 2, 2)},
		{"ends after 0 of the 4294967296", images, encodeIDX(nil, 1<<16, 1<<8, 1<<8)},
		{"is longer than its header", images, encodeIDX(make([]byte, 9), 2, 2, 2)},
		{"2 pictures but 3 labels", labels, encodeIDX([]byte{1, 2, 3}, 3)},
		{"picture 1: the label is not between 0 and 9", labels, encodeIDX([]byte{1, 10}, 2)},
		{"different sizes", "t10k-images-idx3-ubyte", encodeIDX([]byte{1}, 1, 1, 1)},
		{"unexpected EOF", labels, gzipped(t, encodeIDX([]byte{1, 2}, 2))[:20]},
		{"damaged: gzip: invalid checksum", labels, slices.Concat(truncated[:len(truncated)-8], make([]byte, 4), truncated[len(truncated)-4:])},
	} {
		files := tinyMNIST()
		files[c.file] = c.content
		if c.content == nil {
			delete(files, c.file)
		}
		checkOpenError(t, "mnist", Options{Dir: writeFiles(t, files)}, c.want)
	}
	checkOpenMissing(t, "mnist", Options{Dir: filepath.Join(t.TempDir(), "nowhere")}, "nowhere")
	checkOpenError(t, "mnist", Options{}, "Options.Dir")
}

// The capacity grows slowly towards the announced size. The final capacity is exactly that
// size.
func TestGrow_LimitsCapacity(t *testing.T) {
	for _, n := range []int{1, 1 << 12, 1<<16 + 1, 1<<20 - 1, 5 << 20} {
		content := make([]byte, n)
		for i := range content {
			content[i] = byte(i % 251)
		}
		if got, err := readExactly(bytes.NewReader(content), n); err != nil || !bytes.Equal(got, content) || cap(got) != n {
			t.Errorf("%d bytes were read as %d bytes with capacity %d: %v", n, len(got), cap(got), err)
		}
		var values []byte
		for before := 0; len(values) < n; values = values[:cap(values)] {
			var err error
			if values, err = grow(values, n); err != nil {
				t.Fatal(err)
			}
			if cap(values) <= len(values) || cap(values) > n || cap(values) > 16*max(len(values), 1<<13) {
				t.Fatalf("capacity %d after %d of %d values", cap(values), len(values), n)
			}
			if before += len(values); before > n/8 {
				t.Fatalf("%d of %d values are copied at once", before, n)
			}
		}
	}
	if values, err := grow[byte](nil, maxBytes); cap(values) > 1<<17 {
		t.Errorf("an empty file with a large announced size has a buffer of %d bytes: %v", cap(values), err)
	}
	if _, err := grow[[1 << 30]byte](nil, 1<<12); memory.Available().LimitedBy != "" && err == nil {
		t.Error("a buffer of 4 TiB was allocated")
	}
}

func FuzzIDX(f *testing.F) {
	f.Add(encodeIDX([]byte{1, 2, 3, 4}, 1, 2, 2), 3)
	f.Add(encodeIDX([]byte{1, 2}, 2), 1)
	f.Add(encodeIDX(nil, 1<<16, 1<<8, 1<<8), 3)
	f.Fuzz(func(t *testing.T, file []byte, axes int) {
		if axes < 1 || axes > 4 {
			return
		}
		shape, content, err := readIDX(bytes.NewReader(file), axes)
		if err != nil {
			return
		}
		if again := encodeIDX(content, shape...); !bytes.Equal(again, file) {
			t.Errorf("%x was read, and its encoding is %x", file, again)
		}
	})
}
