package lattice

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// forEachImplementation runs f for every implementation that the processor supports.
func forEachImplementation(t *testing.T, f func(t *testing.T, k *kernels)) {
	for _, k := range supported {
		t.Run(k.name, func(t *testing.T) { f(t, k) })
	}
}

// guarded returns a slice of n zeros at an odd offset with guard values around it, and a function
// that checks that the guard values are unchanged.
func guarded[T int16 | int32 | int64](t testing.TB, n int) ([]T, func()) {
	const guard, mark = 67, 12345
	mem := make([]T, n+2*guard+1)
	for i := range mem {
		mem[i] = mark
	}
	part := mem[guard+1 : guard+1+n : guard+1+n]
	clear(part)
	return part, func() {
		t.Helper()
		for i, v := range mem {
			if (i <= guard || i > guard+n) && v != mark {
				t.Fatalf("wrote outside a slice of %d elements, at index %d", n, i-guard-1)
			}
		}
	}
}

// hostile are values that break careless conversions.
var hostile = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, 0.5, -0.5, 1.5, 1e-38, -1e-38, 1e-45, 3e38, -3e38,
	1 << 14, -(1 << 14), 1<<14 + 1, 1 << 15, -(1 << 15), 1<<15 - 0.5, -(1 << 15) - 0.5, 1 << 22, -(1 << 22), 1<<22 + 0.5, 1<<22 + 1, 1<<22 - 0.5,
	1 << 31, -(1 << 31), 1 << 32, 1 << 62, float32(math.NaN()), -float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
}

// randomRow draws a row: normal elements of a random size, sometimes sparse, sometimes with a few
// hostile elements.
func randomRow(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n+1)[1:] // not aligned
	size := math.Exp2(rng.Float64()*30 - 8)
	sparse, broken := rng.IntN(4) == 0, rng.IntN(3) == 0
	for i := range x {
		if !sparse || rng.IntN(8) == 0 {
			x[i] = float32(rng.NormFloat64() * size)
		}
	}
	if broken && n > 0 {
		for range 1 + rng.IntN(4) {
			x[rng.IntN(n)] = hostile[rng.IntN(len(hostile))]
		}
	}
	return x
}

var testScales = []float32{1, 0, 0.5, 1 << 10, 1.0 / (1 << 9), 3.7, -1, 1e-30, 1e30, math.SmallestNonzeroFloat32, math.MaxFloat32, float32(math.Inf(1)), float32(math.NaN())}

// roundExactly rounds one element as QuantizeInt16 documents it: float64 arithmetic, each result
// rounded to float32, is correctly rounded (Figueroa 1995: 53 ≥ 2·24+2 bits suffice). It returns
// nil for NaN and infinities.
func roundExactly(x, scale float32, start, step uint32, i int) *big.Int {
	w := int32(wordOf(start, step, i))
	product := float32(float64(x) * float64(scale))
	t := float32(float64(product) + float64(float32(w))/(1<<32))
	if math.IsNaN(float64(t)) || math.IsInf(float64(t), 0) {
		return nil
	}
	v, _ := new(big.Float).SetFloat64(math.RoundToEven(float64(t))).Int(nil)
	return v
}

// oracle is the rounding of a row and its squared norm. outside reports an element that is not
// finite or rounds to an integer outside [-Bound, Bound].
func oracle(x []float32, scale float32, key Key) (v []*big.Int, squares *big.Int, finite, outside bool) {
	squares, finite = new(big.Int), true
	start, step := key.state()
	for i, x := range x {
		e := new(big.Int)
		if scale != 0 {
			e = roundExactly(x, scale, start, step, i)
		}
		v = append(v, e)
		if e == nil {
			finite, outside = false, true
			continue
		}
		outside = outside || e.CmpAbs(big.NewInt(Bound)) > 0
		squares.Add(squares, new(big.Int).Mul(e, e))
	}
	return v, squares, finite, outside
}

