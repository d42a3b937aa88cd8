//go:build !noasm

package gram

import "golang.org/x/sys/cpu"

var (
	avx2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	avx512 = avx2 && cpu.X86.HasAVX512F
)

// multiplyTileAVX2 is multiplyTileGo with fused multiply-adds, for the upper half of a
// tile. Strides are in bytes; steps is at least 1.
//
//go:noescape
func multiplyTileAVX2(dst *float32, stride int, x, y *float32, ld, steps int)

// multiplyTileAVX512 is multiplyTileAVX2 for a whole tile.
//
//go:noescape
func multiplyTileAVX512(dst *float32, stride int, x, y *float32, ld, steps int)

// packColumnsAVX2 is packColumnsGo for 4·fours columns. Strides are in bytes.
//
//go:noescape
func packColumnsAVX2(dst *float32, ld int, x *float32, ldx, fours int)

func multiplyTile(dst []float32, stride int, x, y []float32, ld, steps int) {
	if !avx2 || steps == 0 {
		multiplyTileGo(dst, stride, x, y, ld, steps)
		return
	}
	_, _, _ = dst[(tileRows-1)*stride+tileCols-1], x[(steps-1)*ld+tileRows-1], y[(steps-1)*ld+tileCols-1]
	if avx512 {
		multiplyTileAVX512(&dst[0], 4*stride, &x[0], &y[0], 4*ld, steps)
		return
	}
	multiplyTileAVX2(&dst[0], 4*stride, &x[0], &y[0], 4*ld, steps)
	multiplyTileAVX2(&dst[tileRows/2*stride], 4*stride, &x[tileRows/2], &y[0], 4*ld, steps)
}

func packColumns(dst []float32, ld int, x []float32, ldx, cols int) {
	done := 0
	if fours := cols / 4; avx2 && fours > 0 {
		done = 4 * fours
		_, _ = dst[(done-1)*ld+7], x[7*ldx+done-1]
		packColumnsAVX2(&dst[0], 4*ld, &x[0], 4*ldx, fours)
	}
	if done < cols {
		packColumnsGo(dst[done*ld:], ld, x[done:], ldx, cols-done)
	}
}
