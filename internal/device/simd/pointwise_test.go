package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var lengths = []int{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 100, 127, 1000, 4099}

// These functions have the bits of pure Go in every implementation, for any length and
// alignment, in place or not, and write nothing else.
func TestPointwise_AgreesWithGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	special := []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), 1e-42, math.MaxFloat32}
	for _, k := range supported[1:] {
		for name, pair := range map[string][2]func(dst, x, y *float32, n int){
			"add":         {k.add, pureGo.add},
			"mul":         {k.mul, pureGo.mul},
			"reluGrad":    {k.reluGrad, pureGo.reluGrad},
			"tanhGrad":    {k.tanhGrad, pureGo.tanhGrad},
			"sigmoidGrad": {k.sigmoidGrad, pureGo.sigmoidGrad},
			"relu":        {func(d, x, _ *float32, n int) { k.relu(d, x, n) }, func(d, x, _ *float32, n int) { pureGo.relu(d, x, n) }},
			"scale":       {func(d, x, _ *float32, n int) { k.scale(d, x, n, 0.3) }, func(d, x, _ *float32, n int) { pureGo.scale(d, x, n, 0.3) }},
			"normalize": {
				func(d, x, y *float32, n int) { k.normalize(d, x, n, 0.7, 1e-9, 0.3) },
				func(d, x, y *float32, n int) { pureGo.normalize(d, x, n, 0.7, 1e-9, 0.3) },
			},
			"normalizeGrad": {
				func(d, x, y *float32, n int) { k.normalizeGrad(d, x, y, n, 0.7, 0.3, 0.1, 2) },
				func(d, x, y *float32, n int) { pureGo.normalizeGrad(d, x, y, n, 0.7, 0.3, 0.1, 2) },
			},
			"softmaxGrad": {
				func(d, x, y *float32, n int) { k.softmaxGrad(d, x, y, n, 0.7, 0.3) },
				func(d, x, y *float32, n int) { pureGo.softmaxGrad(d, x, y, n, 0.7, 0.3) },
			},
			"axpy": {func(d, x, _ *float32, n int) { k.axpy(d, x, n, 0.3) }, func(d, x, _ *float32, n int) { pureGo.axpy(d, x, n, 0.3) }},
		} {
			for _, n := range lengths {
				x, y := random(rng, n), random(rng, n)
				for range n / 8 {
					x[rng.IntN(n)] = special[rng.IntN(len(special))]
					y[rng.IntN(n)] = special[rng.IntN(len(special))]
				}
				want := make([]float32, n)
				got, check := guarded(t, n)
				pair[1](&want[0], &x[0], &y[0], n)
				pair[0](&got[0], &x[0], &y[0], n)
				check()
				compareBits(t, k.name+" "+name, got, want)

				place, check := fill(t, x)
				clear(want)
				copy(want, x)
				pair[1](&want[0], &want[0], &y[0], n)
				pair[0](&place[0], &place[0], &y[0], n)
				check()
				compareBits(t, k.name+" in place "+name, place, want)
			}
		}
	}
}

// compareBits compares bits. All NaNs count as equal: processors return different ones.
func compareBits(t *testing.T, name string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) && !(got[i] != got[i] && want[i] != want[i]) {
			t.Fatalf("%s, length %d: [%d] = %x, want %x", name, len(want), i, got[i], want[i])
		}
	}
}

// ulp is the distance of adjacent float32 numbers at x, at least that of the smallest normal
// number.
func ulp(x float64) float64 {
	x = max(math.Abs(x), 0x1p-126)
	return math.Ldexp(1, int(math.Floor(math.Log2(x)))-23)
}

// curve is a transcendental function with its permitted error.
type curve struct {
	name   string
	run    func(k *kernels, dst, x *float32, n int)
	want   func(x float64) float64
	scale  func(x float64) float64 // the number whose ULP is the unit of errors; nil for the result
	lo, hi float64
	limit  float64 // permitted error in ULP
}

func normalDensity(x float64) float64      { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
func normalDistribution(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }

var transcendental = []curve{
	{"exp", func(k *kernels, d, x *float32, n int) { k.exp(d, x, n, 0) }, math.Exp, nil, -110, 88.7, 2},
	{"tanh", func(k *kernels, d, x *float32, n int) { k.tanh(d, x, n) }, math.Tanh, nil, -12, 12, 4},
	{"sigmoid", func(k *kernels, d, x *float32, n int) { k.sigmoid(d, x, n) },
		func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }, nil, -110, 40, 4},
	{"gelu", func(k *kernels, d, x *float32, n int) { k.gelu(d, x, n) },
		func(x float64) float64 { return x * normalDistribution(x) }, nil, -12.8, 15, 6},
	{"geluGrad", func(k *kernels, d, x *float32, n int) {
		ones := make([]float32, n)
		for i := range ones {
			ones[i] = 1
		}
		k.geluGrad(d, &ones[0], x, n)
	}, func(x float64) float64 { return normalDistribution(x) + x*normalDensity(x) },
		func(x float64) float64 { return max(normalDistribution(x), math.Abs(x*normalDensity(x))) }, -12.8, 15, 6},
}

