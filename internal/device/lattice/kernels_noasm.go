//go:build noasm || !(amd64 || arm64)

package lattice

func assembly() []*kernels { return nil }

func (k *kernels) quantize(dst *int16, x *float32, n int, scale float32, start, step uint32) uint64 {
	return quantizeGo(dst, x, n, scale, start, step)
}

func (k *kernels) round(dst *int32, x *float32, n int, scale float32, start, step uint32) (sum uint64, largest uint32) {
	return roundGo(dst, x, n, scale, start, step)
}

// There is no AVX-512.

func (*kernels) quantizeAll([]int16, []float32, int, []float32, []Key, []int64) {}

func roundAll([]int32, []float32, int, []float32, []Key, []int64) {}
