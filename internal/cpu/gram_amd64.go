//go:build !noasm

package cpu

import "golang.org/x/sys/cpu"

var (
	avx2   = cpu.X86.HasAVX2 && cpu.X86.HasFMA
	avx512 = avx2 && cpu.X86.HasAVX512F
)

// gramTileAVX2 is gramTileGo with fused multiply-adds, of half a tile. The
// distances are in bytes; there is at least one step.
//
//go:noescape
func gramTileAVX2(dst *float32, stride int, x, y *float32, ld, steps int)

// gramTileAVX512 is the same of a whole tile.
//
//go:noescape
func gramTileAVX512(dst *float32, stride int, x, y *float32, ld, steps int)

// gramColumnsAVX2 is gramColumnsGo of four times as many columns; the distances
// are in bytes.
//
//go:noescape
func gramColumnsAVX2(dst *float32, ld int, x *float32, ldx, fours int)

func gramTile(dst []float32, stride int, x, y []float32, ld, steps int) {
	if !avx2 || steps == 0 {
		gramTileGo(dst, stride, x, y, ld, steps)
		return
	}
	_, _, _ = dst[(gramHigh-1)*stride+gramWide-1], x[(steps-1)*ld+gramHigh-1], y[(steps-1)*ld+gramWide-1]
	if avx512 {
		gramTileAVX512(&dst[0], 4*stride, &x[0], &y[0], 4*ld, steps)
		return
	}
	gramTileAVX2(&dst[0], 4*stride, &x[0], &y[0], 4*ld, steps)
	gramTileAVX2(&dst[gramHigh/2*stride], 4*stride, &x[gramHigh/2], &y[0], 4*ld, steps)
}

func gramColumns(dst []float32, ld int, x []float32, ldx, cols int) {
	done := 0
	if fours := cols / 4; avx2 && fours > 0 {
		done = 4 * fours
		_, _ = dst[(done-1)*ld+7], x[7*ldx+done-1]
		gramColumnsAVX2(&dst[0], 4*ld, &x[0], 4*ldx, fours)
	}
	if done < cols {
		gramColumnsGo(dst[done*ld:], ld, x[done:], ldx, cols-done)
	}
}
