package simd

// Transpose writes src, rows×cols, as dst, cols×rows; ldd and lds are the
// lengths of their stored rows. dst must not overlap src.
func Transpose(dst []float32, ldd int, src []float32, lds, rows, cols int) {
	if rows == 0 || cols == 0 {
		return
	}
	active.transpose(dst[:(cols-1)*ldd+rows], ldd, src[:(rows-1)*lds+cols], lds, rows, cols)
}

// Fetch asks for memory that is wanted soon. It is a hint.
func Fetch(x []float32) {
	if active.fetchRows != nil && len(x) > 0 {
		active.fetchRows(&x[0], 0, 1, ceilDiv(len(x), 16))
	}
}
