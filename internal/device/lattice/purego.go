package lattice

import (
	"math"
	"unsafe"
)

var pureGo = kernels{
	name: "go", lanes: 4, depth: 1, mr: 4, nr: 8,
	tile:    tileGo,
	addInts: addIntsGo, innerProduct: innerProductGo, sumSquares: sumSquaresGo, scaleInts: scaleIntsGo,
}

// dither returns x·scale + w/2^32 with a rounding after each operation. The conversions keep the
// compiler from fusing them.
func dither(x, scale float32, w uint32) float32 {
	return float32(x*scale) + float32(float32(int32(w))*(1.0/(1<<32)))
}

// round returns the integer next to t, the even one if two are equally near. |t| is below 2^31.
func round(t float32) int32 { return int32(math.RoundToEven(float64(t))) }

// tooLarge is a sum of squares above every valid one.
const tooLarge = 1 << 62

// quantizeGo rounds n elements to dst, saturated to int16. It returns the sum of their squares if
// that is at most MaxRowNorm² and all elements are finite, else a larger number up to tooLarge.
func quantizeGo(dst *int16, x *float32, n int, scale float32, start, step uint32) (sum uint64) {
	to := unsafe.Slice(dst, n)
	for i, x := range unsafe.Slice(x, n) {
		t := dither(x, scale, wordOf(start, step, i))
		if !(t >= -math.MaxInt16 && t <= math.MaxInt16) {
			return tooLarge
		}
		v := round(t)
		to[i] = int16(v)
		sum += uint64(int64(v) * int64(v))
	}
	return sum
}

// roundGo rounds n elements to dst, which may be the memory of x. It returns the sum of their squares,
// and the largest of the bits of |x·scale + w/2^32|. The integers and the sum are undefined if largest
// exceeds the bits of largestInRange, which are below those of infinity and of NaN.
func roundGo(dst *int32, x *float32, n int, scale float32, start, step uint32) (sum uint64, largest uint32) {
	to := unsafe.Slice(dst, n)
	for i, x := range unsafe.Slice(x, n) {
		t := dither(x, scale, wordOf(start, step, i))
		if size := math.Float32bits(t) &^ (1 << 31); size > largest {
			largest = size
		}
		if largest > math.Float32bits(largestInRange) {
			return 0, largest
		}
		v := round(t)
		to[i] = v
		sum += uint64(int64(v) * int64(v))
	}
	return sum, largest
}

func tileGo(m, n, steps int, a *int16, lda int, b *int16, ldb int, part *int32, ldp int, flags int) {
	x, y := unsafe.Slice(a, (steps-1)*lda+m), unsafe.Slice(b, (steps-1)*ldb+n)
	for i := range m {
		var acc [8]int32
		for p := range steps {
			f := int32(x[p*lda+i])
			for j, v := range y[p*ldb:][:n] {
				acc[j&7] += f * int32(v)
			}
		}
		row := unsafe.Slice(part, (m-1)*ldp+n)[i*ldp:][:n]
		if flags&flagAdd != 0 {
			addIntsGo(&acc[0], &row[0], n)
		}
		copy(row, acc[:])
	}
}

func addIntsGo(sum, part *int32, n int) {
	to := unsafe.Slice(sum, n)
	for i, v := range unsafe.Slice(part, n) {
		to[i] += v
	}
}

func innerProductGo(x, y *int32, n int) (sum int64) {
	other := unsafe.Slice(y, n)
	for i, v := range unsafe.Slice(x, n) {
		sum += int64(v) * int64(other[i])
	}
	return sum
}

func sumSquaresGo(x *int16, n int) (sum int64) {
	for _, v := range unsafe.Slice(x, n) {
		sum += int64(v) * int64(v)
	}
	return sum
}

func scaleIntsGo(dst *float32, x *int64, n int, scale float64) {
	to := unsafe.Slice(dst, n)
	for i, v := range unsafe.Slice(x, n) {
		to[i] = float32(float64(v) * scale)
	}
}
