package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/simd"
)

// gram finds ‖Σ_t a_t ⊗ δ_t‖² as ⟨AAᵀ, ΔΔᵀ⟩ (Goodfellow 2015, "Efficient
// per-example gradient computations").
//
// AAᵀ and ΔΔᵀ are computed in float32. The terms of the inner product can cancel, so
// what roundings may have changed is bounded for the very record, and added: no norm
// is found too small. So is what the sum, in float32 itself, may leave of rows that cancel. A record for which that is more than gramTrust of the result
// is computed again in float64, where a product of two float32 is exact.
type gram struct {
	rows, width int       // width is rows rounded up to whole tiles
	a, d        []float32 // AAᵀ and ΔΔᵀ, width by width; zero above the diagonal
	panel       []float32 // some columns of a matrix, one after the other
}

// gramTrust is how much of a squared norm roundings in float32 may be.
const gramTrust = 1.0 / (1 << 8)

// A tile of products is gramHigh by gramWide.
const gramHigh, gramWide = 8, 16

// gramSteps is how many columns a panel holds: what stays in the first cache, and
// few enough that their products are added up without many roundings.
func gramSteps(width int) int { return min(max(6144/width, 16), 48) }

func gramWidth(rows int) int { return (rows + gramWide - 1) / gramWide * gramWide }

// gramScratch is how many numbers a gram needs.
func gramScratch(rows int) int {
	width := gramWidth(rows)
	return 2*width*width + gramSteps(width)*width
}

// newGram is a gram of nothing, in memory of gramScratch numbers.
func newGram(memory []float32, rows int) gram {
	width := gramWidth(rows)
	clear(memory)
	n := width * width
	return gram{rows: rows, width: width, a: memory[:n], d: memory[n : 2*n], panel: memory[2*n:]}
}

// vectors are the rows of A or Δ: element k of row t is
// x[(t/beside*n + k)*beside + t%beside].
type vectors struct {
	x      []float32
	n      int // elements of a row
	beside int // rows that lie side by side, as the columns of a matrix of n rows
}

// rowsOf are rows one after the other.
func rowsOf(x []float32, n int) vectors { return vectors{x, n, 1} }

// dot is the inner product of two rows in float64.
func (v vectors) dot(s, t int) (sum float64) {
	if v.beside == 1 {
		return simd.Dot(v.x[s*v.n:][:v.n], v.x[t*v.n:][:v.n])
	}
	s += s / v.beside * (v.n - 1) * v.beside
	t += t / v.beside * (v.n - 1) * v.beside
	for k := 0; k < v.n*v.beside; k += v.beside {
		sum += float64(v.x[s+k]) * float64(v.x[t+k])
	}
	return sum
}

// multiply adds the products of the rows of v to dst, which is zero.
func (g gram) multiply(dst []float32, v vectors) {
	steps := gramSteps(g.width)
	for k := 0; k < v.n; k += steps {
		m := min(steps, v.n-k)
		if v.beside == 1 {
			g.layRows(v, k, m)
		} else {
			for i := range m {
				for r := 0; r < g.rows; r += v.beside {
					copy(g.panel[i*g.width+r:], v.x[r*v.n+(k+i)*v.beside:][:v.beside])
				}
			}
		}
		for s := 0; s < g.rows; s += gramHigh {
			for t := 0; t < s+gramHigh; t += gramWide {
				gramTile(dst[s*g.width+t:], g.width, g.panel[s:], g.panel[t:], g.width, m)
			}
		}
	}
	for s := range g.rows {
		clear(dst[s*g.width+s+1 : (s+1)*g.width])
	}
}

// layRows lays m columns of rows into the panel, from the k-th on.
func (g gram) layRows(v vectors, k, m int) {
	r := 0
	for ; r+8 <= g.rows; r += 8 {
		gramColumns(g.panel[r:], g.width, v.x[r*v.n+k:], v.n, m)
	}
	for ; r < g.rows; r++ {
		for i, x := range v.x[r*v.n+k:][:m] {
			g.panel[i*g.width+r] = x
		}
	}
}

// inner is ⟨AAᵀ, ΔΔᵀ⟩, at least what roundings may have changed of it, and at least
// Σ‖a_t‖‖δ_t‖; na and nd are the elements of a row of A and of Δ. With A′ and D′ what was
// computed of the two matrices A and D,
//
//	|⟨A′, D′⟩ − ⟨A, D⟩| ≤ ‖A′−A‖‖D′‖ + ‖A‖‖D′−D‖
func (g gram) inner(na, nd int) (total, off, length float64) {
	total = 2 * simd.Dot(g.a, g.d)
	for s := 0; s < g.rows*g.width; s += g.width + 1 {
		total -= float64(g.a[s]) * float64(g.d[s])
	}
	normA, offA, traceA := g.norm(g.a, na)
	normD, offD, traceD := g.norm(g.d, nd)
	const margin = 1.001 // the sums in float64 have roundings, too
	return total, margin * (offA*normD + (normA+offA)*offD), margin * math.Sqrt(traceA*traceD)
}

