//go:build gpu

package compile

import (
	"fmt"
	"strconv"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/half"
	"gorgonia.org/tensor"
)

// lowerProductOp queues products of matrices.
func lowerProductOp(c *compiler, spec op.Operation, k call) bool {
	switch s := spec.(type) {
	case op.MatMul:
		launchProduct(c, newMatrixProduct(s, k.shapes, k))
	case op.MatVec:
		matrices, shapes := s.Product(k.shapes)
		launchProduct(c, newMatrixProduct(matrices, shapes, k))
	case op.Linear:
		p := newMatrixProduct(op.MatMul{}, k.shapes, k)
		p.bias, p.act = k.in[2], s.Act
		launchProduct(c, p)
	case op.Dot:
		lowerDot(c, k)
	default:
		return false
	}
	return true
}

// newMatrixProduct is the product of the first two operands, matrices of these shapes.
func newMatrixProduct(s op.MatMul, shapes []tensor.Shape, k call) matrixProduct {
	m, n, d, _ := s.Sizes(shapes[0], shapes[1])
	return matrixProduct{
		a: k.in[0], b: k.in[1], format: k.formats[1], out: k.out, transA: s.TransA, transB: s.TransB, rows: m, columns: n, depth: d,
	}
}

// lowerDot computes an inner product in float64: first of parts, then the sum of the
// parts.
func lowerDot(c *compiler, k call) {
	n := k.size(0)
	parts := min(ceil(n, 4096), 256)
	partial := c.allocScratch(8 * parts)
	c.launch("dot_parts", dim{uint32(parts), 1, 1}, threads, partial, k.in[0], k.in[1], int32(n))
	c.launch("dot", dim{1, 1, 1}, threads, k.out, partial, int32(parts))
}

var (
	// productTiles are the tiles of kernels/product.cu, by precision; the FP32 tiles are also
	// those of kernels/gradient.cu. narrowTile is for few columns.
	productTiles = map[Precision][]tile{
		FP32: {{"128", 128, 128, 256}, {"64", 64, 64, 128}, {"32", 32, 32, 64}},
		TF32: {{"128_tf32", 128, 128, 256}, {"64_tf32", 64, 64, 128}},
		BF16: {{"128_bf16", 128, 128, 256}, {"64_bf16", 64, 64, 128}},
	}
	narrowTile = tile{"16", 64, 16, 64}
	// splitProductTiles are those of kernels/gradient.cu for split operands.
	splitProductTiles = []tile{{"64x128_split", 64, 128, 256}, {"64_split", 64, 64, 128}, {"32_split", 32, 32, 64}}
)

// splitSum divides a sum of depth terms into at most most slices that are added
// separately. It returns the length and the number of slices. The split is part of the
// order of the sum.
func splitSum(depth, most int) (length, count int) {
	length = ceil(ceil(depth, max(most, 1)), 32) * 32
	return length, ceil(depth, length)
}

// splitByShape splits a sum over the elements of a row. It does not depend on the number
// of rows, so a record gets the same bits in every microbatch.
func splitByShape(columns, depth int) (length, count int) {
	return splitSum(depth, min(ceil(depth, 256), 128/ceil(columns, 64)))
}

// maxSliceRows is the largest number of rows, of any records, that are added one after the
// other; the norms include the error of this many roundings (sumRoundings).
const maxSliceRows = 256

// splitByRows splits a sum over the rows of a microbatch so that the blocks of all slices
// fill a GPU.
func splitByRows(rows, columns, depth int) (length, count int) {
	most := min(ceil(depth, 32), 256/(ceil(rows, 64)*ceil(columns, 64)))
	return splitSum(depth, max(most, ceil(depth, maxSliceRows)))
}

// productArgs is the argument of the kernels of kernels/product.cu.
type productArgs struct {
	A, B, Bias, Out                  driver.Pointer
	Rows, Columns, Depth, Slice, Act int32
	AlignedA, AlignedB, AlignedOut   int32
	Format, _                        int32 // of B
}

// matrixProduct is out = act(A·B + bias).
type matrixProduct struct {
	a, b, bias, out      driver.Pointer
	format               half.Format // of b
	transA, transB       bool
	rows, columns, depth int
	act                  op.Activation
	unaligned            bool // rows of other records start at addresses that a library may treat in another way
}

