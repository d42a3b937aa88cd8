package cpu

import "github.com/dptrain/dptrain/internal/device/simd"

// winogradSum sums the filters' gradients of many pictures in the planes of the
// transforms, each picture times the factor of its record. One product per plane sums over
// the tiles of several pictures.
type winogradSum struct {
	*winograd
	x, delta       []float32
	factors        []float32 // nil if all are 1
	tiles          int       // of a picture
	allPictures    int       // of the microbatch
	recordPictures int       // pictures of a record
	pictures       []int     // the pictures whose factor is not 0

	first, count int // the pictures that are being summed
}

// newSumWinograd is newGradientWinograd for clipped sums. Every record's norm includes
// their rounding errors, and those of 5×5 windows would be too large a part of it.
func newSumWinograd(l *lowering, v *convolution) *winograd {
	if v.KernelH != 3 {
		return nil
	}
	return newGradientWinograd(l, v)
}

// winogradGrowth is (‖|G|‖‖|B|‖‖|A|‖)² of the transforms' matrices for 3×3 windows.
// winogradLength is the bound that follows from it, relative to [convolution.lengths].
// winogradSumGrowth is (‖Gᵀa‖‖B‖)², where a are the lengths of the rows of A. It bounds the
// effect of rounding in the product of planes (BᵀxB) ⊙ (AdAᵀ) alone, for any signs: the
// elements of the second factor are at most aaᵀ·‖d‖.
const (
	winogradGrowth    = 108
	winogradLength    = winogradGrowth * 2 / 3
	winogradSumGrowth = 10.25
)

// winogradRoundings returns how many roundings, relative to [convolution.lengths], a sum
// leaves in the gradient of a record of this many pictures. The gradient of a tile x of a
// picture with signals d is Gᵀ((BᵀxB) ⊙ (AdAᵀ))G, and every rounding in it is at most
// winogradGrowth·‖x‖‖d‖. An element of a picture lies in at most four tiles, so that the sum
// of ‖x‖‖d‖ over all tiles is at most 2/3 of lengths. A number passes through one rounding
// per tile, and through fewer than 24 in the transforms. A picture lies in chains of its own
// or in one chain.
//
// For several pictures that lie in two chains, the roundings that chainedRoundings adds are
// covered: a rounding of the sum itself is at most winogradSumGrowth·‖x‖‖d‖, a tenth of what
// is counted for every tile, and two pictures have 32 tiles.
func winogradRoundings(v *convolution, pictures int) int {
	return winogradLength * (pictures*pictureTiles(v) + 24)
}

// pictureTiles returns how many tiles a picture has.
func pictureTiles(v *convolution) int {
	oh, ow := v.window.OutputSize()
	return ((oh + 1) / 2) * ((ow + 1) / 2)
}

// newWinogradSum returns nil where the transforms do not apply or are not faster.
func newWinogradSum(l *lowering, v *convolution, x, delta, factors []float32) *winogradSum {
	g := newGradientWinograd(l, v)
	if factors != nil {
		g = newSumWinograd(l, v)
	}
	if g == nil {
		return nil
	}
	pictures := len(delta) / (v.O * v.area)
	s := &winogradSum{winograd: g, x: x, delta: delta, tiles: g.tileRows * g.tileCols, factors: factors,
		allPictures: pictures, recordPictures: pictures, pictures: make([]int, 0, pictures)}
	if factors != nil {
		s.recordPictures /= len(factors)
	}
	g.stripRows = g.tileRows
	g.batchPictures = max(1, min(pictures, maxWinogradSumTiles/s.tiles))
	g.batchTiles = g.batchPictures*s.tiles + winogradPad // a row of tiles writes past its end, which must not reach the next channel
	l.pool.reserve((2*g.tileRows+g.Taps-1)*g.lineFloats, 0)
	v0, d0, sums := s.parts()
	if n := v0 + d0 + sums; len(*g.filters) < n {
		*g.filters = make([]float32, n)
	}
	return s
}

// parts returns the floats of the pictures, the signals and the sums.
func (s *winogradSum) parts() (v, d, sums int) {
	return s.Planes() * s.plane(s.in), s.Planes() * s.plane(s.out), s.Planes() * s.filterPlane()
}

// lowerWinogradSum writes the sum to out, or adds it.
func lowerWinogradSum(l *lowering, s *winogradSum, out []float32, accumulate bool) func() {
	nv, nd, _ := s.parts()
	cost := s.batchPictures * s.tiles * s.Planes()
	transform := l.pool.forRanges(s.in+s.out, cost, func(from, to int, w *worker) {
		padded := w.floats((2*s.tileRows + s.Taps - 1) * s.lineFloats)
		if from < s.in {
			clear(padded)
			for i, n := range s.pictures[s.first:][:s.count] {
				s.images((*s.filters)[i*s.tiles:nv], padded, s.x, tileRows{n, 1, 0, s.tileRows}, channelRange{from, min(to, s.in)})
			}
		}
		if to > s.in {
			clear(padded)
			for i, n := range s.pictures[s.first:][:s.count] {
				factor := float32(1)
				if s.factors != nil {
					factor = s.factors[n/s.recordPictures]
				}
				s.signals((*s.filters)[nv+i*s.tiles:nv+nd], padded, s.delta, factor, tileRows{n, 1, 0, s.tileRows},
					channelRange{max(from, s.in) - s.in, to - s.in})
			}
		}
	})
	multiply := l.pool.forRanges(s.Planes(), s.in*s.out*s.batchPictures*s.tiles/8, func(from, to int, w *worker) {
		product := simd.Gemm{
			TransB: true, M: s.out, N: s.in, K: s.count * s.tiles,
			LDA: s.batchTiles, LDB: s.batchTiles, LDC: s.in, Accumulate: s.first > 0,
		}
		for i := from; i < to; i++ {
			product.Run((*s.filters)[nv+nd+i*s.filterPlane():], (*s.filters)[nv+i*s.plane(s.out):],
				(*s.filters)[i*s.plane(s.in):], w.gemm, 0, 1)
		}
	})
	taps, vectors := s.Taps*s.Taps, s.in*s.out/simd.WinogradLanes
	l.pool.reserve((longestRange(vectors, 512)+1)*simd.WinogradLanes*taps, 0)
	finish := l.pool.forRanges(vectors, 512, func(from, to int, w *worker) {
		from, to = from*simd.WinogradLanes, to*simd.WinogradLanes
		if s.in*s.out-to < simd.WinogradLanes {
			to = s.in * s.out
		}
		dst := out[taps*from : taps*to]
		if !accumulate {
			s.Gradients(dst, (*s.filters)[nv+nd+from:], s.filterPlane())
			return
		}
		sum := w.floats(len(dst))
		s.Gradients(sum, (*s.filters)[nv+nd+from:], s.filterPlane())
		simd.Add(dst, dst, sum)
	})
	return func() {
		s.pictures = s.pictures[:0]
		for n := range s.allPictures {
			if s.factors == nil || s.factors[n/s.recordPictures] != 0 {
				s.pictures = append(s.pictures, n)
			}
		}
		for s.first = 0; s.first < len(s.pictures); s.first += s.batchPictures {
			s.count = min(s.batchPictures, len(s.pictures)-s.first)
			transform()
			multiply()
		}
		switch {
		case len(s.pictures) > 0:
			finish()
		case !accumulate:
			clear(out)
		}
	}
}