func TestTranscendental_AgreesWithFloat64(t *testing.T) {
	n := 1 << 18
	if testing.Short() {
		n = 1 << 16
	}
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(9, 10))
		for _, c := range transcendental {
			x, y := make([]float32, n), make([]float32, n)
			for i := range x {
				switch i % 4 {
				case 0: // all magnitudes near zero
					x[i] = float32(math.Copysign(math.Exp(-60*rng.Float64()), rng.Float64()-0.5))
				case 1:
					x[i] = float32(4*rng.Float64() - 2)
				default:
					x[i] = float32(c.lo + (c.hi-c.lo)*rng.Float64())
				}
			}
			c.run(k, &y[0], &x[0], n)
			worst, index := 0.0, 0
			for i, v := range x {
				want := c.want(float64(v))
				unit := ulp(want)
				if c.scale != nil {
					unit = ulp(c.scale(float64(v)))
				}
				if e := math.Abs(float64(y[i])-want) / unit; !(e <= worst) {
					worst, index = e, i
				}
			}
			t.Logf("%s: %.2f ULP at %v", c.name, worst, x[index])
			if !(worst <= c.limit) {
				t.Errorf("%s(%v) = %v, wrong by %.1f ULP", c.name, x[index], y[index], worst)
			}
		}
	})
}

func TestTranscendental_SpecialValues(t *testing.T) {
	inf, nan, zero := float32(math.Inf(1)), float32(math.NaN()), float32(0)
	negative := float32(math.Copysign(0, -1))
	x := []float32{inf, -inf, nan, zero, negative, math.MaxFloat32, -math.MaxFloat32, 1e-45, -1e-45}
	wants := map[string][]float32{
		"exp":      {inf, 0, nan, 1, 1, inf, 0, 1, 1},
		"tanh":     {1, -1, nan, 0, negative, 1, -1, 1e-45, -1e-45},
		"sigmoid":  {1, 0, nan, .5, .5, 1, 0, .5, .5},
		"gelu":     {inf, negative, nan, 0, negative, math.MaxFloat32, negative, 0, negative},
		"geluGrad": {1, 0, nan, .5, .5, 1, 0, .5, .5},
	}
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		for _, c := range transcendental {
			got, check := guarded(t, len(x))
			c.run(k, &got[0], &x[0], len(x))
			check()
			for i, want := range wants[c.name] {
				if c.name == "gelu" && (i >= 7) { // half a subnormal number: both neighbours are correct
					continue
				}
				signed := c.name != "geluGrad" // whose zero has no defined sign
				if (got[i] != want || signed && math.Signbit(float64(got[i])) != math.Signbit(float64(want))) && !(got[i] != got[i] && want != want) {
					t.Errorf("%s(%v) = %v, want %v", c.name, x[i], got[i], want)
				}
			}
		}
	})
}

// An element's result does not depend on its position.
func TestTranscendental_ElementsAreIndependent(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(11, 12))
		x := random(rng, 37)
		for _, c := range transcendental {
			whole := make([]float32, len(x))
			c.run(k, &whole[0], &x[0], len(x))
			for n := 1; n <= len(x); n++ {
				for from := 0; from+n <= len(x); from += 5 {
					got, check := guarded(t, n)
					c.run(k, &got[0], &x[from], n)
					check()
					compareBits(t, c.name, got, whole[from:from+n])
				}
			}
		}
	})
}

func TestReductions_AgreeWithFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for _, n := range append(lengths, 100_003) {
		x, y := random(rng, n), random(rng, n)
		var dot, sum, squares, size float64
		for i := range x {
			dot += float64(x[i]) * float64(y[i])
			size += math.Abs(float64(x[i]) * float64(y[i]))
			sum += float64(x[i])
			squares += float64(x[i]) * float64(x[i])
		}
		for _, k := range supported {
			got := [3]float64{k.dot(&x[0], &y[0], n), k.sum(&x[0], n), k.sumSquares(&x[0], n)}
			for i, want := range [3]float64{dot, sum, squares} {
				if !(math.Abs(got[i]-want) <= 1e-12*(size+squares+1)) {
					t.Errorf("%s: sum %d of %d terms is %v, want %v", k.name, i, n, got[i], want)
				}
			}
			if want := [3]float64{pureGo.dot(&x[0], &y[0], n), pureGo.sum(&x[0], n), pureGo.sumSquares(&x[0], n)}; got != want {
				t.Errorf("%s: sums of %d terms are %v, in pure Go %v", k.name, n, got, want)
			}
			if whole := n &^ 31; whole > 0 {
				want := 0.0
				for _, v := range x[:whole] {
					want += (float64(v) - 0.7) * (float64(v) - 0.7)
				}
				got := k.deviations(&x[0], whole, 0.7)
				if !(math.Abs(got-want) <= 1e-12*want) || got != pureGo.deviations(&x[0], whole, 0.7) {
					t.Errorf("%s: deviations of %d terms are %v, want %v", k.name, whole, got, want)
				}
			}
			top := rng.IntN(n)
			original := x[top]
			x[top] += 100
			if got := k.maximum(&x[0], n); got != x[top] {
				t.Errorf("%s: the largest of %d floats is %v, want %v", k.name, n, got, x[top])
			}
			x[top] -= 200
			if n == 1 && k.maximum(&x[0], 1) != x[0] {
				t.Errorf("%s: wrong maximum of one negative number", k.name)
			}
			x[top] = original
		}
	}
}

