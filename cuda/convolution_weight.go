//go:build gpu

package cuda

import (
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
	{"128x128", 128, 128, 256, 0.68}, {"64x128", 64, 128, 128, 0.63}, {"64x64", 64, 64, 128, 0.55},
	{"32x64", 32, 64, 64, 0.48}, {"32x32", 32, 32, 64, 0.38},
}

// counted is the places of a picture, up to a multiple of four.
func (v convolution) counted() int { return ceil(v.area, 4) * 4 }

// tiles is about how many tiles the weight has.
func (v convolution) tiles() int { return v.Groups * ceil(v.og, 64) * ceil(v.width, 64) }

// gradients makes sums over the places of so many pictures each, of which slices may
// have blocks of their own, one after the other.
func (c *compiler) gradients(v convolution, x, delta, factors, out driver.Pointer, perRecord, sums, pictures int, t tile, length, apart int) {
	args := weightGradient{
		Taps: c.constant(v.taps()), Corners: c.constant(v.corners()), Factors: factors,
		Places: newDivider(v.counted()), PerRecord: newDivider(perRecord), Area: int32(v.area),
		Outputs: int32(v.og), Width: int32(v.width), Groups: int32(v.Groups),
		Pictures: int32(pictures), Slices: int32(apart), Slice: int32(length),
	}
	kernel := "convolution_weight_"
	if factors != 0 {
		kernel = "convolution_clipped_"
	}
	each := deepest / apart
	for first := 0; first < sums; first += each {
		n := min(each, sums-first)
		at := func(p driver.Pointer, elements int) driver.Pointer { return p + driver.Pointer(4*first*elements) }
		args.Planes = v.pictures(at(x, pictures*v.C*v.H*v.W))
		args.Delta, args.Out = at(delta, pictures*v.O*v.area), at(out, apart*v.Size())
		grid := dim{uint32(t.count(v.og, v.width)), uint32(v.Groups), uint32(n * apart)}
		c.launch(kernel+t.name, grid, dim{t.threads, 1, 1}, args)
	}
}

// addParts adds up the parts of each of several runs of size sums; up to 32 of them
// in the order in which one block would.
func (c *compiler) addParts(out, parts driver.Pointer, runs, size, count int, add bool) {
	for first := 0; first < runs; first += deepest {
		n := min(deepest, runs-first)
		c.launch("add_parts", dim{uint32(ceil(size, 32)), uint32(n), 1}, dim{uint32(32 * min(count, 32)), 1, 1},
			out+driver.Pointer(4*first*size), parts+driver.Pointer(4*first*size*count), int32(size), int32(count), flag(add))
	}
}

// slicesOfPlaces cuts a sum over the places of records, so many pictures each, so that the
// slices fill the card; a launch takes the slices of as many records as a grid is deep for,
// which may be none.
func (c *compiler) slicesOfPlaces(v convolution, records, each int) (length, count, atOnce int) {
	of := func(records int) (terms int) { return records * each * v.counted() }
	terms, most := of(records), ceil(3*c.device.Multiprocessors(), v.tiles())
	length, _ = cut(terms, max(min(most, ceil(terms, 64)), ceil(terms, longestSlice)))
	if atOnce = min(records, deepest*length/of(1)); atOnce == 0 {
		return length, 0, 0
	}
	return length, records/atOnce*ceil(of(atOnce), length) + ceil(of(records%atOnce), length), atOnce
}

// sumOverPlaces adds up over the places of all pictures: g_r of all records, each times its
// factor where factors are given.
func (c *compiler) sumOverPlaces(f op.ConvWeight, k call, factors driver.Pointer, records int) bool {
	v := newConvolution(f)
	each := k.size(1) / (v.O * v.area) / records // pictures
	if !v.patched() || !fits(v.Groups) {
		return false
	}
	length, count, atOnce := c.slicesOfPlaces(v, records, each)
	if atOnce == 0 {
		return false
	}
	parts := c.scratch(4 * v.Size() * count)
	s := c.plan(weightTiles, v.og, v.width*v.Groups*count, length, length, 1)
	x, delta, to := k.in[0], k.in[1], parts
	for left := records; left > 0; left -= atOnce {
		n := min(atOnce, left)
		slices := ceil(n*each*v.counted(), length)
		c.gradients(v, x, delta, factors, to, each, 1, n*each, s.tile, length, slices)
		x += driver.Pointer(4 * n * each * v.C * v.H * v.W)
		delta += driver.Pointer(4 * n * each * v.O * v.area)
		if factors != 0 {
			factors += driver.Pointer(4 * n)
		}
		to += driver.Pointer(4 * v.Size() * slices)
	}
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
	length, count := cut(terms, min(ceil(terms, 256), ceil(32, v.tiles())))
	s := c.plan(weightTiles, v.og, v.width*v.Groups*records, terms, length, count)
	if !s.apart {
		c.gradients(v, k.in[0], k.in[1], 0, k.out, 1, records, pictures, s.tile, length, 1)
		return true
	}
	parts := c.scratch(4 * records * v.Size() * count)
	c.gradients(v, k.in[0], k.in[1], 0, parts, 1, records, pictures, s.tile, length, count)
	c.addParts(k.out, parts, records, v.Size(), count, false)
	return true
}
