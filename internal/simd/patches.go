package simd

import "fmt"

// Patches writes the windows of an image out one after the other, each as one row
// of KH·KW·C floats with the channels of a place together. It copies the image
// with its padding and its channels last first: a row of a window is then one run.
type Patches struct {
	window Window
	run    int     // floats in a row of a window
	line   int     // of a padded row
	starts []int32 // of the windows in the padded image
}

// transposable is how many channels make channels last pay.
const transposable = 8

// Patches prepares for images of a window's size; nil where runs would be too short
// or have gaps.
func (w Window) Patches() *Patches {
	if w.DilH != 1 || w.DilW != 1 || w.C > 1 && (w.C < transposable || w.W < transposable) || w.KW*w.C < transposable {
		return nil
	}
	p := &Patches{window: w, run: w.KW * w.C, line: (w.W + 2*w.PadW) * w.C}
	oh, ow := w.Out()
	p.starts = make([]int32, 0, oh*ow)
	for y := range oh {
		for x := range ow {
			p.starts = append(p.starts, int32(y*w.StrideH*p.line+x*w.StrideW*w.C))
		}
	}
	return p
}

func (p *Patches) padded() int { return (p.window.H + 2*p.window.PadH) * p.line }

// Floats are how many floats Rows and Fold need of rows, in which Rows overwrites
// all, and of scratch.
func (p *Patches) Floats() (rows, scratch int) {
	return len(p.starts)*p.window.KH*p.run + unfoldSlack, p.padded() + unfoldSlack
}

func (p *Patches) check(img, rows, scratch int) {
	needed, padded := p.Floats()
	if w := &p.window; img != w.C*w.H*w.W || rows < needed || scratch < padded {
		panic(fmt.Sprintf("simd: windows of an image of %d floats in slices of %d and %d", img, rows, scratch))
	}
}

// Rows writes the windows of an image: element (kh·KW+kw)·C+c of a row is what
// Im2col writes in row (c·KH+kh)·KW+kw.
func (p *Patches) Rows(rows, img, scratch []float32) {
	p.check(len(img), len(rows), len(scratch))
	w := &p.window
	if w.PadH > 0 || w.PadW > 0 {
		clear(scratch[:p.padded()])
	}
	p.eachLine(func(line, at, n int) {
		if w.C == 1 {
			copy(scratch[line:][:n], img[at:])
		} else {
			Transpose(scratch[line:], w.C, img[at:], w.H*w.W, w.C, n)
		}
	})
	if active.unfold != nil {
		active.unfold(&rows[0], p.run, w.KH, &scratch[0], p.line, &p.starts[0], len(p.starts))
		return
	}
	for _, start := range p.starts {
		for kh := range w.KH {
			rows = rows[copy(rows[:p.run], scratch[int(start)+kh*p.line:]):]
		}
	}
}

// Fold is the adjoint of Rows: it sets each place of img to the sum of the entries
// of rows that Rows would copy from it, in the order of the windows.
func (p *Patches) Fold(img, rows, scratch []float32) {
	p.check(len(img), len(rows), len(scratch))
	w := &p.window
	clear(scratch[:p.padded()])
	for _, start := range p.starts {
		for kh := range w.KH {
			to := scratch[int(start)+kh*p.line:][:p.run]
			Add(to, to, rows[:p.run])
			rows = rows[p.run:]
		}
	}
	p.eachLine(func(line, at, n int) {
		if w.C == 1 {
			copy(img[at:][:n], scratch[line:])
		} else {
			Transpose(img[at:], w.H*w.W, scratch[line:], w.C, n, w.C)
		}
	})
}

// eachLine visits where in the padded image and where in a channel of the image
// places lie that follow each other in both, and how many these are.
func (p *Patches) eachLine(visit func(line, at, n int)) {
	w := &p.window
	if w.PadW == 0 {
		visit(w.PadH*p.line, 0, w.H*w.W)
		return
	}
	for y := range w.H {
		visit((y+w.PadH)*p.line+w.PadW*w.C, y*w.W, w.W)
	}
}
