//go:build gpu

package compile

import (
	"fmt"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
)

func lowerClippedSum(c *compiler, s op.ClippedSum, k call) bool {
	switch f := s.Form.(type) {
	case op.Product:
		lowerClippedProduct(c, f, s.Records, k)
	case op.ConvWeight:
		return sumWeightGradients(c, f, k, k.in[2], s.Records)
	case op.Gather:
		launchScatterAdd(c, f, k, k.in[2])
	default:
		sum := newChannelSum(s.Form, s.Records, k)
		sum.factors = k.in[len(k.in)-1]
		sumChannels(c, sum, k)
	}
	return true
}

// lowerRecordOp queues the operations that a private step adds to an ordinary step, except
// its sums.
func lowerRecordOp(c *compiler, spec op.Operation, k call) bool {
	switch s := spec.(type) {
	case op.RecordGradients:
		return lowerRecordGradients(c, s, k)
	case op.SquaredNorms:
		return lowerSquaredNorms(c, s, k)
	case op.MultiUseNorms:
		lowerMultiUseNorms(c, s, k)
	case op.RowSquares:
		if !k.WithProduct {
			lowerRowSquares(c, k)
		}
	case op.ScaleRows:
		n := k.results()
		c.launch("scale_rows", blocks(n), threads, k.out, k.in[0], k.in[1], int32(n), newDivider(n/k.size(1)))
	case op.StackRows:
		launchConcat(c, s.Blocks, k)
	case op.Scatter:
		first, from := s.Sources()
		c.launch("scatter", blocks(s.Size), threads, k.out, k.in[0], c.constant(first), c.constant(from), int32(s.Size))
	default:
		return false
	}
	return true
}

func lowerRecordGradients(c *compiler, s op.RecordGradients, k call) bool {
	switch f := s.Form.(type) {
	case op.Product:
		if !fitsGridDepth(s.Records) {
			return false
		}
		launchRecordProducts(c, f, s.Records, k)
	case op.ConvWeight:
		return lowerConvRecordGradients(c, f, s.Records, k)
	case op.Gather:
		c.zero(k.out, 4*k.results())
		launchSortedGather(c, "gather_records", f, s.Records, k)
	default:
		sumChannelsPerRecord(c, newChannelSum(s.Form, s.Records, k), k)
	}
	return true
}

func lowerSquaredNorms(c *compiler, s op.SquaredNorms, k call) bool {
	switch f := s.Form.(type) {
	case op.Product:
		lowerProductNorms(c, f, s, k)
	case op.ConvWeight:
		return lowerConvNorms(c, f, s, k)
	case op.Gather:
		launchSortedGather(c, "gather_norms", f, s.Records, k)
	default:
		launchChannelNorms(c, newChannelSum(s.Form, s.Records, k), k)
	}
	return true
}

// clippedProductArgs is the argument of the kernels clipped_product of
// kernels/gradient.cu.
type clippedProductArgs struct {
	A, Delta, Factors, Out      driver.Pointer
	Record                      divider
	Rows, Columns, Depth, Slice int32
	Add, AlignedOut, _          int32
}

// gradientTiles are the tiles for the gradient of a weight: on tensor cores, unless the weight has
// few columns.
//
// An element of a record's gradient then has an error of at most splitRoundings(rows) units of 2⁻²⁴ of
// the sum of its terms' magnitudes. No norm adds it: the gradient's norm is computed from the gradient
// that the sum receives. A clipped sum has an error of at most splitRoundings(maxSliceRows) such units
// for each slice, and norms add it (sumRoundings). A record with a number that rounds to infinity as
// TF32 is left out of the sum, because its norm includes op.OperandNormShare of its operands.
func (c *compiler) gradientTiles(f op.Product) []tile {
	switch {
	case f.Out <= narrowTile.columns:
		return []tile{narrowTile}
	case c.splitsOperands():
		return splitProductTiles
	}
	return productTiles[FP32]
}

// launchGradientTiles launches a kernel of kernels/gradient.cu or convolution_weight.cu. The
// largest tiles are not computed in batches.
func launchGradientTiles(c *compiler, kernel string, t tile, grid dim, args any) {
	kernel += "_" + t.name
	if t.rows == 128 {
		c.launch(kernel, grid, dim{t.threads, 1, 1}, args)
		return
	}
	c.launchPart(kernel, grid, dim{t.threads, 1, 1}, args)
}

