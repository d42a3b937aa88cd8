//go:build !linux

package memory

// Zeros allocates n zeroed numbers.
func Zeros[T float32 | int32 | int64 | uint16](n int) []T { return make([]T, n) }
