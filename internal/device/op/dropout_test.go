package op

import (
	"math"
	"math/rand/v2"
	"testing"

	"gorgonia.org/tensor"
)

// These are the known answers of the Random123 distribution of Salmon et al.
// (kat_vectors, philox4x32 10).
func TestPhilox_KnownAnswers(t *testing.T) {
	for _, c := range []struct{ in, out []uint32 }{
		{[]uint32{0, 0, 0, 0, 0, 0}, []uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[]uint32{math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32},
			[]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{[]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0},
			[]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		a, b, x, y := Philox(c.in[0], c.in[1], c.in[2], c.in[3], c.in[4], c.in[5])
		for i, w := range []uint32{a, b, x, y} {
			if w != c.out[i] {
				t.Errorf("counter and key %x: word %d is %08x, want %08x", c.in, i, w, c.out[i])
			}
		}
	}
}

// maskSeeds are the mask seeds of rows at a step.
func maskSeeds(step int, rows ...uint64) operand {
	x := operand{tensor.Shape{len(rows), MaskSeedWidth}, nil}
	for _, row := range rows {
		var t [MaskSeedWidth]float32
		WriteMaskSeed(t[:], row, step)
		for _, v := range t {
			x.values = append(x.values, float64(v))
		}
	}
	return x
}

// ones is a tensor whose dropout is the mask.
func ones(shape ...int) operand {
	x := operand{shape, make([]float64, tensor.Shape(shape).TotalSize())}
	for i := range x.values {
		x.values[i] = 1
	}
	return x
}

func mask(t *testing.T, d Dropout, size, step int, rows ...uint64) []float64 {
	t.Helper()
	return trial{d, []operand{ones(len(rows), size), maskSeeds(step, rows...)}}.do(t).values
}

// Mask seeds represent numbers up to 2^48 exactly. Different seeds start at different
// places of the generator.
func TestMaskSeed_IsExact(t *testing.T) {
	seen := map[[3]uint32][2]int{}
	numbers := []int{0, 1, maskSeedHalf - 1, maskSeedHalf, maskSeedHalf + 1, 1 << 32, 1<<32 + 1, 1 << 40, 1<<48 - 1}
	for _, row := range numbers {
		for _, step := range numbers {
			var seed [MaskSeedWidth]float32
			WriteMaskSeed(seed[:], uint64(row), step)
			c1, c2, c3, ok := MaskCounter(seed[:])
			if !ok || int(c1)|int(c3&0xffff)<<32 != row || int(c2)|int(c3>>16)<<32 != step {
				t.Errorf("row %d, step %d: counter %x %x %x, %v", row, step, c1, c2, c3, ok)
			}
			if other, twice := seen[[3]uint32{c1, c2, c3}]; twice {
				t.Errorf("rows and steps %v and %v share a counter", other, [2]int{row, step})
			}
			seen[[3]uint32{c1, c2, c3}] = [2]int{row, step}
		}
	}
	for _, bad := range []float64{-1, maskSeedHalf, math.NaN(), math.Inf(1)} {
		x := maskSeeds(0, 0)
		x.values[2] = bad
		if y := (trial{Dropout{Rate: 0.5}, []operand{ones(1, 3), x}}).do(t).values; !math.IsNaN(y[0]) || !math.IsNaN(y[2]) {
			t.Errorf("a mask seed of %v gives %v", bad, y)
		}
	}
}

// A row's mask does not depend on the other rows or on its position. Another row, step,
// layer or seed has another mask.
func TestDropout_MaskDependsOnRowOnly(t *testing.T) {
	const size = 67
	d := Dropout{Rate: 0.5, Seed: 9<<32 + 4, Layer: 2}
	own := mask(t, d, size, 3, 1234)
	for at := range 5 {
		rows := []uint64{7, 8, 9, 10, 11}
		rows[at] = 1234
		same(t, "mask among others", cut(mask(t, d, size, 3, rows...), 5, at), own, 0)
	}
	for what, other := range map[string][]float64{
		"row":                   mask(t, d, size, 3, 1235),
		"step":                  mask(t, d, size, 4, 1234),
		"row and step, swapped": mask(t, d, size, 1234, 3),
		"row above 2^32":        mask(t, d, size, 3, 1234+1<<32),
		"layer":                 mask(t, Dropout{Rate: 0.5, Seed: 9<<32 + 4, Layer: 3}, size, 3, 1234),
		"seed":                  mask(t, Dropout{Rate: 0.5, Seed: 9<<32 + 5, Layer: 2}, size, 3, 1234),
		"upper half of a seed":  mask(t, Dropout{Rate: 0.5, Seed: 8<<32 + 4, Layer: 2}, size, 3, 1234),
	} {
		differ := 0
		for i := range own {
			if own[i] != other[i] {
				differ++
			}
		}
		// Of 67 fair bits fewer than 10 or more than 57 differ with probability 2e-9.
		if differ < 10 || differ > 57 {
			t.Errorf("another %s: %d of %d elements differ", what, differ, size)
		}
	}
}

// The share of dropped elements is the rate. Whether an element is dropped is independent
// of its neighbour, of the same element of the next row, step or layer, and of another
// element of the row. The masks are fixed. If they were drawn again, a count, whose mean
// is at least 125, would miss the mean by more than 7 deviations with probability below
// 4e-9 (Chernoff), for each of 44 counts: a false alarm in 5 million.
func TestDropout_MaskStatistics(t *testing.T) {
	const rows, size = 200, 500
	numbers := make([]uint64, rows)
	for i := range numbers {
		numbers[i] = uint64(i)
	}
	for _, rate := range []float64{0.1, 0.5, 0.75, 0.95} {
		d := Dropout{Rate: rate, Seed: 1}
		fallen := func(d Dropout, step int) []bool {
			b := make([]bool, rows*size)
			for i, y := range mask(t, d, size, step, numbers...) {
				if b[i] = y == 0; !b[i] && !(math.Abs(y-1/(1-rate)) <= 1e-12) {
					t.Fatalf("rate %v: an element that stays is %v", rate, y)
				}
			}
			return b
		}
		b := fallen(d, 0)
		count := func(what string, p float64, n int, f func(i int) bool) {
			k := 0
			for i := range n {
				if f(i) {
					k++
				}
			}
			if off := math.Abs(float64(k)-p*float64(n)) / math.Sqrt(p*(1-p)*float64(n)); !(off <= 7) {
				t.Errorf("rate %v: %s fall %d times of %d, %.1f deviations off", rate, what, k, n, off)
			}
		}
		// Disjoint pairs are counted, so that the counted events are independent.
		both := func(what string, x, y []bool, n int, at func(i int) (a, b int)) {
			count(what, rate*rate, n, func(i int) bool { a, b := at(i); return x[a] && y[b] })
		}
		count("elements", rate, len(b), func(i int) bool { return b[i] })
		for word := range 4 {
			count("words of one place", rate, len(b)/4, func(i int) bool { return b[4*i+word] })
		}
		both("neighbours", b, b, len(b)/2, func(i int) (int, int) { return 2 * i, 2*i + 1 })
		both("elements of neighbouring blocks", b, b, len(b)/8, func(i int) (int, int) { return 8 * i, 8*i + 4 })
		both("elements of neighbouring rows", b, b, len(b)/2, func(i int) (int, int) {
			return i/size*2*size + i%size, (i/size*2+1)*size + i%size
		})
		straight := func(i int) (int, int) { return i, i }
		both("elements of neighbouring steps", b, fallen(d, 1), len(b), straight)
		d.Layer = 1
		both("elements of two layers", b, fallen(d, 0), len(b), straight)
		d.Layer, d.Seed = 0, 2
		both("elements of two seeds", b, fallen(d, 0), len(b), straight)
	}
}

// The same mask seed gives the same mask when applied to a gradient: dropout is
// symmetric.
func TestDropout_IsItsOwnDerivative(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 21))
	x, y, seed := normal(r, 3, 50), normal(r, 3, 50), maskSeeds(5, 3, 1, 2)
	d := Dropout{Rate: 0.3, Seed: 11}
	a, b := trial{d, []operand{x, seed}}.do(t).values, trial{d, []operand{y, seed}}.do(t).values
	var forth, back float64
	for i := range a {
		forth += a[i] * y.values[i]
		back += x.values[i] * b[i]
	}
	if !(math.Abs(forth-back) <= 1e-12) {
		t.Errorf("⟨Dx, y⟩ = %v and ⟨x, Dy⟩ = %v", forth, back)
	}
}