func TestQuantize_AgreesWithOracle(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 600
	}
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(1, 2))
		passed := [2]int{}
		for round := range rounds {
			n := round
			if n > 130 {
				n = rng.IntN(400)
			}
			x, scale, key := randomRow(rng, n), testScales[0], Key(rng.Uint64())
			if rng.IntN(3) == 0 {
				scale = testScales[rng.IntN(len(testScales))]
			}
			name := fmt.Sprintf("%d elements, scale %v, key %x", n, scale, key)
			v, squares, finite, outside := oracle(x, scale, key)

			dst, check := guarded[int16](t, n)
			for i := range dst {
				dst[i] = 99
			}
			got, ok := k.quantizeInt16(dst, x, scale, key)
			check()
			want := finite && squares.Cmp(big.NewInt(MaxRowNorm*MaxRowNorm)) <= 0
			if ok != want || ok && got != squares.Int64() || !ok && got != 0 {
				t.Fatalf("%s: QuantizeInt16 returns %d, %v; want %v, %v", name, got, ok, squares, want)
			}
			for i := range dst {
				if want := ok && v[i].Cmp(big.NewInt(int64(dst[i]))) != 0 || !ok && dst[i] != 0; want {
					t.Fatalf("%s: element %d (%v) is %d, want %v", name, i, x[i], dst[i], v[i])
				}
			}
			if ok {
				passed[0]++
			}

			rounded, check := guarded[int32](t, n)
			got, ok = k.roundInts(rounded, x, scale, key)
			check()
			want = !outside && squares.Cmp(big.NewInt(Bound*Bound)) <= 0
			if ok != want || ok && got != squares.Int64() || !ok && got != 0 {
				t.Fatalf("%s: Round returns %d, %v; want %d, %v", name, got, ok, squares, want)
			}
			if !ok {
				continue
			}
			passed[1]++
			for i, r := range rounded {
				if v[i].Cmp(big.NewInt(int64(r))) != 0 {
					t.Fatalf("%s: element %d (%v) is rounded to %d, want %v", name, i, x[i], r, v[i])
				}
			}
		}
		if min(passed[0], passed[1]) < rounds/5 || max(passed[0], passed[1]) > rounds*4/5 {
			t.Errorf("of %d rows, %v passed the two checks of norms", rounds, passed)
		}
	})
}

// All implementations agree bit for bit on long rows.
func TestQuantize_ImplementationsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 31, 32, 33, 1000, 32769, 70001} {
		x := randomRow(rng, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64() * 10)
		}
		key := Key(rng.Uint64())
		want16, want32 := make([]int16, n), make([]int32, n)
		squares, _ := pureGo.quantizeInt16(want16, x, 3, key)
		squares32, ok := pureGo.roundInts(want32, x, 3, key)
		for _, k := range supported[1:] {
			got16, got32 := make([]int16, n), make([]int32, n)
			if s, _ := k.quantizeInt16(got16, x, 3, key); s != squares || !slices.Equal(got16, want16) {
				t.Errorf("%s: QuantizeInt16 of %d elements differs from pure Go", k.name, n)
			}
			if s, alsoOK := k.roundInts(got32, x, 3, key); s != squares32 || ok != alsoOK || !slices.Equal(got32, want32) {
				t.Errorf("%s: Round of %d elements differs from pure Go", k.name, n)
			}
		}
	}
}

// Values that fit in no integer are refused at every place of a row, alone and in groups whose
// squares would have the sum 0 modulo 2^64.
func TestRound_RefusesBeforeSquaring(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		for _, bad := range []float32{float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 3e38, -3e38, 1 << 31, -(1 << 31), 1 << 32, 1<<22 + 2} {
			for _, count := range []int{1, 2, 4, 8, 16} {
				for n := count; n <= 130; n++ {
					x := make([]float32, n)
					for i := range count {
						x[n-1-i*(n/count)] = bad
					}
					if squares, ok := k.roundInts(make([]int32, n), x, 1, 5); ok || squares != 0 {
						t.Fatalf("%d times %v in %d elements: %d, %v", count, bad, n, squares, ok)
					}
					if squares, ok := k.quantizeInt16(make([]int16, n), x, 1, 5); ok || squares != 0 {
						t.Fatalf("%d times %v in %d elements as int16: %d, %v", count, bad, n, squares, ok)
					}
				}
			}
		}
	})
}

