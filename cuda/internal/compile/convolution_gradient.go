//go:build gpu

package compile

import (
	"fmt"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/setting"
)

// weightGradientArgs is the argument of the kernels of kernels/convolution_weight.cu.
type weightGradientArgs struct {
	Images               patchImages
	Taps, Corners        driver.Pointer
	Delta, Factors, Out  driver.Pointer
	Positions, PerRecord divider
	Area                 int32
	Outputs, Width       int32
	Groups, ImageCount   int32
	Slices, Slice        int32
	_                    int32
}

// floatWeightTiles and splitWeightTiles are the tiles of kernels/convolution_weight.cu in float32 and
// for split operands.
var (
	floatWeightTiles = []tile{
		{"128x128", 128, 128, 256}, {"64x128", 64, 128, 128}, {"64x64", 64, 64, 128},
		{"32x64", 32, 64, 64}, {"32x32", 32, 32, 64},
	}
	splitWeightTiles = []tile{
		{"64x128_split", 64, 128, 256}, {"64x64_split", 64, 64, 128}, {"32x64_split", 32, 64, 64}, {"32x32_split", 32, 32, 64},
	}
)

// weightGradientTiles are the tiles for the gradient of a convolution's weight. Their errors are those
// of gradientTiles.
func (c *compiler) weightGradientTiles() []tile {
	if c.splitsOperands() {
		return splitWeightTiles
	}
	return floatWeightTiles
}

// paddedOutputs is the number of output positions of an image, rounded up to a multiple of
// four.
func (v convGeometry) paddedOutputs() int { return ceil(v.outArea, 4) * 4 }

// weightTileCount is approximately the number of tiles of the weight.
func (v convGeometry) weightTileCount() int {
	return v.Groups * ceil(v.groupOutputs, 64) * ceil(v.patchWidth, 64)
}

// weightGradients are sums over the output positions of some images each.
type weightGradients struct {
	x, delta, factors, out  driver.Pointer // factors: of records, 0 if all are 1
	perRecord, sums, images int            // images of a record, sums, images of a sum
	tile                    tile
	length, blocksPerSum    int // of slices
}

// launchWeightGradients computes sums over the output positions, each over this many
// images. A sum's slices may be computed by separate blocks; their results are stored one
// after the other.
func launchWeightGradients(c *compiler, v convGeometry, g weightGradients) {
	args := weightGradientArgs{
		Taps: c.constant(v.taps()), Corners: c.constant(v.corners()), Factors: g.factors,
		Positions: newDivider(v.paddedOutputs()), PerRecord: newDivider(g.perRecord), Area: int32(v.outArea),
		Outputs: int32(v.groupOutputs), Width: int32(v.patchWidth), Groups: int32(v.Groups),
		ImageCount: int32(g.images), Slices: int32(g.blocksPerSum), Slice: int32(g.length),
	}
	kernel := "convolution_weight"
	if g.factors != 0 {
		kernel = "convolution_clipped"
	}
	each := maxGridDepth / g.blocksPerSum
	for first := 0; first < g.sums; first += each {
		n := min(each, g.sums-first)
		at := func(p driver.Pointer, elements int) driver.Pointer { return p + driver.Pointer(4*first*elements) }
		args.Images = v.inputImages(at(g.x, g.images*v.C*v.H*v.W))
		args.Delta, args.Out = at(g.delta, g.images*v.O*v.outArea), at(g.out, g.blocksPerSum*v.Size())
		grid := dim{uint32(g.tile.count(v.groupOutputs, v.patchWidth)), uint32(v.Groups), uint32(n * g.blocksPerSum)}
		launchGradientTiles(c, kernel, g.tile, grid, args)
	}
}

// sumParts are the count parts of each of runs results of size elements.
type sumParts struct {
	at                driver.Pointer
	runs, size, count int
}

// launchAddParts adds up the count parts of each of runs results of size elements; it adds
// up to 32 parts in the order in which one block would.
func launchAddParts(c *compiler, out driver.Pointer, p sumParts, add bool) {
	for first := 0; first < p.runs; first += maxGridDepth {
		n := min(maxGridDepth, p.runs-first)
		c.launchPart("add_parts", dim{uint32(ceil(p.size, 32)), uint32(n), 1}, dim{uint32(32 * min(p.count, 32)), 1, 1},
			out+driver.Pointer(4*first*p.size), p.at+driver.Pointer(4*first*p.size*p.count),
			int32(p.size), int32(p.count), boolArg(add), int32(0))
	}
}

// maxSliceBytes is the memory that the sums of a convolution's slices may take together. It is part of
// the order of the sum.
var maxSliceBytes = 32 << 20

// splitOutputs splits a sum over the output positions of records, with each images per
// record, into slices that fill the GPU. atOnce is the number of records whose slices one
// launch computes: no more than the grid is deep for, and, except for a single record, no
// more than fit maxSliceBytes. It is 0 if the grid is too shallow for one record.
func splitOutputs(c *compiler, v convGeometry, records, each int) (length, count, atOnce int) {
	of := func(records int) (terms int) { return records * each * v.paddedOutputs() }
	terms, most := of(records), ceil(3*c.device.Multiprocessors(), v.weightTileCount())
	length, _ = splitSum(terms, max(min(most, ceil(terms, 64)), ceil(terms, maxSliceRows)))
	if atOnce = min(records, maxGridDepth*length/of(1)); atOnce == 0 {
		return length, 0, 0
	}
	atOnce = max(1, min(atOnce, maxSliceBytes/(4*v.Size())*length/of(1)))
	return length, records/atOnce*ceil(of(atOnce), length) + ceil(of(records%atOnce), length), atOnce
}