// norm is the Frobenius norm of a Gram matrix of rows of n elements, at least that of what
// roundings changed in it, and at least the trace that it should have. An element is a sum of n products that passes through
// k roundings, of the panel and of adding panels up, so it is off by at most γ = k·u/(1 − k·u)
// of the product of two rows' lengths, u = 2⁻²⁴ (Higham 2002, "Accuracy and Stability of
// Numerical Algorithms", section 3.1), and by n·2⁻¹⁴⁹ where products underflow; squared and
// added up over all pairs, γ is taken of the sum of the rows' squared lengths: the trace.
func (g gram) norm(m []float32, n int) (norm, off, trace float64) {
	var diagonal float64
	for s := 0; s < g.rows*g.width; s += g.width + 1 {
		v := float64(m[s])
		trace += v
		diagonal += v * v
	}
	steps := gramSteps(g.width)
	ku := float64(min(n, steps)+n/steps+2) / (1 << 24)
	gamma, lost := ku/(1-ku), float64(g.rows*n)*0x1p-149
	trace = (trace + lost) / (1 - gamma)
	return math.Sqrt(2*simd.SumSquares(m) - diagonal), gamma*trace + lost, trace
}

// doubtful tells that a squared norm is not known well enough where roundings may have
// changed it by off.
func doubtful(total, off float64) bool {
	return !(off <= gramTrust*total && off <= math.MaxFloat64 || off <= 1e-30)
}

// squared is the squared norm of the product of two, not less than it is, and at least
// Σ‖a_t‖‖δ_t‖. What is in g.d stays there if it is known.
func (g gram) squared(a, d vectors, known bool) (square, length float64) {
	g.multiply(g.a, a)
	if !known {
		g.multiply(g.d, d)
	}
	total, off, length := g.inner(a.n, d.n)
	if doubtful(total, off) {
		total, off, length = innerExactly(a, d, g.rows)
	}
	return max(total, 0) + off, length
}

// summed adds to a squared norm what so many roundings of a sum in float32 leave of a
// record's rows, whose lengths add up to length.
func summed(square float64, roundings int, length float64) float64 {
	norm := math.Sqrt(square) + float64(roundings)*singleRoundoff*length
	return norm * norm
}

// inChains is oneByOne for rows of a product over all records, which adds up a chain after
// the other. Where a record's rows lie in two of them and take each other back, the rows of
// others in either are rounded as coarsely as what is taken back.
func inChains(n int) int { return oneByOne(n) + simd.Chain }

// chains is in how many chains so many rows are added up: where a record's uses take each
// other back, the sum of every chain between them is rounded as coarsely as one use is.
func chains(rows int) int { return rows/simd.Chain + 1 }

// oneByOne is how many roundings a term passes through where a sum takes n rows, each
// times the factor, one by one.
func oneByOne(n int) int { return n + 1 }

// innerExactly is inner in float64, where a product of two rows of n elements is off by at
// most n·2⁻⁵³ of their lengths' product, adding up rows² of them costs as much for
// each of 2·rows, and all lengths' products together are length².
func innerExactly(a, d vectors, rows int) (total, off, length float64) {
	for s := range rows {
		for t := range s {
			total += 2 * a.dot(s, t) * d.dot(s, t)
		}
		square := a.dot(s, s) * d.dot(s, s)
		total += square
		length += math.Sqrt(square)
	}
	return total, cancelled(length, a.n+d.n, rows), length
}

// cancelled is what roundings in float64 may change of such a sum of products.
func cancelled(length float64, n, rows int) float64 {
	return 2 * float64(n+2*rows+8) * roundoff * length * length
}

// gramTileGo adds to a tile of dst, whose rows are stride apart, the products of
// columns of x and y, steps of them, ld apart. They are added up before.
func gramTileGo(dst []float32, stride int, x, y []float32, ld, steps int) {
	for i := range gramHigh {
		var sum [gramWide]float32
		for k := range steps {
			v, row := x[k*ld+i], y[k*ld:][:gramWide]
			for j, u := range row {
				sum[j] += v * u
			}
		}
		row := dst[i*stride:][:gramWide]
		for j, v := range sum {
			row[j] += v
		}
	}
}

// gramColumnsGo lays the first numbers of eight rows of x, which are ldx apart, out as
// columns, ld apart.
func gramColumnsGo(dst []float32, ld int, x []float32, ldx, cols int) {
	if cols == 0 {
		return
	}
	for r := range 8 {
		for c, v := range x[r*ldx:][:cols] {
			dst[c*ld+r] = v
		}
	}
}
