//go:build gpu

package compile

import (
	"strconv"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// Squared norms satisfy the bound of clipping.Float32Accuracy, ‖u‖² ≤ (sq + 1e-30)/(1 − 1e-5), for
// every record. Squares are added in float64, where none overflows or underflows. Where
// terms can cancel, a bound on the rounding error is added. Where a float32 sum adds rows
// of a record that may cancel, the error that its roundings leave is added as well.

func lowerProductNorms(c *compiler, f op.Product, s op.SquaredNorms, k call) {
	switch k.Norms {
	case plan.RankOneNorms:
		launchRankOne(c, f, s.Records, k)
	case plan.GramNorms:
		lowerProductGram(c, f, s.Records, k.size(1)/f.Out/s.Records, k)
	default:
		lowerMultiUseNorms(c, op.MultiUseNorms{Uses: &[]op.MappedForm{{Form: s.Form}}, Size: s.Form.Size(), Records: s.Records}, k)
	}
}

// operandPair identifies the operands of a product: the buffers of A and Δ and their lengths.
type operandPair struct{ a, delta, in, out, records int }

// rowSection is the number of floats whose squares a block of kernels/rounded_rows.cu adds up.
const rowSection = 1 << 14

// launchRankOne computes the norms of products of one row. With them it computes those of a bias with
// the same Δ, and the lengths of both rows, from which an exact sum chooses the scale of its rounding.
func launchRankOne(c *compiler, f op.Product, records int, k call) {
	var signals, lengths driver.Pointer
	if k.BiasNorms >= 0 {
		signals = c.buffers.address[k.BiasNorms]
		c.access.writes = append(c.access.writes, c.buffers.span(k.BiasNorms))
	}
	if c.program.Exact && max(f.In, f.Out) <= rowSection {
		lengths, _ = c.sharedMemory(operandPair{k.bases[0], k.bases[1], f.In, f.Out, records}, 16*records)
	}
	c.launchPart("rank_one", dim{uint32(records), 1, 1}, threads,
		k.out, signals, lengths, k.in[0], k.in[1], op.OperandNormShare, int32(f.In), int32(f.Out),
		int32(squaresBlock(f.In + f.Out)[0]), int32(0))
}

// gramNorm is a squared norm computed from Gram matrices by the kernels of kernels/gram.cu
// and convolution_norm.cu.
type gramNorm struct {
	kernel  string
	args    []any
	tiles   []int // sizes of the float kernels' tiles, the smaller first
	splits  bool  // there is a kernel for split operands
	records int
	groups  int // products of a record; their squared norms add up
	rows    int // of a record
	na, nd  int // elements of a row of A and of Δ
	delta   int // the buffer of a Δ that other products share, or -1

	otherRowsRoundings int // roundings by other records' rows between two uses
}

// gramArgs is struct Gram of kernels/gram.h. Selected selects the records to compute; 0
// selects all.
type gramArgs struct {
	Partial, DeltaGrams, Selected     driver.Pointer
	SignalsStored, Rows, Pairs, Slice int32
}

// gramErrorBound is struct GramError of kernels/gram.cu.
type gramErrorBound struct{ Gamma, Underflow float64 }

func lowerProductGram(c *compiler, f op.Product, records, rows int, k call) {
	shared := -1
	if k.SharesSignals {
		shared = k.bases[1]
	}
	launchGramNorms(c, gramNorm{
		kernel: "product_gram", tiles: []int{32, 64}, splits: true,
		args: []any{gramRows{
			k.in[0], k.in[1], int32(f.In), int32(f.Out), alignedArg(k.in[0], f.In), alignedArg(k.in[1], f.Out),
		}},
		records: records, groups: 1, rows: rows, na: f.In, nd: f.Out, delta: shared,
	}, k.out)
}

// gramRows is struct Rows of kernels/gram.cu.
type gramRows struct {
	A, Delta                        driver.Pointer
	In, Out, AlignedA, AlignedDelta int32
}

// splitsOperandsOn reports whether norms and records' gradients are computed on tensor cores, from
// operands that are split in two TF32 numbers (kernels/split.h): if the precision allows tensor
// cores, where three products of TF32 numbers take less time than one in float32. They take as much
// or more on 8.6, 8.9 and 12.0, which multiply two to four times as many TF32 as float32 numbers in
// the same time.
func splitsOperandsOn(arch int, p Precision) bool {
	return p != FP32 && (arch == 80 || arch == 90 || arch/10 == 10)
}

func (c *compiler) splitsOperands() bool {
	return splitsOperandsOn(c.device.Arch(), c.options.Precision)
}

// minSplitGram is the number of multiplications for a record from which Gram matrices of split
// operands pay for the two launches that they add, on a GPU with fast doubles. Predicted for 16
// records on an H100: 34 million multiplications take 1.7 µs in double at 60% of the peak.
var minSplitGram = 2 << 20

// launchGramNorms computes norms in double. Where split operands on tensor cores, or float, are
// faster, it computes them so, and recomputes in double only the records whose result is not
// accurate enough.
func launchGramNorms(c *compiler, g gramNorm, out driver.Pointer) {
	const tile = 32
	var recompute driver.Pointer
	slow := c.device.SlowDoubles()
	switch {
	case g.splits && c.splitsOperands() && (slow || g.groups*g.rows*g.rows/2*(g.na+g.nd) >= minSplitGram):
		recompute = launchSplitGramNorms(c, g, out)
	case slow:
		recompute = launchFloatGramNorms(c, g, out)
	}
	args, grid := newGramArgs(c, g, tile, 3)
	if args.Selected = recompute; recompute == 0 {
		shareDeltaGrams(c, &args, g, g.kernel, 8*tile*tile)
	}
	c.launchPart(g.kernel, grid, dim{128, 1, 1}, append([]any{args}, g.args...)...)
	c.launchPart("gram_norms", dim{uint32(ceil(g.records, 4)), 1, 1}, dim{128, 1, 1},
		out, args.Partial, recompute, int32(g.records), args.Pairs*int32(g.groups),
		2*float64(g.na+g.nd+2*g.rows+8)*op.Roundoff, g.errorTerms(c))
}

// gramErrorTerms is struct ErrorTerms of kernels/gram.cu.
type gramErrorTerms struct{ SumError, OperandShare float64 }

// sumRoundings bounds the error that a record's rows leave in a sum over records, in units of 2⁻²⁴ of
// the sum of their magnitudes, each multiplied by the clip factor. In float32 it is the number of
// roundings that the rows pass through where they are added one by one. If the rows lie in two slices
// and cancel, the rows of other records in either slice are rounded as coarsely as the cancelled terms.
// With split operands it is the bound of kernels/split.h for a slice with rows of any records, and a
// rounding for each slice that is added.
func (c *compiler) sumRoundings(rows int) int {
	if c.splitsOperands() {
		return rows + 1 + splitRoundings(maxSliceRows)
	}
	return rows + 1 + maxSliceRows
}

// errorTerms is the rounding error relative to the sum of the rows' lengths.
func (g gramNorm) errorTerms(c *compiler) gramErrorTerms {
	return gramErrorTerms{float64(c.sumRoundings(g.rows)+g.otherRowsRoundings) * op.SingleRoundoff, op.OperandNormShare}
}

// gramSlice is the number of products that are added in float before their sum is added to
// a larger sum: few, so that the bound on their rounding error is small.
const gramSlice = 64

// gramErrors is what gram_norms_float of kernels/gram.cu needs to bound the errors of Gram
// matrices: those of AAᵀ and ΔΔᵀ, that of their inner product, and the least number where
// products underflow.
type gramErrors struct {
	A, Delta  gramErrorBound
	Dot, Tiny float64
}

// launchFloatGramNorms computes norms in float and returns a mark for each record that
// must be recomputed in double.
func launchFloatGramNorms(c *compiler, g gramNorm, out driver.Pointer) (recompute driver.Pointer) {
	tile := g.tiles[0]
	if g.rows > tile {
		tile = g.tiles[len(g.tiles)-1]
	}
	args, grid := newGramArgs(c, g, tile, 5)
	kernel := g.kernel + "_float_" + strconv.Itoa(tile)
	shareDeltaGrams(c, &args, g, kernel, 4*tile*tile)
	c.launchPart(kernel, grid, dim{2 * uint32(tile), 1, 1}, append([]any{args}, g.args...)...)

	// An element is a sum of n products that passes through k roundings. Its error is at
	// most γ = k·u/(1 − k·u) times the product of the two rows' lengths, u = 2⁻²⁴ (Higham
	// 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1), plus n·2⁻¹⁴⁹
	// where products underflow.
	const least = 0x1p-149
	bound := func(n int) gramErrorBound {
		return newGramErrorBound(min(n, gramSlice)+ceil(n, gramSlice), float64(g.groups*g.rows*n)*least)
	}
	const ofThread = 32 // results per thread, added in float
	return launchBoundedNorms(c, g, args, gramErrors{bound(g.na), bound(g.nd), (ofThread + 2) * op.SingleRoundoff,
		2 * float64(g.groups*g.rows*g.rows) * least}, out)
}

// newGramErrorBound bounds the error of a Gram matrix. Each element has an error of at most k units of
// 2⁻²⁴ of the product of two rows' lengths. Squared and summed over all pairs of rows, this applies to
// the sum of the rows' squared lengths, the trace; γ/(1 − γ) applies to the computed trace.
func newGramErrorBound(k int, underflow float64) gramErrorBound {
	ku := float64(k) * op.SingleRoundoff
	gamma := ku / (1 - ku)
	return gramErrorBound{gamma / (1 - gamma), underflow}
}

// splitGramSlice is the number of elements of a row whose products kernels/gram_split.h adds on
// tensor cores before it adds their sum to a larger sum.
const splitGramSlice = 32

// splitRoundings is the bound of kernels/split.h for a sum of n products, in units of 2⁻²⁴ of the
// sum of their magnitudes.
func splitRoundings(n int) int { return 25 * (ceil(n, 8) + 1) }

// launchSplitGramNorms is launchFloatGramNorms with split operands on tensor cores.
func launchSplitGramNorms(c *compiler, g gramNorm, out driver.Pointer) (recompute driver.Pointer) {
	const tile = 32
	args, grid := newGramArgs(c, g, tile, 5)
	kernel := g.kernel + "_split"
	shareDeltaGrams(c, &args, g, kernel, 8*tile*tile)
	c.launchPart(kernel, grid, dim{128, 1, 1}, append([]any{args}, g.args...)...)

	// Each of four warps adds every fourth group of 16 elements, in slices whose sums it adds
	// in float32; the sums of the warps, and everything after them, are added in float64.
	// Where numbers below h = 2⁻¹²⁶ are replaced by 0, an element of the rows x and y has an
	// error of at most h·Σ(2|x| + 2|y| + 5) ≤ h·(7n + ‖x‖² + ‖y‖²). In the Frobenius norm this
	// is at most h·(7n·rows² + 2·rows·trace). The last term is less than a millionth of γ.
	bound := func(n int) gramErrorBound {
		return newGramErrorBound(splitRoundings(min(n, splitGramSlice))+ceil(n, 4*splitGramSlice)+1,
			7*float64(g.groups*g.rows*g.rows*n)*0x1p-126)
	}
	return launchBoundedNorms(c, g, args, gramErrors{bound(g.na), bound(g.nd), float64(64+g.groups*int(args.Pairs)) * op.Roundoff, 0}, out)
}

func launchBoundedNorms(c *compiler, g gramNorm, args gramArgs, e gramErrors, out driver.Pointer) (recompute driver.Pointer) {
	recompute = c.allocScratch(4 * g.records)
	c.launchPart("gram_norms_float", dim{uint32(ceil(g.records, 4)), 1, 1}, dim{128, 1, 1},
		out, recompute, args.Partial, int32(g.records), args.Pairs*int32(g.groups), e, g.errorTerms(c))
	return recompute
}

// newGramArgs returns the layout of blocks of square tiles and the grid; each block writes
// sums numbers.
func newGramArgs(c *compiler, g gramNorm, tile, sums int) (args gramArgs, grid dim) {
	tiles := ceil(g.rows, tile)
	pairs := tiles * (tiles + 1) / 2
	blocks := g.records * g.groups * pairs
	args = gramArgs{Partial: c.allocScratch(8 * sums * blocks), Rows: int32(g.rows), Pairs: int32(pairs), Slice: gramSlice}
	return args, dim{uint32(blocks), 1, 1}
}

// deltaGramKey identifies the ΔΔᵀ of a buffer's rows that a kernel computes. Another product
// may read the same buffer in rows of another width.
type deltaGramKey struct {
	kernel       string
	delta, width int
}

// shareDeltaGrams allocates memory for ΔΔᵀ of every record if several products have the same Δ and
// ΔΔᵀ is smaller than Δ.
// tile is the number of bytes of a pair of tiles.
func shareDeltaGrams(c *compiler, args *gramArgs, g gramNorm, kernel string, tile int) {
	size := int(args.Pairs) * tile
	if g.delta < 0 || size > 4*g.rows*g.nd {
		return
	}
	var stored bool
	args.DeltaGrams, stored = c.sharedMemory(deltaGramKey{kernel, g.delta, g.nd}, g.records*size)
	args.SignalsStored = boolArg(stored)
}
