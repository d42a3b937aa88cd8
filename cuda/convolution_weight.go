//go:build gpu

package cuda

import (
	"math"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// weightGradient is the argument of the kernels of kernels/convolution_weight.cu.
type weightGradient struct {
	Planes              planes
	Taps, Corners       driver.Pointer
	Delta, Factors, Out driver.Pointer
	Places, PerRecord   divider
	Area                int32
	Outputs, Width      int32
	Groups, Pictures    int32
	Slices, Slice       int32
	_                   int32
}

// weightTiles are the tiles of kernels/convolution_weight.cu.
var weightTiles = []tile{
	{"128x128", 128, 128, 256, 0.6}, {"64x128", 64, 128, 128, 0.6}, {"32x128", 32, 128, 64, 0.5},
	{"64x64", 64, 64, 128, 0.5}, {"32x32", 32, 32, 64, 0.3},
}

// counted is the places of a picture, up to a multiple of four.
func (v convolution) counted() int { return ceil(v.area, 4) * 4 }

// gradients makes sums over the places of so many pictures each, in slices, one after
// the other.
func (c *compiler) gradients(v convolution, x, delta, factors, out driver.Pointer, perRecord, sums, pictures, length, count int) {
	s := c.plan(weightTiles, v.og, v.width*v.Groups*sums*count, length, length, 1)
	args := weightGradient{
		Planes: v.pictures(x), Taps: c.constant(v.taps()), Corners: c.constant(v.corners()), Delta: delta, Factors: factors, Out: out,
		Places: newDivider(v.counted()), PerRecord: newDivider(perRecord), Area: int32(v.area),
		Outputs: int32(v.og), Width: int32(v.width), Groups: int32(v.Groups),
		Pictures: int32(pictures), Slices: int32(count), Slice: int32(length),
	}
	each := math.MaxUint16 / count
	for first := 0; first < sums; first += each {
		n := min(each, sums-first)
		at := func(p driver.Pointer, elements int) driver.Pointer { return p + driver.Pointer(4*first*elements) }
		args.Planes.Data, args.Delta, args.Out = at(x, pictures*v.C*v.H*v.W), at(delta, pictures*v.O*v.area), at(out, count*v.Size())
		grid := dim{uint32(s.tile.count(v.og, v.width)), uint32(v.Groups), uint32(n * count)}
		c.launch("convolution_weight_"+s.tile.name, grid, dim{s.tile.threads, 1, 1}, args)
	}
}

// addParts adds up the parts of each of several runs of size sums.
func (c *compiler) addParts(out, parts driver.Pointer, runs, size, count int, add bool) {
	for first := 0; first < runs; first += math.MaxUint16 {
		n := min(math.MaxUint16, runs-first)
		c.launch("add_parts", dim{uint32(ceil(size, 32)), uint32(n), 1}, dim{uint32(32 * min(count, 32)), 1, 1},
			out+driver.Pointer(4*first*size), parts+driver.Pointer(4*first*size*count), int32(size), int32(count), flag(add))
	}
}

func (c *compiler) convGradWeight(f op.ConvWeight, k call) bool {
	return c.sumOverPlaces(f, k, 0, k.shapes[0][0])
}

// convSum adds up c_r·g_r over the records.
func (c *compiler) convSum(f op.ConvWeight, records int, k call) bool {
	return c.sumOverPlaces(f, k, k.in[2], records)
}

// sumOverPlaces adds up over the places of all pictures, cut so that the slices fill
// the card.
func (c *compiler) sumOverPlaces(f op.ConvWeight, k call, factors driver.Pointer, records int) bool {
	v := newConvolution(f)
	if !v.patched() || !fits(v.Groups) {
		return false
	}
	pictures := k.size(1) / (v.O * v.area)
	length, count := byRows(v.O, v.width, pictures*v.counted())
	parts := c.scratch(4 * v.Size() * count)
	c.gradients(v, k.in[0], k.in[1], factors, parts, pictures/records, 1, pictures, length, count)
	c.addParts(k.out, parts, 1, v.Size(), count, k.accumulate)
	return true
}

// convGradients gives each record's gradient. The slices of its sum come of its shape
// alone: a record gets the same bits in every microbatch.
func (c *compiler) convGradients(f op.ConvWeight, records int, k call) bool {
	v := newConvolution(f)
	if !v.patched() || !fits(v.Groups) {
		return false
	}
	pictures := k.size(1) / (v.O * v.area) / records
	terms := pictures * v.counted()
	tiles := v.Groups * ceil(v.og, 64) * ceil(v.width, 64)
	length, count := cut(terms, min(ceil(terms, 128), 8/tiles))
	if count == 1 {
		c.gradients(v, k.in[0], k.in[1], 0, k.out, 1, records, pictures, length, 1)
		return true
	}
	parts := c.scratch(4 * records * v.Size() * count)
	c.gradients(v, k.in[0], k.in[1], 0, parts, 1, records, pictures, length, count)
	c.addParts(k.out, parts, records, v.Size(), count, false)
	return true
}
