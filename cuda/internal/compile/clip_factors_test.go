//go:build gpu

package compile

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models"
)

// factored returns what the device computes from records' squared norms, which may be
// followed by others: the factors of each parameter, and the counts.
func factored(t *testing.T, n network, f clipping.Formula, bounds []float64, squared [][]float32, records int) (factors [][]float32, counts plan.LotCounts) {
	t.Helper()
	program, _ := n.compiled(t)
	made, err := New(program, plan.Optimizer{Kind: plan.SGD}, false, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	m := made.(*Executable)
	try := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	try(m.Configure(f, n.batch, nil))
	for v, x := range squared {
		copy(m.host.squared[v].values, x)
		try(m.host.squared[v].copyIn(m.device))
	}
	for _, x := range m.host.factors {
		for r := range x.values {
			x.values[r] = 7
		}
		try(x.copyIn(m.device))
	}
	s := &m.pipeline.slots[0]
	try(m.pipeline.writeHeader(s, records, bounds))
	try(m.memory.upload(m.pipeline.header, s.header))
	steps, err := m.pipeline.clipFactorSteps(f)
	try(err)
	try(steps[0].queue())
	counts.Within = make([]int, len(f.Groups))
	try(m.FinishLot(&counts))
	for _, x := range m.host.factors {
		try(x.copyOut(m.device))
		try(m.device.Synchronize())
		factors = append(factors, slices.Clone(x.values))
	}
	return factors, counts
}

// Factors computed on the device have the bits of package clip's, and the counts are
// right, for all squared norms: usual ones, non-finite ones, ones at the ends of float32
// and on a bound. Positions after the records get 0, for every previous value.
func TestClipFactors_MatchClipper(t *testing.T) {
	device(t)
	n := network{model: "mlp:3", example: models.DataSpec{Shape: []int{5}, Classes: 2}, batch: 300}
	const records = 290
	program, _ := n.compiled(t)
	random := rand.New(rand.NewPCG(3, 4))
	var names []string
	var squared [][]float32
	for v, vector := range program.Parameters {
		names = append(names, vector.Name)
		x := make([]float32, n.batch)
		for r := range x {
			x[r] = float32(math.Exp(4 * random.NormFloat64()))
		}
		clear(x[:10])
		x[9] = math.MaxFloat32
		copy(x[10*(v+1):], []float32{0, 4, math.MaxFloat32, math.SmallestNonzeroFloat32, float32(math.Inf(1)), float32(math.NaN()), -1e-3, float32(math.Inf(-1))})
		squared = append(squared, x)
	}
	squared[0][8] = 4
	for _, c := range []struct {
		title    string
		groups   []clip.Group
		accuracy clipping.Accuracy
	}{
		{"flat", clip.Flat(clip.Constant(2), nil), clipping.Accuracy{Relative: 0.01, Absolute: 1e-3}},
		{"flat, norms that are exact", clip.Flat(clip.Constant(2), nil), clipping.Accuracy{}},
		{"each vector", clip.PerParameter(names, clip.Constant(2), nil), clipping.Float32Accuracy},
		{"scaled", []clip.Group{{Name: "all", Parameters: names, Scales: []float64{3, 0.5, 2, 1}, Bound: clip.Constant(0.2)}}, clipping.Float32Accuracy},
		{"normalized", clip.Flat(clip.Constant(2), clip.Normalized{Gamma: 1e-3}), clipping.Float32Accuracy},
		{"factors below floats", []clip.Group{{Name: "all", Parameters: names, Scales: []float64{1e-3, 1, 1, 1}, Bound: clip.Constant(1e-18)}}, clipping.Accuracy{}},
		{"factors above floats", clip.Flat(clip.Constant(1e18), clip.Normalized{Gamma: 1e-30}), clipping.Accuracy{}},
	} {
		t.Run(c.title, func(t *testing.T) {
			clipper, err := clipping.NewClipper(names, c.groups, c.accuracy)
			if err != nil {
				t.Fatal(err)
			}
			if err := clipper.BeginLot(0); err != nil {
				t.Fatal(err)
			}
			f, ok := clipper.Formula()
			if !ok {
				t.Fatal("there is no formula")
			}
			want := make([][]float32, len(f.Groups))
			for g := range want {
				want[g] = make([]float32, n.batch)
			}
			if err := clipper.ComputeFactors(want, squared, records); err != nil {
				t.Fatal(err)
			}
			bounds := clipper.Sensitivities()
			counts := plan.LotCounts{NonFinite: clipper.ExcludedRecords(), Within: make([]int, len(f.Groups))}
			for r := range records {
				good, whole := true, true
				for _, x := range squared {
					good = good && x[r] >= 0 && x[r] <= math.MaxFloat32
				}
				for g, group := range f.Groups {
					sum := 0.0
					for i, v := range group.Parameters {
						sum += float64(group.Weights[i] * float64(squared[v][r])) // not fused
					}
					if good && math.Sqrt((sum+group.Absolute)*f.Inverse) <= bounds[g] {
						counts.Within[g]++
					}
					whole = whole && want[g][r] >= 1
				}
				if whole {
					counts.Unclipped++
				}
			}

			got, counted := factored(t, n, f, bounds, squared, records)
			if counted.NonFinite != counts.NonFinite || counted.Unclipped != counts.Unclipped || !slices.Equal(counted.Within, counts.Within) {
				t.Errorf("counted %d refused, %d whole, %d within; want %d, %d, %d", counted.NonFinite, counted.Unclipped, counted.Within, counts.NonFinite, counts.Unclipped, counts.Within)
			}
			for g, group := range f.Groups {
				for _, v := range group.Parameters {
					for r, x := range got[v] {
						if x != want[g][r] {
							t.Fatalf("vector %d, record %d: factor %v, want %v", v, r, x, want[g][r])
						}
					}
				}
			}
		})
	}
}

// Without clipping, records have factor 1 and padding has factor 0.
func TestClipFactors_WithoutGroups(t *testing.T) {
	device(t)
	n := network{model: "mlp:3", example: models.DataSpec{Shape: []int{5}, Classes: 2}, batch: 5}
	factors, counts := factored(t, n, clipping.Formula{}, nil, nil, 3)
	if counts.Unclipped != 3 {
		t.Errorf("%d records are whole, want 3", counts.Unclipped)
	}
	for v, x := range factors {
		if want := []float32{1, 1, 1, 0, 0}; !slices.Equal(x, want) {
			t.Errorf("vector %d: factors %v, want %v", v, x, want)
		}
	}
}
