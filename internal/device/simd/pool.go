package simd

import (
	"fmt"
	"math"
)

// MaxPool writes the largest element of each window, plane by plane, to dst, and its index
// in img to arg. Of equal elements the first counts, row by row; NaN exceeds every number. A
// window on padding alone gives -Inf and -1.
func (w *Window) MaxPool(dst []float32, arg []int32, img []float32) {
	oh, ow := w.OutputSize()
	img = img[:w.C*w.H*w.W]
	maxPoolRows := active.maxPool(w.StrideW, ow)
	for c := range w.C {
		for o := 0; o < oh; o++ {
			d, a := dst[(c*oh+o)*ow:][:ow], arg[(c*oh+o)*ow:][:ow]
			y := o*w.StrideH - w.PadH
			first, end := clipRange(y, w.DilH, w.H, w.KH)
			from := (c*w.H + y + first*w.DilH) * w.W
			if first < end && maxPoolRows != nil {
				rows := 1
				if end-first == w.KH { // the next rows, while they fit, see as many
					rows = min(oh-o, (w.H-1-y-(w.KH-1)*w.DilH)/w.StrideH+1)
				}
				maxPoolRows(&d[0], &a[0], ow, &img[0], from, w.DilH*w.W, end-first, w.KW, -w.PadW, w.DilW, w.W, rows, w.StrideH*w.W)
				o += rows - 1
				continue
			}
			for j := range d {
				x := j*w.StrideW - w.PadW
				left, right := clipRange(x, w.DilW, w.W, w.KW)
				best, index := float32(math.Inf(-1)), int32(-1)
				for kh := range end - first {
					for kw := left; kw < right; kw++ {
						at := from + kh*w.DilH*w.W + x + kw*w.DilW
						if v := img[at]; v > best || v != v || index < 0 {
							best, index = v, int32(at)
						}
					}
				}
				d[j], a[j] = best, index
			}
		}
	}
}

// MaxPoolGrad sets dimg to dy, scattered to the elements that MaxPool chose.
func MaxPoolGrad(dimg, dy []float32, arg []int32) {
	clear(dimg)
	for i, at := range arg {
		if at >= 0 {
			dimg[at] += dy[i]
		}
	}
}

// AvgPool writes the mean of each window, plane by plane. Padding counts as zeros.
func (w *Window) AvgPool(dst, img []float32) {
	oh, ow := w.OutputSize()
	dst = dst[:w.C*oh*ow]
	clear(dst)
	w.forEachTapRow(func(c, _, o, row, x, left, right int) {
		d, s := dst[(c*oh+o)*ow:][:ow], img[row*w.W:][:w.W]
		for j := left; j < right; j++ {
			d[j] += s[x+j*w.StrideW]
		}
	})
	Scale(dst, dst, 1/float32(w.KH*w.KW))
}

// AvgPoolGrad sets dimg to the gradient of AvgPool with respect to the image.
func (w *Window) AvgPoolGrad(dimg, dy []float32) {
	oh, ow := w.OutputSize()
	dimg = dimg[:w.C*w.H*w.W]
	clear(dimg)
	w.forEachTapRow(func(c, _, o, row, x, left, right int) {
		d, s := dimg[row*w.W:][:w.W], dy[(c*oh+o)*ow:][:ow]
		for j := left; j < right; j++ {
			d[x+j*w.StrideW] += s[j]
		}
	})
	Scale(dimg, dimg, 1/float32(w.KH*w.KW))
}

// forEachTapRow visits, in the order of the taps, what a tap sees from each row o of
// positions of plane c: positions left ≤ j < right see column x+j·StrideW of the image's
// row. Taps and rows are numbered over all planes.
func (w *Window) forEachTapRow(visit func(c, tap, o, row, x, left, right int)) {
	oh, ow := w.OutputSize()
	tap := 0
	for c := range w.C {
		for kh := range w.KH {
			y := kh*w.DilH - w.PadH
			top, bottom := clipRange(y, w.StrideH, w.H, oh)
			for kw := range w.KW {
				x := kw*w.DilW - w.PadW
				left, right := clipRange(x, w.StrideW, w.W, ow)
				for o := top; o < bottom; o++ {
					visit(c, tap, o, c*w.H+y+o*w.StrideH, x, left, right)
				}
				tap++
			}
		}
	}
}

