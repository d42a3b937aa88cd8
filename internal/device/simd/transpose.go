package simd

// transpose writes the transpose of src, rows×cols, to dst. Blocks of 8×8 cover it; the last
// ones are moved back so that they fit and overlap others.
func (k *kernels) transpose(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	if rows < 8 || cols < 8 {
		for c := range cols {
			for r := range rows {
				dst[c*ldd+r] = src[r*lds+c]
			}
		}
		return
	}
	for r := 0; r < rows; r += 8 {
		r := min(r, rows-8)
		k.transpose8(&dst[r], ldd, &src[r*lds], lds, cols/8)
		if c := cols - 8; cols%8 != 0 {
			k.transpose8(&dst[c*ldd+r], ldd, &src[r*lds+c], lds, 1)
		}
	}
}

// Transpose writes the transpose of src, rows×cols, to dst. ldd and lds are the distances
// between their stored rows. dst must not overlap src.
func Transpose(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	if rows == 0 || cols == 0 {
		return
	}
	active.transpose(dst[:(cols-1)*ldd+rows], ldd, src[:(rows-1)*lds+cols], lds, rows, cols)
}

// Prefetch prefetches memory that is read soon. It has no effect on results.
func Prefetch(x []float32) {
	if active.prefetchRows != nil && len(x) > 0 {
		active.prefetchRows(&x[0], 0, 1, ceilDiv(len(x), 16))
	}
}
