package perexample

import (
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/half"
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

// SharedHalf returns the bits of the numbers to all, and EachShared passes the numbers of these bits.
func TestInitialValue_SharedHalf(t *testing.T) {
	for _, f := range []half.Format{half.BFloat16, half.Float16} {
		draws := 0
		s := NewInitialValue(func(into []float32) {
			draws++
			for i := range into {
				into[i] = f.Value(uint16(i))
			}
		}, 200, 200)
		if s.IsHalf() {
			t.Error("numbers of 16 bits that nothing has stated")
		}
		if s.StoredAs(f, func(into []uint16) {
			draws++
			for i := range into {
				into[i] = uint16(i)
			}
		}); !s.IsHalf() || s.IsHalfInMemory() {
			t.Errorf("16 bits %v, in memory %v", s.IsHalf(), s.IsHalfInMemory())
		}
		shared := s.SharedHalf()
		for i, bits := range shared.Bits {
			if shared.Format != f || bits != uint16(i) {
				t.Fatalf("format %d: %04x of format %d at %d", f, bits, shared.Format, i)
			}
		}
		if again := s.SharedHalf(); &again.Bits[0] != &shared.Bits[0] || draws != 1 || !s.IsHalfInMemory() || s.IsInMemory() {
			t.Errorf("format %d: drawn %d times; 16 bits in memory %v, float32 %v", f, draws, s.IsHalfInMemory(), s.IsInMemory())
		}
		at := 0
		s.EachShared(func(part []float32) {
			for _, x := range part {
				if want := f.Value(uint16(at)); math.Float32bits(x) != math.Float32bits(want) {
					t.Fatalf("format %d: %v at %d, want %v", f, x, at, want)
				}
				at++
			}
		})
		if at != s.Size() || draws != 1 {
			t.Errorf("format %d: %d numbers of %d, drawn %d times", f, at, s.Size(), draws)
		}
		wide := s.Shared()
		s.EachShared(func(part []float32) {
			if &part[0] != &wide[0] {
				t.Errorf("format %d: a copy of float32 numbers that are in memory", f)
			}
		})
		s.Data()
		if s.IsHalf() {
			t.Errorf("format %d: Data permits changes, and the value is still of 16 bits", f)
		}
		runtime.KeepAlive(shared)
	}
}
