package engine

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/internal/projection"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/noise"
)

// Integer moments approximate the real ones far below any noise.
func TestIntegerSecondMoments_ApproximateMoments(t *testing.T) {
	s := mlpExamples(700, 5)
	for _, r := range []Records{{}, {Examples: 4}} {
		want := computeMoments(t, s, r, true, 1)
		index, err := load.NewIndex(s, r.Examples, r.Users)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := (&projection.Moments{Train: s, Index: index, Threads: 1}).Integers(t.Context(), release.ProjectionLattice)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float64, len(sum))
		for i, v := range sum {
			got[i] = math.Ldexp(float64(v), -36)
		}
		// A row is off by at most √5 of the 2^18 steps of its length, and counts twice. Few records
		// of several examples are rounded again, with a factor of 0.99.
		if d := frobeniusDistance(got, want, features); !(d <= 700*2*math.Sqrt(features)/(1<<18)) && len(sum) > 0 {
			t.Errorf("%+v: a distance of %v of 700 records", r, d)
		}
	}
}

// The noise on a matrix of integers has deviation σ on the diagonal and σ/√2 off it, and is at
// least that of the query. Six deviations of the variances' estimates are a false alarm in 10⁸
// runs, and the seed is fixed.
func TestReleaseSymmetric_Deviation(t *testing.T) {
	const width, sigma = 300, 4.0
	q := ledger.RoundedQuery(secondMomentsGroup, 1, sigma, release.ProjectionLattice)
	source, stream := noise.NewSeeded(3), noise.Stream{Purpose: noise.Release, Vector: 7}
	noised, err := release.ReleaseSymmetric(make([]int64, width*width), width, q, source, stream)
	if err != nil {
		t.Fatal(err)
	}
	var diagonal, rest, cross float64
	seen := map[float64]bool{}
	for i := range width {
		for j := range width {
			v := noised[i*width+j]
			switch {
			case j < i && v != 0:
				t.Fatal("noise below the diagonal")
			case j == i:
				diagonal += v * v
				seen[v] = true
			case j > i:
				rest += v * v
				cross += v * noised[i*width+i]
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
	if len(seen) < width*2/3 { // each value has a probability of at most 0.2%
		t.Errorf("%d different values on the diagonal of %d", len(seen), width)
	}
	// 2·(σ_rest)² ≥ σ²: by math/big, for many σ.
	random := rand.New(rand.NewPCG(5, 6))
	square := func(x float64) *big.Float {
		f := new(big.Float).SetPrec(200).SetFloat64(x)
		return f.Mul(f, f)
	}
	for range 1000 {
		s := math.Ldexp(1+random.Float64(), random.IntN(60)-10)
		if two := square(release.OffDiagonal(s)); two.Mul(two, big.NewFloat(2)).Cmp(square(s)) < 0 {
			t.Fatalf("noise of %v off the diagonal for %v on it", release.OffDiagonal(s), s)
		}
	}
}
