package cpu

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// zeros allocates n zeroed float32 numbers. It asks the kernel for pages of 2 MiB
// where the memory fills at least one: a step walks through tens of MiB, often with
// strides above 4 KiB, and would miss the TLB with small pages.
func zeros(n int) []float32 {
	const page = 2 << 20
	if 4*n < page {
		return make([]float32, n)
	}
	m := make([]float32, n+page/4)
	m = m[-uintptr(unsafe.Pointer(&m[0]))%page/4:][:n:n]
	_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Pointer(&m[0])), 4*n/page*page), unix.MADV_HUGEPAGE)
	return m
}