// lowerClippedProduct adds Aᵀ·diag(c)·Δ to the accumulator.
func lowerClippedProduct(c *compiler, f op.Product, records int, k call) {
	rows := k.size(1) / f.Out
	length, count := splitByRows(f.In, f.Out, rows)
	args := clippedProductArgs{
		A: k.in[0], Delta: k.in[1], Factors: k.in[2], Out: k.out, Record: newDivider(rows / records),
		Rows: int32(f.In), Columns: int32(f.Out), Depth: int32(rows), Slice: int32(length),
		Add: boolArg(k.accumulate), AlignedOut: alignedArg(k.out, f.Out),
	}
	timed := args
	timed.A, timed.Delta, timed.Factors, timed.Out = 0, 0, 0, 0
	list, unmeasured := schedules(c, c.gradientTiles(f), f.In, f.Out, rows, count)
	launchSchedules(c, list, unmeasured, fmt.Sprintf("clipped_product split %v", c.splitsOperands()), timed, func(s tileSchedule) {
		args := args
		kernel, grid := "clipped_product", dim{uint32(s.tile.count(f.In, f.Out)), 1, 1}
		if !s.separate {
			launchGradientTiles(c, kernel, s.tile, grid, args)
			return
		}
		grid[2] = uint32(count)
		args.Out, args.Add = c.allocScratch(4*f.Size()*count), 0
		launchGradientTiles(c, kernel, s.tile, grid, args)
		launchAddSlices(c, addedSlices{k.out, args.Out, 0, f.Size(), f.Size(), count, op.Identity, k.accumulate})
	})
}

// recordProductArgs is the argument of the kernels record_product of
// kernels/gradient.cu.
type recordProductArgs struct {
	A, Delta, Out                    driver.Pointer
	Rows, Columns, Depth, AlignedOut int32
}

// launchRecordProducts writes AᵀΔ of every record.
func launchRecordProducts(c *compiler, f op.Product, records int, k call) {
	rows := k.size(1) / f.Out / records
	list, unmeasured := schedules(c, c.gradientTiles(f), records*f.In, f.Out, rows, 1)
	of := fmt.Sprintf("%v split %v", []int{f.In, f.Out, rows, records}, c.splitsOperands())
	launchSchedules(c, list, unmeasured, "record_product", of, func(s tileSchedule) {
		launchGradientTiles(c, "record_product", s.tile, dim{uint32(s.tile.count(f.In, f.Out)), uint32(records), 1},
			recordProductArgs{k.in[0], k.in[1], k.out, int32(f.In), int32(f.Out), int32(rows), alignedArg(k.out, f.Out)})
	})
}

// lowerWeightedRows adds up the rows of a matrix, each multiplied by its factor: first
// slices of rows, enough to fill a GPU, then the slices' sums.
func lowerWeightedRows(c *compiler, k call) {
	rows, columns := k.size(1), k.results()
	across := ceil(columns, 32)
	slice := ceil(rows, max(1, min(1024/across, rows/32)))
	count := ceil(rows, slice)
	grid := dim{uint32(across), uint32(count), 1}
	if count == 1 {
		c.launchPart("weighted_rows", grid, threads, k.out, k.in[0], k.in[1], int32(rows), int32(columns), int32(slice), boolArg(k.accumulate))
		return
	}
	partial := c.allocScratch(4 * columns * count)
	c.launchPart("weighted_rows", grid, threads, partial, k.in[0], k.in[1], int32(rows), int32(columns), int32(slice), int32(0))
	launchAddSlices(c, addedSlices{k.out, partial, 0, columns, columns, count, op.Identity, k.accumulate})
}

// lowerRowSquares computes the squared norms of rows. The split of a row depends only on
// its length.
func lowerRowSquares(c *compiler, k call) {
	rows := k.results()
	n := k.size(0) / rows
	chunk := max(8192, ceil(n, maxGridDepth))
	count := ceil(n, chunk)
	var chunks driver.Pointer
	if count > 1 {
		chunks = c.allocScratch(8 * rows * count)
	}
	c.launchPart("row_squares", dim{uint32(rows), uint32(count), 1}, threads,
		k.out, chunks, k.in[0], int32(n), int32(chunk), int32(count), int32(squaresBlock(n)[0]))
	if count > 1 {
		c.launchPart("sum_chunks", blocks(rows), threads, k.out, chunks, int32(rows), int32(count))
	}
}

// squaresBlock is the size of a block that adds n squares.
func squaresBlock(n int) dim { return dim{uint32(min(max(ceil(n, 8*32), 1), 8) * 32), 1, 1} }
