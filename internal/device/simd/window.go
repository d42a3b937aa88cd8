package simd

// Window slides over one image of C planes of H×W, stored plane by plane, row by row.
// Padding counts as 0, except for MaxPool, which ignores it.
type Window struct {
	C, H, W          int
	KH, KW           int // size of the window
	StrideH, StrideW int
	PadH, PadW       int // on both sides
	DilH, DilW       int // distance of the taps, 1 if they are adjacent
}

// OutputSize returns the number of positions of the window.
func (w *Window) OutputSize() (height, width int) {
	return (w.H+2*w.PadH-w.DilH*(w.KH-1)-1)/w.StrideH + 1, (w.W+2*w.PadW-w.DilW*(w.KW-1)-1)/w.StrideW + 1
}

// clipRange returns the range first ≤ o < end of positions below count for which
// 0 ≤ start+o·step < size.
func clipRange(start, step, size, count int) (first, end int) {
	if start < 0 {
		first = ceilDiv(-start, step)
	}
	end = min(count, ceilDiv(max(size-start, 0), step))
	return min(first, end), end
}

// Im2col writes the columns of an image. Row (c·KH+kh)·KW+kw of dst contains what tap
// (kh, kw) sees of plane c at each position. Rows are ldd floats apart.
func (w *Window) Im2col(dst []float32, ldd int, img []float32) {
	oh, ow := w.OutputSize()
	img = img[:w.C*w.H*w.W]
	tap := 0
	for c := range w.C {
		for kh := range w.KH {
			y := kh*w.DilH - w.PadH
			top, bottom := clipRange(y, w.StrideH, w.H, oh)
			from := (c*w.H + y + top*w.StrideH) * w.W
			for kw := range w.KW {
				x := kw*w.DilW - w.PadW
				d := dst[tap*ldd:][:oh*ow]
				tap++
				clear(d[:top*ow])
				clear(d[bottom*ow:])
				left, right := clipRange(x, w.StrideW, w.W, ow)
				for o := top; o < bottom; o++ {
					row := d[o*ow:][:ow]
					s := img[from+(o-top)*w.StrideH*w.W:][:w.W]
					clear(row[:left])
					clear(row[right:])
					for j := left; j < right; j++ {
						row[j] = s[x+j*w.StrideW]
					}
				}
			}
		}
	}
}

// Col2im is the adjoint of Im2col: it sets each element of img to the sum of the elements of
// patches that Im2col would copy from it, in the order of the taps.
func (w *Window) Col2im(img, patches []float32, ldp int) {
	oh, ow := w.OutputSize()
	img = img[:w.C*w.H*w.W]
	patches = patches[:(w.C*w.KH*w.KW-1)*ldp+oh*ow]
	if active.sumTaps != nil && w.StrideH == 1 && w.StrideW == 1 && w.W >= 4 {
		for c := range w.C {
			for h := range w.H {
				// Tap kh sees this row from position h+PadH-kh·DilH.
				first := 0
				if over := h + w.PadH - (oh - 1); over > 0 {
					first = ceilDiv(over, w.DilH)
				}
				end := min(w.KH, (h+w.PadH)/w.DilH+1)
				row := img[(c*w.H+h)*w.W:][:w.W]
				if first >= end {
					clear(row)
					continue
				}
				from := (c*w.KH+first)*w.KW*ldp + (h+w.PadH-first*w.DilH)*ow
				active.sumTaps(&row[0], w.W, &patches[0], from, ldp, w.KW*ldp-w.DilH*ow, end-first, w.KW, w.PadW, w.DilW, ow)
			}
		}
		return
	}
	if active.sumTaps2 != nil && w.StrideH == 2 && w.StrideW == 2 && w.DilH == 1 && w.DilW == 1 {
		w.col2imStride2(img, patches, ldp, oh, ow)
		return
	}
	clear(img)
	w.forEachTapRow(func(_, tap, o, row, x, left, right int) {
		d, s := img[row*w.W:][:w.W], patches[tap*ldp+o*ow:][:ow]
		for j := left; j < right; j++ {
			d[x+j*w.StrideW] += s[j]
		}
	})
}

// col2imStride2 is Col2im for stride 2: every other tap sees a row, and every other element
// of it.
func (w *Window) col2imStride2(img, patches []float32, ldp, oh, ow int) {
	for c := range w.C {
		for h := range w.H {
			y := h + w.PadH
			// Tap kh sees this row from position (y-kh)/2.
			first := y % 2
			if over := (y-first)/2 - (oh - 1); over > 0 {
				first += 2 * over
			}
			taps := (min(w.KH-1, y) - first + 2) / 2
			row := img[(c*w.H+h)*w.W:][:w.W]
			if first >= w.KH || first > y {
				clear(row)
				continue
			}
			from := (c*w.KH+first)*w.KW*ldp + (y-first)/2*ow
			odd := w.PadW % 2 // the first tap that sees element 0
			active.sumTaps2(&row[0], w.W, &patches[0], from+odd*ldp, from+(1-odd)*ldp, 2*ldp, 2*w.KW*ldp-ow, taps,
				(w.KW-odd+1)/2, (w.KW+odd)/2, (w.PadW-odd)/2, (w.PadW+odd)/2, ow)
		}
	}
}
