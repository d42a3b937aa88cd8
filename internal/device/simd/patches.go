package simd

import "fmt"

// Patches writes the windows of an image one after the other, each as one row of KH·KW·C
// floats with the channels of a position together. It first copies the image with padding
// and channels last, so that a row of a window is contiguous. An image that has its channels
// last and needs no padding is not copied.
type Patches struct {
	window Window
	last   bool    // the images have their channels last
	run    int     // floats in a row of a window
	line   int     // of a padded row
	starts []int32 // of the windows in the padded image
}

// minChannels is the fewest channels for which channels last pay.
const minChannels = 8

// Patches returns the patches for images of a window's size. last means that the images
// have their channels last already. It returns nil if the rows of windows would be too short
// or have gaps.
func (w Window) Patches(last bool) *Patches {
	if w.DilH != 1 || w.DilW != 1 || w.KW*w.C < minChannels ||
		w.C > 1 && (w.C < minChannels || w.W < minChannels && !last) || last && w.C%8 != 0 {
		return nil
	}
	p := &Patches{window: w, last: last, run: w.KW * w.C, line: (w.W + 2*w.PadW) * w.C}
	oh, ow := w.OutputSize()
	p.starts = make([]int32, 0, oh*ow)
	for y := range oh {
		for x := range ow {
			p.starts = append(p.starts, int32(y*w.StrideH*p.line+x*w.StrideW*w.C))
		}
	}
	return p
}

func (p *Patches) padded() int { return (p.window.H + 2*p.window.PadH) * p.line }

// BufferSizes returns how many floats Rows and Fold need in rows, all of which Rows
// overwrites, and in scratch.
func (p *Patches) BufferSizes() (rows, scratch int) {
	return len(p.starts)*p.window.KH*p.run + unfoldSlack, p.padded() + unfoldSlack
}

func (p *Patches) check(img, rows, scratch int) {
	needed, padded := p.BufferSizes()
	if w := &p.window; img != w.C*w.H*w.W || rows < needed || scratch < padded {
		panic(fmt.Sprintf("simd: windows of an image of %d floats do not fit slices of %d and %d", img, rows, scratch))
	}
}

// Rows writes the windows of an image. Element (kh·KW+kw)·C+c of a row is what Im2col writes
// in row (c·KH+kh)·KW+kw.
func (p *Patches) Rows(rows, img, scratch []float32) {
	p.check(len(img), len(rows), len(scratch))
	w := &p.window
	from := scratch
	if w.PadH > 0 || w.PadW > 0 {
		clear(scratch[:p.padded()])
	}
	switch {
	case p.readsInPlace():
		from = img
	case p.last || w.C == 1:
		p.forEachLine(func(line, at, n int) { copy(scratch[line:][:n*w.C], img[at*w.C:]) })
	default:
		p.forEachLine(func(line, at, n int) { Transpose(scratch[line:], w.C, img[at:], w.H*w.W, w.C, n) })
	}
	if active.unfold != nil {
		active.unfold(&rows[0], p.run, w.KH, &from[0], p.line, &p.starts[0], len(p.starts))
		return
	}
	for _, start := range p.starts {
		for kh := range w.KH {
			rows = rows[copy(rows[:p.run], from[int(start)+kh*p.line:]):]
		}
	}
}

// Fold is the adjoint of Rows: it sets each element of img to the sum of the elements of
// rows that Rows would copy from it, in the order of the windows.
func (p *Patches) Fold(img, rows, scratch []float32) {
	p.check(len(img), len(rows), len(scratch))
	w := &p.window
	to := scratch[:p.padded()]
	if p.readsInPlace() {
		to = img
	}
	clear(to)
	if active.fold != nil && p.run%8 == 0 {
		active.fold(&to[0], p.line, &p.starts[0], len(p.starts), &rows[0], p.run, w.KH)
	} else {
		for _, start := range p.starts {
			for kh := range w.KH {
				run := to[int(start)+kh*p.line:][:p.run]
				Add(run, run, rows[:p.run])
				rows = rows[p.run:]
			}
		}
	}
	switch {
	case p.readsInPlace():
	case p.last || w.C == 1:
		p.forEachLine(func(line, at, n int) { copy(img[at*w.C:][:n*w.C], scratch[line:]) })
	default:
		p.forEachLine(func(line, at, n int) { Transpose(img[at:], w.H*w.W, scratch[line:], w.C, n, w.C) })
	}
}

// readsInPlace reports whether windows are read from the image itself. Rows of whole
// vectors read nothing past the image.
func (p *Patches) readsInPlace() bool { return p.last && p.window.PadH == 0 && p.window.PadW == 0 }

// forEachLine visits the runs of n positions that are contiguous both in the padded image,
// from line on, and in a channel of the image, from at on.
func (p *Patches) forEachLine(visit func(line, at, n int)) {
	w := &p.window
	if w.PadW == 0 {
		visit(w.PadH*p.line, 0, w.H*w.W)
		return
	}
	for y := range w.H {
		visit((y+w.PadH)*p.line+w.PadW*w.C, y*w.W, w.W)
	}
}
