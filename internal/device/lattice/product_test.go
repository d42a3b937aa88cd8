package lattice

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/simd"
)

var sizes = []int{1, 2, 3, 5, 6, 7, 8, 10, 12, 13, 15, 16, 17, 24, 25, 31, 32, 33, 47, 64, 65, 100, 145, 257, 300}

// randomInts draws n elements in [-limit, limit], some of them the extremes.
func randomInts(rng *rand.Rand, n int, limit int) []int16 {
	x := make([]int16, n+1)[1:] // not aligned
	for i := range x {
		switch rng.IntN(8) {
		case 0:
			x[i] = int16(limit)
		case 1:
			x[i] = int16(-limit)
		default:
			x[i] = int16(rng.IntN(2*limit+1) - limit)
		}
	}
	return x
}

// exactProduct adds the product of all rows to sum, in int64, which no product in these tests
// exceeds, and then modulo 2^32.
func exactProduct(p *Product, sum []int32, a, d []int16) {
	for i := range p.M {
		for j := range p.N {
			var v int64
			for k := range p.K {
				v += int64(a[k*p.M+i]) * int64(d[k*p.N+j])
			}
			sum[i*p.LDC+j] += int32(v)
		}
	}
}

// randomProduct draws a shape with few elements.
func randomProduct(rng *rand.Rand) *Product {
	size := func() int { return sizes[rng.IntN(len(sizes))] }
	p := &Product{M: size(), N: size(), K: size() * (1 + rng.IntN(5))}
	if rng.IntN(8) == 0 {
		p.K = 0
	}
	if rng.IntN(3) > 0 && p.M > p.N {
		p.N = 1 + rng.IntN(20)
	} else if rng.IntN(3) == 0 {
		p.M = 1 + rng.IntN(20)
	}
	p.LDC = p.N + rng.IntN(3)
	return p
}

func (p *Product) area() int { return (p.M-1)*p.LDC + p.N }

// Elements of the extreme size wrap modulo 2^32.
func TestProduct_AgreesWithOracle(t *testing.T) {
	rounds := 250
	if testing.Short() {
		rounds = 80
	}
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(1, 2))
		ws := NewWorkspace()
		for range rounds {
			p := randomProduct(rng)
			limit := []int{1, 30, 2000, MaxRowNorm}[rng.IntN(4)]
			a, d := randomInts(rng, p.K*p.M, limit), randomInts(rng, p.K*p.N, limit)
			sum, check := guarded[int32](t, p.area())
			for i := range sum {
				sum[i] = int32(rng.Uint32())
			}
			want, shared := slices.Clone(sum), slices.Clone(sum)
			exactProduct(p, want, a, d)
			p.run(k, sum, a, d, ws, 0, 1)
			check()
			if !slices.Equal(sum, want) {
				t.Fatalf("%+v with elements up to %d: %s", *p, limit, firstDifference(sum, want))
			}
			shares := 2 + rng.IntN(5)
			for s := range shares {
				p.run(k, shared, a, d, ws, s, shares)
			}
			if !slices.Equal(shared, want) {
				t.Fatalf("%+v in %d shares: %s", *p, shares, firstDifference(shared, want))
			}
		}
	})
}

func firstDifference[T int32 | int64](got, want []T) string {
	for i := range got {
		if got[i] != want[i] {
			return fmt.Sprintf("element %d of %d is %d, want %d", i, len(got), got[i], want[i])
		}
	}
	return "no difference"
}

func TestProduct_PanicsOnInvalidArguments(t *testing.T) {
	for name, p := range map[string]Product{
		"narrow rows": {M: 2, N: 3, K: 4, LDC: 2},
		"short sum":   {M: 2, N: 3, K: 4, LDC: 4},
		"short A":     {M: 2, N: 3, K: 5, LDC: 3},
		"negative":    {M: -1, N: 3, K: 4, LDC: 3},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			p.Run(make([]int32, 6), make([]int16, 8), make([]int16, 12), NewWorkspace(), 0, 1)
		}()
	}
}

