//go:build gpu

package cuda

import (
	"math"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// roundoff is the relative error of one operation in float64.
const roundoff = 1.0 / (1 << 53)

// convNorms gives squared norms that keep the promise of clip.Single,
// ‖u‖² ≤ (sq + 1e-30)/(1 − 1e-5), for every record.
func (c *compiler) convNorms(f op.ConvWeight, records int, m op.Method, k call) bool {
	if v := newConvolution(f); !v.patched() || !fits(records) || !fits(f.Groups) {
		return false
	}
	if m == op.Gram {
		c.convGram(f, records, k)
	} else {
		c.convExact(f, records, k)
	}
	return true
}

// patchRows is struct Rows of kernels/convolution_norm.cu.
type patchRows struct {
	Planes               planes
	Taps, Corners, Delta driver.Pointer
	Area                 divider
	Rows, Width, Outputs int32
}

func (c *compiler) rows(v convolution, rows int, x, delta driver.Pointer) patchRows {
	return patchRows{
		v.pictures(x), c.constant(v.taps()), c.constant(v.corners()), delta,
		newDivider(v.area), int32(rows), int32(v.width), int32(v.og),
	}
}

// convGram: a product of two rows of n elements is off by at most n·2⁻⁵³ of their
// lengths' product, adding up rows² of them costs as much for each of 2·rows, and all
// lengths' products together are (Σ_t ‖a_t‖‖δ_t‖)².
func (c *compiler) convGram(f op.ConvWeight, records int, k call) {
	v := newConvolution(f)
	rows := k.size(1) / v.O / records
	tiles := ceil(rows, 16)
	pairs := tiles * (tiles + 1) / 2
	partial := c.scratch(16 * records * v.Groups * pairs)
	c.launch("convolution_gram", dim{uint32(pairs), uint32(records), uint32(v.Groups)}, threads,
		partial, c.rows(v, rows, k.in[0], k.in[1]))
	c.launch("convolution_gram_norms", dim{uint32(ceil(records, 8)), 1, 1}, threads,
		k.out, partial, int32(records), int32(v.Groups), int32(pairs), 2*float64(v.width+v.og+2*rows+8)*roundoff)
}

// convExact squares the gradients built in float64. A sum of n terms, each element of
// A in as many of them as the kernel has cells, is off by at most (n+8)·2⁻⁵³ times
// √cells·‖A‖‖Δ‖.
func (c *compiler) convExact(f op.ConvWeight, records int, k call) {
	v := newConvolution(f)
	x, delta := k.size(0)/records, k.size(1)/records
	rows := delta / v.O
	across := ceil(v.width, 32)
	tiles := ceil(v.og, 32) * across
	squares := c.scratch(8 * records * v.Groups * tiles)
	c.exact(v, records, rows, k.in[0], k.in[1], 0, squares)
	c.launch("convolution_exact_norms", dim{uint32(records), 1, 1}, threads,
		k.out, squares, int32(v.Groups*tiles), k.in[0], int32(x), k.in[1], int32(delta),
		float64(rows+8)*roundoff*math.Sqrt(float64(v.cells)))
}

// buildConv builds the gradients of records in float64, [records, size]. X and delta
// are theirs alone: pictures of each.
func (c *compiler) buildConv(f op.ConvWeight, records, pictures int, x, delta, out driver.Pointer) {
	v := newConvolution(f)
	c.exact(v, records, pictures*v.area, x, delta, out, 0)
}

func (c *compiler) exact(v convolution, records, rows int, x, delta, gradient, squares driver.Pointer) {
	across := ceil(v.width, 32)
	c.launch("convolution_exact", dim{uint32(ceil(v.og, 32) * across), uint32(records), uint32(v.Groups)}, threads,
		gradient, squares, c.rows(v, rows, x, delta), int32(across))
}
