package simd

import (
	"fmt"
	"math"
)

// Winograd is the transforms of a convolution of stride 1 by square filters of
// Taps places a side, 3 or 5: F(2×2, Taps×Taps) of Lavin & Gray 2016, section 4.
// A tile is four results, two by two, and the (Taps+1)² places they see. Instead
// of 4·Taps² multiplications it takes (Taps+1)²: 16 for 36, 36 for 100. Each of
// these is a plane: with U of the filters and V of a picture, plane by plane
// M = U·V is a product of matrices, and the result is what M is turned back into.
//
// Filters of 3 are evaluated at 0, 1, -1 and ∞, and what comes out is no less
// exact than the definition in float32. Filters of 5 are evaluated at ½ and -2
// too, which loses less than ±2 (Barabasz et al. 2020): roundings are about twice
// those of the definition.
//
// Every operation is rounded, in a fixed order, the same in every implementation:
// a tile's bits are those of its places, wherever it lies.
type Winograd struct{ Taps int }

// WinogradLanes is how many tiles or filters the transforms take at a time. They
// read and write tiles up to the next multiple of it.
const WinogradLanes = 8

type winogradKernels struct {
	filters   func(dst *float32, plane int, filters *float32, vectors int)
	image     func(dst *float32, plane int, rows *float32, ld, vectors int)
	signal    func(dst *float32, plane int, rows *float32, ld, vectors int)
	result    func(top, bottom, src *float32, plane, vectors int, bias, floor float32)
	gradients func(filters, src *float32, plane, vectors int)
}

func (w Winograd) kernels() *winogradKernels { return &active.winograd[(w.Taps-3)/2] }

// HasKernels tells whether this processor has kernels that make it worth while.
func (w Winograd) HasKernels() bool { return w.kernels().filters != nil }

// Points is the side of what a tile sees.
func (w Winograd) Points() int { return w.Taps + 1 }

// Planes is how many planes there are.
func (w Winograd) Planes() int { return w.Points() * w.Points() }

// checkPlanes panics unless n floats suffice for all planes, of which the last ends
// early.
func (w Winograd) checkPlanes(what string, n, plane, last int) {
	if plane < last || n < (w.Planes()-1)*plane+last {
		panic(fmt.Sprintf("simd: %s: %d planes of %d floats, the last of %d, in a slice of %d", what, w.Planes(), plane, last, n))
	}
}

// Filters sets place k of plane i of dst, planes being plane floats apart, to
// number i of filter k, for as many filters as there are, at least eight.
func (w Winograd) Filters(dst []float32, plane int, filters []float32) {
	n := w.countFilters(filters, dst, plane)
	w.kernels().filters(&dst[0], plane, &filters[0], n/WinogradLanes)
	if last := n - WinogradLanes; n%WinogradLanes > 0 {
		w.kernels().filters(&dst[last], plane, &filters[w.Taps*w.Taps*last], 1)
	}
}

// Gradients is the adjoint of Filters: it turns what belongs to the planes of
// the filters into what belongs to the filters.
func (w Winograd) Gradients(filters, src []float32, plane int) {
	n := w.countFilters(filters, src, plane)
	w.kernels().gradients(&filters[0], &src[0], plane, n/WinogradLanes)
	if last := n - WinogradLanes; n%WinogradLanes > 0 {
		w.kernels().gradients(&filters[w.Taps*w.Taps*last], &src[last], plane, 1)
	}
}

func (w Winograd) countFilters(filters, planes []float32, plane int) int {
	size := w.Taps * w.Taps
	n := len(filters) / size
	if n < WinogradLanes || len(filters)%size != 0 {
		panic(fmt.Sprintf("simd: %d floats are not eight filters of %d or more", len(filters), size))
	}
	w.checkPlanes("filters", len(planes), plane, n)
	return n
}

func tileVectors(tiles int) (vectors, rounded int) {
	vectors = ceilDiv(tiles, WinogradLanes)
	return vectors, vectors * WinogradLanes
}

// Image transforms a row of tiles: tile t sees places 2t to 2t+Taps of Taps+1
// rows of a padded picture, ld floats apart, and becomes place t of every plane.
func (w Winograd) Image(dst []float32, plane int, rows []float32, ld, tiles int) {
	vectors, n := tileVectors(tiles)
	w.checkPlanes("image", len(dst), plane, n)
	if tiles < 1 || len(rows) < w.Taps*ld+2*n+w.Taps-1 {
		panic(fmt.Sprintf("simd: %d tiles of %d rows of %d in a slice of %d", tiles, w.Points(), ld, len(rows)))
	}
	w.kernels().image(&dst[0], plane, &rows[0], ld, vectors)
}

// Signal is the adjoint of Result, without its bias: tile t covers places 2t and
// 2t+1 of two rows, ld floats apart.
func (w Winograd) Signal(dst []float32, plane int, rows []float32, ld, tiles int) {
	vectors, n := tileVectors(tiles)
	w.checkPlanes("signal", len(dst), plane, n)
	if tiles < 1 || len(rows) < ld+2*n {
		panic(fmt.Sprintf("simd: %d tiles of two rows of %d in a slice of %d", tiles, ld, len(rows)))
	}
	w.kernels().signal(&dst[0], plane, &rows[0], ld, vectors)
}

// Result turns planes back into the two rows of results of a row of tiles, adds
// bias, and with relu stores max(0, x), NaN kept.
func (w Winograd) Result(top, bottom, src []float32, plane, tiles int, bias float32, relu bool) {
	vectors, n := tileVectors(tiles)
	w.checkPlanes("result", len(src), plane, n)
	if tiles < 1 || len(top) < 2*n || len(bottom) < 2*n {
		panic(fmt.Sprintf("simd: %d tiles into rows of %d and %d", tiles, len(top), len(bottom)))
	}
	floor := float32(math.Inf(-1))
	if relu {
		floor = 0
	}
	w.kernels().result(&top[0], &bottom[0], &src[0], plane, vectors, bias, floor)
}
