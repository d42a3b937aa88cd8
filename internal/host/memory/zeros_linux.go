package memory

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Zeros allocates n zeroed numbers. It asks the kernel for pages of 2 MiB
// where the memory fills at least one: a step walks through tens of MiB, often with
// strides above 4 KiB, and would miss the TLB with small pages.
func Zeros[T float32 | int32 | int64 | uint16](n int) []T {
	const page = 2 << 20
	size := int(unsafe.Sizeof(T(0)))
	if size*n < page {
		return make([]T, n)
	}
	m := make([]T, n+page/size)
	m = m[-uintptr(unsafe.Pointer(&m[0]))%page/uintptr(size):][:n:n]
	_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Pointer(&m[0])), size*n/page*page), unix.MADV_HUGEPAGE)
	return m
}
