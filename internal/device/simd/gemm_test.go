package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// guarded returns a slice of n zeros at an odd offset with guard values around it, and a
// function that checks that the guard values are unchanged.
func guarded(t testing.TB, n int) ([]float32, func()) {
	const guard = 67
	mark := math.Float32frombits(0x7fc12345)
	mem := make([]float32, n+2*guard+1)
	for i := range mem {
		mem[i] = mark
	}
	part := mem[guard+1 : guard+1+n : guard+1+n]
	clear(part)
	return part, func() {
		t.Helper()
		for i, v := range mem {
			if (i <= guard || i > guard+n) && math.Float32bits(v) != 0x7fc12345 {
				t.Fatalf("wrote outside a slice of %[2]d floats, at index %[1]d", i-guard-1, n)
			}
		}
	}
}

func random(rng *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(rng.NormFloat64())
	}
	return s
}

// reference64 computes the product in float64, and for each element the sum of the absolute
// values of its terms, which scales the permitted error.
func reference64(g *Gemm, c, a, b []float32) (want, scale []float64) {
	want, scale = make([]float64, g.M*g.N), make([]float64, g.M*g.N)
	for i := range g.M {
		for j := range g.N {
			var sum, size float64
			for k := range g.K {
				ia, ib := i*g.LDA+k, k*g.LDB+j
				if g.TransA {
					ia = k*g.LDA + i
				}
				if g.TransB {
					ib = j*g.LDB + k
				}
				term := float64(a[ia]) * float64(b[ib])
				if g.Factors != nil {
					if g.Factors[k] == 0 {
						continue
					}
					term *= float64(g.Factors[k])
				}
				sum += term
				size += math.Abs(term)
			}
			if g.Accumulate {
				sum += float64(c[i*g.LDC+j])
				size += math.Abs(float64(c[i*g.LDC+j]))
			}
			if g.ColBias != nil {
				sum += float64(g.ColBias[j])
				size += math.Abs(float64(g.ColBias[j]))
			}
			if g.RowBias != nil {
				sum += float64(g.RowBias[i])
				size += math.Abs(float64(g.RowBias[i]))
			}
			if g.ReLU {
				sum = max(sum, 0)
			}
			want[i*g.N+j], scale[i*g.N+j] = sum, size
		}
	}
	return want, scale
}

// forEachImplementation runs f for every implementation that the processor supports.
func forEachImplementation(t *testing.T, f func(t *testing.T, k *kernels)) {
	for _, k := range supported {
		t.Run(k.name, func(t *testing.T) { f(t, k) })
	}
}

var sizes = []int{0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 24, 25, 31, 32, 33, 40, 63, 64, 65, 100, 145, 257, 300, 513, 530}

// randomGemm draws a product. The stored rows of its operands may be longer than needed.
func randomGemm(rng *rand.Rand) *Gemm {
	size := func() int { return sizes[int(float64(len(sizes))*rng.Float64()*rng.Float64()*1.0)] }
	g := &Gemm{
		TransA: rng.IntN(2) == 0, TransB: rng.IntN(2) == 0,
		M: size(), N: size(), K: sizes[rng.IntN(len(sizes))],
		Accumulate: rng.IntN(3) == 0, ReLU: rng.IntN(3) == 0,
	}
	g.LDA, g.LDB, g.LDC = g.K, g.N, g.N+rng.IntN(3)
	if g.TransA {
		g.LDA = g.M
	}
	if g.TransB {
		g.LDB = g.K
	}
	g.LDA += rng.IntN(3)
	g.LDB += rng.IntN(3)
	switch rng.IntN(4) {
	case 0:
		g.ColBias = random(rng, g.N)
	case 1:
		g.RowBias = random(rng, g.M)
	}
	return g
}

// area returns the floats of a matrix whose stored rows are ld floats apart.
func area(rows, cols, ld int) int {
	if rows == 0 || cols == 0 {
		return 0
	}
	return (rows-1)*ld + cols
}

func (g *Gemm) areas() (c, a, b int) {
	a, b = area(g.M, g.K, g.LDA), area(g.K, g.N, g.LDB)
	if g.TransA {
		a = area(g.K, g.M, g.LDA)
	}
	if g.TransB {
		b = area(g.N, g.K, g.LDB)
	}
	return area(g.M, g.N, g.LDC), a, b
}

func (g *Gemm) String() string {
	return fmt.Sprintf("A%s %d×%d ld %d, B%s %d×%d ld %d, C ld %d, acc %v relu %v bias %v %v factors %v",
		map[bool]string{true: "ᵀ"}[g.TransA], g.M, g.K, g.LDA, map[bool]string{true: "ᵀ"}[g.TransB], g.K, g.N, g.LDB,
		g.LDC, g.Accumulate, g.ReLU, g.ColBias != nil, g.RowBias != nil, g.Factors != nil)
}

