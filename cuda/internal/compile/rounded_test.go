//go:build gpu

package compile

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
)

// roundedOnDevice returns vectors with noise added by the device, each from the stream of its
// number, and how many values the float32 and the float64 stage left undecided: weights of 0, updated
// by SGD at rate −1, are the released integers. Those beyond 2^24 are rounded.
func roundedOnDevice(t *testing.T, gaussian noise.RoundedGaussian, source *noise.Source, lot uint64, vectors ...[]int64) (out [][]float32, undecided, remaining int) {
	t.Helper()
	device(t)
	var sizes []int
	now := &plan.Release{Source: source, Lot: lot, Scale: 1, Step: 1, Rate: -1, Optimizer: plan.Optimizer{Kind: plan.SGD}}
	for _, x := range vectors {
		sizes = append(sizes, len(x))
		now.Sigma, now.Unit = append(now.Sigma, gaussian.Sigma), append(now.Unit, math.Ldexp(1, -gaussian.Grid()))
	}
	program := bare(sizes)
	program.Exact = true
	m := machineOf(t, program, now.Optimizer).(*Executable)
	for v, x := range vectors {
		if err := m.memory.upload(m.state.parameters[v].sum, bytesOf(x)); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmp.Or(m.Release(now), m.SyncState()); err != nil {
		t.Fatal(err)
	}
	for v := range vectors {
		out = append(out, slices.Clone(m.State().Weights[v]))
		sum, err := m.IntegerSum(v)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(sum, func(x int64) bool { return x != 0 }) {
			t.Errorf("vector %d is not 0 after the release", v)
		}
	}
	undecided, remaining = m.release.rounding.count(0)
	return out, undecided, remaining
}

// The device gives the integers of package noise, for every length of the last batch and every kind of
// grid.
func TestRoundedNoise_SameBitsAsPackageNoise(t *testing.T) {
	source := noise.NewSeeded(11)
	undecided := 0
	for k, sigma := range []float64{0.3, 255, 256, 77_777, 1 << 20, 5e6, 0x1.fffffp27, 0x1p28, 1e11, 0x1p60} {
		lot, gaussian := 1<<40+uint64(k), noise.RoundedGaussian{Sigma: sigma}
		var vectors, want [][]int64
		for v, n := range []int{1, 15, 16, 17, 33, 511, 512, 513, 4097, 50_000 + k} {
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
				if got[v][i] != float32(want[v][i]) {
					t.Fatalf("σ %v, value %d of %d: %v, want %d", sigma, i, len(want[v]), got[v][i], want[v][i])
				}
			}
		}
	}
	if undecided < 100 {
		t.Errorf("only %d values took the float64 stage", undecided)
	}
}

// The float64 stage has several blocks, and the host gets the numbers of all.
func TestRoundedNoise_OfSeveralBlocks(t *testing.T) {
	source, stream := noise.NewSeeded(14), noise.Stream{Purpose: noise.Release, Lot: 5}
	gaussian := noise.RoundedGaussian{Sigma: 0x1.6p59}
	const hard = 300
	low, _ := boundaries(t, gaussian, source, stream, hard)
	sums := append(low, make([]int64, 270_000)...)
	got, undecided, remaining := roundedOnDevice(t, gaussian, source, stream.Lot, sums)
	if err := gaussian.Add(source, sums, stream, 0); err != nil {
		t.Fatal(err)
	}
	for i, want := range sums {
		if got[0][i] != float32(want) {
			t.Fatalf("value %d is %v, want %v", i, got[0][i], want)
		}
	}
	if undecided < hard || remaining < hard/2 {
		t.Errorf("%d values took the float64 stage, %d the host", undecided, remaining)
	}
}

// boundaries are sums on both sides of the boundary of a cell, which it finds by bisection: adding one
// to low[i] changes the released integer.
func boundaries(t *testing.T, gaussian noise.RoundedGaussian, source *noise.Source, stream noise.Stream, n int) (low, high []int64) {
	t.Helper()
	rounded := func(sums []int64) []int64 {
		sums = slices.Clone(sums)
		if err := gaussian.Add(source, sums, stream, 0); err != nil {
			t.Fatal(err)
		}
		return sums
	}
	low, high = make([]int64, n), make([]int64, n)
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
	return low, high
}

