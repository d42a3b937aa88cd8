package simd

// Panels is the matrix B of a product, packed once in the order in which tiles read it. It
// serves loops that multiply a few rows at a time by one B, the weight of a recurrent layer.
type Panels struct {
	k, n    int
	kernels *kernels
	data    []float32
}

// NewPanels allocates panels for k rows of n columns.
func NewPanels(k, n int) *Panels {
	p := &Panels{k: k, n: n, kernels: active}
	p.data = make([]float32, k*p.Count()*p.kernels.nr)
	return p
}

// Count returns the number of panels. Several threads may pack some each.
func (p *Panels) Count() int { return ceilDiv(p.n, p.kernels.nr) }

// Pack packs panels from … to-1 of b, or of bᵀ if transposed. The stored rows of b are ld
// floats apart.
func (p *Panels) Pack(b []float32, ld int, transposed bool, from, to int) {
	nr := p.kernels.nr
	for j := from; j < to && p.k > 0; j++ {
		dst, n := p.data[j*p.k*nr:][:p.k*nr], min(nr, p.n-j*nr)
		if !transposed {
			p.kernels.packRows(&dst[0], nr, &b[j*nr], ld, p.k, n, nil)
			continue
		}
		clear(dst)
		p.kernels.transpose(dst, nr, b[j*nr*ld:], ld, n, p.k)
	}
}

// Product sets c = a·B + bias. The rows of c and a are ldc and lda floats apart; bias may be
// nil. The bits are those of Gemm.
func (p *Panels) Product(c []float32, ldc int, a []float32, lda, rows int, bias []float32) {
	if rows == 0 || p.n == 0 || p.k == 0 {
		return
	}
	_, _ = c[(rows-1)*ldc+p.n-1], a[(rows-1)*lda+p.k-1]
	if bias != nil {
		_ = bias[p.n-1]
	}
	nr, tiles := p.kernels.nr, ceilDiv(rows, p.kernels.mr)
	for j := range p.Count() {
		b, n := p.data[j*p.k*nr:][:p.k*nr], min(nr, p.n-j*nr)
		for k := 0; k < p.k; k += kBlock {
			flags, add := 0, (*float32)(nil)
			if k > 0 {
				flags = flagAdd
			}
			if bias != nil && k+kBlock >= p.k {
				flags, add = flags|flagColBias, &bias[j*nr]
			}
			for q := range tiles {
				i, end := q*rows/tiles, (q+1)*rows/tiles
				p.kernels.tileRows(end-i, n, min(kBlock, p.k-k), &a[i*lda+k], lda, &b[k*nr], nr, &c[i*ldc+j*nr], ldc, flags, add)
			}
		}
	}
}
