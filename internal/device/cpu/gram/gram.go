// Package gram computes the squared norm of Σ_t a_t ⊗ δ_t as ⟨AAᵀ, ΔΔᵀ⟩ (Goodfellow
// 2015, "Efficient per-example gradient computations"): the squared norm of a record's
// gradient from the rows of its input A and of its signal Δ, without the gradient.
//
// AAᵀ and ΔΔᵀ are computed in float32. The terms of the inner product can cancel, so
// [Matrices.Inner] bounds what rounding can have changed for this very record, and
// [Matrices.SquaredNorm] adds the bound: a norm is never underestimated. If the bound
// exceeds 1/256 of the result, the norm is computed again in float64, where a product
// of two float32 numbers is exact.
package gram

import (
	"math"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/simd"
)

// Matrices are the two Gram matrices of one record, Width by Width, with zeros above
// the diagonal.
type Matrices struct {
	Rows, Width int       // Width is Rows rounded up to whole tiles
	A, D        []float32 // AAᵀ and ΔΔᵀ
	panel       []float32 // some columns of A or Δ, one after the other
}

// maxRounding is the largest share of a squared norm that rounding in float32 may
// change.
const maxRounding = 1.0 / (1 << 8)

// A tile of products is tileRows by tileCols.
const tileRows, tileCols = 8, 16

// panelCols returns how many columns a panel has. The panel stays in the first-level
// cache, and a sum over its columns passes through few roundings.
func panelCols(width int) int { return min(max(6144/width, 16), 48) }

// Width returns rows rounded up to whole tiles.
func Width(rows int) int { return (rows + tileCols - 1) / tileCols * tileCols }

// Scratch returns how many numbers [New] needs.
func Scratch(rows int) int {
	width := Width(rows)
	return 2*width*width + panelCols(width)*width
}

// New returns zero matrices in memory of [Scratch] numbers.
func New(memory []float32, rows int) Matrices {
	width := Width(rows)
	clear(memory)
	n := width * width
	return Matrices{Rows: rows, Width: width, A: memory[:n], D: memory[n : 2*n], panel: memory[2*n:]}
}

// Vectors are the rows of A or Δ: element k of row t is
// Data[(t/Block*Len + k)*Block + t%Block].
type Vectors struct {
	Data  []float32
	Len   int // elements of a row
	Block int // rows whose elements are interleaved, as the columns of a matrix with Len rows are
}

// ContiguousRows are rows of n elements, one after the other.
func ContiguousRows(x []float32, n int) Vectors { return Vectors{x, n, 1} }

// dot is the inner product of two rows in float64.
func (v Vectors) dot(s, t int) (sum float64) {
	if v.Block == 1 {
		return simd.Dot(v.Data[s*v.Len:][:v.Len], v.Data[t*v.Len:][:v.Len])
	}
	s += s / v.Block * (v.Len - 1) * v.Block
	t += t / v.Block * (v.Len - 1) * v.Block
	for k := 0; k < v.Len*v.Block; k += v.Block {
		sum += float64(v.Data[s+k]) * float64(v.Data[t+k])
	}
	return sum
}

// Multiply adds the products of the rows of v to dst, which is g.A or g.D and zero.
func (g Matrices) Multiply(dst []float32, v Vectors) {
	cols := panelCols(g.Width)
	for k := 0; k < v.Len; k += cols {
		m := min(cols, v.Len-k)
		if v.Block == 1 {
			g.packRows(v, k, m)
		} else {
			for i := range m {
				for r := 0; r < g.Rows; r += v.Block {
					copy(g.panel[i*g.Width+r:], v.Data[r*v.Len+(k+i)*v.Block:][:v.Block])
				}
			}
		}
		for s := 0; s < g.Rows; s += tileRows {
			for t := 0; t < s+tileRows; t += tileCols {
				multiplyTile(dst[s*g.Width+t:], g.Width, g.panel[s:], g.panel[t:], g.Width, m)
			}
		}
	}
	for s := range g.Rows {
		clear(dst[s*g.Width+s+1 : (s+1)*g.Width])
	}
}

// packRows writes m columns of contiguous rows, from column k on, to the panel.
func (g Matrices) packRows(v Vectors, k, m int) {
	r := 0
	for ; r+8 <= g.Rows; r += 8 {
		packColumns(g.panel[r:], g.Width, v.Data[r*v.Len+k:], v.Len, m)
	}
	for ; r < g.Rows; r++ {
		for i, x := range v.Data[r*v.Len+k:][:m] {
			g.panel[i*g.Width+r] = x
		}
	}
}

