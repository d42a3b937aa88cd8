//go:build noasm || !(amd64 || arm64)

package gram

func multiplyTile(dst []float32, stride int, x, y []float32, ld, steps int) {
	multiplyTileGo(dst, stride, x, y, ld, steps)
}

func packColumns(dst []float32, ld int, x []float32, ldx, cols int) {
	packColumnsGo(dst, ld, x, ldx, cols)
}
