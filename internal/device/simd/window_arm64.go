//go:build !noasm

package simd

import "unsafe"

func copyTap1NEON(dst *float32, cols int, img *float32, offset, lds, rows, w, width int) {
	left, right := clipRange(w, 1, width, cols)
	copyRows1NEON(dst, cols, addressOf(img, offset+w+left, left < right), lds, rows, left, right-left)
}

func copyTap2NEON(dst *float32, cols int, img *float32, offset, lds, rows, w, width int) {
	left, right := clipRange(w, 2, width, cols)
	copyRows2NEON(dst, cols, addressOf(img, offset+w+2*left, left < right), lds, rows, left, right-left)
}

// addressOf returns the address of p[i], or p if nothing is read there.
func addressOf(p *float32, i int, read bool) *float32 {
	if !read {
		return p
	}
	return (*float32)(unsafe.Add(unsafe.Pointer(p), 4*i))
}
