package random

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestNormals64_AgainstMath(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	worst := 0.0
	for range 300_000 {
		u, angle := rng.Uint64()>>rng.UintN(60), rng.Uint64()
		x, y := boxMuller64(u, angle)
		r := math.Sqrt(-2 * math.Log((float64(u)+0.5)*0x1p-64))
		if u>>63 == 1 {
			r = math.Sqrt(-2 * math.Log1p(-(float64(-u)-0.5)*0x1p-64))
		}
		phi := math.Pi / 4 * (2*float64(angle&(1<<61-1)) + 1) / (1 << 62)
		a, b := math.Cos(phi), math.Sin(phi)
		if angle>>61&1 == 1 {
			a, b = b, a
		}
		a, b = math.Copysign(a*r, float64(1)-float64(angle>>63)*2), math.Copysign(b*r, float64(1)-float64(angle>>62&1)*2)
		worst = max(worst, math.Abs(x-a)/math.Abs(a), math.Abs(y-b)/math.Abs(b))
	}
	t.Logf("greatest relative error %.2f·2^-53", worst*(1<<53))
	if worst > 12*0x1p-53 {
		t.Errorf("relative error %g", worst)
	}
}

// negativeLog at the ends and across its branch points, against 200-bit arithmetic.
func TestNegativeLog_Against200Bits(t *testing.T) {
	for _, u := range []uint64{0, 1, 2, 1<<32 - 1, 1 << 32, 1<<62 + 12345, 0xb504f333f9de6484, 0xb504f333f9de6000,
		1 << 63, 1<<63 - 1, math.MaxUint64 - 1<<40, math.MaxUint64 - 1<<52} {
		got := negativeLog(u)
		want, _ := bigNegativeLog(u).Float64()
		if e := math.Abs(got-want) / want; !(e < 4*0x1p-53) {
			t.Errorf("minusLog(%#x) = %v, want %v, relative error %.2f·2^-53", u, got, want, e*(1<<53))
		}
	}
	if v := negativeLog(math.MaxUint64); v < 0 || v > 0x1p-60 {
		t.Errorf("minusLog(2^64-1) = %v", v)
	}
}

// bigNegativeLog sums 2 artanh((1-x)/(1+x)) = -ln x after halving x's distance to 1
// by square roots.
func bigNegativeLog(u uint64) *big.Float {
	const precision = 256
	num := func(v float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(v) }
	x := new(big.Float).SetPrec(precision).SetUint64(u)
	x.Add(x, num(0.5)).SetMantExp(x, -64)
	doublings := 0
	for x.Cmp(num(0.9)) < 0 {
		x.Sqrt(x)
		doublings++
	}
	s := num(0).Quo(num(0).Sub(num(1), x), num(0).Add(num(1), x))
	square := num(0).Mul(s, s)
	sum, power := num(0), s
	for k := 1; k < 80; k += 2 {
		sum.Add(sum, num(0).Quo(power, num(float64(k))))
		power = num(0).Mul(power, square)
	}
	return sum.SetMantExp(sum, doublings+1)
}
