//go:build !linux

package cpu

// zeros gives memory for n numbers.
func zeros(n int) []float32 { return make([]float32, n) }