// fill copies s to guarded memory.
func fill(t testing.TB, s []float32) ([]float32, func()) {
	d, check := guarded(t, len(s))
	copy(d, s)
	return d, check
}

func TestGemm_AgreesWithFloat64(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 60
	}
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(1, 2))
		ws := NewWorkspace()
		for range rounds {
			g := randomGemm(rng)
			nc, na, nb := g.areas()
			a0, b0, c0 := random(rng, na), random(rng, nb), random(rng, nc)
			if g.TransA && !g.TransB && rng.IntN(2) == 0 {
				g.Factors = random(rng, g.K)
				for i := range g.Factors {
					if rng.IntN(4) == 0 {
						g.Factors[i] = 0
						invalid := float32(math.Inf(1))
						if rng.IntN(2) == 0 {
							invalid = float32(math.NaN())
						}
						if g.M > 0 {
							a0[i*g.LDA+rng.IntN(g.M)] = invalid
						}
						if g.N > 0 {
							b0[i*g.LDB+rng.IntN(g.N)] = invalid
						}
					}
				}
			}
			want, scale := reference64(g, c0, a0, b0)
			a, checkA := fill(t, a0)
			b, checkB := fill(t, b0)
			c, checkC := fill(t, c0)
			g.run(k, c, a, b, ws, 0, 1)
			checkA()
			checkB()
			checkC()
			for i := range g.M {
				for j := range g.N {
					got := float64(c[i*g.LDC+j])
					bound := 1e-6 * scale[i*g.N+j]
					if !(math.Abs(got-want[i*g.N+j]) <= bound) {
						t.Fatalf("%v: C[%d][%d] = %v, want %v ± %v", g, i, j, got, want[i*g.N+j], bound)
					}
				}
				for j := g.N; g.N > 0 && j < g.LDC && i < g.M-1; j++ {
					if c[i*g.LDC+j] != c0[i*g.LDC+j] {
						t.Fatalf("%v: wrote between the rows of C", g)
					}
				}
			}

			shares := 1 + rng.IntN(5)
			again := slices.Clone(c0)
			for s := range shares {
				g.run(k, again, a, b, ws, s, shares)
			}
			if !sameBits(again, c) {
				t.Fatalf("%v: %d shares give different bits from one share", g, shares)
			}
		}
	})
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// An element has the same bits in a product of any other shape, with permuted rows, and with
// zeros appended along k.
func TestGemm_ElementsAreIndependent(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 5
	}
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(3, 4))
		ws := NewWorkspace()
		for _, depth := range []int{1, 7, 64, 255, 256, 257, 530, 784} {
			const size = 150
			a, b := random(rng, size*depth), random(rng, depth*size)
			full := multiply(k, ws, size, size, depth, a, b, false, false)
			for range rounds {
				m, n := 1+rng.IntN(size), 1+rng.IntN(size)
				rows, cols := rng.Perm(size)[:m], rng.Perm(size)[:n]
				transA, transB := rng.IntN(2) == 0, rng.IntN(2) == 0
				pad := 0
				if rng.IntN(2) == 0 {
					pad = rng.IntN(300)
				}
				sa, sb := make([]float32, m*(depth+pad)), make([]float32, n*(depth+pad))
				for i, r := range rows {
					for p := range depth {
						if transA {
							sa[p*m+i] = a[r*depth+p]
						} else {
							sa[i*(depth+pad)+p] = a[r*depth+p]
						}
					}
				}
				for j, c := range cols {
					for p := range depth {
						if transB {
							sb[j*(depth+pad)+p] = b[p*size+c]
						} else {
							sb[p*n+j] = b[p*size+c]
						}
					}
				}
				got := multiply(k, ws, m, n, depth+pad, sa, sb, transA, transB)
				for i, r := range rows {
					for j, c := range cols {
						x, y := got[i*n+j], full[r*size+c]
						if math.Float32bits(x) != math.Float32bits(y) {
							t.Fatalf("%d×%d×%d (padded by %d, transposed %v %v): row %d column %d is %x, in the product of 150×150 it is %x", m, n, depth, pad, transA, transB, r, c, x, y)
						}
					}
				}
			}
		}
	})
}

func multiply(k *kernels, ws *Workspace, m, n, depth int, a, b []float32, transA, transB bool) []float32 {
	g := Gemm{TransA: transA, TransB: transB, M: m, N: n, K: depth, LDA: depth, LDB: n, LDC: n}
	if transA {
		g.LDA = m
	}
	if transB {
		g.LDB = depth
	}
	c := make([]float32, m*n)
	g.run(k, c, a, b, ws, 0, 1)
	return c
}

