package simd

import (
	"fmt"
	"math"
)

// Winograd contains the transforms of a convolution of stride 1 by square filters of Taps×Taps,
// Taps being 3 or 5: F(2×2, Taps×Taps) of Lavin & Gray 2016, section 4. A tile is 2×2
// results and the (Taps+1)² elements that they depend on. It takes (Taps+1)² multiplications
// instead of 4·Taps²: 16 instead of 36, 36 instead of 100. Each of them is a plane: with the
// transformed filters U and the transformed picture V, M = U·V is a matrix product in each
// plane, and the inverse transform of M is the result.
//
// Filters of 3 taps are evaluated at 0, 1, -1 and ∞; the result is as accurate as the
// definition in float32. Filters of 5 taps are also evaluated at ½ and -2, which is more
// accurate than ±2 (Barabasz et al. 2020): rounding errors are about twice those of the
// definition.
//
// Every operation is rounded, in a fixed order that all implementations share: the bits of a
// tile depend on its elements alone, not on its position.
type Winograd struct{ Taps int }

// WinogradLanes is the number of tiles or filters that the transforms process at a time.
// They read and write tiles up to the next multiple of it.
const WinogradLanes = 8

// winogradKernels are the transforms of one size of filter, documented with the methods of
// Winograd. Planes are plane floats apart, and a vector is WinogradLanes tiles or filters.
// result stores max(floor, x), NaN kept.
type winogradKernels struct {
	filters   func(dst *float32, plane int, filters *float32, vectors int)
	image     func(dst *float32, plane int, rows *float32, ld, vectors int)
	signal    func(dst *float32, plane int, rows *float32, ld, vectors int)
	result    func(top, bottom, src *float32, plane, vectors int, bias, floor float32)
	gradients func(filters, src *float32, plane, vectors int)
}

func (w Winograd) kernels() *winogradKernels { return &active.winograd[(w.Taps-3)/2] }

// HasKernels reports whether this processor has kernels with which the transforms are faster.
func (w Winograd) HasKernels() bool { return w.kernels().filters != nil }

// Points returns the side of the square that a tile depends on.
func (w Winograd) Points() int { return w.Taps + 1 }

// Planes returns the number of planes.
func (w Winograd) Planes() int { return w.Points() * w.Points() }

// checkPlanes panics unless n floats suffice for all planes. The last plane has only last
// floats.
func (w Winograd) checkPlanes(what string, n, plane, last int) {
	if plane < last || n < (w.Planes()-1)*plane+last {
		panic(fmt.Sprintf("simd: %s: %d planes of %d floats, the last of %d, do not fit a slice of %d", what, w.Planes(), plane, last, n))
	}
}

// Filters transforms at least eight filters. Element k of plane i of dst becomes number i of
// the transformed filter k. Planes are plane floats apart.
func (w Winograd) Filters(dst []float32, plane int, filters []float32) {
	n := w.countFilters(filters, dst, plane)
	w.kernels().filters(&dst[0], plane, &filters[0], n/WinogradLanes)
	if last := n - WinogradLanes; n%WinogradLanes > 0 {
		w.kernels().filters(&dst[last], plane, &filters[w.Taps*w.Taps*last], 1)
	}
}

// Gradients is the adjoint of Filters: it transforms the gradient of the planes into the
// gradient of the filters.
func (w Winograd) Gradients(filters, src []float32, plane int) {
	n := w.countFilters(filters, src, plane)
	w.kernels().gradients(&filters[0], &src[0], plane, n/WinogradLanes)
	if last := n - WinogradLanes; n%WinogradLanes > 0 {
		w.kernels().gradients(&filters[w.Taps*w.Taps*last], &src[last], plane, 1)
	}
}

// countFilters checks the lengths and returns the number of filters.
func (w Winograd) countFilters(filters, planes []float32, plane int) int {
	size := w.Taps * w.Taps
	n := len(filters) / size
	if n < WinogradLanes || len(filters)%size != 0 {
		panic(fmt.Sprintf("simd: %d floats are not a whole number of filters of %d floats, at least eight", len(filters), size))
	}
	w.checkPlanes("filters", len(planes), plane, n)
	return n
}

// tileVectors returns how many vectors cover some tiles, and how many tiles these have.
func tileVectors(tiles int) (vectors, rounded int) {
	vectors = ceilDiv(tiles, WinogradLanes)
	return vectors, vectors * WinogradLanes
}

// Image transforms a row of tiles. Tile t consists of elements 2t … 2t+Taps of Taps+1 rows
// of a padded picture, ld floats apart, and becomes element t of every plane.
func (w Winograd) Image(dst []float32, plane int, rows []float32, ld, tiles int) {
	vectors, n := tileVectors(tiles)
	w.checkPlanes("image", len(dst), plane, n)
	if tiles < 1 || len(rows) < w.Taps*ld+2*n+w.Taps-1 {
		panic(fmt.Sprintf("simd: %d tiles of %d rows of %d floats do not fit a slice of %d", tiles, w.Points(), ld, len(rows)))
	}
	w.kernels().image(&dst[0], plane, &rows[0], ld, vectors)
}

// Signal is the adjoint of Result, without its bias: tile t consists of elements 2t and 2t+1
// of two rows, ld floats apart.
func (w Winograd) Signal(dst []float32, plane int, rows []float32, ld, tiles int) {
	vectors, n := tileVectors(tiles)
	w.checkPlanes("signal", len(dst), plane, n)
	if tiles < 1 || len(rows) < ld+2*n {
		panic(fmt.Sprintf("simd: %d tiles of two rows of %d floats do not fit a slice of %d", tiles, ld, len(rows)))
	}
	w.kernels().signal(&dst[0], plane, &rows[0], ld, vectors)
}

// Result transforms planes into the two rows of results of a row of tiles and adds bias. With
// relu it stores max(0, x); NaN stays NaN.
func (w Winograd) Result(top, bottom, src []float32, plane, tiles int, bias float32, relu bool) {
	vectors, n := tileVectors(tiles)
	w.checkPlanes("result", len(src), plane, n)
	if tiles < 1 || len(top) < 2*n || len(bottom) < 2*n {
		panic(fmt.Sprintf("simd: %d tiles do not fit rows of %d and %d floats", tiles, len(top), len(bottom)))
	}
	floor := float32(math.Inf(-1))
	if relu {
		floor = 0
	}
	w.kernels().result(&top[0], &bottom[0], &src[0], plane, vectors, bias, floor)
}
