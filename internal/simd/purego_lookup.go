package simd

import "unsafe"

func sumRowsGo(dst, table *float32, rows *int32, n, dim int) {
	d := unsafe.Slice(dst, dim)
	for _, r := range unsafe.Slice(rows, n) {
		row := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(table), 4*int(r)*dim)), dim)
		for j, v := range row {
			d[j] += v
		}
	}
}

func addToRowsGo(table *float32, rows *int32, n int, src *float32, dim int) {
	s := unsafe.Slice(src, dim)
	for _, r := range unsafe.Slice(rows, n) {
		row := unsafe.Slice((*float32)(unsafe.Add(unsafe.Pointer(table), 4*int(r)*dim)), dim)
		for j, v := range s {
			row[j] += v
		}
	}
}
