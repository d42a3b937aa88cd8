package cpu

import "math"

// gram finds ‖Σ_t a_t ⊗ δ_t‖² as ⟨AAᵀ, ΔΔᵀ⟩ (Goodfellow 2015, "Efficient
// per-example gradient computations").
//
// It is computed in float64: the terms of the inner product cancel, and float32
// would leave an error of the order of (Σ_t‖a_t‖‖δ_t‖)²·2⁻²⁴, far more than the
// norm of some records. A product of two float32 is exact in float64.
type gram struct {
	rows, width int       // width is rows rounded up to whole tiles
	a, d        []float64 // AAᵀ and ΔΔᵀ, width by width; below the diagonal only
	panel       []float64 // some columns of a matrix, widened, one after the other
}

// A tile of products is gramHigh by gramWide.
const gramHigh, gramWide = 8, 8

// gramSteps is how many columns a panel holds: what stays in the first cache.
func gramSteps(width int) int { return min(max(3072/width, 16), 256) }

func gramWidth(rows int) int { return (rows + gramWide - 1) / gramWide * gramWide }

// gramScratch is how many doubles a gram needs.
func gramScratch(rows int) int {
	width := gramWidth(rows)
	return 2*width*width + gramSteps(width)*width
}

// newGram is a gram of nothing, in a worker's memory.
func newGram(w *worker, rows int) gram {
	width := gramWidth(rows)
	m := w.doubles(gramScratch(rows))
	clear(m)
	n := width * width
	return gram{rows: rows, width: width, a: m[:n], d: m[n : 2*n], panel: m[2*n:]}
}

// addRows adds to dst the products of the rows of x, n elements each.
func (g gram) addRows(dst []float64, x []float32, n int) {
	steps := gramSteps(g.width)
	for k := 0; k < n; k += steps {
		m := min(steps, n-k)
		r := 0
		for ; r+8 <= g.rows; r += 8 {
			gramColumns(g.panel[r:], g.width, x[r*n+k:], n, m)
		}
		for ; r < g.rows; r++ {
			for i, v := range x[r*n+k:][:m] {
				g.panel[i*g.width+r] = float64(v)
			}
		}
		g.addPanel(dst, m)
	}
}

// addColumns adds to dst the products of rows that are stored as the columns of
// several matrices of n rows, one matrix after the other.
func (g gram) addColumns(dst []float64, x []float32, n, matrices int) {
	steps := gramSteps(g.width)
	length := g.rows / matrices
	for k := 0; k < n; k += steps {
		m := min(steps, n-k)
		for i := range m {
			for j := range matrices {
				widen(g.panel[i*g.width+j*length:][:length], x[(j*n+k+i)*length:][:length])
			}
		}
		g.addPanel(dst, m)
	}
}

func (g gram) addPanel(dst []float64, steps int) {
	for s := 0; s < g.rows; s += gramHigh {
		for t := 0; t < s+gramHigh; t += gramWide {
			gramTile(dst[s*g.width+t:], g.width, g.panel[s:], g.panel[t:], g.width, steps)
		}
	}
}

// inner is the inner product of the two, and Σ_t‖a_t‖‖δ_t‖.
func (g gram) inner() (total, length float64) {
	for s := range g.rows {
		a, d := g.a[s*g.width:][:s+1], g.d[s*g.width:][:s+1]
		var row float64
		for t, v := range a[:s] {
			row += v * d[t]
		}
		total += 2*row + a[s]*d[s]
		length += math.Sqrt(a[s] * d[s])
	}
	return total, length
}

// above is at least what a sum of products would be without roundings: a product
// of two rows of n elements is off by at most n·2⁻⁵³ of their lengths' product,
// adding up rows² of them costs as much for each of 2·rows, and all lengths'
// products together are length².
func above(total, length float64, n, rows int) float64 {
	return max(total, 0) + 2*float64(n+2*rows+8)*roundoff*length*length
}

// squared is the squared norm, not less than it is; n is how many elements a row
// of A and one of Δ have together.
func (g gram) squared(n int) float64 {
	total, length := g.inner()
	return above(total, length, n, g.rows)
}

// gramTileGo adds to a tile of dst, whose rows are stride apart, the products of
// columns of x and y, steps of them, ld apart.
func gramTileGo(dst []float64, stride int, x, y []float64, ld, steps int) {
	for i := range gramHigh {
		var sum [gramWide]float64
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

// gramColumnsGo widens the first numbers of eight rows of x, which are ldx apart,
// and lays them out as columns, ld apart.
func gramColumnsGo(dst []float64, ld int, x []float32, ldx, cols int) {
	if cols == 0 {
		return
	}
	for r := range 8 {
		for c, v := range x[r*ldx:][:cols] {
			dst[c*ld+r] = float64(v)
		}
	}
}

func widenGo(dst []float64, src []float32) {
	for i, v := range src {
		dst[i] = float64(v)
	}
}