func TestColSums_AgreesWithFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for range 100 {
		rows, cols := 1+rng.IntN(700), 1+rng.IntN(90)
		if rng.IntN(8) == 0 {
			rows, cols = 1+rng.IntN(20), 500+rng.IntN(7000)
		}
		ld := cols + rng.IntN(3)
		x, factors := random(rng, rows*ld), random(rng, rows)
		for r := range factors {
			if rng.IntN(5) == 0 {
				factors[r] = 0
				x[r*ld] = float32(math.NaN())
			}
		}
		if rng.IntN(2) == 0 {
			factors = nil
			for r := range rows {
				x[r*ld] = 1
			}
		}
		want := make([]float64, cols)
		for r := range rows {
			for c := range cols {
				switch {
				case factors == nil:
					want[c] += float64(x[r*ld+c])
				case factors[r] != 0:
					want[c] += float64(x[r*ld+c]) * float64(factors[r])
				}
			}
		}
		var first []float32
		for _, k := range supported {
			got, check := guarded(t, cols)
			runWith(k, func() { ColSums(got, x, ld, rows, cols, factors, false) })
			check()
			for c := range want {
				if !(math.Abs(float64(got[c])-want[c]) <= 1e-4) {
					t.Fatalf("%s: %d×%d: column %d sums to %v, want %v", k.name, rows, cols, c, got[c], want[c])
				}
			}
			if first == nil {
				first = slices.Clone(got)
			}
			compareBits(t, k.name, got, first)
			runWith(k, func() { ColSums(got, x, ld, rows, cols, factors, true) })
			if c := cols - 1; !(math.Abs(float64(got[c])-2*want[c]) <= 2e-4) {
				t.Fatalf("%s: accumulated %v, want %v", k.name, got[c], 2*want[c])
			}
		}
	}
}

// runWith runs f with implementation k.
func runWith(k *kernels, f func()) {
	defer func(k *kernels) { active = k }(active)
	active = k
	f()
}

func TestSoftmax_AgreesWithFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	inf := math.Inf(1)
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		runWith(k, func() {
			for _, n := range lengths {
				x := random(rng, n)
				x[rng.IntN(n)] += 80
				if n > 2 {
					x[0] = float32(-inf)
				}
				sum := 0.0
				for _, v := range x {
					sum += math.Exp(float64(v))
				}
				got, check := guarded(t, n)
				lse := Softmax(got, x)
				check()
				if !(math.Abs(lse-math.Log(sum)) <= 1e-6*math.Abs(lse)) {
					t.Errorf("length %d: log sum %v, want %v", n, lse, math.Log(sum))
				}
				for i, v := range x {
					if want := math.Exp(float64(v)) / sum; !(math.Abs(float64(got[i])-want) <= 8e-6*want+1e-44) {
						t.Errorf("length %d: softmax %v, want %v", n, got[i], want)
					}
				}
			}
			got := []float32{1, 1}
			if lse := Softmax(got, []float32{float32(-inf), float32(-inf)}); lse != -inf || got[0] != 0 || got[1] != 0 {
				t.Errorf("softmax of -Inf alone is %v, log sum %v", got, lse)
			}
			for _, invalid := range [][]float32{{1, float32(math.NaN())}, {float32(math.NaN()), 1}, {float32(-inf), float32(math.NaN())}} {
				if lse := Softmax(got, invalid); lse == lse || got[0] == got[0] || got[1] == got[1] {
					t.Errorf("softmax of %v is %v, log sum %v", invalid, got, lse)
				}
			}
		})
	})
}

func TestTranspose_AnyShape(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		runWith(k, func() {
			for range 60 {
				rows, cols := rng.IntN(40), rng.IntN(40)
				lds, ldd := cols+rng.IntN(3), rows+rng.IntN(3)
				src := random(rng, rows*lds)
				dst, check := guarded(t, area(cols, rows, ldd))
				Transpose(dst, ldd, src, lds, rows, cols)
				check()
				for r := range rows {
					for c := range cols {
						if dst[c*ldd+r] != src[r*lds+c] {
							t.Fatalf("transpose of %d×%d: element [%d][%d] is wrong", rows, cols, r, c)
						}
					}
				}
			}
		})
	})
}