// Norms of exactly the bound are accepted, one step more is refused.
func TestQuantize_BoundsAreExact(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		for _, c := range []struct {
			x     []float32
			whole bool // the norm is at most MaxRowNorm
			scale float32
		}{
			{[]float32{MaxRowNorm}, true, 1},
			{[]float32{-MaxRowNorm, 0, 0}, true, 1},
			{[]float32{MaxRowNorm, 1}, false, 1},
			{[]float32{MaxRowNorm + 1}, false, 1},
			{slices.Repeat([]float32{MaxRowNorm / 16}, 256), true, 1},
			{append(slices.Repeat([]float32{MaxRowNorm / 16}, 256), -1), false, 1},
			{slices.Repeat([]float32{1}, 1<<20), true, 16},
			{slices.Repeat([]float32{32767}, 64), false, 1},
			{slices.Repeat([]float32{-32768}, 64), false, 1},
			{slices.Repeat([]float32{-32768}, 1<<16), false, 1},
		} {
			if _, ok := k.quantizeInt16(make([]int16, len(c.x)), c.x, c.scale, 3); ok != c.whole {
				t.Errorf("%d elements of %v: QuantizeInt16 returns %v", len(c.x), c.x[0], ok)
			}
			const larger = Bound / MaxRowNorm
			if squares, ok := k.roundInts(make([]int32, len(c.x)), c.x, c.scale*larger, 3); ok != c.whole {
				t.Errorf("%d elements of %v: Round returns %d, %v", len(c.x), c.x[0], squares, ok)
			}
		}
	})
}

// Round may write to the memory that it reads.
func TestRound_InPlace(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(11, 12))
		for n := 1; n < 200; n++ {
			x, want := make([]float32, n), make([]int32, n)
			for i := range x {
				x[i] = float32(rng.NormFloat64())
			}
			squares, _ := k.roundInts(want, x, 1000, Key(n))
			got := unsafe.Slice((*int32)(unsafe.Pointer(&x[0])), n)
			if again, ok := k.roundInts(got, x, 1000, Key(n)); again != squares || !ok || !slices.Equal(got, want) {
				t.Fatalf("%d elements: %v with the squares %d, %v; want %v with %d", n, got, again, ok, want, squares)
			}
		}
	})
}

// Integers become floats as math/big rounds them.
func TestScaleInts_AgreesWithOracle(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(13, 14))
		for n := range 130 {
			got, again, x := make([]float32, n), make([]float32, n), make([]int64, n)
			want := make([]float32, n)
			scale := math.Ldexp(rng.Float64()+0.5, rng.IntN(60)-50)
			for i := range x {
				x[i] = int64(rng.Uint64()) >> rng.IntN(64)
				switch rng.IntN(8) {
				case 0:
					x[i] = []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1<<53 + 1, -1<<53 - 1, 1 << 32, -1 << 32, 1<<32 - 1, 1<<52 + 1}[rng.IntN(11)]
				}
				number, _ := new(big.Float).SetInt64(x[i]).Float64()
				product, _ := new(big.Float).Mul(big.NewFloat(number), big.NewFloat(scale)).Float64()
				want[i], _ = big.NewFloat(product).Float32()
			}
			if k.scale(got, x, scale); !slices.Equal(got, want) {
				t.Fatalf("%d integers %v times %v: %v, want %v", n, x, scale, got, want)
			}
			if ScaleInts(again, x, scale); !slices.Equal(again, want) {
				t.Fatalf("%d integers: ScaleInts gives %v, want %v", n, again, want)
			}
		}
	})
}

