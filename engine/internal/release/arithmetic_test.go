package release

import (
	"math"
	"strings"
	"testing"
)

// The lattice keeps sums and noise within 64 bits for every number of records, and noise that is
// too small or too large for that is refused in one line.
func TestArithmetic_KeepsSumsWithin64Bits(t *testing.T) {
	for _, test := range []struct {
		lattice    int64
		noise      float64
		records    int
		population int
		want       int64 // 0: refused
	}{
		{StatisticLattice, 1, 60_000, 0, 1 << 30},
		{StatisticLattice, 1, math.MaxInt32, 0, 1 << 30},
		{StatisticLattice, 1e9, 100, 0, 1 << 26},
		{StatisticLattice, 1e17, 100, 0, 1},
		{StatisticLattice, 1e19, 100, 0, 0},
		{StatisticLattice, 1e-9, 100, 0, 1 << 30},
		{StatisticLattice, 1e-9, 1 << 27, 0, 0},
		{StatisticLattice, 1e-20, 1, 0, 0},
		{ProjectionLattice, 4, 60_000, 0, 1 << 36},
		{ProjectionLattice, 4, 1 << 26, 0, 1 << 35},
		{ProjectionLattice, 4, 100, 5, 1 << 30},
		{CountLattice, 10, math.MaxInt32, 0, 1},
	} {
		a := Arithmetic{Exact: true, PrivateCount: test.population > 0}
		q := a.Query("s", 1, test.noise, test.lattice, test.records)
		err := a.Check(q, test.records)
		if (err == nil) != (test.want > 0) || err == nil && q.Lattice != test.want {
			t.Errorf("%+v: lattice %d, %v", test, q.Lattice, err)
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "float")) {
			t.Errorf("%+v: the error %q is not one line with a way out", test, err)
		}
		if err == nil {
			// The largest sums with noise of 9 deviations stay within the limits of the sampler.
			most := max(a.contributors(test.records)*float64(q.Lattice), math.Ldexp(a.contributors(test.records)*float64(q.Lattice), -q.Grid))
			if most > 0x1p61 || q.LatticeNoise() > 0x1p57 {
				t.Errorf("%+v: sums up to %v with noise of %v", test, most, q.LatticeNoise())
			}
		}
	}
}