// ChannelPool computes maxima over the windows of images with channels last.
type ChannelPool struct {
	channels, size, area int // channels; floats of the image; positions of the result
	runs                 []poolRun
}

// poolRun is a run of positions whose windows see the image through the same taps.
type poolRun struct {
	position, positions int     // the first position; the number of positions
	from, step          int     // offset in the image of the first window; distance to the next
	taps                []int32 // offsets from there
}

// noTap is the tap of a window on padding alone.
const noTap = math.MaxUint8

// ChannelPool returns the pool for images of a window's size. It returns nil if the number of
// channels is not a multiple of eight, or if there is no kernel.
func (w Window) ChannelPool() *ChannelPool {
	if w.C%8 != 0 || w.KH*w.KW >= noTap || active.maxTaps == nil {
		return nil
	}
	oh, ow := w.OutputSize()
	p := &ChannelPool{channels: w.C, size: w.C * w.H * w.W, area: oh * ow}
	for o := range oh {
		y := o*w.StrideH - w.PadH
		top, bottom := clipRange(y, w.DilH, w.H, w.KH)
		for j := 0; j < ow; {
			x := j*w.StrideW - w.PadW
			left, right := clipRange(x, w.DilW, w.W, w.KW)
			r := poolRun{position: o*ow + j, positions: 1, from: (y*w.W + x) * w.C, step: w.StrideW * w.C}
			for j++; j < ow; j++ {
				if l, e := clipRange(j*w.StrideW-w.PadW, w.DilW, w.W, w.KW); l != left || e != right {
					break
				}
				r.positions++
			}
			for kh := top; kh < bottom; kh++ {
				for kw := left; kw < right; kw++ {
					r.taps = append(r.taps, int32((kh*w.DilH*w.W+kw*w.DilW)*w.C))
				}
			}
			if len(r.taps) > 0 { // offsets start at the first tap, because the window's corner may be outside the image
				first := r.taps[0]
				r.from += int(first)
				for i := range r.taps {
					r.taps[i] -= first
				}
			}
			p.runs = append(p.runs, r)
		}
	}
	return p
}

func (p *ChannelPool) check(img, dst, arg int) {
	if n := p.area * p.channels; img != p.size || dst != n || arg != n {
		panic(fmt.Sprintf("simd: maxima of an image of %d floats do not fit slices of %d and %d", img, dst, arg))
	}
}

// Max sets dst to the largest element of each window, as Window.MaxPool does, and arg to the
// tap that sees it.
func (p *ChannelPool) Max(dst []float32, arg []uint8, img []float32) {
	p.check(len(img), len(dst), len(arg))
	for i := range p.runs {
		r := &p.runs[i]
		at := r.position * p.channels
		if len(r.taps) == 0 {
			for c := at; c < at+r.positions*p.channels; c++ {
				dst[c], arg[c] = float32(math.Inf(-1)), noTap
			}
			continue
		}
		active.maxTaps(&dst[at], &arg[at], &img[r.from], p.channels, r.positions, r.step, &r.taps[0], len(r.taps))
	}
}

// Grad sets dimg to zero and adds each element of dy where Max found its maximum.
func (p *ChannelPool) Grad(dimg, dy []float32, arg []uint8) {
	p.check(len(dimg), len(dy), len(arg))
	clear(dimg)
	for i := range p.runs {
		if r := &p.runs[i]; len(r.taps) > 0 {
			at := r.position * p.channels
			active.addToMaxTaps(&dimg[r.from], &dy[at], &arg[at], p.channels, r.positions, r.step, &r.taps[0], len(r.taps))
		}
	}
}