func launchProduct(c *compiler, p matrixProduct) {
	if !p.transA && p.columns <= 32 {
		launchSkinny(c, p)
		return
	}
	length, count := splitByShape(p.columns, p.depth)
	if p.transA {
		length, count = splitByRows(p.rows, p.columns, p.depth)
	}
	layouts := map[bool]string{false: "n", true: "t"}[p.transA] + map[bool]string{false: "n", true: "t"}[p.transB]
	tiles := productTiles[c.options.Precision]
	switch {
	case p.transA && p.transB: // rare
		tiles = productTiles[FP32][2:]
	case p.columns <= narrowTile.columns:
		tiles = []tile{narrowTile}
	}
	args := productArgs{
		A: p.a, B: p.b, Out: p.out,
		Rows: int32(p.rows), Columns: int32(p.columns), Depth: int32(p.depth), Slice: int32(length), Act: int32(p.act),
		AlignedA: alignedArg(p.a, p.depth), AlignedB: alignedArg(p.b, p.depth), AlignedOut: alignedArg(p.out|p.bias, p.columns),
		Format: int32(p.format),
	}
	suffix := ""
	if p.format != half.None {
		suffix = "_half"
	}
	list, unmeasured := schedules(c, tiles, p.rows, p.columns, p.depth, count)
	multiplyWithCuBLASLt(c, p, func() {
		launchSchedules(c, list, unmeasured, fmt.Sprintf("product_%s precision %v", layouts, c.options.Precision), args.timed(), func(s tileSchedule) {
			args := args
			kernel, grid := "product_"+layouts+"_"+s.tile.name+suffix, dim{uint32(s.tile.count(p.rows, p.columns)), 1, 1}
			if !s.separate {
				args.Bias = p.bias
				c.launch(kernel, grid, dim{s.tile.threads, 1, 1}, args)
				return
			}
			args.Out, args.Act = c.allocScratch(4*p.rows*p.columns*count), 0
			grid[2] = uint32(count)
			c.launch(kernel, grid, dim{s.tile.threads, 1, 1}, args)
			launchAddSlices(c, p.slices(args.Out, count))
		})
	})
}

// slices describes slices of the product that were computed separately.
func (p matrixProduct) slices(partial driver.Pointer, count int) addedSlices {
	return addedSlices{p.out, partial, p.bias, p.rows * p.columns, p.columns, count, p.act, false}
}

// timed is what the time of a product depends on.
func (a productArgs) timed() productArgs {
	a.A, a.B, a.Bias, a.Out = 0, 0, 0, 0
	return a
}

// cublasltProduct is a product of matrices; each row belongs to one record.
type cublasltProduct driver.Product

func (p cublasltProduct) records() (count, in, weights, out int) { return p.M, p.K, p.K * p.N, p.N }

func (p cublasltProduct) prepare(l *mathLibraries, o operands) (*driver.PreparedCall, error) {
	b, err := l.blas()
	if err != nil {
		return nil, err
	}
	return b.Prepare(driver.Product(p), o.in, o.weights, o.out)
}

// multiplyWithCuBLASLt queues a product for cuBLASLt, or for dptrain's own kernels, which
// own queues.
func multiplyWithCuBLASLt(c *compiler, p matrixProduct, own func()) {
	// A sum over records, a matrix that the library does not read, or rows that it could treat in different ways.
	if p.transA || p.format != half.None || p.unaligned {
		own()
		return
	}
	s := cublasltProduct{TransB: p.transB, M: p.rows, N: p.columns, K: p.depth, Precision: driver.Precision(c.options.Precision)}
	useLibrary(c, "cuBLASLt", libraryTask{s, operands{p.a, p.b, p.out}}, own, func() {
		if p.bias != 0 || p.act != op.Identity {
			launchAddSlices(c, p.slices(p.out, 1))
		}
	})
}

// skinnyArgs is the argument of the kernels of kernels/skinny.cu.
type skinnyArgs struct {
	A, B, Bias, Out                       driver.Pointer
	Rows, Columns, Depth, Transposed, Act int32
	Format                                int32 // of B
}

// launchSkinny computes a product with few columns. A warp computes one row, or several
// rows if there are enough.
func launchSkinny(c *compiler, p matrixProduct) {
	args := skinnyArgs{
		p.a, p.b, p.bias, p.out, int32(p.rows), int32(p.columns), int32(p.depth), boolArg(p.transB), int32(p.act), int32(p.format),
	}
	kernel, high := "skinny_32", 2
	switch {
	case p.columns <= 4:
		kernel, high = "skinny_4", 4
	case p.columns <= 16:
		kernel, high = "skinny_16", 4
	}
	if ceil(p.rows, 4*high) < c.device.Multiprocessors() {
		high = 1
	}
	c.launch(kernel+"_"+strconv.Itoa(high), dim{uint32(ceil(p.rows, 4*high)), 1, 1}, dim{128, 1, 1}, args)
}

// addedSlices are the slices of a product of size elements, in rows of columns.
type addedSlices struct {
	out, partial, bias   driver.Pointer
	size, columns, count int
	act                  op.Activation
	add                  bool
}

// launchAddSlices ends a product whose slices were computed separately: out = act(Σ +
// bias), or out += Σ.
func launchAddSlices(c *compiler, s addedSlices) {
	c.launchPart("add_slices", blocks(s.size), threads,
		s.out, s.partial, s.bias, int32(s.size), int32(s.columns), int32(s.count), int32(s.act), boolArg(s.add), int32(0))
}

func boolArg(x bool) int32 {
	if x {
		return 1
	}
	return 0
}

// alignedArg is 1 if all rows of n floats start at multiples of 16 bytes.
func alignedArg(p driver.Pointer, n int) int32 { return boolArg(p%16 == 0 && n%4 == 0) }
