package simd

import "github.com/dptrain/dptrain/internal/half"

// Widen converts 16-bit numbers to float32.
func Widen(dst []float32, src half.Numbers) {
	if len(dst) > 0 {
		active.widen(dst, 0, half.Numbers{Format: src.Format, Bits: src.Bits[:len(dst)]}, 0, 1, len(dst))
	}
}

// widen sets dst[r*ldd+c] to the number src[r*lds+c] for each of some rows and columns.
func (k *kernels) widen(dst []float32, ldd int, src half.Numbers, lds, rows, cols int) {
	whole := cols &^ 7
	if whole > 0 {
		_, _ = dst[(rows-1)*ldd+whole-1], src.Bits[(rows-1)*lds+whole-1]
		blocks := k.widenBFloat16
		if src.Format == half.Float16 {
			blocks = k.widenFloat16
		}
		blocks(&dst[0], ldd, &src.Bits[0], lds, rows, whole/8)
	}
	for r := range rows {
		for c := whole; c < cols; c++ {
			dst[r*ldd+c] = src.Format.Value(src.Bits[r*lds+c])
		}
	}
}
