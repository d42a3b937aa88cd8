package cpu

import "github.com/dptrain/dptrain/internal/simd"

const (
	winogradChannels = 16  // fewer, in or out, and the transforms cost more than they save
	winogradTiles    = 64  // of a product, or somewhat fewer
	winogradSums     = 256 // the same where the product sums over the tiles of several pictures
	winogradArea     = 64  // places of a result; fewer, and a gradient's transforms cost more than they save
	winogradPad      = 16  // floats between planes: for what the transforms write too much, and against cache conflicts
)

// winograd convolves by windows of 3×3 or 5×5 with the transforms of package
// simd. A batch of tiles, a strip of a picture or several small pictures, is one
// product for each plane. A tile's bits do not depend on the batch it is in.
type winograd struct {
	simd.Winograd
	in, out       int // channels
	h, w, oh, ow  int
	padH, padW    int
	tall, wide    int // tiles of a picture
	strip, group  int // of a batch: rows of tiles of a picture, pictures
	columns, line int // tiles of a batch; floats of a padded row
	transposed    bool
	filters       *[]float32 // transformed; the layers take turns
	bias          []float32
	relu          bool
	activate      func(out, in []float32) // after that; nil for nothing
}

// newWinograd is nil where the transforms do not serve or do not pay. flipped
// convolves with the filters turned around and their channels exchanged, as the
// gradient in the pictures does.
func newWinograd(l *lowering, v *convolution, pictures int, flipped bool) *winograd {
	f, side := v.ConvWeight, v.KernelH
	if side != 3 && side != 5 || f.KernelW != side || f.StrideH != 1 || f.StrideW != 1 || f.DilationH != 1 || f.DilationW != 1 ||
		f.Groups != 1 || max(f.PadH, f.PadW) >= side || min(f.C, f.O) < winogradChannels {
		return nil
	}
	t := simd.Winograd{Taps: side}
	if !t.Pays() {
		return nil
	}
	oh, ow := v.window.Out()
	g := &winograd{Winograd: t, in: f.C, out: f.O, h: f.H, w: f.W, oh: oh, ow: ow, padH: f.PadH, padW: f.PadW, filters: l.winogradMemory, transposed: flipped}
	if flipped {
		g.in, g.out, g.h, g.w, g.oh, g.ow = f.O, f.C, oh, ow, f.H, f.W
		g.padH, g.padW = side-1-f.PadH, side-1-f.PadW
	}
	g.tall, g.wide = (g.oh+1)/2, (g.ow+1)/2
	g.strip = min(g.tall, max(1, winogradTiles/g.wide))
	g.line = 2*(g.wide+simd.WinogradLanes) + side - 1
	g.group = 1
	if tiles := g.tall * g.wide; g.strip == g.tall {
		each := (pictures + len(l.pool.workers) - 1) / len(l.pool.workers)
		g.group = max(1, winogradTiles/tiles)
		if n := g.group * tiles; 4*(-n&15) >= n { // a quarter of the vectors' lanes would lie idle
			g.group *= 2
		}
		g.group = max(1, min(g.group, each))
	}
	g.columns = g.group * g.strip * g.wide
	return g
}

// gradientWinograd is newWinograd for the filters' gradient of one picture at a time.
func newGradientWinograd(l *lowering, v *convolution) *winograd {
	if v.area < winogradArea {
		return nil
	}
	return newWinograd(l, v, 1, false)
}

func (g *winograd) plane(channels int) int { return channels*g.columns + winogradPad }
func (g *winograd) filterPlane() int       { return g.in*g.out + winogradPad }

func (g *winograd) scratch() int {
	return g.Planes()*(g.plane(g.in)+g.plane(g.out)) + (2*g.strip+g.Taps-1)*g.line
}

// winograd makes the step from pictures x to results y.
func lowerWinograd(l *lowering, g *winograd, y, x, weight []float32) func() {
	l.pool.reserve(g.scratch(), 0)
	if n := g.Planes() * g.filterPlane(); len(*g.filters) < n {
		*g.filters = make([]float32, n)
	}
	pictures := len(x) / (g.in * g.h * g.w)
	strips := (g.tall + g.strip - 1) / g.strip
	batches := (pictures + g.group - 1) / g.group * strips
	size, taps := g.in*g.out, g.Taps*g.Taps
	vectors := size / simd.WinogradLanes
	if g.transposed {
		l.pool.reserve((longestRange(vectors, 512)+1)*simd.WinogradLanes*taps, 0)
	}
	transform := l.pool.forRanges(vectors, 512, func(from, to int, w *worker) {
		from, to = from*simd.WinogradLanes, to*simd.WinogradLanes
		if size-to < simd.WinogradLanes {
			to = size
		}
		filters := weight[taps*from : taps*to]
		if g.transposed {
			turned := w.floats(len(filters))
			for k := 0; k < len(filters); k += taps {
				for i, x := range filters[k : k+taps] {
					turned[k+taps-1-i] = x
				}
			}
			filters = turned
		}
		g.Filters((*g.filters)[from:], g.filterPlane(), filters)
	})
	return sequence(transform, l.pool.forRanges(batches, g.columns*g.Planes()*size/8, func(from, to int, w *worker) {
		for b := from; b < to; b++ {
			first := b / strips * g.group
			top := b % strips * g.strip
			g.batch(y, x, first, min(g.group, pictures-first), top, min(g.strip, g.tall-top), w)
		}
	}))
}

