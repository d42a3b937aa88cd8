package simd

import "unsafe"

// Sizes of the blocks that a product is cut into. kBlock is part of the
// definition of a product's bits (see Gemm); the others are chosen for the
// caches: B's block takes 256 KiB, A's 144 KiB.
const (
	kBlock = 256
	mBlock = 144
	nBlock = 256

	paddedRows = mBlock * 4 / 3 // what A's rows take when panels of 6 or 12 are padded to 8 or 16
	rowPad     = 16             // floats between packed rows, against cache conflicts
	packedRows = 16             // rows of B packed at a time
	skinny     = 16             // columns that make a product skinny
	strip      = 512            // columns of a skinny product's result held at a time
	aligned    = 64             // bytes
)

// Workspace is the scratch memory of one thread. It may be used by one product
// at a time.
type Workspace struct {
	a, b []float32
	c    []float32 // a skinny product's transposed result
	keep []float32 // 1 where a factor is not zero
}

// NewWorkspace allocates the scratch memory that one thread needs for products
// of any shape, about half a MiB.
func NewWorkspace() *Workspace {
	sizes := []int{
		paddedRows * (kBlock + rowPad),
		kBlock * nBlock,
		skinny * strip,
		kBlock,
	}
	total := aligned / 4
	for _, n := range sizes {
		total += n
	}
	mem := make([]float32, total)
	skip := int(-uintptr(unsafe.Pointer(&mem[0]))%aligned) / 4
	mem = mem[skip:]
	cut := func(n int) []float32 {
		part := mem[:n:n]
		mem = mem[n:]
		return part
	}
	return &Workspace{a: cut(sizes[0]), b: cut(sizes[1]), c: cut(sizes[2]), keep: cut(sizes[3])}
}
