//go:build gpu

package cuda

import (
	"math"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// convolutions queues what a window moving over pictures does.
func (c *compiler) convolutions(spec op.Spec, k call) bool {
	switch s := spec.(type) {
	case op.ConvGradWeight:
		return c.convGradWeight(op.ConvWeight(s), k)
	case op.ClippedSum:
		f, ok := s.Form.(op.ConvWeight)
		return ok && c.convSum(f, s.Records, k)
	}
	if k.accumulate {
		return false
	}
	switch s := spec.(type) {
	case op.Conv2D:
		return c.conv2D(s, k)
	case op.ConvGradInput:
		return c.convGradInput(op.ConvWeight(s), k)
	case op.RecordGradients:
		f, ok := s.Form.(op.ConvWeight)
		return ok && c.convGradients(f, s.Records, k)
	case op.SquaredNorms:
		f, ok := s.Form.(op.ConvWeight)
		return ok && c.convNorms(f, s.Records, s.Method, k)
	case op.Im2Col:
		return c.windows(s, k)
	case op.Col2Im:
		return c.foldWindows(s, k)
	case op.MaxPool2D:
		return c.maxPool(s, k)
	case op.MaxPoolGrad:
		return c.maxPoolGrad(s, k)
	case op.AvgPool2D:
		return c.avgPool(s, k)
	case op.AvgPoolGrad:
		return c.avgPoolGrad(s, k)
	}
	return false
}

// phase is the places of a result that meet the same elements of the kernel, as
// kernels/convolution.cu lays it out.
type phase struct {
	First, Depth, Edges int32
	Places              places
	Out, Down, Across   int32
}

// A launch takes so many phases, and a kernel of so many rows and columns together:
// each has a bit, and one is left that stands for none.
const mostPhases, mostSides = 16, 31

// convolutionSteps are all phases of a convolution with their tables: what each step
// reads, the element of the kernel that meets it, and how far rows and columns of the
// kernel reach.
type convolutionSteps struct {
	phases                []phase
	steps, weights, edges []int32
}

// step adds one that reads so far from the corner, in row ky and column kx of a
// kernel that is high rows high.
func (w *convolutionSteps) step(cell, ky, kx, high, weight int) {
	w.steps = append(w.steps, int32(4*cell), 1<<ky|1<<(high+kx))
	w.weights = append(w.weights, int32(4*weight))
}

// blank adds steps that see zeros up to a multiple of 32.
func (w *convolutionSteps) blank() {
	for ok := true; ok; ok = len(w.weights)%32 != 0 {
		w.steps = append(w.steps, 0, math.MinInt32)
		w.weights = append(w.weights, 0)
	}
}

// begin is a phase whose steps come next.
func (w *convolutionSteps) begin(p phase) phase {
	if len(w.weights) == 0 {
		w.blank()
	}
	p.First, p.Edges = int32(len(w.weights)), int32(len(w.edges))
	return p
}

func (w *convolutionSteps) end(p phase) {
	p.Depth = int32(len(w.weights)) - p.First
	if len(w.weights)%32 != 0 {
		w.blank()
	}
	w.phases = append(w.phases, p)
}

// forward meets every element of the kernel at every place.
func (v convolution) forward() (w convolutionSteps) {
	p := w.begin(phase{Places: v.places(), Down: int32(v.wide), Across: 1})
	for ky := range v.KernelH {
		w.edges = append(w.edges, int32(reach(ky, v.PadH, v.DilationH)))
	}
	for kx := range v.KernelW {
		w.edges = append(w.edges, int32(reach(kx, v.PadW, v.DilationW)))
	}
	for ch := range v.cg {
		for cell := range v.cells {
			ky, kx := cell/v.KernelW, cell%v.KernelW
			at := ch*v.H*v.W + int(w.edges[ky])*v.W + int(w.edges[v.KernelH+kx])
			w.step(at, ky, kx, v.KernelH, ch*v.cells+cell)
		}
	}
	w.end(p)
	return w
}

// backward has a phase for each remainder of a cell's row and column by the strides:
// cell·s + r is reached from the places (cell·s + r + pad − k·dilation)/s of those k
// for which that is whole.
func (v convolution) backward() (w convolutionSteps) {
	axis := func(r, kernel, stride, pad, dilation int) (met []int, edges []int32) {
		for k := range kernel {
			from := r - reach(k, pad, dilation)
			if from%stride == 0 {
				met = append(met, k)
			}
			edges = append(edges, int32(from/stride))
		}
		return met, edges
	}
	for ry := range min(v.StrideH, v.H) {
		for rx := range min(v.StrideW, v.W) {
			ys, rows := axis(ry, v.KernelH, v.StrideH, v.PadH, v.DilationH)
			xs, columns := axis(rx, v.KernelW, v.StrideW, v.PadW, v.DilationW)
			high, wide := ceil(v.H-ry, v.StrideH), ceil(v.W-rx, v.StrideW)
			p := w.begin(phase{
				Places: places{newDivider(high * wide), newDivider(wide)},
				Out:    int32(ry*v.W + rx), Down: int32(v.StrideH * v.W), Across: int32(v.StrideW),
			})
			w.edges = append(append(w.edges, rows...), columns...)
			for o := range v.og {
				for _, ky := range ys {
					for _, kx := range xs {
						at := o*v.area + int(rows[ky])*v.wide + int(columns[kx])
						w.step(at, ky, kx, v.KernelH, o*v.width+ky*v.KernelW+kx)
					}
				}
			}
			w.end(p)
		}
	}
	return w
}

// convolutionArgs is the argument of the kernels of kernels/convolution.cu.
type convolutionArgs struct {
	Planes                              planes
	Steps, Weights, Edges               driver.Pointer
	Kernels, Bias, Out                  driver.Pointer
	High, Wide, Kernel, Group, Rows     int32
	Pictures, Groups, Plane, Slice, Act int32
	Phases                              int32
	Phase                               [mostPhases]phase
	_                                   int32
}

// convolved is a result to be made: planes of size Plane, Rows channels a group.
type convolved struct {
	from                       planes
	weight, bias, out          driver.Pointer
	kernel, rows, plane, count int
	act                        op.Activation
}

func (c *compiler) conv2D(s op.Conv2D, k call) bool {
	x := k.shapes[0]
	v := newConvolution(op.ConvWeight{Window: s.Window, Groups: s.Groups, C: x[1], H: x[2], W: x[3], O: k.shape[1]})
	return c.convolve(v, v.forward(), convolved{
		from: v.pictures(k.in[0]), weight: k.in[1], bias: k.in[2], out: k.out,
		kernel: v.width, rows: v.og, plane: v.area, count: x[0], act: s.Act,
	})
}

func (c *compiler) convGradInput(f op.ConvWeight, k call) bool {
	v := newConvolution(f)
	return c.convolve(v, v.backward(), convolved{
		from: v.signals(k.in[0]), weight: k.in[1], out: k.out,
		kernel: v.cells, rows: v.cg, plane: v.H * v.W, count: k.shape[0],
	})
}

// convolutionTiles are the tiles of kernels/convolution.cu, by precision.
var convolutionTiles = map[Precision][]tile{
	FP32: {
		{"128x128", 128, 128, 256, 0.7}, {"64x128", 64, 128, 128, 0.65}, {"32x128", 32, 128, 64, 0.55},
		{"64x64", 64, 64, 128, 0.5}, {"16x128", 16, 128, 64, 0.45}, {"32x32", 32, 32, 64, 0.3},
	},
	TF32: {
		{"128x128_tf32", 128, 128, 256, 2}, {"64x128_tf32", 64, 128, 128, 1.6}, {"32x128_tf32", 32, 128, 128, 1.1}, {"64x64_tf32", 64, 64, 128, 1.2},
	},
	BF16: {
		{"128x128_bf16", 128, 128, 256, 2.4}, {"64x128_bf16", 64, 128, 128, 1.8}, {"32x128_bf16", 32, 128, 128, 1.2}, {"64x64_bf16", 64, 64, 128, 1.3},
	},
}

// sliced cuts a sum over the elements of a kernel by its length alone: a picture gets
// the same bits in every microbatch.
func sliced(depth int) (length, count int) {
	length = ceil(ceil(depth, max(1, depth/512)), 32) * 32
	return length, max(1, ceil(depth, length))
}

// convolve launches all phases of a convolution.
func (c *compiler) convolve(v convolution, w convolutionSteps, r convolved) bool {
	const most = 1 << 29 // elements whose bytes are counted in 31 bits
	if v.KernelH+v.KernelW > mostSides || !fits(mostPhases*v.Groups) || max(v.C*v.H*v.W, v.O*v.area, v.Size()) > most {
		return false
	}
	depth, columns := 0, 0
	for _, p := range w.phases {
		depth = max(depth, int(p.Depth))
		columns = max(columns, r.count*int(p.Places.Area.By))
	}
	length, count := sliced(depth)
	s := c.plan(convolutionTiles[c.options.Precision], r.rows, columns*v.Groups*len(w.phases), depth, length, count)
	args := convolutionArgs{
		Planes: r.from, Steps: c.constant(w.steps), Weights: c.constant(w.weights), Edges: c.constant(w.edges),
		Kernels: r.weight, Bias: r.bias, Out: r.out,
		High: int32(v.KernelH), Wide: int32(v.KernelW), Kernel: int32(r.kernel), Group: int32(v.og * v.width), Rows: int32(r.rows),
		Pictures: int32(r.count), Groups: int32(v.Groups), Plane: int32(r.plane), Slice: int32(length), Act: int32(r.act),
	}
	apart := 1
	size := r.count * v.Groups * r.rows * r.plane
	if s.apart {
		apart = count
		args.Out = c.scratch(4 * size * count)
	}
	for len(w.phases) > 0 {
		n := copy(args.Phase[:], w.phases)
		args.Phases, w.phases = int32(n), w.phases[n:]
		grid := dim{uint32(s.tile.count(r.rows, columns)), uint32(n * v.Groups), uint32(apart)}
		c.launch("convolution_"+s.tile.name, grid, dim{s.tile.threads, 1, 1}, args)
	}
	if s.apart {
		c.launch("convolution_end", c.blocks(size), threads, r.out, args.Out, r.bias, int32(size),
			newDivider(r.plane), newDivider(v.Groups*r.rows), int32(count), int32(r.act))
	}
	return true
}

// fits tells whether a grid may be so high: a dimension other than the first has fewer
// than 2^16 blocks.
func fits(blocks int) bool { return blocks <= math.MaxUint16 }
