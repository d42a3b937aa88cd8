//go:build gpu

package cuda

import (
	"fmt"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// patchRows is struct Pictures of kernels/convolution_norm.cu.
type patchRows struct {
	Planes                       imagePlanes
	Taps, Corners, Delta         driver.Pointer
	Area                         divider
	Rows, Groups, Width, Outputs int32
	_                            int32
}

// newPatchRows are those of records, so many each.
func (c *compiler) newPatchRows(v convGeometry, rows int, x, delta driver.Pointer) patchRows {
	return patchRows{
		Planes: v.inputPlanes(x), Taps: c.constant(v.taps()), Corners: c.constant(v.corners()), Delta: delta,
		Area: newDivider(v.outArea), Rows: int32(rows), Groups: int32(v.Groups), Width: int32(v.patchWidth), Outputs: int32(v.groupOutputs),
	}
}

// lowerConvNorms: the rows of the product are the patches of a record's pictures, and
// groups are products of their own, whose norms, bounds and all, add up.
func (c *compiler) lowerConvNorms(f op.ConvWeight, s op.SquaredNorms, k call) bool {
	v := newConvGeometry(f)
	if !v.supported() {
		return false
	}
	if s.Method != op.Gram {
		c.lowerMultiUseNorms(op.MultiUseNorms{Parts: &[]op.MappedForm{{Form: f}}, Size: f.Size(), Records: s.Records}, k)
		return true
	}
	rows := k.size(1) / v.O / s.Records
	c.launchGramNorms(gramNorm{
		kernel: "convolution_gram", tiles: []int{64}, args: []any{c.newPatchRows(v, rows, k.in[0], k.in[1])},
		records: s.Records, groups: v.Groups, rows: rows, na: v.patchWidth, nd: v.groupOutputs, delta: -1,
	}, k.out)
	return true
}

// buildConvGradients builds the gradients of fewer than 2^16 records in float64,
// [records, size]. X and delta are theirs alone: pictures of each.
func (c *compiler) buildConvGradients(f op.ConvWeight, records, pictures int, x, delta, out driver.Pointer) {
	v := newConvGeometry(f)
	if !v.supported() || !fitsGridDepth(v.Groups) {
		c.err = fmt.Errorf("no kernel for the gradient of %v where its weight has several uses: train on the CPU", f)
		return
	}
	across := ceil(v.patchWidth, 32)
	c.launch("convolution_exact", dim{uint32(ceil(v.groupOutputs, 32) * across), uint32(records), uint32(v.Groups)}, threads,
		out, c.newPatchRows(v, pictures*v.outArea, x, delta), int32(across))
}
