package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/host/memory"
)

func sample(t *testing.T) ([]byte, []Tensor) {
	tensors := []Tensor{
		{"fc.weight", []int{2, 3}, []float32{1, -2, 3.5, 0, float32(math.Inf(1)), 6}},
		{"fc.bias", []int{3}, []float32{1, 2, 3}},
		{"scalar", []int{}, []float32{7}},
	}
	var b bytes.Buffer
	if err := Write(&b, tensors, map[string]string{"by": "dptrain"}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), tensors
}

func TestRead_RoundTripsWrite(t *testing.T) {
	file, want := sample(t)
	got, meta, err := Read(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) || meta["by"] != "dptrain" {
		t.Fatalf("got %v %v, want %v", got, meta, want)
	}
}

func TestRead_TruncatedFile(t *testing.T) {
	file, _ := sample(t)
	for n := range file {
		if _, _, err := Read(bytes.NewReader(file[:n]), int64(n)); err == nil {
			t.Errorf("a file cut to %d of %d bytes was read without complaint", n, len(file))
		}
	}
}

func TestRead_LargerThanMemory(t *testing.T) {
	if memory.Available().LimitedBy == "" {
		t.Skip("the available memory is unknown")
	}
	const size = 1 << 46
	header := fmt.Sprintf(`{"w":{"dtype":"F16","shape":[%d],"data_offsets":[0,%d]}}`, size/2, size)
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	if _, _, err := Read(bytes.NewReader(file), int64(len(file))+size); err == nil || !strings.Contains(err.Error(), `tensor "w" has`) {
		t.Errorf("64 TiB of numbers: %v", err)
	}
}

func TestWrite_AlignsHeader(t *testing.T) {
	for name := ""; len(name) < 8; name += "x" {
		var b bytes.Buffer
		if err := Write(&b, []Tensor{{"a" + name, nil, []float32{1}}}, nil); err != nil {
			t.Fatal(err)
		}
		if n := binary.LittleEndian.Uint64(b.Bytes()); n%8 != 0 {
			t.Errorf("a header of %d bytes", n)
		}
	}
}

func TestWrite_DuplicateName(t *testing.T) {
	if err := Write(&bytes.Buffer{}, []Tensor{{"a", []int{1}, []float32{1}}, {"a", []int{1}, []float32{2}}}, nil); err == nil {
		t.Error("two tensors of one name were written")
	}
}

// An empty tensor has no data; it comes first among tensors with equal offsets.
func TestRead_EmptyTensors(t *testing.T) {
	want := []Tensor{{"z", []int{0, 3}, []float32{}}, {"a", []int{1}, []float32{5}}}
	var b bytes.Buffer
	if err := Write(&b, want, nil); err != nil {
		t.Fatal(err)
	}
	if got, _, err := Read(&b, int64(b.Len())); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
}

// Every float16 and bfloat16 bit pattern is converted exactly.
func TestRead_Float16AndBfloat16(t *testing.T) {
	for kind, widths := range map[string]struct{ exponent, fraction int }{"F16": {5, 10}, "BF16": {8, 7}} {
		header := fmt.Sprintf(`{"a": {"dtype": %q, "shape": [65536], "data_offsets": [0, 131072]}}`, kind)
		file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
		for bits := range 1 << 16 {
			file = binary.LittleEndian.AppendUint16(file, uint16(bits))
		}
		got, _, err := Read(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		largest, bias := 1<<widths.exponent-1, 1<<(widths.exponent-1)-1
		for bits, v := range got[0].Values {
			exponent, fraction := bits>>widths.fraction&largest, bits&(1<<widths.fraction-1)
			want := math.Ldexp(float64(fraction|1<<widths.fraction), exponent-bias-widths.fraction)
			switch {
			case exponent == 0:
				want = math.Ldexp(float64(fraction), 1-bias-widths.fraction)
			case exponent == largest && fraction == 0:
				want = math.Inf(1)
			case exponent == largest:
				want = math.NaN()
			}
			if bits>>15 == 1 {
				want = -want
			}
			if float64(v) != want && !(v != v && want != want) || math.Signbit(float64(v)) != (bits>>15 == 1) {
				t.Fatalf("%s %#x is %v, want %v", kind, bits, v, want)
			}
		}
	}
}

func TestRead_InvalidHeaders(t *testing.T) {
	of := func(header string, data int) []byte {
		file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
		return append(append(file, header...), make([]byte, data)...)
	}
	for want, file := range map[string][]byte{
		"not a JSON object":                of(`[]`, 0),
		"__metadata__":                     of(`{"__metadata__": {"a": 1}}`, 0),
		"type F64":                         of(`{"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}`, 8),
		"shape [-1 -1]":                    of(`{"a": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}}`, 4),
		"shape [4294967296 4294967296]":    of(`{"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}}`, 0),
		"offsets [0 4] do not fit shape":   of(`{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}`, 4),
		"offsets [-4 0]":                   of(`{"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}`, 4),
		"has offsets [4 8]":                of(`{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}`, 8),
		`"b" has offsets [0 4]`:            of(`{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}`, 8),
		"has offsets [0 8]":                of(`{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}`, 4),
		"offsets [4 -9223372036854775806]": of(`{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}, "b": {"dtype": "F16", "shape": [4611686018427387903], "data_offsets": [4, -9223372036854775806]}}`, 4),
		"4 bytes follow":                   of(`{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}`, 8),
	} {
		if _, _, err := Read(bytes.NewReader(file), int64(len(file))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	long := binary.LittleEndian.AppendUint64(nil, maxHeaderBytes+1)
	if _, _, err := Read(bytes.NewReader(long), 2*maxHeaderBytes); err == nil || !strings.Contains(err.Error(), "the header has 104857601") {
		t.Errorf("a long header: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := Write(&b, []Tensor{{"a", []int{2}, []float32{1, 2}}}, nil); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, file []byte) {
		tensors, _, err := Read(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		for _, x := range tensors {
			n := 1
			for _, d := range x.Shape {
				n *= d
			}
			if n != len(x.Values) {
				t.Fatalf("tensor %q of shape %v has %d values", x.Name, x.Shape, len(x.Values))
			}
		}
	})
}
