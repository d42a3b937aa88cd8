//go:build noasm || !(amd64 || arm64)

package cpu

func gramTile(dst []float64, stride int, x, y []float64, ld, steps int) {
	gramTileGo(dst, stride, x, y, ld, steps)
}

func gramColumns(dst []float64, ld int, x []float32, ldx, cols int) {
	gramColumnsGo(dst, ld, x, ldx, cols)
}

func widen(dst []float64, src []float32) { widenGo(dst, src) }
