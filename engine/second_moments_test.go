package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/projection"
	"github.com/dptrain/dptrain/engine/internal/release"
)

// referenceMoments computes load.SecondMoments by its definition, as a whole matrix.
func referenceMoments(t *testing.T, s data.Set, r Records, unit bool) []float64 {
	t.Helper()
	d, err := load.NewIndex(s, r.Examples, r.Users)
	if err != nil {
		t.Fatal(err)
	}
	width := s.Columns()[0].Size()
	sum := make([]float64, width*width)
	rows, weights := make([]int, d.PerRecord), make([]float32, d.PerRecord)
	for record := range d.Records {
		d.WriteRows(record, rows, weights)
		one, squared := make([]float64, width*width), 0.0
		for k, row := range rows {
			if weights[k] == 0 {
				continue
			}
			x, label := make([]float32, width), make([]float32, 1)
			if err := s.Read([][]float32{x, label}, []int{row}); err != nil {
				t.Fatal(err)
			}
			for i := range width {
				for j := range width {
					one[i*width+j] += float64(x[i]) * float64(x[j])
				}
			}
		}
		for _, v := range one {
			squared += v * v
		}
		for i, v := range one {
			if unit && squared > 0 {
				v /= math.Sqrt(squared)
			}
			sum[i] += v
		}
	}
	return sum
}

// frobeniusDistance returns the Frobenius norm of the difference of two symmetric matrices,
// given by their upper triangles.
func frobeniusDistance(a, b []float64, width int) float64 {
	squared := 0.0
	for i := range width {
		for j := i; j < width; j++ {
			d := a[i*width+j] - b[i*width+j]
			if squared += d * d; j > i {
				squared += d * d
			}
		}
	}
	return math.Sqrt(squared)
}

