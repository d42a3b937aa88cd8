package simd

import "fmt"

// Unfolding is a faster Im2col. It first copies the image with padding, split into phases:
// with stride 2, a window moves by one element in the image of every other row and column.
// The rows of a tap are then contiguous.
type Unfolding struct {
	window                  Window
	area                    int
	phaseHeight, phaseWidth int     // of a phase
	starts                  []int32 // of the taps in the phases
}

// unfoldSlack is how many floats the kernel writes past the columns and reads past the
// phases.
const unfoldSlack = 7

// Unfolding returns the unfolding for images of a window's size. It allocates.
func (w Window) Unfolding() *Unfolding {
	oh, ow := w.OutputSize()
	u := &Unfolding{window: w, area: oh * ow}
	u.phaseHeight = oh + (w.KH-1)*w.DilH/w.StrideH
	u.phaseWidth = ow + (w.KW-1)*w.DilW/w.StrideW
	if !u.hasKernels() {
		return u
	}
	u.starts = make([]int32, 0, w.C*w.KH*w.KW)
	for c := range w.C {
		for kh := range w.KH {
			for kw := range w.KW {
				y, x := kh*w.DilH, kw*w.DilW
				phase := (c*w.StrideH+y%w.StrideH)*w.StrideW + x%w.StrideW
				u.starts = append(u.starts, int32((phase*u.phaseHeight+y/w.StrideH)*u.phaseWidth+x/w.StrideW))
			}
		}
	}
	return u
}

// hasKernels reports whether there are kernels for the window.
func (u *Unfolding) hasKernels() bool {
	return active.unfold != nil && u.window.StrideH <= 2 && active.copyTap(u.window.StrideW, u.phaseWidth) != nil
}

// phases returns the floats of all phases.
func (u *Unfolding) phases() int {
	return u.window.C * u.window.StrideH * u.window.StrideW * u.phaseHeight * u.phaseWidth
}

// BufferSizes returns how many floats Columns needs in dst, all of which it overwrites, and
// in scratch.
func (u *Unfolding) BufferSizes() (dst, scratch int) {
	return u.window.C*u.window.KH*u.window.KW*u.area + unfoldSlack, u.phases() + unfoldSlack
}

// Columns writes the windows of an image, or of its first channels if img contains fewer, as
// Im2col does with contiguous rows.
func (u *Unfolding) Columns(dst, img, scratch []float32) {
	w := u.window
	w.C = len(img) / (w.H * w.W)
	needed, phases := u.BufferSizes()
	if w.C > u.window.C || len(img) != w.C*w.H*w.W || len(dst) < needed || len(scratch) < phases {
		panic(fmt.Sprintf("simd: columns of an image of %d floats do not fit slices of %d and %d", len(img), len(dst), len(scratch)))
	}
	if u.starts == nil {
		w.Im2col(dst, u.area, img)
		return
	}
	u.pad(scratch, img, w)
	oh, ow := w.OutputSize()
	active.unfold(&dst[0], ow, oh, &scratch[0], u.phaseWidth, &u.starts[0], w.C*w.KH*w.KW)
}

// pad copies the image to the phases.
func (u *Unfolding) pad(dst, img []float32, w Window) {
	copyTap := active.copyTap(w.StrideW, u.phaseWidth)
	size := u.phaseHeight * u.phaseWidth
	for c := range w.C {
		for ph := range w.StrideH {
			y := ph - w.PadH
			top, bottom := clipRange(y, w.StrideH, w.H, u.phaseHeight)
			for pw := range w.StrideW {
				phase := dst[:size]
				dst = dst[size:]
				clear(phase[:top*u.phaseWidth])
				clear(phase[bottom*u.phaseWidth:])
				if top < bottom {
					copyTap(&phase[top*u.phaseWidth], u.phaseWidth, &img[0], (c*w.H+y+top*w.StrideH)*w.W,
						w.StrideH*w.W, bottom-top, pw-w.PadW, w.W)
				}
			}
		}
	}
}
