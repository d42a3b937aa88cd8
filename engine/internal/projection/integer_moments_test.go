package projection

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
)

// exactMatrix returns the sum of the outer products of rows of integers and its squared Frobenius
// norm, by math/big.
func exactMatrix(rows []float64, width int) (matrix []*big.Int, squared *big.Int) {
	matrix, squared = make([]*big.Int, width*width), new(big.Int)
	for i := range width {
		for j := range width {
			sum := new(big.Int)
			for t := 0; t < len(rows); t += width {
				sum.Add(sum, new(big.Int).Mul(big.NewInt(int64(rows[t+i])), big.NewInt(int64(rows[t+j]))))
			}
			matrix[i*width+j] = sum
			squared.Add(squared, new(big.Int).Mul(sum, sum))
		}
	}
	return matrix, squared
}

// A record's rows are integers whose matrix has a Frobenius norm of at most the lattice, by
// math/big, for one or several examples, cancelling ones included. Records of a sum are added
// exactly, for any number of threads.
func TestIntegerSecondMoments_MatchBigOracle(t *testing.T) {
	const width, perRecord, records = 5, 3, 700 // several blocks
	random := rand.New(rand.NewPCG(1, 2))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, v := range [][]float32{{nan, 1, 1, 1, 1}, {inf, 1, 1, 1, 1}, {-inf, inf, 0, 0, 0, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 0, 0, nan, 0, 0}} {
		if rows := appendIntegerRecord(nil, v, width, 1<<36); len(rows) != 0 {
			t.Errorf("%v adds %v", v, rows)
		}
	}
	hostile := [][]float32{
		{math.MaxFloat32, math.MaxFloat32, -math.MaxFloat32, 1, 0},
		{1e-45, 0, 0, 0, 0}, {1e-45, -1e-44, 1e-38, 0, 0}, {1e38, 1e-38, 1, -1, 0}, {0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}, {3, 4, 0, 0, 0},
	}
	x := make([]float32, 0, width*perRecord*records)
	for record := range records {
		scale := float32(math.Ldexp(1, random.IntN(60)-30))
		for k := range perRecord {
			row := make([]float32, width)
			for i := range row {
				row[i] = scale * float32(random.NormFloat64())
			}
			switch {
			case record < len(hostile):
				row = slices.Clone(hostile[record])
			case record%3 == 1 && k > 0: // cancelling examples: a·(1, ε, …) and a·(1, −ε, …)
				row = slices.Clone(x[len(x)-width:])
				for i := 1; i < width; i++ {
					row[i] = -row[i] / 7
				}
			}
			x = append(x, row...)
		}
	}
	s := newPairs(x, make([]float32, perRecord*records), nil)
	index, err := load.NewIndex(s, perRecord, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, lattice := range []int64{1 << 36, 1 << 30, 1 << 10, 1} {
		bound := new(big.Int).Mul(big.NewInt(lattice), big.NewInt(lattice))
		want := make([]*big.Int, width*width)
		for i := range want {
			want[i] = new(big.Int)
		}
		nothing := 0
		for record := range records {
			rows := appendIntegerRecord(nil, x[record*perRecord*width:(record+1)*perRecord*width], width, lattice)
			if len(rows) == 0 {
				nothing++
				continue
			}
			matrix, squared := exactMatrix(rows, width)
			if squared.Cmp(bound) > 0 {
				t.Fatalf("lattice %d: the matrix of record %d is longer than the lattice", lattice, record)
			}
			norm, _ := new(big.Float).Sqrt(new(big.Float).SetInt(squared)).Float64()
			if lattice == 1<<36 && norm < 0.98*(1<<36) {
				t.Errorf("record %d has a norm of %v of the lattice", record, norm/(1<<36))
			}
			for i, v := range matrix {
				want[i].Add(want[i], v)
			}
		}
		if lattice >= 1<<30 && nothing != 1 { // zeros
			t.Errorf("lattice %d: %d records add nothing", lattice, nothing)
		}
		for _, threads := range []int{1, 3} {
			sum, err := (&Moments{Train: s, Index: index, Threads: threads}).Integers(t.Context(), lattice)
			if err != nil {
				t.Fatal(err)
			}
			for i := range width {
				for j := i; j < width; j++ {
					if v := want[i*width+j]; v.Cmp(big.NewInt(sum[i*width+j])) != 0 {
						t.Fatalf("lattice %d, %d threads: entry %d,%d is %d, want %s", lattice, threads, i, j, sum[i*width+j], v)
					}
				}
			}
		}
	}
}

// isMatrixWithin agrees with math/big, also where the products of rows exceed 64 bits when squared.
func TestIsMatrixWithin_MatchesBig(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	counts := map[bool]int{}
	for range 5000 {
		width, n := 1+random.IntN(4), 1+random.IntN(3)
		lattice := int64(1) << (2 * random.IntN(19))
		root := int64(math.Sqrt(float64(lattice)))
		rows, floats := make([]int64, n*width), make([]float64, n*width)
		for i := range rows {
			if rows[i] = random.Int64N(2*root+1) - root; random.IntN(2) == 0 {
				rows[i] /= int64(1 + random.IntN(3))
			}
			if random.IntN(200) == 0 {
				rows[i] = []int64{math.MaxInt64, math.MinInt64, 1 << 32, root + 1, -root}[random.IntN(5)]
			}
			floats[i] = float64(rows[i])
		}
		_, squared := exactMatrix(floats, width)
		want := squared.Cmp(new(big.Int).Mul(big.NewInt(lattice), big.NewInt(lattice))) <= 0
		counts[want]++
		if got := isMatrixWithin(rows, width, lattice); got != want {
			t.Fatalf("%v of width %d within %d: %v, want %v", rows, width, lattice, got, want)
		}
	}
	if counts[true] < 500 || counts[false] < 500 {
		t.Errorf("%d within and %d beyond", counts[true], counts[false])
	}
}

// Records whose matrix grows by rounding are rounded again, with a smaller factor.
func TestIntegerSecondMoments_RoundAgainBeyondLattice(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	again := 0
	for i := range 60_000 {
		width, lattice := 2+i%2, int64(1)<<[]int{8, 10, 16}[i%3]
		x := make([]float32, 3*width)
		for i := range x {
			x[i] = float32(random.IntN(9) - 4)
		}
		first := appendRecord(nil, x, width, true)
		if len(first) == 0 {
			continue
		}
		for i := range first {
			first[i] = math.Trunc(first[i] * math.Sqrt(float64(lattice)))
		}
		bound := new(big.Int).Mul(big.NewInt(lattice), big.NewInt(lattice))
		_, squared := exactMatrix(first, width)
		rows := appendIntegerRecord(nil, x, width, lattice)
		if squared.Cmp(bound) <= 0 {
			if !slices.Equal(rows, first) {
				t.Fatalf("%v adds %v, want %v", x, rows, first)
			}
			continue
		}
		again++
		if _, squared := exactMatrix(rows, width); len(rows) == 0 || squared.Cmp(bound) > 0 {
			t.Fatalf("%v adds %v", x, rows)
		}
	}
	if again < 3 {
		t.Errorf("%d matrices grew by rounding", again)
	}
}

// A sum beyond 2^53 is exact: 200,000 records add an odd number each.
func TestIntegerSecondMoments_ExactBeyondFloat64(t *testing.T) {
	const records = 200_001
	x := make([]float32, records)
	for i := range x {
		x[i] = float32(1 + i%3)
	}
	s := newPairs(x, make([]float32, records), nil)
	index, err := load.NewIndex(s, 0, false)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := (&Moments{Train: s, Index: index, Threads: 1}).Integers(t.Context(), 1<<36)
	if want := int64(records) * (1<<18 - 1) * (1<<18 - 1); err != nil || sum[0] != want || want < 1<<53 {
		t.Errorf("%d, want %d, %v", sum[0], want, err)
	}
}

// newPairs returns a table of vectors with labels.
func newPairs(x, labels []float32, users []int32) *data.Table {
	t, err := data.NewTable([]data.Column{
		{Name: "x", Shape: []int{len(x) / len(labels)}},
		{Name: "label", Kind: data.Label, Classes: 2},
	}, [][]float32{x, labels}, users)
	if err != nil {
		panic(err)
	}
	return t
}
