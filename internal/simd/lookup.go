package simd

// SumRows sets dst to the sum of the rows of a table that rows names, in their
// order. A row has as many floats as dst.
func SumRows(dst, table []float32, rows []int32) {
	clear(dst)
	if len(rows) > 0 && len(dst) > 0 {
		checkRows(rows, len(table)/len(dst))
		active.sumRows(&dst[0], &table[0], &rows[0], len(rows), len(dst))
	}
}

// AddToRows adds src to every row of a table that rows names, to some more than
// once.
func AddToRows(table []float32, rows []int32, src []float32) {
	if len(rows) > 0 && len(src) > 0 {
		checkRows(rows, len(table)/len(src))
		active.addToRows(&table[0], &rows[0], len(rows), &src[0], len(src))
	}
}

func checkRows(rows []int32, n int) {
	for _, r := range rows {
		if uint32(r) >= uint32(n) {
			panic("simd: a row that the table has not")
		}
	}
}
