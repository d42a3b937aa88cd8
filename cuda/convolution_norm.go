//go:build gpu

package cuda

import (
	"fmt"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// convPictures is struct Pictures of kernels/convolution_norm.cu.
type convPictures struct {
	Planes                       planes
	Taps, Corners, Delta         driver.Pointer
	Area                         divider
	Rows, Groups, Width, Outputs int32
	_                            int32
}

// rows are those of records, so many each.
func (c *compiler) rows(v convolution, rows int, x, delta driver.Pointer) convPictures {
	return convPictures{
		Planes: v.pictures(x), Taps: c.constant(v.taps()), Corners: c.constant(v.corners()), Delta: delta,
		Area: newDivider(v.area), Rows: int32(rows), Groups: int32(v.Groups), Width: int32(v.width), Outputs: int32(v.og),
	}
}

// convNorms: the rows of the product are the patches of a record's pictures, and
// groups are products of their own, whose norms, bounds and all, add up.
func (c *compiler) convNorms(f op.ConvWeight, s op.SquaredNorms, k call) bool {
	v := newConvolution(f)
	if !v.patched() {
		return false
	}
	if s.Method != op.Gram {
		c.mixed(op.MultiUseNorms{Parts: &[]op.MappedForm{{Form: f}}, Size: f.Size(), Records: s.Records}, k)
		return true
	}
	rows := k.size(1) / v.O / s.Records
	c.gramNorms(gram{
		kernel: "convolution_gram", tiles: []int{64}, args: []any{c.rows(v, rows, k.in[0], k.in[1])},
		records: s.Records, groups: v.Groups, rows: rows, na: v.width, nd: v.og, delta: -1,
	}, k.out)
	return true
}

// buildConv builds the gradients of fewer than 2^16 records in float64,
// [records, size]. X and delta are theirs alone: pictures of each.
func (c *compiler) buildConv(f op.ConvWeight, records, pictures int, x, delta, out driver.Pointer) {
	v := newConvolution(f)
	if !v.patched() || !fits(v.Groups) {
		c.err = fmt.Errorf("no kernel for the gradient of %v where its weight has several uses: train on the CPU", f)
		return
	}
	across := ceil(v.width, 32)
	c.launch("convolution_exact", dim{uint32(ceil(v.og, 32) * across), uint32(records), uint32(v.Groups)}, threads,
		out, c.rows(v, pictures*v.area, x, delta), int32(across))
}
