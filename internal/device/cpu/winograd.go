package cpu

import "github.com/dptrain/dptrain/internal/device/simd"

const (
	minWinogradChannels = 16  // input and output channels from which on the transforms are faster
	maxWinogradTiles    = 64  // tiles of one product
	maxWinogradSumTiles = 256 // tiles of one product that sums over the tiles of several pictures
	minWinogradArea     = 64  // positions of a result from which on a gradient's transforms are faster
	winogradPad         = 16  // floats between planes: transforms write past a plane, and equal distances cause cache conflicts
)

// winograd is a convolution with windows of 3×3 or 5×5 that uses the transforms of package
// simd. A batch of tiles, a strip of a picture or several small pictures, is one product
// per plane. The bits of a tile do not depend on its batch.
type winograd struct {
	simd.Winograd
	in, out                  int // channels
	h, w, oh, ow             int
	padH, padW               int
	tileRows, tileCols       int // tiles of a picture
	stripRows, batchPictures int // of a batch: rows of tiles per picture, pictures
	batchTiles, lineFloats   int // tiles of a batch; floats of a padded line
	transposed               bool
	filters                  *[]float32 // transformed filters, in memory that all layers share
	bias                     []float32
	relu                     bool
	activate                 func(out, in []float32) // applied after bias and ReLU; may be nil
}

// newWinograd returns nil where the transforms do not apply or are not faster. flipped
// convolves with the filters rotated by 180° and their channels exchanged, as the gradient
// of the pictures does.
func newWinograd(l *lowering, v *convolution, pictures int, flipped bool) *winograd {
	f, side := v.ConvWeight, v.KernelH
	if side != 3 && side != 5 || f.KernelW != side || f.StrideH != 1 || f.StrideW != 1 || f.DilationH != 1 || f.DilationW != 1 ||
		f.Groups != 1 || max(f.PadH, f.PadW) >= side || min(f.C, f.O) < minWinogradChannels {
		return nil
	}
	t := simd.Winograd{Taps: side}
	if !t.HasKernels() {
		return nil
	}
	oh, ow := v.window.OutputSize()
	g := &winograd{Winograd: t, in: f.C, out: f.O, h: f.H, w: f.W, oh: oh, ow: ow, padH: f.PadH,
		padW: f.PadW, filters: l.winogradMemory, transposed: flipped}
	if flipped {
		g.in, g.out, g.h, g.w, g.oh, g.ow = f.O, f.C, oh, ow, f.H, f.W
		g.padH, g.padW = side-1-f.PadH, side-1-f.PadW
	}
	g.tileRows, g.tileCols = (g.oh+1)/2, (g.ow+1)/2
	g.stripRows = min(g.tileRows, max(1, maxWinogradTiles/g.tileCols))
	g.lineFloats = 2*(g.tileCols+simd.WinogradLanes) + side - 1
	g.batchPictures = 1
	if tiles := g.tileRows * g.tileCols; g.stripRows == g.tileRows {
		each := (pictures + len(l.pool.workers) - 1) / len(l.pool.workers)
		g.batchPictures = max(1, maxWinogradTiles/tiles)
		if n := g.batchPictures * tiles; 4*(-n&15) >= n { // a quarter of the vectors' lanes would be unused
			g.batchPictures *= 2
		}
		g.batchPictures = max(1, min(g.batchPictures, each))
	}
	g.batchTiles = g.batchPictures * g.stripRows * g.tileCols
	return g
}

// newGradientWinograd is newWinograd for the filters' gradient of one picture at a time.
func newGradientWinograd(l *lowering, v *convolution) *winograd {
	if v.area < minWinogradArea {
		return nil
	}
	return newWinograd(l, v, 1, false)
}

// plane and filterPlane return the floats of a plane of transformed channels and of
// transformed filters.
func (g *winograd) plane(channels int) int { return channels*g.batchTiles + winogradPad }
func (g *winograd) filterPlane() int       { return g.in*g.out + winogradPad }

// scratch returns how many floats of scratch memory batch needs.
func (g *winograd) scratch() int {
	return g.Planes()*(g.plane(g.in)+g.plane(g.out)) + (2*g.stripRows+g.Taps-1)*g.lineFloats
}

// lowerWinograd computes results y from pictures x.
func lowerWinograd(l *lowering, g *winograd, y, x, weight []float32) func() {
	l.pool.reserve(g.scratch(), 0)
	if n := g.Planes() * g.filterPlane(); len(*g.filters) < n {
		*g.filters = make([]float32, n)
	}
	pictures := len(x) / (g.in * g.h * g.w)
	strips := (g.tileRows + g.stripRows - 1) / g.stripRows
	batches := (pictures + g.batchPictures - 1) / g.batchPictures * strips
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
			flipped := w.floats(len(filters))
			for k := 0; k < len(filters); k += taps {
				for i, x := range filters[k : k+taps] {
					flipped[k+taps-1-i] = x
				}
			}
			filters = flipped
		}
		g.Filters((*g.filters)[from:], g.filterPlane(), filters)
	})
	return sequence(transform, l.pool.forRanges(batches, g.batchTiles*g.Planes()*size/8, func(from, to int, w *worker) {
		for b := from; b < to; b++ {
			first := b / strips * g.batchPictures
			top := b % strips * g.stripRows
			g.batch(y, x, tileRows{first, min(g.batchPictures, pictures-first), top, min(g.stripRows, g.tileRows-top)}, w)
		}
	}))
}

// tileRows are rows of tiles of some pictures.
type tileRows struct{ first, pictures, top, rows int }

// channelRange are the channels from … to-1.
type channelRange struct{ from, to int }