func computeMoments(t *testing.T, s data.Set, r Records, unit bool, threads int) []float64 {
	t.Helper()
	d, err := load.NewIndex(s, r.Examples, r.Users)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := (&projection.Moments{Train: s, Index: d, Threads: threads}).Sum(t.Context(), unit)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestSecondMoments_MatchReference(t *testing.T) {
	const count = 700 // several blocks
	s := mlpExamples(count, 5)
	users := make([]int32, count)
	for i := range users {
		users[i] = int32(i * i % 90)
	}
	x, labels := make([]float32, count*features), make([]float32, count)
	rows := make([]int, count)
	for i := range rows {
		rows[i] = i
	}
	if err := s.Read([][]float32{x, labels}, rows); err != nil {
		t.Fatal(err)
	}
	shared := newTable(x, labels, users)
	for _, c := range []struct {
		set     data.Set
		records Records
	}{{s, Records{}}, {s, Records{Examples: 3}}, {shared, Records{Users: true, Examples: 5}}, {shared, Records{Users: true, Examples: 300}}} {
		for _, unit := range []bool{true, false} {
			want := referenceMoments(t, c.set, c.records, unit)
			got := computeMoments(t, c.set, c.records, unit, 1)
			if d := frobeniusDistance(got, want, features); d > 1e-9*float64(count) {
				t.Errorf("%+v, unit %v: off by %v", c.records, unit, d)
			}
			if !slices.Equal(got, computeMoments(t, c.set, c.records, unit, 3)) {
				t.Errorf("%+v: the bits depend on the threads", c.records)
			}
		}
	}
}

// No record changes the sum by more than the sensitivity, for any content.
func TestSecondMoments_Sensitivity(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	records := map[string][]float32{
		"ordinary": {1, -2, 3, 0.5, 0.1},
		"huge":     {math.MaxFloat32, -math.MaxFloat32, math.MaxFloat32, 0, 1},
		"tiny":     {math.SmallestNonzeroFloat32, 0, -math.SmallestNonzeroFloat32, 0, 0},
		"both":     {math.MaxFloat32, math.SmallestNonzeroFloat32, 0, 1e-20, 1e20},
		"zeros":    {0, 0, 0, 0, 0},
		"inf":      {inf, 0, 1, 2, 3},
		"nan":      {0, nan, 1, 2, 3},
		"minus":    {-inf, inf, 1, 2, 3},
		"alike":    slices.Repeat([]float32{3, 1, 4, 1, 5}, 40),
		"axes":     {1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1},
		"one bad":  append(slices.Repeat([]float32{3, 1, 4, 1, 5}, 40), nan, 0, 0, 0, 0),
		"one huge": append(slices.Repeat([]float32{3, 1, 4, 1, 5}, 40), math.MaxFloat32, 0, 0, 0, 0),
	}
	others := make([]float32, 10*features)
	random := rand.New(rand.NewPCG(3, 3))
	for i := range others {
		others[i] = float32(random.NormFloat64())
	}
	with := func(x []float32) []float64 {
		n := len(x) / features
		users := make([]int32, 10+n)
		for i := range users {
			users[i] = int32(min(i, 10))
		}
		s := uncheckedUsers{uncheckedSet{mlpExamples(1, 1).Columns(), [][]float32{slices.Concat(others, x), make([]float32, 10+n)}}, users}
		return computeMoments(t, s, Records{Users: true, Examples: 60}, true, 2)
	}
	nothing := with(nil)
	for name, x := range records {
		sum := with(x)
		moved := frobeniusDistance(sum, nothing, features)
		adds := name != "zeros" && name != "inf" && name != "nan" && name != "minus" && name != "one bad"
		if !(moved <= 1) || adds != (moved > 0.999999) || !adds && moved != 0 {
			t.Errorf("%s: adding it changes the sum by %v", name, moved)
		}
		for other, y := range records {
			if moved := frobeniusDistance(sum, with(y), features); !(moved <= math.Sqrt2) {
				t.Errorf("%s in place of %s changes the sum by %v", name, other, moved)
			}
		}
	}
}

// uncheckedUsers is an unchecked set with owners.
type uncheckedUsers struct {
	uncheckedSet
	users []int32
}

func (o uncheckedUsers) Users() []int32 { return o.users }

// The directions are the eigenvectors from which a matrix was made, the largest eigenvalue
// first.
func TestPrincipalEigenvectors_Recovered(t *testing.T) {
	const width, count = 40, 7
	random := rand.New(rand.NewPCG(8, 8))
	basis := make([][]float64, width) // orthonormal, by Gram and Schmidt, twice
	for i := range basis {
		basis[i] = make([]float64, width)
		for k := range basis[i] {
			basis[i][k] = random.NormFloat64()
		}
		for range 2 {
			for j := range i {
				dot := 0.0
				for k, v := range basis[j] {
					dot += v * basis[i][k]
				}
				for k, v := range basis[j] {
					basis[i][k] -= dot * v
				}
			}
		}
		norm := 0.0
		for _, v := range basis[i] {
			norm += v * v
		}
		for k := range basis[i] {
			basis[i][k] /= math.Sqrt(norm)
		}
	}
	upper := make([]float64, width*width)
	for i, v := range basis {
		value := 10 - float64(i) // some are negative, as noise makes them
		for a := range width {
			for b := a; b < width; b++ {
				upper[a*width+b] += value * v[a] * v[b]
			}
		}
	}
	got, err := projection.SearchDirections(t.Context(), upper, width, count)
	if err != nil || len(got) != count*width {
		t.Fatal(len(got), err)
	}
	for k := range count {
		v, most := got[k*width:(k+1)*width], 0
		for i := range v {
			if math.Abs(basis[k][i]) > math.Abs(basis[k][most]) {
				most = i
			}
		}
		sign := math.Copysign(1, basis[k][most])
		for i := range v {
			if !(math.Abs(float64(v[i])-sign*basis[k][i]) <= 1e-6) {
				t.Fatalf("direction %d: %v at %d, want %v", k, v[i], i, sign*basis[k][i])
			}
		}
	}
}

// The noise on a matrix has deviation σ on the diagonal and σ/√2 off it. Six deviations of the
// variances' estimates are a false alarm in 10⁸ runs, and the seed is fixed.
func TestAddSymmetricNoise_Deviation(t *testing.T) {
	const width, sigma = 300, 4.0
	r := newRun(t, projectionConfig(t))
	upper := make([]float64, width*width)
	if err := release.AddSymmetricNoise(upper, width, r.config.Projection.Noise, r.source, r.lot.Sums.Stream(r.lot.Sums.Find(release.ProjectFeatures), r.step)); err != nil {
		t.Fatal(err)
	}
	var diagonal, rest, cross float64
	for i := range width {
		for j := range width {
			v := upper[i*width+j]
			switch {
			case j < i && v != 0:
				t.Fatal("noise below the diagonal")
			case j == i:
				diagonal += v * v
			case j > i:
				rest += v * v
				cross += v * upper[i*width+i]
			}
		}
	}
	n, m := float64(width), float64(width*(width-1)/2)
	if d := diagonal/(n*sigma*sigma) - 1; !(math.Abs(d) <= 6*math.Sqrt(2/n)) {
		t.Errorf("variance on the diagonal off by %v", d)
	}
	if d := rest/(m*sigma*sigma/2) - 1; !(math.Abs(d) <= 6*math.Sqrt(2/m)) {
		t.Errorf("variance off the diagonal differs by %v", d)
	}
	if z := cross / (sigma * sigma / math.Sqrt2 * math.Sqrt(m)); !(math.Abs(z) <= 7) {
		t.Errorf("the diagonal and the rest go together: %v deviations", z)
	}
}
