//go:build gpu

package cuda

import (
	"slices"
	"testing"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/noise"
)

// roundedOnDevice returns sums with noise added by the device, and how many values the float32
// and the float64 stage left undecided.
func roundedOnDevice(t *testing.T, r *roundedNoise, gaussian noise.RoundedGaussian, source *noise.Source, stream noise.Stream, sums []int64) (out []int64, undecided, remaining int32) {
	t.Helper()
	at, err := r.memory.alloc(8 * len(sums))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.memory.upload(at, bytesOf(sums)); err != nil {
		t.Fatal(err)
	}
	if err := r.add(gaussian, source, stream, at, len(sums)); err != nil {
		t.Fatal(err)
	}
	out = make([]int64, len(sums))
	counts := make([]int32, 2)
	for _, err := range []error{
		r.memory.device.CopyOut(bytesOf(out), at),
		r.memory.device.CopyOut(bytesOf(counts[:1]), r.args.Undecided), r.memory.device.CopyOut(bytesOf(counts[1:]), r.args.Remaining),
		r.memory.device.Synchronize(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out, counts[0], counts[1]
}

func newRoundedNoise(t *testing.T, largest int) *roundedNoise {
	t.Helper()
	device(t)
	d, err := open(0)
	if err != nil {
		t.Fatal(err)
	}
	r := &roundedNoise{}
	if err := r.prepare(&deviceMemory{device: d}, largest); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.memory.close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// The device gives the integers of package noise, for every length of the last batch and
// every kind of grid.
func TestRoundedNoise_SameBitsAsPackageNoise(t *testing.T) {
	r := newRoundedNoise(t, 100_000)
	source := noise.NewSeeded(11)
	undecided := 0
	for k, sigma := range []float64{0.3, 255, 256, 77_777, 1 << 20, 5e6, 0x1.fffffp27, 0x1p28, 1e11, 0x1p60} {
		for _, n := range []int{1, 15, 16, 17, 33, 511, 512, 513, 4097, 50_000 + k} {
			sums := make([]int64, n)
			for i := range sums {
				sums[i] = int64(uint64(i+1)*0x9e3779b97f4a7c15) >> (2 + (5*i+k)%40)
				if sigma < 256 {
					sums[i] >>= 12
				}
			}
			stream := noise.Stream{Purpose: noise.Release, Lot: 1<<40 + uint64(k), Vector: uint32(n)}
			want, gaussian := slices.Clone(sums), noise.RoundedGaussian{Sigma: sigma}
			if err := gaussian.Add(source, want, stream, 0); err != nil {
				t.Fatal(err)
			}
			got, left, _ := roundedOnDevice(t, r, gaussian, source, stream, sums)
			undecided += int(left)
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("σ %v, value %d of %d: %d, want %d", sigma, i, n, got[i], want[i])
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
	r := newRoundedNoise(t, n)
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
		got, undecided, remaining := roundedOnDevice(t, r, gaussian, source, stream, sums)
		if want := rounded(sums); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if undecided < n*9/10 || remaining < n/2 {
			t.Errorf("%s: %d of %d values took the float64 stage, %d the host", name, undecided, n, remaining)
		}
	}
}

func TestRoundedNoise_RefusesInvalidArguments(t *testing.T) {
	r := newRoundedNoise(t, 10)
	source := noise.NewSeeded(1)
	for name, err := range map[string]error{
		"too many sums": r.add(noise.RoundedGaussian{Sigma: 1}, source, noise.Stream{Purpose: noise.Release}, driver.Pointer(0), 11),
		"σ = 0":         r.add(noise.RoundedGaussian{}, source, noise.Stream{Purpose: noise.Release}, driver.Pointer(0), 10),
		"no purpose":    r.add(noise.RoundedGaussian{Sigma: 1}, source, noise.Stream{}, driver.Pointer(0), 10),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