// batch convolves rows of tiles of some pictures.
func (g *winograd) batch(y, x []float32, t tileRows, w *worker) {
	memory := w.floats(g.scratch())
	planeIn, planeOut := g.plane(g.in), g.plane(g.out)
	v, m := memory[:g.Planes()*planeIn], memory[g.Planes()*planeIn:][:g.Planes()*planeOut]
	padded := memory[g.Planes()*(planeIn+planeOut):]
	clear(padded)
	g.images(v, padded, x, t, channelRange{0, g.in})
	product := simd.Gemm{
		TransA: g.transposed, M: g.out, N: t.pictures * t.rows * g.tileCols, K: g.in,
		LDA: g.in, LDB: g.batchTiles, LDC: g.batchTiles,
	}
	if g.transposed {
		product.LDA = g.out
	}
	for i := range g.Planes() {
		product.Run(m[i*planeOut:], (*g.filters)[i*g.filterPlane():][:g.in*g.out], v[i*planeIn:], w.gemm, 0, 1)
	}
	g.results(y, m, padded, t)
}

// images transforms rows of tiles of some channels. It copies them to padded, whose
// margins must be zero and stay zero. What it writes past a row of tiles is overwritten by
// the next row.
func (g *winograd) images(v, padded, x []float32, t tileRows, channels channelRange) {
	plane := g.plane(g.in)
	for ch := channels.from; ch < channels.to; ch++ {
		for p := range t.pictures {
			picture := x[((t.first+p)*g.in+ch)*g.h*g.w:][:g.h*g.w]
			for r := range 2*t.rows + g.Taps - 1 {
				line := padded[r*g.lineFloats:][g.padW : g.padW+g.w]
				if from := 2*t.top + r - g.padH; from >= 0 && from < g.h {
					copy(line, picture[from*g.w:][:g.w])
				} else {
					clear(line)
				}
			}
			for r := range t.rows {
				to := ch*g.batchTiles + (p*t.rows+r)*g.tileCols
				g.Image(v[to:], plane, padded[2*r*g.lineFloats:], g.lineFloats, g.tileCols)
			}
		}
	}
}

// results transforms the products of rows of tiles into rows of every output channel.
func (g *winograd) results(y, m, padded []float32, t tileRows) {
	plane := g.plane(g.out)
	for ch := range g.out {
		bias := float32(0)
		if g.bias != nil {
			bias = g.bias[ch]
		}
		for p := range t.pictures {
			result := y[((t.first+p)*g.out+ch)*g.oh*g.ow:][:g.oh*g.ow]
			for r := range t.rows {
				above, below := padded, padded[g.lineFloats:]
				g.Result(above, below, m[ch*g.batchTiles+(p*t.rows+r)*g.tileCols:], plane, g.tileCols, bias, g.relu)
				at := 2 * (t.top + r)
				copy(result[at*g.ow:][:g.ow], above)
				if at+1 < g.oh {
					copy(result[(at+1)*g.ow:][:g.ow], below)
				}
			}
			if g.activate != nil {
				done := result[2*t.top*g.ow : min(2*(t.top+t.rows), g.oh)*g.ow]
				g.activate(done, done)
			}
		}
	}
}

// gradient computes the filters' gradient of a record's pictures by the adjoint
// transforms, with the sums over tiles as products.
func (g *winograd) gradient(dst, x, delta []float32, first, pictures int, w *worker) {
	plane := g.filterPlane()
	memory := w.floats(g.scratch() + g.Planes()*plane)
	planeIn, planeOut := g.plane(g.in), g.plane(g.out)
	v, d := memory[:g.Planes()*planeIn], memory[g.Planes()*planeIn:][:g.Planes()*planeOut]
	sums := memory[g.scratch():]
	padded := memory[g.Planes()*(planeIn+planeOut) : g.scratch()]
	product := simd.Gemm{TransB: true, M: g.out, N: g.in, LDA: g.batchTiles, LDB: g.batchTiles, LDC: g.in}
	for n := first; n < first+pictures; n++ {
		for top := 0; top < g.tileRows; top += g.stripRows {
			rows := min(g.stripRows, g.tileRows-top)
			clear(padded)
			t := tileRows{n, 1, top, rows}
			g.images(v, padded, x, t, channelRange{0, g.in})
			clear(padded)
			g.signals(d, padded, delta, 1, t, channelRange{0, g.out})
			product.K = rows * g.tileCols
			for i := range g.Planes() {
				product.Run(sums[i*plane:], d[i*planeOut:], v[i*planeIn:], w.gemm, 0, 1)
			}
			product.Accumulate = true
		}
	}
	g.Gradients(dst, sums, plane)
}

// signals transforms rows of tiles of the gradient of one picture's outputs, times a factor. It
// copies them to padded, whose margins must be zero.
func (g *winograd) signals(d, padded, delta []float32, factor float32, t tileRows, channels channelRange) {
	plane := g.plane(g.out)
	for ch := channels.from; ch < channels.to; ch++ {
		signal := delta[(t.first*g.out+ch)*g.oh*g.ow:][:g.oh*g.ow]
		for r := range 2 * t.rows {
			line := padded[r*g.lineFloats:][:g.ow]
			if at := 2*t.top + r; at < g.oh {
				simd.Scale(line, signal[at*g.ow:][:g.ow], factor)
			} else {
				clear(line)
			}
		}
		for r := range t.rows {
			g.Signal(d[ch*g.batchTiles+r*g.tileCols:], plane, padded[2*r*g.lineFloats:], g.lineFloats, g.tileCols)
		}
	}
}
