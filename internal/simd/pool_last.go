package simd

import (
	"fmt"
	"math"
)

// ChannelPool takes maxima over the windows of images with channels last.
type ChannelPool struct {
	channels, size, area int // of the image, of the result: floats, places
	runs                 []poolRun
}

// poolRun is places that follow each other and see the image by the same taps.
type poolRun struct {
	place, places int
	from, step    int     // in the image, of the first; to the next
	taps          []int32 // from there
}

// nowhere is the tap of a window that sees only padding.
const nowhere = math.MaxUint8

// ChannelPool prepares for images of a window's size; nil where the channels are no
// multiple of eight, or where there is no kernel.
func (w Window) ChannelPool() *ChannelPool {
	if w.C%8 != 0 || w.KH*w.KW >= nowhere || active.maxTaps == nil {
		return nil
	}
	oh, ow := w.Out()
	p := &ChannelPool{channels: w.C, size: w.C * w.H * w.W, area: oh * ow}
	for o := range oh {
		y := o*w.StrideH - w.PadH
		top, bottom := inside(y, w.DilH, w.H, w.KH)
		for j := 0; j < ow; {
			x := j*w.StrideW - w.PadW
			left, right := inside(x, w.DilW, w.W, w.KW)
			r := poolRun{place: o*ow + j, places: 1, from: (y*w.W + x) * w.C, step: w.StrideW * w.C}
			for j++; j < ow; j++ {
				if l, e := inside(j*w.StrideW-w.PadW, w.DilW, w.W, w.KW); l != left || e != right {
					break
				}
				r.places++
			}
			for kh := top; kh < bottom; kh++ {
				for kw := left; kw < right; kw++ {
					r.taps = append(r.taps, int32((kh*w.DilH*w.W+kw*w.DilW)*w.C))
				}
			}
			if len(r.taps) > 0 { // the first tap is inside, the window's corner need not be
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
		panic(fmt.Sprintf("simd: maxima of an image of %d floats in slices of %d and %d", img, dst, arg))
	}
}

// Max sets dst to the largest place that each window sees, as Window.MaxPool does,
// and arg to the tap that sees it.
func (p *ChannelPool) Max(dst []float32, arg []uint8, img []float32) {
	p.check(len(img), len(dst), len(arg))
	for i := range p.runs {
		r := &p.runs[i]
		at := r.place * p.channels
		if len(r.taps) == 0 {
			for c := at; c < at+r.places*p.channels; c++ {
				dst[c], arg[c] = float32(math.Inf(-1)), nowhere
			}
			continue
		}
		active.maxTaps(&dst[at], &arg[at], &img[r.from], p.channels, r.places, r.step, &r.taps[0], len(r.taps))
	}
}

// Grad sets dimg to dy, each added where Max found its maximum.
func (p *ChannelPool) Grad(dimg, dy []float32, arg []uint8) {
	p.check(len(dimg), len(dy), len(arg))
	clear(dimg)
	for i := range p.runs {
		if r := &p.runs[i]; len(r.taps) > 0 {
			at := r.place * p.channels
			active.giveTaps(&dimg[r.from], &dy[at], &arg[at], p.channels, r.places, r.step, &r.taps[0], len(r.taps))
		}
	}
}
