package simd

import "unsafe"

// pointerTo returns the address of s[i], nil if i is out of range.
func pointerTo(s []float32, i int) *float32 {
	if i >= len(s) {
		return nil
	}
	return &s[i]
}

// panel is the part of an operand that a tile reads.
type panel struct {
	p  *float32
	ld int
}

// skip returns the panel of A that starts i rows further down.
func (a panel) skip(i int, byCols bool) panel {
	if a.p == nil {
		return a
	}
	if !byCols {
		i *= a.ld
	}
	return panel{(*float32)(unsafe.Add(unsafe.Pointer(a.p), 4*i)), a.ld}
}

// runBlocked computes C over r in blocks that fit the caches. second, if not nil, is
// computed from the same packed copies of B.
func (p *product) runBlocked(r rect, second *product) {
	packA, packB := p.shouldPackA(r), p.shouldPackB(r)
	for j0 := r.j0; j0 < r.j1; j0 += nBlock {
		j1 := min(j0+nBlock, r.j1)
		for p.k0, p.k1 = 0, min(kBlock, p.K); ; p.k0, p.k1 = p.k1, min(p.k1+kBlock, p.K) {
			tail := j0 // the first packed column
			if !packB {
				tail = j1
				if n := (j1 - j0) % p.k.nr; n > 0 && !p.k.exactRead {
					tail = j1 - n
				}
			}
			p.packB(tail, j1)
			zeros := p.markZeroFactors()
			p.multiplyRows(r.i0, r.i1, j0, j1, tail, packA, zeros)
			if second != nil {
				second.k0, second.k1 = p.k0, p.k1
				second.multiplyRows(0, second.M, j0, j1, tail, packA, zeros)
			}
			if p.k1 == p.K {
				break
			}
		}
	}
}

// multiplyRows computes C[i0:i1, j0:j1] over the current block of k.
func (p *product) multiplyRows(i0, i1, j0, j1, tail int, packA, zeros bool) {
	for i := i0; i < i1; i += mBlock {
		p.multiplyBlock(rect{i, min(i+mBlock, i1), j0, j1}, tail, packA, zeros)
	}
}

// multiplyBlock computes one block of C over the current block of k. B is packed from
// column tail on.
func (p *product) multiplyBlock(r rect, tail int, packA, zeros bool) {
	rows, panels := r.i1-r.i0, ceilDiv(r.i1-r.i0, p.k.mr)
	packA = packA || zeros
	if packA {
		p.packA(r.i0, rows, panels, zeros)
	}
	for j := r.j0; j < r.j1; j += p.k.nr {
		n := min(p.k.nr, r.j1-j)
		b := panel{pointerTo(p.b, p.k0*p.LDB+j), p.LDB}
		if j >= tail {
			b = panel{&p.ws.b[(j-tail)*(p.k1-p.k0)], p.k.nr}
		}
		for q := range panels {
			i := r.i0 + q*rows/panels
			m := r.i0 + (q+1)*rows/panels - i
			p.prefetchB(r, (j-r.j0)/p.k.nr*panels+q, ceilDiv(r.j1-r.j0, p.k.nr)*panels)
			p.tile(m, n, p.panelA(i, r.i0, q, packA), b, pointerTo(p.c, i*p.LDC+j), p.LDC, i, j)
		}
	}
}

// prefetchB prefetches a part of what packB reads next, once per block of columns. The B of
// a weight gradient comes from the whole batch and does not fit the caches.
func (p *product) prefetchB(r rect, part, parts int) {
	if p.Factors == nil || r.i0 >= mBlock || p.k.prefetchRows == nil {
		return
	}
	rows := min(kBlock, p.K-p.k1)
	from, to := part*rows/parts, (part+1)*rows/parts
	if from < to {
		p.k.prefetchRows(&p.b[(p.k1+from)*p.LDB+r.j0], p.LDB, to-from, ceilDiv(r.j1-r.j0, 16))
	}
}

// tile computes C[i:i+m, j:j+n].
func (p *product) tile(m, n int, a, b panel, c *float32, ldc, i, j int) {
	flags, bias := 0, (*float32)(nil)
	if p.Accumulate || p.k0 > 0 {
		flags |= flagAdd
	}
	if p.k1 == p.K {
		switch {
		case p.ColBias != nil:
			flags, bias = flags|flagColBias, &p.ColBias[j]
		case p.RowBias != nil:
			flags, bias = flags|flagRowBias, &p.RowBias[i]
		}
		if p.ReLU {
			flags |= flagReLU
		}
	}
	if p.TransA {
		p.k.tileCols(m, n, p.k1-p.k0, a.p, a.ld, b.p, b.ld, c, ldc, flags, bias)
	} else {
		p.k.tileRows(m, n, p.k1-p.k0, a.p, a.ld, b.p, b.ld, c, ldc, flags, bias)
	}
}

// shouldPackB reports whether B is packed: it must be if B is stored transposed, has
// factors or 16-bit numbers, and it pays if several tiles read a panel.
func (p *product) shouldPackB(r rect) bool {
	return p.TransB || p.Factors != nil || p.half.Bits != nil || r.i1-r.i0 > 3*p.k.mr
}

