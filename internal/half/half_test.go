package half

import (
	"math"
	"testing"
)

// The value of each pattern of bits is that of the formula of the format, and the bits of the value are the pattern.
func TestFormats_Exact(t *testing.T) {
	for f, widths := range map[Format]struct{ exponent, fraction int }{BFloat16: {8, 7}, Float16: {5, 10}} {
		for bits := range 1 << 16 {
			fraction := float64(bits & (1<<widths.fraction - 1))
			exponent := bits >> widths.fraction & (1<<widths.exponent - 1)
			bias := 1<<(widths.exponent-1) - 1
			want := math.Ldexp(1+fraction/float64(int(1)<<widths.fraction), exponent-bias)
			switch {
			case exponent == 0:
				want = math.Ldexp(fraction, 1-bias-widths.fraction)
			case exponent == 1<<widths.exponent-1 && fraction == 0:
				want = math.Inf(1)
			case exponent == 1<<widths.exponent-1:
				want = math.NaN()
			}
			if bits>>15 == 1 {
				want = -want
			}
			got := f.Value(uint16(bits))
			if math.IsNaN(want) != math.IsNaN(float64(got)) || !math.IsNaN(want) && (float64(got) != want || math.Signbit(float64(got)) != (bits>>15 == 1)) {
				t.Fatalf("format %d: %04x is %v, want %v", f, bits, got, want)
			}
			if back := f.BitsOf(got); back != uint16(bits) {
				t.Fatalf("format %d: %v has the bits %04x, want %04x", f, got, back, bits)
			}
		}
	}
}
