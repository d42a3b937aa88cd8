//go:build gpu

package cuda

import (
	"bytes"
	"cmp"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/cuda/batch"
	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/noise"
)

// roundedOnDevice returns vectors with noise added by the device, each from the stream of its
// number, and how many values the float32 and the float64 stage left undecided.
func roundedOnDevice(t *testing.T, gaussian noise.RoundedGaussian, source *noise.Source, lot uint64, vectors ...[]int64) (out [][]int64, undecided, remaining int) {
	t.Helper()
	device(t)
	d, err := open(0)
	if err != nil {
		t.Fatal(err)
	}
	m := &deviceMemory{device: d}
	t.Cleanup(func() {
		if err := m.close(); err != nil {
			t.Error(err)
		}
	})
	var sums []integerSums
	for v, x := range vectors {
		at, err := m.alloc(8 * len(x))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.upload(at, bytesOf(x)); err != nil {
			t.Fatal(err)
		}
		sums = append(sums, integerSums{v, at, len(x)})
	}
	r := &roundedNoise{}
	if err := r.prepare(m, sums); err != nil {
		t.Fatal(err)
	}
	err = r.add(source, func(v int) (noise.RoundedGaussian, noise.Stream) {
		return gaussian, noise.Stream{Purpose: noise.Release, Lot: lot, Vector: uint32(v)}
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := (len(vectors)-1)/batch.Capacity(roundingArgBytes) + 1; len(r.batches) != want {
		t.Errorf("%d vectors take %d batches, want %d", len(vectors), len(r.batches), want)
	}
	for _, b := range r.batches {
		for _, argument := range [][]byte{b.sums.bytes, b.undecided.bytes} {
			if bytes.Contains(argument, driver.Pack(source.Key())) {
				t.Error("the arguments contain the key after the launch")
			}
		}
	}
	for i, x := range vectors {
		out = append(out, make([]int64, len(x)))
		if err := cmp.Or(d.CopyOut(bytesOf(out[i]), sums[i].at), d.Synchronize()); err != nil {
			t.Fatal(err)
		}
		a, b := r.count(i)
		undecided, remaining = undecided+a, remaining+b
	}
	return out, undecided, remaining
}

// The device gives the integers of package noise, for every length of the last group of values, every
// kind of grid, and more vectors than a launch takes.
func TestRoundedNoise_SameBitsAsPackageNoise(t *testing.T) {
	source := noise.NewSeeded(11)
	undecided := 0
	for k, sigma := range []float64{0.3, 255, 256, 77_777, 1 << 20, 5e6, 0x1.fffffp27, 0x1p28, 1e11, 0x1p60} {
		lot, gaussian := 1<<40+uint64(k), noise.RoundedGaussian{Sigma: sigma}
		var vectors, want [][]int64
		for v, n := range append([]int{1, 15, 16, 17, 33, 511, 512, 513, 4097, 50_000 + k}, slices.Repeat([]int{k + 3}, 30)...) {
			sums := make([]int64, n)
			for i := range sums {
				sums[i] = int64(uint64(i+1)*0x9e3779b97f4a7c15) >> (2 + (5*i+k)%40)
				if sigma < 256 {
					sums[i] >>= 12
				}
			}
			vectors, want = append(vectors, sums), append(want, slices.Clone(sums))
			if err := gaussian.Add(source, want[v], noise.Stream{Purpose: noise.Release, Lot: lot, Vector: uint32(v)}, 0); err != nil {
				t.Fatal(err)
			}
		}
		got, left, _ := roundedOnDevice(t, gaussian, source, lot, vectors...)
		undecided += left
		for v := range want {
			for i := range want[v] {
				if got[v][i] != want[v][i] {
					t.Fatalf("σ %v, value %d of %d: %d, want %d", sigma, i, len(want[v]), got[v][i], want[v][i])
				}
			}
		}
	}
	if undecided < 100 {
		t.Errorf("only %d values took the float64 stage", undecided)
	}
}

// Sums next to the boundary of a cell, which the test finds by bisection, take the stages after
// float32, and some the host's.
func TestRoundedNoise_DecidesAtBoundaries(t *testing.T) {
	const n = 200
	source, stream := noise.NewSeeded(12), noise.Stream{Purpose: noise.Release, Lot: 3}
	gaussian := noise.RoundedGaussian{Sigma: 0x1.6p59}
	rounded := func(sums []int64) []int64 {
		sums = slices.Clone(sums)
		if err := gaussian.Add(source, sums, stream, 0); err != nil {
			t.Fatal(err)
		}
		return sums
	}
	low, high := make([]int64, n), make([]int64, n)
	for i := range high {
		high[i] = 1 << gaussian.Grid()
	}
	cells := rounded(low)
	for range gaussian.Grid() {
		middle := make([]int64, n)
		for i := range middle {
			middle[i] = (low[i] + high[i]) / 2
		}
		for i, cell := range rounded(middle) {
			if cell == cells[i] {
				low[i] = middle[i]
			} else {
				high[i] = middle[i]
			}
		}
	}
	for name, sums := range map[string][]int64{"below": low, "above": high} {
		got, undecided, remaining := roundedOnDevice(t, gaussian, source, stream.Lot, sums)
		if want := rounded(sums); !slices.Equal(got[0], want) {
			t.Errorf("%s: %v, want %v", name, got[0], want)
		}
		if undecided < n*9/10 || remaining < n/2 {
			t.Errorf("%s: %d of %d values took the float64 stage, %d the host", name, undecided, n, remaining)
		}
	}
}