// batch convolves rows of tiles of some pictures.
func (g *winograd) batch(y, x []float32, first, pictures, top, rows int, w *worker) {
	memory := w.floats(g.scratch())
	planeIn, planeOut := g.plane(g.in), g.plane(g.out)
	v, m := memory[:g.Planes()*planeIn], memory[g.Planes()*planeIn:][:g.Planes()*planeOut]
	padded := memory[g.Planes()*(planeIn+planeOut):]
	clear(padded)
	g.images(v, padded, x, first, pictures, top, rows, 0, g.in)
	product := simd.Gemm{
		TransA: g.transposed, M: g.out, N: pictures * rows * g.wide, K: g.in,
		LDA: g.in, LDB: g.columns, LDC: g.columns,
	}
	if g.transposed {
		product.LDA = g.out
	}
	for i := range g.Planes() {
		product.Run(m[i*planeOut:], (*g.filters)[i*g.filterPlane():][:g.in*g.out], v[i*planeIn:], w.gemm, 0, 1)
	}
	g.results(y, m, padded, first, pictures, top, rows)
}

// images transforms rows of tiles of channels from to to-1, by way of lines that are
// padded with zeros, as it finds and leaves them. What is written past a
// row of tiles is overwritten by the next.
func (g *winograd) images(v, padded, x []float32, first, pictures, top, rows, from, to int) {
	plane := g.plane(g.in)
	for ch := from; ch < to; ch++ {
		for p := range pictures {
			picture := x[((first+p)*g.in+ch)*g.h*g.w:][:g.h*g.w]
			for r := range 2*rows + g.Taps - 1 {
				line := padded[r*g.line:][g.padW : g.padW+g.w]
				if from := 2*top + r - g.padH; from >= 0 && from < g.h {
					copy(line, picture[from*g.w:][:g.w])
				} else {
					clear(line)
				}
			}
			for r := range rows {
				to := ch*g.columns + (p*rows+r)*g.wide
				g.Image(v[to:], plane, padded[2*r*g.line:], g.line, g.wide)
			}
		}
	}
}

// results turns rows of tiles back into rows of every channel.
func (g *winograd) results(y, m, padded []float32, first, pictures, top, rows int) {
	plane := g.plane(g.out)
	for ch := range g.out {
		bias := float32(0)
		if g.bias != nil {
			bias = g.bias[ch]
		}
		for p := range pictures {
			result := y[((first+p)*g.out+ch)*g.oh*g.ow:][:g.oh*g.ow]
			for r := range rows {
				above, below := padded, padded[g.line:]
				g.Result(above, below, m[ch*g.columns+(p*rows+r)*g.wide:], plane, g.wide, bias, g.relu)
				at := 2 * (top + r)
				copy(result[at*g.ow:][:g.ow], above)
				if at+1 < g.oh {
					copy(result[(at+1)*g.ow:][:g.ow], below)
				}
			}
			if g.activate != nil {
				done := result[2*top*g.ow : min(2*(top+rows), g.oh)*g.ow]
				g.activate(done, done)
			}
		}
	}
}

// gradient makes the filters' gradient of a record of several pictures: the
// transforms' adjoints, with the sums over tiles as products.
func (g *winograd) gradient(dst, x, delta []float32, first, pictures int, w *worker) {
	plane := g.filterPlane()
	memory := w.floats(g.scratch() + g.Planes()*plane)
	planeIn, planeOut := g.plane(g.in), g.plane(g.out)
	v, d := memory[:g.Planes()*planeIn], memory[g.Planes()*planeIn:][:g.Planes()*planeOut]
	sums := memory[g.scratch():]
	padded := memory[g.Planes()*(planeIn+planeOut) : g.scratch()]
	product := simd.Gemm{TransB: true, M: g.out, N: g.in, LDA: g.columns, LDB: g.columns, LDC: g.in}
	for n := first; n < first+pictures; n++ {
		for top := 0; top < g.tall; top += g.strip {
			rows := min(g.strip, g.tall-top)
			clear(padded)
			g.images(v, padded, x, n, 1, top, rows, 0, g.in)
			clear(padded)
			g.signals(d, padded, delta, 1, n, top, rows, 0, g.out)
			product.K = rows * g.wide
			for i := range g.Planes() {
				product.Run(sums[i*plane:], d[i*planeOut:], v[i*planeIn:], w.gemm, 0, 1)
			}
			product.Accumulate = true
		}
	}
	g.Gradients(dst, sums, plane)
}

// signals transforms rows of tiles of what comes back to outputs from to to-1 of a
// picture, times a factor, by way of lines that end in zeros.
func (g *winograd) signals(d, padded, delta []float32, factor float32, n, top, rows, from, to int) {
	plane := g.plane(g.out)
	for ch := from; ch < to; ch++ {
		signal := delta[(n*g.out+ch)*g.oh*g.ow:][:g.oh*g.ow]
		for r := range 2 * rows {
			line := padded[r*g.line:][:g.ow]
			if at := 2*top + r; at < g.oh {
				simd.Scale(line, signal[at*g.ow:][:g.ow], factor)
			} else {
				clear(line)
			}
		}
		for r := range rows {
			g.Signal(d[ch*g.columns+r*g.wide:], plane, padded[2*r*g.line:], g.line, g.wide)
		}
	}
}
