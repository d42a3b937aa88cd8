//go:build !noasm

package gram

func multiplyTile(dst []float32, stride int, x, y []float32, ld, steps int) {
	if steps == 0 {
		return
	}
	_, _, _ = dst[(tileRows-1)*stride+tileCols-1], x[(steps-1)*ld+tileRows-1], y[(steps-1)*ld+tileCols-1]
	multiplyTileNEON(&dst[0], 4*stride, &x[0], &y[0], 4*ld, steps)
	multiplyTileNEON(&dst[tileRows/2*stride], 4*stride, &x[tileRows/2], &y[0], 4*ld, steps)
}

func packColumns(dst []float32, ld int, x []float32, ldx, cols int) {
	done := cols &^ 3
	if done > 0 {
		_, _ = dst[(done-1)*ld+7], x[7*ldx+done-1]
		packColumnsNEON(&dst[0], 4*ld, &x[0], 4*ldx, done/4)
	}
	if done < cols {
		packColumnsGo(dst[done*ld:], ld, x[done:], ldx, cols-done)
	}
}
