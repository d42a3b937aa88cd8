//go:build !linux

package cpu

// zeros allocates n zeroed float32 numbers.
func zeros(n int) []float32 { return make([]float32, n) }
