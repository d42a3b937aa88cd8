//go:build gpu

package compile

import (
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
	"gorgonia.org/tensor"
)

// bare is a program of parameters without gradients, with weights 0.
func bare(sizes []int) *plan.Program {
	p := &plan.Program{Batch: 1, Records: 1, PerRecord: 1}
	for v, n := range sizes {
		at := len(p.Buffers)
		p.Buffers = append(p.Buffers,
			plan.Buffer{Name: "weights", Shape: tensor.Shape{n}, Role: plan.RoleParameter, Index: v, Base: at, Value: make([]float32, n)},
			plan.Buffer{Name: "sum", Shape: tensor.Shape{n}, Role: plan.RoleClippedSum, Index: v, Base: at + 1})
		p.Parameters = append(p.Parameters, plan.Parameter{
			Name: "weights", Shape: tensor.Shape{n}, Value: at, SquaredNorms: -1, ClipFactors: -1, ClippedSum: at + 1,
		})
	}
	return p
}

func machineOf(t testing.TB, p *plan.Program, o plan.Optimizer) plan.Executable {
	t.Helper()
	m, err := New(p, o, false, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// Weights of 0, updated by SGD at rate −1 with sums of 0 and noise of deviation 1, are the
// noise. The test compares it with package noise, value by value, to the bit.
func TestRelease_DrawsNormalsOfPackageNoise(t *testing.T) {
	device(t)
	sizes := []int{1, 15, 16, 17, 31, 33, 511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097, 5000, 12345, 40000}
	sgd := plan.Optimizer{Kind: plan.SGD}
	source := noise.NewSeeded(11)
	sigma := make([]float64, len(sizes))
	for v := range sigma {
		sigma[v] = 1
	}
	sigma[3] = 0
	for _, lot := range []uint64{0, 1, 1<<32 - 1, 1 << 32, noise.MaxLots - 1} {
		m := machineOf(t, bare(sizes), sgd)
		for range 2 { // the second time the sums must be 0 again, and the noise is the same
			now := &plan.Release{Source: source, Lot: lot, Sigma: sigma, Scale: 1, Optimizer: sgd, Step: 1, Rate: -1}
			if err := m.Release(now); err != nil {
				t.Fatal(err)
			}
			if err := m.SyncState(); err != nil {
				t.Fatal(err)
			}
			for v, got := range m.State().Weights {
				want := make([]float32, sizes[v])
				if sigma[v] > 0 {
					stream := noise.Stream{Purpose: noise.Release, Lot: lot, Vector: uint32(v)}
					if err := source.Normals(want, stream, 0); err != nil {
						t.Fatal(err)
					}
				}
				for i := range want {
					if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
						t.Fatalf("lot %d, vector %d of %d: element %d is %v, want %v", lot, v, sizes[v], i, got[i], want[i])
					}
				}
				clear(got)
			}
			if err := m.LoadState(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestRelease_ChangedStandardDeviations(t *testing.T) {
	device(t)
	sgd := plan.Optimizer{Kind: plan.SGD}
	m := machineOf(t, bare([]int{100, 600}), sgd)
	source := noise.NewSeeded(3)
	want := [][]float32{make([]float32, 100), make([]float32, 600)}
	for lot, sigma := range [][]float64{{1, 2}, {1, 2}, {0.5, 0}, {0, 0}, {0, 3}} {
		now := &plan.Release{Source: source, Lot: uint64(lot), Sigma: sigma, Scale: 1, Optimizer: sgd, Step: lot + 1, Rate: -1}
		if err := m.Release(now); err != nil {
			t.Fatal(err)
		}
		for v, w := range want {
			normals := make([]float32, len(w))
			if err := source.Normals(normals, noise.Stream{Purpose: noise.Release, Lot: uint64(lot), Vector: uint32(v)}, 0); err != nil {
				t.Fatal(err)
			}
			for i, x := range normals {
				w[i] += float32(sigma[v]) * x
			}
		}
	}
	if err := m.SyncState(); err != nil {
		t.Fatal(err)
	}
	for v, w := range want {
		for i := range w {
			if got := m.State().Weights[v][i]; !(math.Abs(float64(got-w[i])) <= 1e-6*(1+math.Abs(float64(w[i])))) {
				t.Fatalf("vector %d: element %d is %v, want %v", v, i, got, w[i])
			}
		}
	}
}

func TestRelease_RefusesInvalidArguments(t *testing.T) {
	device(t)
	sgd := plan.Optimizer{Kind: plan.SGD}
	m := machineOf(t, bare([]int{5}), sgd)
	good := plan.Release{Source: noise.NewSeeded(1), Sigma: []float64{1}, Scale: 1, Optimizer: sgd, Step: 1, Rate: 1}
	for want, spoil := range map[string]func(r *plan.Release){
		"2^48":                            func(r *plan.Release) { r.Lot = noise.MaxLots },
		"numbered from 1":                 func(r *plan.Release) { r.Step = 0 },
		"needs 2 state values":            func(r *plan.Release) { r.Optimizer = plan.Optimizer{Kind: plan.Adam} },
		"without an average":              func(r *plan.Release) { r.Average = plan.Average{Decay: 0.9} },
		"needs a noise source":            func(r *plan.Release) { r.Source = nil },
		"standard deviations":             func(r *plan.Release) { r.Sigma = nil },
		"deviation of parameter 0 is NaN": func(r *plan.Release) { r.Sigma = []float64{math.NaN()} },
		"deviation of parameter 0 is -1":  func(r *plan.Release) { r.Sigma = []float64{-1} },
	} {
		r := good
		spoil(&r)
		if err := m.Release(&r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
	if err := m.SyncState(); err != nil {
		t.Fatal(err)
	}
	for _, w := range m.State().Weights[0] {
		if w != 0 {
			t.Fatal("a refused release moved the weights")
		}
	}
}
