// Package safetensorstest writes files of tensors for tests.
package safetensorstest

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"testing"

	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/internal/half"
)

// WriteHalves writes the numbers of tensors as those of a format of 16 bits, cut to it, and returns the tensors with these numbers.
func WriteHalves(t testing.TB, path string, f half.Format, tensors []safetensors.Tensor) (cut []safetensors.Tensor) {
	t.Helper()
	dtype := map[half.Format]string{half.BFloat16: "BF16", half.Float16: "F16"}[f]
	header, data := map[string]any{}, []byte(nil)
	for _, x := range tensors {
		from, values := len(data), make([]float32, len(x.Values))
		for i, v := range x.Values {
			bits := f.BitsOf(v)
			data, values[i] = binary.LittleEndian.AppendUint16(data, bits), f.Value(bits)
		}
		header[x.Name] = map[string]any{"dtype": dtype, "shape": append([]int{}, x.Shape...), "data_offsets": []int{from, len(data)}}
		cut = append(cut, safetensors.Tensor{Name: x.Name, Shape: x.Shape, Values: values})
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	if err := os.WriteFile(path, append(file, data...), 0o644); err != nil {
		t.Fatal(err)
	}
	return cut
}
