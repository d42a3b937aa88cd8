package perexample

import (
	"runtime"
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

// Each passes the numbers of a value without keeping them, in the memory that it has used for another value, or in parts.
// Shared returns the same numbers to all.
func TestInitialValue_EachAndShared(t *testing.T) {
	draws := 0
	s := NewInitialValue(func(into []float32) {
		draws++
		for i := range into {
			into[i] = float32(i)
		}
	}, 20, 30)
	collect := func() (all []float32) {
		s.Each(func(part []float32) { all = append(all, part...) })
		return all
	}
	want := make([]float32, 600)
	s.Draw(want)
	if got := collect(); !slices.Equal(got, want) || s.IsInMemory() {
		t.Errorf("%v, in memory %v", got, s.IsInMemory())
	}
	count := 0
	add := func(part []float32) { count += len(part) }
	if n := testing.AllocsPerRun(10, func() { s.Each(add) }); n > 1 || count == 0 {
		t.Errorf("%v allocations, %d numbers", n, count)
	}
	before := draws
	shared := s.Shared()
	if again := s.Shared(); !slices.Equal(shared, want) || &again[0] != &shared[0] || draws != before+1 || !s.IsInMemory() {
		t.Errorf("%v, drawn %d times", again, draws-before)
	}
	s.Streamed(func(yield func(part []float32)) { yield(want[:7]); yield(want[7:]) })
	if got := collect(); !slices.Equal(got, want) || draws != before+1 {
		t.Errorf("%v in parts, drawn %d times", got, draws-before)
	}
	runtime.KeepAlive(shared)
}
