package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var twoTensors = []Tensor{{Name: "fc.weight", Shape: []int{1, 2}}, {Name: "fc.bias", Shape: []int{1}}}

func fileOf(header string, data []byte) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), data...)
}

func TestDecoder_ReadsFilesOfOtherPrograms(t *testing.T) {
	d := NewDecoder(twoTensors)
	values := []float32{1, -2.5, 3}
	var ours, three bytes.Buffer
	if err := Write(&ours, []Tensor{{"fc.weight", []int{1, 2}, values[:2]}, {"fc.bias", []int{1}, values[2:]}}, map[string]string{"a": "b\"\\"}); err != nil {
		t.Fatal(err)
	}
	binary.Write(&three, binary.LittleEndian, []float32{3, 1, -2.5})
	for name, file := range map[string][]byte{
		"ours":        ours.Bytes(),
		"other order": fileOf("\n{\"fc.bias\" : {\"data_offsets\":[0, 4],\t\"shape\":[1],\"dtype\":\"F32\"},\"fc.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[4,12]},\"__metadata__\":{\"format\":\"pt\",\"x\":\"\\u00e9\"}}  ", three.Bytes()),
		"escapes":     fileOf(`{"\u0066c.bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"fc.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]}}`, three.Bytes()),
		"bfloat16":    fileOf(`{"fc.weight":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},"fc.bias":{"dtype":"F16","shape":[1],"data_offsets":[4,6]}}`, []byte{0x80, 0x3f, 0x20, 0xc0, 0x00, 0x42}),
	} {
		got := make([]float32, 3)
		if err := d.Decode(got, file); err != nil || !slices.Equal(got, values) {
			t.Errorf("%s: %v %v", name, got, err)
		}
		for n := range file {
			if err := d.Decode(got, file[:n]); err == nil {
				t.Errorf("%s: cut to %d of %d bytes, no error", name, n, len(file))
			}
		}
	}
}

func TestDecoder_RefusesOthers(t *testing.T) {
	d := NewDecoder(twoTensors)
	const weight, bias = `"fc.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}`, `"fc.bias":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}`
	for header, other := range map[string]bool{
		`{` + weight + `,` + bias + `,"x":{}}`: true,
		`{` + weight + `}`:                     true,
		`{}`:                                   true,
		`{` + weight + `,"fc.bias":{"dtype":"F32","shape":[1,1],"data_offsets":[8,12]}}`:     true,
		`{` + weight + `,"fc.bias":{"dtype":"F32","shape":[],"data_offsets":[8,12]}}`:        true,
		`{` + weight + `,"fc.bias":{"dtype":"F32","shape":[-1],"data_offsets":[8,12]}}`:      true,
		`{` + weight + `,"fc.bias":{"dtype":"F64","shape":[1],"data_offsets":[8,12]}}`:       false,
		`{` + weight + `,"fc.bias":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`:        false,
		`{` + weight + `,"fc.bias":{"dtype":"F32","shape":[1],"data_offsets":[8,16]}}`:       false,
		`{` + weight + `,"fc.bias":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`:       false,
		`{` + weight + `,"fc.bias":{"dtype":"F32","shape":[1],"data_offsets":[8,12],"a":1}}`: false,
		`{` + weight + `,"fc.bias":{"dtype":"F32","shape":[1]}}`:                             false,
		`{` + weight + `,"fc.bias":{"shape":[1],"data_offsets":[8,12]}}`:                     false,
		`{` + weight + `,` + weight + `,` + bias + `}`:                                       false,
		`{` + weight + `,` + bias + `,}`:                                                     false,
		`{` + weight + bias + `}`:                                                            false,
		`{` + weight + `,` + bias + `}x`:                                                     false,
		`{` + weight + `,` + bias + `,"__metadata__":{"a":1}}`:                               false,
		`[]`: false,
		``:   false,
	} {
		err := d.Decode(make([]float32, 3), fileOf(header, make([]byte, 12)))
		if err == nil || errors.Is(err, ErrOther) != other {
			t.Errorf("%s: %v", header, err)
		}
	}
	good := `{` + weight + `,` + bias + `}`
	for _, data := range []int{8, 11, 13, 16} {
		if err := d.Decode(make([]float32, 3), fileOf(good, make([]byte, data))); err == nil {
			t.Errorf("%d bytes of data: no error", data)
		}
	}
}

// A file of many empty tensors is refused at the first name, in a time that does not grow with their
// number. The file of 200,000 names takes longer to read than the limit allows.
func TestDecoder_StopsAtFirstExtraName(t *testing.T) {
	var header strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&header, `%c"t%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`, "{,"[min(i, 1)], i)
	}
	file := fileOf(header.String()+"}", make([]byte, 12))
	d := NewDecoder(twoTensors)
	best := time.Hour
	for range 20 {
		began := time.Now()
		if err := d.Decode(make([]float32, 3), file); !errors.Is(err, ErrOther) {
			t.Fatal(err)
		}
		best = min(best, time.Since(began))
	}
	if best > time.Millisecond {
		t.Errorf("%v for a file of %d MB", best, len(file)>>20)
	}
	if n := testing.AllocsPerRun(10, func() { d.Decode(make([]float32, 3), file) }); n > 20 {
		t.Errorf("%v allocations", n)
	}
}

// Read asks for the available memory once, not once a tensor: that reads files of the system.
func TestRead_ManyTensorsAreCheap(t *testing.T) {
	var tensors []Tensor
	for i := range 2000 {
		tensors = append(tensors, Tensor{Name: fmt.Sprint("t", i), Shape: []int{0}})
	}
	var file bytes.Buffer
	if err := Write(&file, tensors, nil); err != nil {
		t.Fatal(err)
	}
	allocations := testing.AllocsPerRun(1, func() {
		if _, _, err := Read(bytes.NewReader(file.Bytes()), int64(file.Len())); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%.1f allocations a tensor", allocations/2000)
	if allocations > 2000*30 {
		t.Errorf("%v allocations for 2,000 empty tensors", allocations)
	}
}