// sumWeightGradients adds up the weight gradients of all images: the sum of g_r over all
// records, each multiplied by its clip factor where factors is not 0.
func sumWeightGradients(c *compiler, f op.ConvWeight, k call, factors driver.Pointer, records int) bool {
	v := newConvGeometry(f)
	each := k.size(1) / (v.O * v.outArea) / records // images
	if !v.supported() || !fitsGridDepth(v.Groups) {
		return false
	}
	length, count, atOnce := splitOutputs(c, v, records, each)
	if atOnce == 0 {
		return false
	}
	most := ceil(atOnce*each*v.paddedOutputs(), length) // slices of a launch
	parts := c.allocScratch(4 * v.Size() * most)
	list, unmeasured := schedules(c, c.weightGradientTiles(), v.groupOutputs, v.patchWidth*v.Groups*most, length, 1)
	of := fmt.Sprintf("%+v records %d of %d slices %d split %v", v.ConvWeight, records, each, count, c.splitsOperands())
	launchSchedules(c, list, unmeasured, fmt.Sprintf("convolution weight, clipped %v", factors != 0), of, func(s tileSchedule) {
		x, delta, factors := k.in[0], k.in[1], factors
		for first := 0; first < records; first += atOnce {
			n := min(atOnce, records-first)
			slices := ceil(n*each*v.paddedOutputs(), length)
			launchWeightGradients(c, v, weightGradients{x, delta, factors, parts, each, 1, n * each, s.tile, length, slices})
			launchAddParts(c, k.out, sumParts{parts, 1, v.Size(), slices}, k.accumulate || first > 0)
			x += driver.Pointer(4 * n * each * v.C * v.H * v.W)
			delta += driver.Pointer(4 * n * each * v.O * v.outArea)
			if factors != 0 {
				factors += driver.Pointer(4 * n)
			}
		}
	})
	return true
}

// lowerConvRecordGradients computes each record's gradient. The slices of its sum depend
// only on its shape: a record gets the same bits in every microbatch.
func lowerConvRecordGradients(c *compiler, f op.ConvWeight, records int, k call) bool {
	v := newConvGeometry(f)
	if !v.supported() || !fitsGridDepth(v.Groups) {
		return false
	}
	images := k.size(1) / (v.O * v.outArea) / records
	terms := images * v.paddedOutputs()
	length, count := splitSum(terms, min(ceil(terms, 256), ceil(32, v.weightTileCount())))
	list, unmeasured := schedules(c, c.weightGradientTiles(), v.groupOutputs, v.patchWidth*v.Groups*records, terms, count)
	of := fmt.Sprintf("%+v records %d of %d slices %d split %v", v.ConvWeight, records, images, count, c.splitsOperands())
	launchSchedules(c, list, unmeasured, "convolution weight of records", of, func(s tileSchedule) {
		if !s.separate {
			launchWeightGradients(c, v, weightGradients{k.in[0], k.in[1], 0, k.out, 1, records, images, s.tile, length, 1})
			return
		}
		parts := c.allocScratch(4 * records * v.Size() * count)
		launchWeightGradients(c, v, weightGradients{k.in[0], k.in[1], 0, parts, 1, records, images, s.tile, length, count})
		launchAddParts(c, k.out, sumParts{parts, records, v.Size(), count}, false)
	})
	return true
}

// patchRows is struct RecordImages of kernels/convolution_norm.cu.
type patchRows struct {
	Images                       patchImages
	Taps, Corners, Delta         driver.Pointer
	Area                         divider
	Rows, Groups, Width, Outputs int32
	_                            int32
}

// newPatchRows describes the patches of records with this many rows each.
func newPatchRows(c *compiler, v convGeometry, rows int, x, delta driver.Pointer) patchRows {
	return patchRows{
		Images: v.inputImages(x), Taps: c.constant(v.taps()), Corners: c.constant(v.corners()), Delta: delta,
		Area: newDivider(v.outArea), Rows: int32(rows), Groups: int32(v.Groups), Width: int32(v.patchWidth), Outputs: int32(v.groupOutputs),
	}
}

// lowerConvNorms computes norms. The rows of the product are the patches of a record's
// images. Each group is a separate product; the groups' squared norms and error bounds add
// up.
func lowerConvNorms(c *compiler, f op.ConvWeight, s op.SquaredNorms, k call) bool {
	v := newConvGeometry(f)
	if !v.supported() {
		return false
	}
	if s.Method != op.Gram {
		lowerMultiUseNorms(c, op.MultiUseNorms{Uses: &[]op.MappedForm{{Form: f}}, Size: f.Size(), Records: s.Records}, k)
		return true
	}
	rows := k.size(1) / v.O / s.Records
	launchGramNorms(c, gramNorm{
		kernel: "convolution_gram", tiles: []int{64}, splits: true, args: []any{newPatchRows(c, v, rows, k.in[0], k.in[1])},
		records: s.Records, groups: v.Groups, rows: rows, na: v.patchWidth, nd: v.groupOutputs, delta: -1,
	}, k.out)
	return true
}

// buildConvGradients computes the gradients of fewer than 2^16 records in float64,
// [records, size].
func buildConvGradients(c *compiler, f op.ConvWeight, u parameterUse, records int, out driver.Pointer) {
	v := newConvGeometry(f)
	if !v.supported() || !fitsGridDepth(v.Groups) {
		c.err = setting.Errorf("Device.Name", "no kernel computes the gradient of %v for a weight with several uses; use %v", f, setting.With("Device.Name", "cpu"))
		return
	}
	across := ceil(v.patchWidth, 32)
	c.launch("convolution_double", dim{uint32(ceil(v.groupOutputs, 32) * across), uint32(records), uint32(v.Groups)}, threads,
		out, newPatchRows(c, v, u.na/(f.C*f.H*f.W)*v.outArea, u.a, u.delta), int32(across))
}
