package random

import (
	"math/big"
	"slices"
	"testing"
)

var testStream = Stream{Purpose: Release, Lot: 5, Vector: 7}

// definedNormal follows the definition of Normals, one block and one pair at a time.
func definedNormal(s *Source, st Stream, i uint64) float32 {
	nonce, err := NormalsNonce(st)
	if err != nil {
		panic(err)
	}
	batch, k := i/512, i%512
	j, l, second := k/32, k%16, k%32 >= 16
	word := func(part uint64) uint32 {
		in := newState(s.key, nonce)
		in[counterWord] = uint32(48*batch + 16*part + l)
		return chachaBlock(&in)[j]
	}
	x, y := BoxMuller(word(0), word(1), word(2))
	if second {
		return y
	}
	return x
}

func TestNormals_MatchDefinition(t *testing.T) {
	s := NewSeeded(3)
	for _, first := range []uint64{0, 1000, 1 << 33, MaxValues - 1200} {
		got := make([]float32, 1200)
		if err := s.Normals(got, testStream, first); err != nil {
			t.Fatal(err)
		}
		for i, v := range got {
			if want := definedNormal(s, testStream, first+uint64(i)); v != want {
				t.Fatalf("normal %d is %v, by definition %v", first+uint64(i), v, want)
			}
		}
	}
}

// Each sampler gives the same values for any range and any split of it.
func FuzzSource_SplitRanges(f *testing.F) {
	f.Add(uint64(0), uint16(1024), uint16(512))
	f.Add(uint64(511), uint16(514), uint16(1))
	f.Add(uint64(MaxDiscrete-2000), uint16(1999), uint16(3))
	f.Add(uint64(MaxValues-700), uint16(700), uint16(699))
	f.Fuzz(func(t *testing.T, first uint64, n, cut uint16) {
		first %= MaxValues - 1<<16
		n %= 2048
		cut = min(cut, n)
		s := NewSeeded(first)
		split(t, "Uint64s", int(n), int(cut), first, func(d []uint64, f uint64) error { return s.Uint64s(d, testStream, f) })
		split(t, "Normals", int(n), int(cut), first, func(d []float32, f uint64) error { return s.Normals(d, testStream, f) })
		split(t, "Normals64", int(n), int(cut), first, func(d []float64, f uint64) error { return s.Normals64(d, testStream, f) })
		split(t, "Laplaces", int(n), int(cut), first, func(d []float64, f uint64) error { return s.Laplaces(d, testStream, f) })
		split(t, "RoundedGaussian", int(n), int(cut), first%(MaxRounded-2048), func(d []int64, f uint64) error {
			for i := range d {
				d[i] = int64(f) + int64(i)
			}
			return RoundedGaussian{Sigma: 1e6}.Add(s, d, testStream, f)
		})
		n, cut = n%64, min(cut, n%64)
		split(t, "DiscreteGaussians", int(n), int(cut), first%(MaxDiscrete-64), func(d []int64, f uint64) error {
			return s.DiscreteGaussians(d, testStream, f, big.NewRat(9, 2))
		})
		split(t, "DiscreteLaplaces", int(n), int(cut), first%(MaxDiscrete-64), func(d []int64, f uint64) error {
			return s.DiscreteLaplaces(d, testStream, f, 1000)
		})
	})
}

func split[T comparable](t *testing.T, name string, n, cut int, first uint64, draw func([]T, uint64) error) {
	t.Helper()
	whole, parts := make([]T, n), make([]T, n+1)
	for _, err := range []error{draw(whole, first), draw(parts[:cut], first), draw(parts[cut:n], first+uint64(cut))} {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if !slices.Equal(whole, parts[:n]) {
		t.Errorf("%s: %d values from %d differ when cut at %d", name, n, first, cut)
	}
	if parts[n] != *new(T) {
		t.Errorf("%s: wrote past the end", name)
	}
}

func TestSource_DoesNotAllocate(t *testing.T) {
	s := NewSeeded(1)
	normals, normals64, words := make([]float32, 1000), make([]float64, 1000), make([]uint64, 1000)
	sums := make([]int64, 1000)
	if n := testing.AllocsPerRun(20, func() {
		s.Normals(normals, testStream, 77)
		s.Normals64(normals64, testStream, 77)
		s.Laplaces(normals64, testStream, 77)
		s.Uint64s(words, testStream, 77)
		RoundedGaussian{Sigma: 1e6}.Add(s, sums, testStream, 77)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkNormals(b *testing.B) {
	s := NewSeeded(1)
	dst := make([]float32, 4096)
	b.SetBytes(int64(4 * len(dst)))
	for b.Loop() {
		s.Normals(dst, testStream, 0)
	}
	b.ReportMetric(float64(b.N)*float64(len(dst))/b.Elapsed().Seconds()/1e6, "Mnormals/s")
}

func BenchmarkRoundedGaussian(b *testing.B) {
	s := NewSeeded(1)
	for name, sigma := range map[string]float64{"direct": 5e6, "split": 5e10} {
		b.Run(name, func(b *testing.B) {
			dst := make([]int64, 4096)
			b.SetBytes(int64(8 * len(dst)))
			b.ReportAllocs()
			first := uint64(0)
			for b.Loop() {
				RoundedGaussian{sigma}.Add(s, dst, testStream, first)
				first = (first + uint64(len(dst))) % (1 << 30)
			}
			b.ReportMetric(float64(b.N)*float64(len(dst))/b.Elapsed().Seconds()/1e6, "Mnormals/s")
		})
	}
}

func BenchmarkUint64s(b *testing.B) {
	s := NewSeeded(1)
	dst := make([]uint64, 4096)
	b.SetBytes(int64(8 * len(dst)))
	for b.Loop() {
		s.Uint64s(dst, testStream, 0)
	}
}

func BenchmarkDiscreteGaussians(b *testing.B) {
	s := NewSeeded(1)
	dst := make([]int64, 1000)
	variance := big.NewRat(1<<40, 1)
	b.ReportAllocs()
	for b.Loop() {
		s.DiscreteGaussians(dst, testStream, 0, variance)
	}
}