// Factor 0 writes zeros and never multiplies: 0 times infinity would be NaN.
func TestQuantize_ScaleZeroReadsNothing(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		x := slices.Repeat([]float32{float32(math.Inf(1)), float32(math.NaN())}, 50)
		dst := slices.Repeat([]int16{7}, 100)
		if squares, ok := k.quantizeInt16(dst, x, 0, 1); squares != 0 || !ok || slices.ContainsFunc(dst, func(v int16) bool { return v != 0 }) {
			t.Errorf("QuantizeInt16 with scale 0 gives %v, %d, %v", dst, squares, ok)
		}
		ints := slices.Repeat([]int32{7}, 100)
		if squares, ok := k.roundInts(ints, x, 0, 1); squares != 0 || !ok || slices.ContainsFunc(ints, func(v int32) bool { return v != 0 }) {
			t.Errorf("Round with scale 0 gives %v, %d, %v", ints, squares, ok)
		}
	})
}

// Zeros stay zeros among other elements.
func TestQuantize_KeepsZeros(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		x := make([]float32, 4096)
		for i := range x {
			x[i] = float32(i%3) * float32(1-i%2*2) * 0.3
		}
		for key := range Key(200) {
			dst := make([]int16, len(x))
			if _, ok := k.quantizeInt16(dst, x, 1, key*0x123456789); !ok {
				t.Fatal("a row of small numbers is refused")
			}
			for i := 0; i < len(x); i += 3 {
				if dst[i] != 0 {
					t.Fatalf("key %d: element %d is %d, want 0", key, i, dst[i])
				}
			}
		}
	})
}

func TestSumSquares_IsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		for n := 1; n < 200; n++ {
			x := make([]int16, n+1)[1:]
			var want int64
			for i := range x {
				x[i] = int16(rng.Uint32())
				if n%3 == 0 {
					x[i] = math.MinInt16
				}
				want += int64(x[i]) * int64(x[i])
			}
			if got := k.sumSquares(&x[0], n); got != want || SumSquares(x) != want {
				t.Fatalf("%d elements: %d, want %d", n, got, want)
			}
		}
	})
}

// FuzzRound compares Round and QuantizeInt16 of all implementations with
// the oracle.
func FuzzRound(f *testing.F) {
	f.Add([]byte{0, 0, 0x80, 0x7f, 0, 0, 0x80, 0xff}, float32(1), uint64(1))
	f.Add([]byte{0, 0, 0x80, 0x4a, 1, 0, 0x80, 0x4a}, float32(1), uint64(2))
	f.Add(make([]byte, 400), float32(1e30), uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, scale float32, key uint64) {
		x := make([]float32, len(data)/4)
		for i := range x {
			x[i] = math.Float32frombits(uint32(data[4*i]) | uint32(data[4*i+1])<<8 | uint32(data[4*i+2])<<16 | uint32(data[4*i+3])<<24)
		}
		_, squares, finite, outside := oracle(x, scale, Key(key))
		for _, k := range supported {
			got, ok := k.roundInts(make([]int32, len(x)), x, scale, Key(key))
			if want := !outside && squares.Cmp(big.NewInt(Bound*Bound)) <= 0; ok != want || ok && got != squares.Int64() {
				t.Errorf("%s: Round returns %d, %v; want %v, %v", k.name, got, ok, squares, want)
			}
			got, ok = k.quantizeInt16(make([]int16, len(x)), x, scale, Key(key))
			if want := finite && squares.Cmp(big.NewInt(MaxRowNorm*MaxRowNorm)) <= 0; ok != want || ok && got != squares.Int64() {
				t.Errorf("%s: QuantizeInt16 returns %d, %v; want %v, %v", k.name, got, ok, squares, want)
			}
		}
	})
}

// AddToRows adds to each row as often as it occurs, on every instruction set.
func TestAddToRows_AgreesWithDefinition(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		for dim := 1; dim <= 40; dim++ {
			r := rand.New(rand.NewPCG(uint64(dim), 9))
			const entries = 7
			table, want := make([]int32, entries*dim), make([]int32, entries*dim)
			x, rows := make([]int32, dim), make([]int32, r.IntN(20))
			for i := range x {
				x[i] = int32(r.Uint32())
			}
			for i := range table {
				table[i] = int32(r.Uint32())
				want[i] = table[i]
			}
			for i := range rows {
				rows[i] = int32(r.IntN(entries))
				for j, v := range x {
					want[int(rows[i])*dim+j] += v
				}
			}
			k.addRows(table, x, rows)
			if !slices.Equal(table, want) {
				t.Fatalf("%s, dimension %d: another table", k.name, dim)
			}
		}
	})
}