func TestGram_AgreesWithOracle(t *testing.T) {
	rounds := 120
	if testing.Short() {
		rounds = 40
	}
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(3, 4))
		ws := NewWorkspace()
		for round := range rounds {
			T, n := sizes[rng.IntN(len(sizes))], rng.IntN(131)
			if round%8 == 0 {
				n = 1000 + rng.IntN(500)
			}
			rows := randomInts(rng, T*n, []int{3, MaxRowNorm}[rng.IntN(2)])
			out, check := guarded[int32](t, T*T)
			k.gram(out, rows, T, n, ws)
			check()
			for u := range T {
				for v := range T {
					var want int64
					for i, x := range rows[u*n:][:n] {
						want += int64(x) * int64(rows[v*n+i])
					}
					if out[u*T+v] != int32(want) {
						t.Fatalf("%d rows of %d: element %d, %d is %d, want %d modulo 2^32", T, n, u, v, out[u*T+v], want)
					}
				}
			}
		}
	})
}

func TestInnerProduct_AgreesWithOracle(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		for T := 1; T < 40; T++ {
			a, d := make([]int32, T*T+1)[1:], make([]int32, T*T+1)[1:]
			want := new(big.Int)
			for i := range a {
				a[i], d[i] = int32(rng.Uint32()), int32(rng.Uint32())
				if T%4 == 3 {
					a[i], d[i] = math.MinInt32, math.MinInt32
				}
				want.Add(want, new(big.Int).Mul(big.NewInt(int64(a[i])), big.NewInt(int64(d[i]))))
			}
			modulus := new(big.Int).Lsh(big.NewInt(1), 64)
			if got := k.innerProduct(&a[0], &d[0], T*T); uint64(got) != new(big.Int).Mod(want, modulus).Uint64() {
				t.Errorf("%d×%d: %d, want %d modulo 2^64", T, T, got, want)
			}
		}
	})
}

// The inner product of two Gram matrices is the squared norm of the sum of outer products.
func TestGram_GivesNormOfContribution(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const T, m, n = 9, 17, 21
	a, d := randomInts(rng, T*m, 100), randomInts(rng, T*n, 100)
	gramA, gramD, ws := make([]int32, T*T), make([]int32, T*T), NewWorkspace()
	Gram(gramA, a, T, m, ws)
	Gram(gramD, d, T, n, ws)
	p := &Product{M: m, N: n, K: T, LDC: n}
	sum := make([]int32, m*n)
	p.Run(sum, a, d, ws, 0, 1)
	var want int64
	for _, v := range sum {
		want += int64(v) * int64(v)
	}
	if got := InnerProduct(gramA, gramD, T); got != want {
		t.Errorf("%d, the built contribution has %d", got, want)
	}
}

func TestFunctions_DoNotAllocate(t *testing.T) {
	ws := NewWorkspace()
	x, a := make([]float32, 100), make([]int16, 6400)
	part, wide, sum := make([]int32, 6400), make([]int64, 6400), NewSum(make([]int32, 6400))
	p := Product{M: 40, N: 30, K: 50, LDC: 30}
	narrow := Product{M: 40, N: 10, K: 50, LDC: 10}
	u := NewUnfolding(simd.Window{C: 4, H: 8, W: 8, KH: 3, KW: 3, StrideH: 1, StrideW: 1, PadH: 1, PadW: 1, DilH: 1, DilW: 1}, 1, true)
	scratch := make([]int16, u.Scratch())
	if n := testing.AllocsPerRun(10, func() {
		u.Rows(a, a[:256], scratch, 0)
		QuantizeInt16(a[:100], x, 1, 1)
		Round(part[:100], x, 1, 1)
		Add(sum.Low(), part)
		sum.Reserve(MaxUnsettled)
		sum.Settle(0, sum.Len())
		sum.Read(wide, 0)
		SumSquares(a)
		p.Run(part, a, a, ws, 0, 2)
		narrow.Run(part, a, a, ws, 0, 1)
		Gram(part, a, 50, 100, ws)
		InnerProduct(part, part, 50)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
