package cpu

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// zeros gives memory for n numbers. Much of it is asked for in pages of 2 MiB: a
// step walks through tens of MiB, often by more than a page of 4 KiB at a time.
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
