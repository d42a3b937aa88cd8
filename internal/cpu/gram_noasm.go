//go:build noasm || !(amd64 || arm64)

package cpu

func gramTile(dst []float32, stride int, x, y []float32, ld, steps int) {
	gramTileGo(dst, stride, x, y, ld, steps)
}

func gramColumns(dst []float32, ld int, x []float32, ldx, cols int) {
	gramColumnsGo(dst, ld, x, ldx, cols)
}
