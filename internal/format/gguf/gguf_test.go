package gguf

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/half"
)

func sample(t testing.TB) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/kinds.gguf")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func read(text []byte) (*File, error) { return Read(bytes.NewReader(text), int64(len(text))) }

// The numbers are those of the Python package gguf, to the bit.
func TestValues_SameAsPython(t *testing.T) {
	f, err := read(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/kinds.json")
	if err != nil {
		t.Fatal(err)
	}
	var expected map[string][]float32
	if err := json.Unmarshal(text, &expected); err != nil {
		t.Fatal(err)
	}
	if len(f.Tensors) != 6 || len(expected) != 6 {
		t.Fatalf("%d tensors, and %d expected", len(f.Tensors), len(expected))
	}
	for _, x := range f.Tensors {
		got, err := f.Values(x)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]half.Format{"F16": half.Float16, "BF16": half.BFloat16}[x.kind.name]; x.Half() != want {
			t.Errorf("%s: format %d, want %d", x.Name, x.Half(), want)
		}
		if !slices.Equal(got, expected[x.Name]) || !slices.Equal(x.Shape, []int{3, 64}) {
			t.Errorf("%s of shape %v: %v, want %v", x.Name, x.Shape, got[:4], expected[x.Name][:4])
		}
	}
	for key, want := range map[string]any{"u8": uint64(200), "i16": int64(-3), "f32": 0.5, "yes": true,
		"words": []any{"a", "", "bc"}, "numbers": []any{int64(1), int64(-2)}} {
		if got := f.Metadata[key]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
}

func TestHalf_AllNumbers(t *testing.T) {
	for text, want := range map[uint16]float32{0: 0, 1: 0x1p-24, 0x3ff: 0x3ffp-24, 0x400: 0x1p-14, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504} {
		if got := float16(binary.LittleEndian.AppendUint16(nil, text)); got != want {
			t.Errorf("%04x is %v, want %v", text, got, want)
		}
	}
}

// Each cut and each changed count is an error in one line, and takes no memory beyond the file.
func TestRead_RefusesDamagedFiles(t *testing.T) {
	whole := sample(t)
	const padding = 8 // behind the last tensor
	for n := range len(whole) - padding {
		if _, err := read(whole[:n]); err == nil {
			t.Fatalf("a file that is cut to %d bytes is read", n)
		}
	}
	at := func(name string) int { return bytes.Index(whole, []byte(name)) + len(name) }
	for name, c := range map[string]struct {
		at    int
		bytes string
		want  string
	}{
		"magic":   {0, "GGML", "not a GGUF file"},
		"version": {4, "\x01", "version 1"},
		"tensors": {8, "\xff\xff\xff\xff", "at most"},
		"entries": {16, "\xff\xff\xff\xff", "at most"},
		"list":    {at("words") + 8, "\xff\xff\xff\xff\xff\xff\xff\x7f", "does not fit"},
		"nested":  {at("words") + 4, "\x09", "does not fit"},
		"value":   {at("f32"), "\x0d", "type 13"},
		"axes":    {at("Q4_0"), "\x09", "9 axes"},
		"axis":    {at("Q4_0") + 4, "\x00", "an axis of 0"},
		"product": {at("Q4_0") + 4, "\x40\x00\x00\x00\x00\x00\x00\x40", "an axis of"},
		"blocks":  {at("Q4_0") + 4, "\x41", "blocks have 32 numbers"},
		"kind":    {at("Q4_0") + 20, "\x0c", "Q4_K"},
		"offset":  {at("Q4_0") + 24, "\xe0\xff\xff\xff\xff\xff\xff\x7f", "beyond the end"},
		"far":     {at("Q4_0") + 24, "\xe0\xff\xff\x7f", "cut or damaged"},
		"aligned": {at("Q4_0") + 24, "\x01", "not aligned"},
	} {
		text := slices.Clone(whole)
		copy(text[c.at:], c.bytes)
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v does not contain %q", name, err, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(sample(f))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := read(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("an error of several lines: %q", err)
			}
			return
		}
		for _, x := range file.Tensors {
			if _, err := file.Values(x); err != nil {
				t.Fatal(err)
			}
		}
	})
}