// AddRows adds every row once.
func TestAddRows_AgreesWithDefinition(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(31, 32))
		for width := 1; width < 140; width++ {
			n := rng.IntN(9)
			rows := make([]int32, n*width+1)[1:] // not aligned
			sum, check := guarded[int32](t, width)
			for i := range sum {
				sum[i] = int32(rng.Uint32())
			}
			want := slices.Clone(sum)
			for i := range rows {
				rows[i] = int32(rng.Uint32())
				want[i%width] += rows[i]
			}
			k.addAll(sum, rows)
			check()
			if !slices.Equal(sum, want) {
				t.Fatalf("%d rows of %d elements: %v, want %v", n, width, sum, want)
			}
		}
	})
}

// Rows that are rounded together are rounded as each is alone: hostile rows, rows of scale 0, and rows
// that are refused between others.
func TestQuantizeRows_RoundsEachRowAsAlone(t *testing.T) {
	forEachImplementation(t, func(t *testing.T, k *kernels) {
		rng := rand.New(rand.NewPCG(33, 34))
		refused := [2]int{}
		for range 600 {
			width, rows := rng.IntN(80), rng.IntN(7)
			n := width * rows
			var x []float32
			scales, keys, squares := make([]float32, rows), make([]Key, rows), make([]int64, rows)
			for i := range rows {
				x = append(x, randomRow(rng, width)...)
				scales[i], keys[i] = 1, Key(rng.Uint64())
				if rng.IntN(4) == 0 {
					scales[i] = testScales[rng.IntN(len(testScales))]
				}
			}
			shorts, checkShorts := guarded[int16](t, n)
			ints, checkInts := guarded[int32](t, n)
			k.quantizeRows(shorts, x, scales, keys, squares)
			checkShorts()
			wide := make([]int64, rows)
			k.roundRows(ints, x, scales, keys, wide)
			checkInts()
			for i := range rows {
				row, one, same := x[i*width:(i+1)*width], make([]int16, width), make([]int32, width)
				v, norm, finite, outside := oracle(row, scales[i], keys[i])
				if ok := finite && norm.Cmp(big.NewInt(MaxRowNorm*MaxRowNorm)) <= 0; ok && squares[i] != norm.Int64() || !ok && squares[i] != -1 {
					t.Fatalf("row %d of %d, width %d: the squared norm is %d, want %v, valid %v", i, rows, width, squares[i], norm, ok)
				} else if !ok {
					refused[0]++
				} else {
					for j := range one {
						one[j] = int16(v[j].Int64())
					}
				}
				if !slices.Equal(shorts[i*width:(i+1)*width], one) {
					t.Fatalf("row %d of %d, width %d: %v, want %v", i, rows, width, shorts[i*width:(i+1)*width], one)
				}
				ok := !outside && norm.Cmp(big.NewInt(Bound*Bound)) <= 0
				if ok && wide[i] != norm.Int64() || !ok && wide[i] != -1 {
					t.Fatalf("row %d of %d, width %d: the squared norm of 32-bit integers is %d, want %v, valid %v", i, rows, width, wide[i], norm, ok)
				}
				if !ok {
					refused[1]++
					continue
				}
				for j := range same {
					same[j] = int32(v[j].Int64())
				}
				if !slices.Equal(ints[i*width:(i+1)*width], same) {
					t.Fatalf("row %d of %d, width %d: %v, want %v", i, rows, width, ints[i*width:(i+1)*width], same)
				}
			}
		}
		if min(refused[0], refused[1]) < 50 {
			t.Errorf("%v rows are refused", refused)
		}
	})
}