// Inner returns ⟨AAᵀ, ΔΔᵀ⟩, an upper bound on what rounding changed in it, and an
// upper bound on Σ‖a_t‖‖δ_t‖. na and nd are the lengths of a row of A and of Δ. With A′
// and D′ the computed values of the two matrices A and D,
//
//	|⟨A′, D′⟩ − ⟨A, D⟩| ≤ ‖A′−A‖‖D′‖ + ‖A‖‖D′−D‖
func (g Matrices) Inner(na, nd int) (total, rounding, length float64) {
	total = 2 * simd.Dot(g.A, g.D)
	for s := 0; s < g.Rows*g.Width; s += g.Width + 1 {
		total -= float64(g.A[s]) * float64(g.D[s])
	}
	normA, roundingA, traceA := g.norm(g.A, na)
	normD, roundingD, traceD := g.norm(g.D, nd)
	const margin = 1.001 // for the roundings of these sums, in float64
	return total, margin * (roundingA*normD + (normA+roundingA)*roundingD), margin * math.Sqrt(traceA*traceD)
}

// norm returns the Frobenius norm of a Gram matrix of rows of n elements, an upper bound
// on the norm of what rounding changed in it, and an upper bound on its exact trace.
//
// An element is a sum of n products. Each passes through k roundings, in its panel and
// when panels are added. So the element's error is at most γ = k·u/(1 − k·u) times the
// product of the two rows' lengths, u = 2⁻²⁴ (Higham 2002, "Accuracy and Stability of
// Numerical Algorithms", section 3.1), plus n·2⁻¹⁴⁹ where products underflow. The root
// of the sum of squares over all pairs is γ times the sum of the rows' squared lengths,
// which is the trace.
func (g Matrices) norm(m []float32, n int) (norm, rounding, trace float64) {
	var diagonal float64
	for s := 0; s < g.Rows*g.Width; s += g.Width + 1 {
		v := float64(m[s])
		trace += v
		diagonal += v * v
	}
	cols := panelCols(g.Width)
	ku := float64(min(n, cols)+n/cols+2) / (1 << 24)
	gamma, underflow := ku/(1-ku), float64(g.Rows*n)*0x1p-149
	trace = (trace + underflow) / (1 - gamma)
	return math.Sqrt(2*simd.SumSquares(m) - diagonal), gamma*trace + underflow, trace
}

// Inexact reports whether a squared norm is too uncertain if rounding can have changed
// it by rounding. It is true for NaN and infinities.
func Inexact(total, rounding float64) bool {
	return !(rounding <= maxRounding*total && rounding <= math.MaxFloat64 || rounding <= 1e-30)
}

// SquaredNorm returns an upper bound on ‖Σ_t a_t ⊗ δ_t‖², close to it, and an upper
// bound on Σ‖a_t‖‖δ_t‖. If known is true, g.D already contains ΔΔᵀ.
func (g Matrices) SquaredNorm(a, d Vectors, known bool) (square, length float64) {
	g.Multiply(g.A, a)
	if !known {
		g.Multiply(g.D, d)
	}
	total, rounding, length := g.Inner(a.Len, d.Len)
	if Inexact(total, rounding) {
		total, rounding, length = InnerFloat64(a, d, g.Rows)
	}
	return max(total, 0) + rounding, length
}

// InnerFloat64 is [Matrices.Inner] in float64. There the product of two rows of n
// elements has an error of at most n·2⁻⁵³ times the product of their lengths, adding
// rows² such products adds the same for each of 2·rows, and the products of all pairs of
// lengths sum to length².
func InnerFloat64(a, d Vectors, rows int) (total, rounding, length float64) {
	for s := range rows {
		for t := range s {
			total += 2 * a.dot(s, t) * d.dot(s, t)
		}
		square := a.dot(s, s) * d.dot(s, s)
		total += square
		length += math.Sqrt(square)
	}
	return total, CancellationError(length, a.Len+d.Len, rows), length
}

// CancellationError bounds what rounding in float64 changes in a sum of products as in
// [InnerFloat64].
func CancellationError(length float64, n, rows int) float64 {
	return 2 * float64(n+2*rows+8) * op.Roundoff * length * length
}

// multiplyTileGo adds a tile of products to dst, whose rows are stride apart. Element
// (i, j) of the tile is the sum over k of x[k*ld+i]·y[k*ld+j], computed from zero in
// order of k and added to dst once.
func multiplyTileGo(dst []float32, stride int, x, y []float32, ld, steps int) {
	for i := range tileRows {
		var sum [tileCols]float32
		for k := range steps {
			v, row := x[k*ld+i], y[k*ld:][:tileCols]
			for j, u := range row {
				sum[j] += v * u
			}
		}
		row := dst[i*stride:][:tileCols]
		for j, v := range sum {
			row[j] += v
		}
	}
}

// packColumnsGo transposes the first cols numbers of eight rows of x, which are ldx
// apart: they become columns of dst, ld apart.
func packColumnsGo(dst []float32, ld int, x []float32, ldx, cols int) {
	if cols == 0 {
		return
	}
	for r := range 8 {
		for c, v := range x[r*ldx:][:cols] {
			dst[c*ld+r] = v
		}
	}
}
