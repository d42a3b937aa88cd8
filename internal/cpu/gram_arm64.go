//go:build !noasm

package cpu

func gramTile(dst []float32, stride int, x, y []float32, ld, steps int) {
	if steps == 0 {
		return
	}
	_, _, _ = dst[(gramHigh-1)*stride+gramWide-1], x[(steps-1)*ld+gramHigh-1], y[(steps-1)*ld+gramWide-1]
	gramTileNEON(&dst[0], 4*stride, &x[0], &y[0], 4*ld, steps)
	gramTileNEON(&dst[gramHigh/2*stride], 4*stride, &x[gramHigh/2], &y[0], 4*ld, steps)
}

func gramColumns(dst []float32, ld int, x []float32, ldx, cols int) {
	done := cols &^ 3
	if done > 0 {
		_, _ = dst[(done-1)*ld+7], x[7*ldx+done-1]
		gramColumnsNEON(&dst[0], 4*ld, &x[0], 4*ldx, done/4)
	}
	if done < cols {
		gramColumnsGo(dst[done*ld:], ld, x[done:], ldx, cols-done)
	}
}
