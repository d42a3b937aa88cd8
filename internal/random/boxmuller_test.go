package random

import (
	"math"
	"math/rand/v2"
	"testing"
)

// preciseBoxMuller is the transform that BoxMuller's documentation states, in
// float64: another logarithm, other trigonometric functions, no octants.
func preciseBoxMuller(hi, lo, angle uint32) (x, y float64) {
	u := uint64(hi)<<32 | uint64(lo)
	logU := math.Log((float64(u) + 0.5) * 0x1p-64)
	if hi>>31 == 1 { // near 1, from the distance to it
		logU = math.Log1p(-(float64(-u) - 0.5) * 0x1p-64)
	}
	phi := math.Pi / 4 * float64(2*(angle&0x1fffffff)+1) / (1 << 30)
	if angle&(1<<29) != 0 {
		phi = math.Pi/2 - phi
	}
	r := math.Sqrt(-2 * logU)
	x, y = r*math.Cos(phi), r*math.Sin(phi)
	if angle&(1<<31) != 0 {
		x = -x
	}
	if angle&(1<<30) != 0 {
		y = -y
	}
	return x, y
}

// relativeBound is the error bound tested; it is stricter than the one that BoxMuller states.
const relativeBound = 6 * 0x1p-24

func TestBoxMuller_AgainstFloat64(t *testing.T) {
	edges := []uint32{0, 1, 2, 0x7f, 0x80, 0xff, 0x100, 0x101, 0xffff, 0x10000, 0x7fffffff, 0x80000000,
		0xb504f333, 0xb504f300, 0x5a827999, 0xfffffeff, 0xffffff00, 0xfffffffe, 0xffffffff,
		1 << 29, 1<<29 - 1, 1 << 30, 1<<30 - 1, 3 << 30, 0xe0000000}
	worst, worstAbs := 0.0, 0.0
	check := func(hi, lo, angle uint32) {
		x, y := BoxMuller(hi, lo, angle)
		wx, wy := preciseBoxMuller(hi, lo, angle)
		for _, c := range [2][2]float64{{float64(x), wx}, {float64(y), wy}} {
			cut := min(0x1p-24, 0x1p-48/math.Hypot(wx, wy))
			if excess := math.Abs(c[0]-c[1]) - relativeBound*math.Abs(c[1]); !(excess <= cut) {
				t.Fatalf("BoxMuller(%#x, %#x, %#x) = %v, %v; want %v, %v", hi, lo, angle, x, y, wx, wy)
			}
			worstAbs = max(worstAbs, math.Abs(c[0]-c[1]))
			if cut < 1e-12 {
				worst = max(worst, math.Abs(c[0]-c[1])/math.Abs(c[1]))
			}
		}
	}
	for _, hi := range edges {
		for _, lo := range edges {
			for _, angle := range edges {
				check(hi, lo, angle)
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	n := 3_000_000
	if testing.Short() {
		n = 100_000
	}
	for range n {
		hi, lo := rng.Uint32(), rng.Uint32()
		switch rng.IntN(4) {
		case 0: // deep in the tail
			u := rng.Uint64() >> rng.UintN(64)
			hi, lo = uint32(u>>32), uint32(u)
		case 1: // near the centre
			u := ^(rng.Uint64() >> rng.UintN(64))
			hi, lo = uint32(u>>32), uint32(u)
		}
		check(hi, lo, rng.Uint32()>>rng.UintN(30)|rng.Uint32()<<30)
	}
	t.Logf("greatest error: relative %.2f·2^-24, absolute %.2g", worst*(1<<24), worstAbs)
	if worstAbs > 2e-6 {
		t.Errorf("absolute error %g", worstAbs)
	}
}

func TestBoxMuller_ExtremeWords(t *testing.T) {
	if x, y := BoxMuller(0, 0, 0); x < 9.49 || x > 9.5 || !(y > 0) {
		t.Errorf("the smallest u gives %v, %v; want x = √(130 ln 2) = 9.4928, y > 0", x, y)
	}
	x, y := BoxMuller(math.MaxUint32, math.MaxUint32, 0)
	if !(x >= 0 && x < 1e-9 && y >= 0 && y < 1e-9) {
		t.Errorf("the greatest u gives %v, %v; want about 0", x, y)
	}
}
