package lattice

// kernels is one implementation of all code that depends on the processor. The comments are the
// contract of every implementation; all give the same bits. Sums of int32 are modulo 2^32, sums
// of int64 modulo 2^64. Counts may be 0 where stated.
type kernels struct {
	name string

	// rounding selects the implementation of quantize and round. It is not a table of
	// functions, because the compiler would move the buffers of the last elements of a row to the
	// heap. AVX-512 has quantizeAll and roundAll instead. They round several rows of at least one
	// element, and write each row's squared norm, or for a refused row a larger number than the
	// squared norm of any other row.
	rounding    instructionSet
	vnni        bool // of AVX-512
	wholeBlocks bool // quantize and round take whole blocks of blockSize elements only

	lanes  int // the columns of a tile are a multiple of it
	mr, nr int // rows and columns of the largest tile
	// depth is the number of rows of an operand that are packed together: element (p, i) of a
	// packed operand, at (p·ld+i)·depth, is column i of the rows p·depth … (p+1)·depth−1.
	depth int
	// tile computes the m×n sums Σ_p a(p, i)·b(p, j) over steps of packed operands and stores them
	// in part. n is a multiple of lanes. It adds what part contains if flagAdd is set.
	tile func(m, n, steps int, a *int16, lda int, b *int16, ldb int, part *int32, ldp int, flags int)
	// direct is tile for nr columns and an operand B of some rows that are not packed: column j of
	// row k is b[k·ldb+j]. It is nil if depth is 1.
	direct func(m, rows int, a *int16, lda int, b *int16, ldb int, part *int32, ldp int, flags int)
	// interleave packs rows of n elements, ldx elements apart. Rows after the last one count as
	// zeros. It is nil if depth is 1.
	interleave func(dst *int16, ld int, x *int16, ldx, rows, n int)
	// columns packs columnsTile steps of as many rows, n elements apart, as columns:
	// dst[(p·ld+t)·depth+q] = rows[t·n+p·depth+q]. It may be nil.
	columns func(dst *int16, ld int, rows *int16, n int)

	// transpose8 writes dst[c·ldd+r] = src[r·lds+c] for r < 8 and c < 8·blocks. It may be nil.
	transpose8 func(dst *int16, ldd int, src *int16, lds, blocks int)
	// copyRuns copies runs of at most 4 or 8 elements. It may be nil.
	copyRuns [2]copyRunsFunc

	// addToRows adds x, of dim ≥ 1 elements, to n ≥ 1 rows of sum, whose numbers are in rows.
	// It may be nil.
	addToRows func(sum, x *int32, dim int, rows *int32, n int)
	addInts   func(sum, part *int32, n int) // sum += part; n may be 0
	// addShortRows adds n ≥ 1 rows of x to sum, which has their width ≥ 1. It may be nil.
	addShortRows func(sum, x *int32, width, n int)
	innerProduct func(x, y *int32, n int) int64 // Σ x·y; n may be 0
	sumSquares   func(x *int16, n int) int64    // Σ x²; n may be 0

	// In the following functions n is a multiple of 8 and may be 0.

	// scaleInts writes dst = float32(float64(x)·scale), with a rounding after each conversion and
	// operation.
	scaleInts func(dst *float32, x *int64, n int, scale float64)
	// settle sets high to ⌊s/2^28⌋, and readSums sets dst to s, of the sum s that low and high
	// determine: see sumOf. They may be nil.
	settle   func(low *int32, high *int16, n int)
	readSums func(dst *int64, low *int32, high *int16, n int)
}

// copyRunsFunc copies, for each of some positions, n runs of contiguous elements of src one after
// the other to dst. A run starts at starts[i]; positions are step elements apart. It reads and
// writes whole words: up to 4 or 8 elements from the start of a run.
type copyRunsFunc = func(dst, src *int16, starts *int32, n, run, positions, step int)

// columnsTile is the number of rows and of steps that columns packs.
const columnsTile = 8

// flagAdd is a flag of a tile: start from the sums in part.
const flagAdd = 1

// instructionSet names code for a processor.
type instructionSet int

const (
	goCode instructionSet = iota
	avx2
	avx512
	neon
)

// supported lists the implementations that this processor can run, the fastest last. Pure Go is
// the first.
var supported = append([]*kernels{&pureGo}, assembly()...)

var active = supported[len(supported)-1]

// ISA names the instruction set in use: "go", "avx2", "avx512", "avx512vnni" or "neon".
func ISA() string { return active.name }