// Every implementation has the bits of the documented chain of multiply-adds.
func TestGemm_FollowsDocumentedChain(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, k := range supported {
		const m, n, depth = 5, 37, 600
		a, b := random(rng, m*depth), random(rng, depth*n)
		got := multiply(k, NewWorkspace(), m, n, depth, a, b, false, false)
		for i := range m {
			for j := range n {
				var total float32
				for k0 := 0; k0 < depth; k0 += 256 {
					var sum float32
					for p := k0; p < min(k0+256, depth); p++ {
						x, y := a[i*depth+p], b[p*n+j]
						if k == &pureGo {
							sum += float32(x * y)
						} else {
							sum = fma32(x, y, sum)
						}
					}
					total += sum
				}
				if math.Float32bits(total) != math.Float32bits(got[i*n+j]) {
					t.Fatalf("%s: C[%d][%d] = %x, the chain gives %x", k.name, i, j, got[i*n+j], total)
				}
			}
		}
	}
}

// fma32 returns x·y+z, rounded once. The product is exact in float64. The sum is rounded to
// odd, so that rounding it to float32 gives the correctly rounded result (Boldo and
// Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
func fma32(x, y, z float32) float32 {
	p, q := float64(x)*float64(y), float64(z)
	s := p + q
	bb := s - p
	lost := (p - (s - bb)) + (q - bb)
	if lost != 0 && math.Float64bits(s)&1 == 0 {
		if (lost > 0) == (s > 0) {
			s = math.Float64frombits(math.Float64bits(s) + 1)
		} else {
			s = math.Float64frombits(math.Float64bits(s) - 1)
		}
	}
	return float32(s)
}

// ReLU keeps NaN and clears negative numbers, in whole and partial vectors.
func TestGemm_ReLUKeepsNaN(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		for n := 1; n <= 40; n++ {
			g := Gemm{M: 2, N: n, K: 1, LDA: 1, LDB: n, LDC: n, ReLU: true, RowBias: []float32{-1, -1}}
			b := make([]float32, n)
			for j := range b {
				b[j] = float32(j%3) - 1
			}
			c := make([]float32, 2*n)
			g.run(k, c, []float32{2, float32(math.NaN())}, b, NewWorkspace(), 0, 1)
			for j := range n {
				if want := max(0, 2*b[j]-1); c[j] != want || c[n+j] == c[n+j] {
					t.Fatalf("column %d of %d is %v and %v, want %v and NaN", j, n, c[j], c[n+j], want)
				}
			}
		}
	})
}

func TestGemm_PanicsOnInvalidArguments(t *testing.T) {
	ok := Gemm{M: 2, N: 3, K: 4, LDA: 4, LDB: 3, LDC: 3}
	for name, change := range map[string]func(*Gemm) (share, shares int){
		"short A":      func(g *Gemm) (int, int) { g.LDA = 5; return 0, 1 },
		"narrow B":     func(g *Gemm) (int, int) { g.LDB = 2; return 0, 1 },
		"short bias":   func(g *Gemm) (int, int) { g.ColBias = make([]float32, 2); return 0, 1 },
		"two biases":   func(g *Gemm) (int, int) { g.ColBias, g.RowBias = make([]float32, 3), make([]float32, 2); return 0, 1 },
		"factors":      func(g *Gemm) (int, int) { g.Factors = make([]float32, 4); return 0, 1 },
		"share beyond": func(g *Gemm) (int, int) { return 1, 1 },
		"negative":     func(g *Gemm) (int, int) { g.M = -1; return 0, 1 },
	} {
		g := ok
		share, shares := change(&g)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			g.Run(make([]float32, 6), make([]float32, 8), make([]float32, 12), NewWorkspace(), share, shares)
		}()
	}
}

func TestGemm_DoesNotAllocate(t *testing.T) {
	g := Gemm{TransA: true, M: 40, N: 30, K: 50, LDA: 40, LDB: 30, LDC: 30, Factors: make([]float32, 50)}
	narrow := Gemm{TransA: true, M: 40, N: 10, K: 50, LDA: 40, LDB: 30, LDC: 30}
	a, b, c, ws := make([]float32, 2000), make([]float32, 1500), make([]float32, 1200), NewWorkspace()
	if n := testing.AllocsPerRun(10, func() {
		g.Run(c, a, b, ws, 0, 2)
		narrow.Run(c, a, b, ws, 0, 1)
	}); n != 0 {
		t.Errorf("%v allocations per product", n)
	}
}
