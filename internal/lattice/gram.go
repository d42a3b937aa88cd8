package lattice

import (
	"fmt"
	"math/bits"
)

// Gram sets out[t*T+u] to the inner product of rows t and u of T rows of n elements. It is
// computed modulo 2^32 and exact if the norms of all rows are at most MaxRowNorm: by the
// inequality of Cauchy and Schwarz no inner product then exceeds 2^28.
func Gram(out []int32, rows []int16, T, n int, ws *Workspace) { active.gram(out, rows, T, n, ws) }

func (k *kernels) gram(out []int32, rows []int16, T, n int, ws *Workspace) {
	if T < 0 || n < 0 || len(out) < T*T || len(rows) < T*n {
		panic(fmt.Sprintf("lattice: the Gram matrix of %d rows of %d elements does not fit slices of %d and %d elements", T, n, len(out), len(rows)))
	}
	for t := range T {
		for u := range t + 1 {
			var s int32
			for i, x := range rows[t*n:][:n] {
				s += int32(x) * int32(rows[u*n+i])
			}
			out[t*T+u], out[u*T+t] = s, s
		}
	}
}

// InnerProduct returns Σ_{t,u} a[t*T+u]·d[t*T+u] for two symmetric T×T matrices modulo 2^64. It
// is exact if Σ|a||d| < 2^63. For Gram matrices of rows â_t and δ̂_t, Σ|a||d| is at most
// (Σ_t ‖â_t‖‖δ̂_t‖)², which the caller bounds; InnerProduct128 needs no bound.
//
// If a and d are the Gram matrices of the rows of one record, the result is the squared norm of
// Σ_t â_t ⊗ δ̂_t (Goodfellow 2015, "Efficient per-example gradient computations").
func InnerProduct(a, d []int32, T int) int64 { return active.innerProduct(a, d, T) }

func (k *kernels) innerProduct(a, d []int32, T int) int64 {
	checkSquare(a, d, T)
	var sum int64
	for i, x := range a[:T*T] {
		sum += int64(x) * int64(d[i])
	}
	return sum
}

// InnerProduct128 returns the sum of InnerProduct as a signed 128-bit integer hi·2^64 + lo. It is
// exact for all matrices.
func InnerProduct128(a, d []int32, T int) (hi int64, lo uint64) {
	checkSquare(a, d, T)
	for i, x := range a[:T*T] {
		term := int64(x) * int64(d[i])
		var carry uint64
		lo, carry = bits.Add64(lo, uint64(term), 0)
		hi += term>>63 + int64(carry)
	}
	return hi, lo
}

func checkSquare(a, d []int32, T int) {
	if T < 0 || len(a) < T*T || len(d) < T*T {
		panic(fmt.Sprintf("lattice: matrices of %d×%d elements do not fit slices of %d and %d elements", T, T, len(a), len(d)))
	}
}
