package simd

import (
	"fmt"
	"math"
)

// The transforms of Winograd's convolution by a 3×3 window of stride 1, F(2×2,
// 3×3) of Lavin & Gray 2016, section 4.1: 16 multiplications make the four
// results of a tile, where the definition takes 36. Each of the 16 is a plane:
// with U of the filters and V of a picture, plane by plane M = U·V is a product
// of matrices, and the result is what M is turned back into.
//
// Additions are in a fixed order, the same in every implementation, so a tile's
// bits are those of its 16 places, wherever it lies.

// WinogradLanes is how many tiles the transforms take at a time: they read and
// write up to the next multiple of it.
const WinogradLanes = 8

// winogradKernels take vectors of WinogradLanes tiles or filters.
type winogradKernels struct {
	filters   func(dst *float32, plane int, filters *float32, vectors int)
	image     func(dst *float32, plane int, rows *float32, ld, vectors int)
	signal    func(dst *float32, plane int, rows *float32, ld, vectors int)
	result    func(top, bottom, src *float32, plane, vectors int, bias, floor float32)
	gradients func(filters, src *float32, plane, vectors int)
}

// WinogradFilters sets place k of plane i of dst, planes being plane floats
// apart, to number i of filter k, for as many 3×3 filters as there are, at least
// eight.
func WinogradFilters(dst []float32, plane int, filters []float32) {
	n := winogradFilters("from", filters, plane, dst)
	active.winograd.filters(&dst[0], plane, &filters[0], n/WinogradLanes)
	if last := n - WinogradLanes; n%WinogradLanes > 0 {
		active.winograd.filters(&dst[last], plane, &filters[9*last], 1)
	}
}

// WinogradGradients is the adjoint of WinogradFilters: it turns what belongs to
// the planes of the filters into what belongs to the filters.
func WinogradGradients(filters, src []float32, plane int) {
	n := winogradFilters("into", filters, plane, src)
	active.winograd.gradients(&filters[0], &src[0], plane, n/WinogradLanes)
	if last := n - WinogradLanes; n%WinogradLanes > 0 {
		active.winograd.gradients(&filters[9*last], &src[last], plane, 1)
	}
}

func winogradFilters(way string, filters []float32, plane int, planes []float32) int {
	n := len(filters) / 9
	if n < WinogradLanes || len(filters)%9 != 0 || plane < n || len(planes) < 15*plane+n {
		panic(fmt.Sprintf("simd: 3×3 filters of %d floats, %s planes of %d in a slice of %d", len(filters), way, plane, len(planes)))
	}
	return n
}

// WinogradImage transforms a row of tiles: tile t sees places 2t to 2t+3 of four
// rows of a padded picture, ld floats apart, and becomes place t of every plane.
func WinogradImage(dst []float32, plane int, rows []float32, ld, tiles int) {
	vectors := ceilDiv(tiles, WinogradLanes)
	if tiles < 1 || len(dst) < 15*plane+vectors*WinogradLanes || len(rows) < 3*ld+2*vectors*WinogradLanes+2 {
		panic(fmt.Sprintf("simd: %d tiles of four rows of %d into planes of %d: too little memory", tiles, ld, plane))
	}
	active.winograd.image(&dst[0], plane, &rows[0], ld, vectors)
}

// WinogradSignal is the adjoint of WinogradResult, without its bias: tile t
// covers places 2t and 2t+1 of two rows, ld floats apart.
func WinogradSignal(dst []float32, plane int, rows []float32, ld, tiles int) {
	vectors := ceilDiv(tiles, WinogradLanes)
	if tiles < 1 || len(dst) < 15*plane+vectors*WinogradLanes || len(rows) < ld+2*vectors*WinogradLanes {
		panic(fmt.Sprintf("simd: %d tiles of two rows of %d into planes of %d: too little memory", tiles, ld, plane))
	}
	active.winograd.signal(&dst[0], plane, &rows[0], ld, vectors)
}

// WinogradResult turns planes back into the two rows of results of a row of
// tiles, adds bias, and with relu stores max(0, x), NaN kept.
func WinogradResult(top, bottom, src []float32, plane, tiles int, bias float32, relu bool) {
	vectors := ceilDiv(tiles, WinogradLanes)
	n := vectors * WinogradLanes
	if tiles < 1 || len(src) < 15*plane+n || len(top) < 2*n || len(bottom) < 2*n {
		panic(fmt.Sprintf("simd: %d tiles from planes of %d: too little memory", tiles, plane))
	}
	floor := float32(math.Inf(-1))
	if relu {
		floor = 0
	}
	active.winograd.result(&top[0], &bottom[0], &src[0], plane, vectors, bias, floor)
}