// packB copies columns j0 … j1-1 of B, steps k0 … k1-1, to panels.
func (p *product) packB(j0, j1 int) {
	nr, steps := p.k.nr, p.k1-p.k0
	if steps == 0 {
		return
	}
	if p.half.Bits != nil {
		p.packHalf(j0, j1)
		return
	}
	var factors *float32
	if p.Factors != nil {
		factors = &p.Factors[p.k0]
	}
	if !p.TransB {
		// A few rows at a time, so that reads stay close together.
		for k := p.k0; k < p.k1; k += packedRows {
			rows := min(packedRows, p.k1-k)
			if factors != nil {
				factors = &p.Factors[k]
			}
			for j := j0; j < j1; j += nr {
				dst := &p.ws.b[(j-j0)*steps+(k-p.k0)*nr]
				p.k.packRows(dst, nr, &p.b[k*p.LDB+j], p.LDB, rows, min(nr, j1-j), factors)
			}
		}
		return
	}
	for j := j0; j < j1; j += nr {
		dst := p.ws.b[(j-j0)*steps:][:steps*nr]
		n := min(nr, j1-j)
		if n < nr {
			clear(dst)
		}
		p.k.transpose(dst, nr, p.b[j*p.LDB+p.k0:], p.LDB, n, steps)
	}
}

// packHalf is packB for 16-bit numbers. Columns of the last panel from j1 on keep old numbers, from which nothing is stored.
func (p *product) packHalf(j0, j1 int) {
	nr, steps := p.k.nr, p.k1-p.k0
	panel := func(j int) (dst []float32, n int) { return p.ws.b[(j-j0)*steps:][:steps*nr], min(nr, j1-j) }
	for k := p.k0; k < p.k1 && !p.TransB; k += packedRows {
		rows := min(packedRows, p.k1-k)
		for j := j0; j < j1; j += nr {
			dst, n := panel(j)
			p.k.widen(dst[(k-p.k0)*nr:], nr, p.half.From(k*p.LDB+j), p.LDB, rows, n)
		}
	}
	for j := j0; j < j1 && p.TransB; j += nr {
		dst, n := panel(j)
		wide := p.ws.a // A is packed later
		p.k.widen(wide, p.rowA(), p.half.From(j*p.LDB+p.k0), p.LDB, n, steps)
		p.k.transpose(dst, nr, wide, p.rowA(), n, steps)
	}
}

// shouldPackA reports whether packing A pays: if many panels of B are multiplied with it
// and its unpacked rows would be far apart or in the same sets of the cache.
func (p *product) shouldPackA(r rect) bool {
	return r.j1-r.j0 > 8*p.k.nr && (p.TransA || p.LDA%256 == 0)
}

// widthA and rowA return the length of a packed row of A, if A is packed by columns or by
// rows.
func (p *product) widthA() int { return (p.k.mr + 7) &^ 7 }
func (p *product) rowA() int   { return (p.k1-p.k0+7)&^7 + rowPad }

// packA copies rows of op(A): whole rows if A is stored by rows, else panels of columns. If
// zeros is true, the steps whose factor is 0 become zeros.
func (p *product) packA(i0, rows, panels int, zeros bool) {
	steps := p.k1 - p.k0
	if steps == 0 {
		return
	}
	if !p.TransA {
		p.k.packRows(&p.ws.a[0], p.rowA(), &p.a[i0*p.LDA+p.k0], p.LDA, rows, steps, nil)
		return
	}
	var keep *float32
	if zeros {
		keep = &p.ws.nonzero[0]
	}
	width := p.widthA()
	for q := range panels {
		i := q * rows / panels
		m := (q+1)*rows/panels - i
		p.k.packRows(&p.ws.a[q*width*steps], width, &p.a[p.k0*p.LDA+i0+i], p.LDA, steps, m, keep)
	}
}

// panelA returns the part of op(A) from row i on: panel q of a block that starts at row i0.
func (p *product) panelA(i, i0, q int, packed bool) panel {
	switch {
	case packed && p.TransA:
		return panel{&p.ws.a[q*p.widthA()*(p.k1-p.k0)], p.widthA()}
	case packed:
		return panel{&p.ws.a[(i-i0)*p.rowA()], p.rowA()}
	case p.TransA:
		return panel{pointerTo(p.a, p.k0*p.LDA+i), p.LDA}
	}
	return panel{pointerTo(p.a, i*p.LDA+p.k0), p.LDA}
}

// markZeroFactors reports whether a factor of the current block is 0, and marks in
// ws.nonzero which factors are not.
func (p *product) markZeroFactors() bool {
	if p.Factors == nil {
		return false
	}
	zeros := false
	for i, f := range p.Factors[p.k0:p.k1] {
		p.ws.nonzero[i] = 1
		if f == 0 {
			p.ws.nonzero[i] = 0
			zeros = true
		}
	}
	return zeros
}
