package perexample

import (
	"slices"
	"testing"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// An initial value is drawn into the given memory, the same numbers each time. After a
// call of Data, the returned slice is the value, including later changes to it.
func TestInitialValue_IsDrawnWhenNeeded(t *testing.T) {
	draws := 0
	s := NewInitialValue(func(into []float32) {
		draws++
		for i := range into {
			into[i] = float32(i)
		}
	}, 2, 3)
	w := G.NewMatrix(G.NewGraph(), tensor.Float32, G.WithShape(2, 3), G.WithName("w"))
	if err := G.Let(w, s); err != nil || w.Value() != G.Value(s) || draws != 0 {
		t.Fatalf("error %v, value %v, %d draws", err, w.Value(), draws)
	}
	want := []float32{0, 1, 2, 3, 4, 5}
	for n := range 2 {
		into := make([]float32, 6)
		if s.Draw(into); !slices.Equal(into, want) || draws != n+1 {
			t.Fatalf("%v after %d draws", into, draws)
		}
	}
	data := w.Value().Data().([]float32)
	if data[5], want[5] = 7, 7; &data[0] != &s.Data().([]float32)[0] || draws != 3 {
		t.Errorf("data twice, after %d draws", draws)
	}
	into := make([]float32, 6)
	if s.Draw(into); !slices.Equal(into, want) || draws != 3 {
		t.Errorf("%v after %d draws, want %v", into, draws, want)
	}
}