// Sums next to the boundary of a cell take the stages after float32, and some the host's.
func TestRoundedNoise_DecidesAtBoundaries(t *testing.T) {
	const n = 200
	source, stream := noise.NewSeeded(12), noise.Stream{Purpose: noise.Release, Lot: 3}
	gaussian := noise.RoundedGaussian{Sigma: 0x1.6p59}
	low, high := boundaries(t, gaussian, source, stream, n)
	for name, sums := range map[string][]int64{"below": low, "above": high} {
		got, undecided, remaining := roundedOnDevice(t, gaussian, source, stream.Lot, sums)
		if err := gaussian.Add(source, sums, stream, 0); err != nil {
			t.Fatal(err)
		}
		for i, want := range sums {
			if got[0][i] != float32(want) {
				t.Fatalf("%s: value %d is %v, want %v", name, i, got[0][i], want)
			}
		}
		if undecided < n*9/10 || remaining < n/2 {
			t.Errorf("%s: %d of %d values took the float64 stage, %d the host", name, undecided, n, remaining)
		}
	}
}

// Every stage of an exact release updates weights, averages and the optimizer's numbers as package optim
// does, also if parameters have settings of their own.
func TestRelease_ExactStagesUpdateAlike(t *testing.T) {
	device(t)
	const hard = 40 // sums of a parameter next to boundaries
	source, gaussian := noise.NewSeeded(13), noise.RoundedGaussian{Sigma: 0x1.6p59}
	sizes := []int{hard, 700, 5000}
	average := plan.Average{Decay: 0.9}
	groups := []plan.RateFactors{{RateMultiplier: 2, DecayMultiplier: 0}, {RateMultiplier: 1, DecayMultiplier: 1}, {RateMultiplier: 2, DecayMultiplier: 0}}
	for _, o := range []plan.Optimizer{
		{Kind: plan.SGD, WeightDecay: 0.1}, {Kind: plan.Momentum, Momentum: 0.9}, {Kind: plan.Nesterov, Momentum: 0.8},
		{Kind: plan.Adam, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-3}, {Kind: plan.RMSProp, Beta2: 0.9, Epsilon: 1e-3},
	} {
		t.Run(string(o.Kind), func(t *testing.T) {
			program := bare(sizes)
			program.Exact = true
			x, err := New(program, o, true, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			m := x.(*Executable)
			r := rand.New(rand.NewPCG(1, 8))
			weights, averages, slots := make([][]float32, len(sizes)), make([][]float32, len(sizes)), make([][][]float32, len(sizes))
			for v, n := range sizes {
				for i := range n {
					m.State().Weights[v][i] = r.Float32()
				}
				weights[v], averages[v] = slices.Clone(m.State().Weights[v]), make([]float32, n)
				for range o.Slots() {
					slots[v] = append(slots[v], make([]float32, n))
				}
			}
			if err := m.LoadState(); err != nil {
				t.Fatal(err)
			}
			for lot := range uint64(2) {
				now := &plan.Release{Source: source, Lot: lot, Scale: 1, Optimizer: o, Step: int(lot) + 1, Rate: 0.01, ParamGroups: groups, Average: average}
				for range sizes {
					now.Sigma, now.Unit = append(now.Sigma, gaussian.Sigma), append(now.Unit, 0x1p-59)
				}
				var sums [][]int64
				for v, n := range sizes {
					low, _ := boundaries(t, gaussian, source, now.Stream(v), hard)
					sums = append(sums, low)
					for range n - hard {
						sums[v] = append(sums[v], r.Int64N(1<<60)-1<<59)
					}
					if err := m.memory.upload(m.state.parameters[v].sum, bytesOf(sums[v])); err != nil {
						t.Fatal(err)
					}
				}
				if err := cmp.Or(m.Release(now), m.SyncState()); err != nil {
					t.Fatal(err)
				}
				for v, n := range sizes {
					gradient := make([]float32, n)
					own, rate := now.OptimizerOf(v)
					if err := cmp.Or(now.ReleaseInts(gradient, sums[v], v, 0), own.Apply(now.Step, rate, weights[v], gradient, slots[v]), average.Apply(now.Step, averages[v], weights[v])); err != nil {
						t.Fatal(err)
					}
					state := m.State()
					near(t, fmt.Sprint("weights ", v), state.Weights[v], weights[v])
					near(t, fmt.Sprint("averages ", v), state.Average[v], averages[v])
					for k := range slots[v] {
						near(t, fmt.Sprint("numbers ", v), state.Slots[v][k], slots[v][k])
					}
				}
				if len(m.release.launches) != 2 {
					t.Fatalf("%d launches, want 2", len(m.release.launches))
				}
				for l := range 2 {
					if undecided, remaining := m.release.rounding.count(l); undecided < hard/2 || remaining < hard/4 {
						t.Errorf("launch %d: %d weights took the float64 stage, %d the host's", l, undecided, remaining)
					}
				}
			}
		})
	}
}

// near compares up to a few roundings.
func near(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i, w := range want {
		if d := math.Abs(float64(got[i]) - float64(w)); !(d <= 1e-6*(1+math.Abs(float64(w)))) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], w)
		}
	}
}
