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
	case op.Conv2D:
		return c.conv2D(s, k)
	case op.ConvGradWeight:
		return c.sumOverPlaces(op.ConvWeight(s), k, 0, k.shapes[0][0])
	case op.ConvGradInput:
		return c.convGradInput(op.ConvWeight(s), k)
	case op.Im2Col:
		c.windows(s, k)
	case op.Col2Im:
		c.foldWindows(s, k)
	case op.MaxPool2D:
		c.maxPool(s, k)
	case op.MaxPoolGrad:
		c.maxPoolGrad(s, k)
	case op.AvgPool2D:
		c.avgPool(s, k)
	case op.AvgPoolGrad:
		c.avgPoolGrad(s, k)
	default:
		return false
	}
	return true
}

// phase is the places of a result that meet the same elements of the kernel, as
// kernels/convolution.cu lays it out.
type phase struct {
	First, Depth, Corners int32
	Area, Row             divider
	Out, Down, Across     int32
}

// meetings are all phases of a convolution with their tables: what of the kernel, in
// bytes, meets what of a patch.
type meetings struct {
	phases        []phase
	taps, corners reaches
	weights       []int32
}

// begin is a phase of the given places, whose taps come next. The tables of taps start
// with 32 that see zeros.
func (m *meetings) begin(high, wide int) phase {
	if len(m.weights) == 0 {
		m.add(0, noSide, 0)
		m.pad()
	}
	return phase{
		First: int32(len(m.weights)), Corners: int32(len(m.corners) / 2), Area: newDivider(high * wide), Row: newDivider(wide),
	}
}

func (m *meetings) add(cell int, sides uint32, weight int) {
	m.taps.add(cell, sides)
	m.weights = append(m.weights, int32(4*weight))
}

// pad goes on to a multiple of 32 with taps that see zeros.
func (m *meetings) pad() {
	m.taps.pad(32, noSide)
	m.weights = append(m.weights, make([]int32, len(m.taps)/2-len(m.weights))...)
}

func (m *meetings) end(p phase) {
	p.Depth = int32(len(m.weights)) - p.First
	m.pad()
	m.phases = append(m.phases, p)
}

// forward meets every element of the kernel at every place.
func (v convolution) forward() (m meetings) {
	p := m.begin(v.high, v.wide)
	p.Down, p.Across = int32(v.wide), 1
	taps := v.taps()
	for k := range v.width {
		m.add(int(taps[2*k])/4, uint32(taps[2*k+1]), k)
	}
	m.corners = v.corners()
	m.end(p)
	return m
}

// backward has a phase for each remainder of a cell's row and column by the strides:
// cell·s + r is reached from the places (cell·s + r + pad − k·dilation)/s of those k
// for which that is whole.
func (v convolution) backward() (m meetings) {
	met := func(far axis, r, stride int) (list []int, places axis) {
		places = make(axis, len(far))
		for k := range far {
			if from := r - far[k]; from%stride == 0 {
				list = append(list, k)
				places[k] = from / stride
			}
		}
		return list, places
	}
	rows, columns := v.axes()
	for ry := range min(v.StrideH, v.H) {
		for rx := range min(v.StrideW, v.W) {
			ys, down := met(rows, ry, v.StrideH)
			xs, across := met(columns, rx, v.StrideW)
			high, wide := ceil(v.H-ry, v.StrideH), ceil(v.W-rx, v.StrideW)
			p := m.begin(high, wide)
			p.Out, p.Down, p.Across = int32(ry*v.W+rx), int32(v.StrideH*v.W), int32(v.StrideW)
			for o := range v.og {
				for _, ky := range ys {
					for _, kx := range xs {
						m.add(o*v.area+down[ky]*v.wide+across[kx], 1<<ky|1<<(v.KernelH+kx), o*v.width+ky*v.KernelW+kx)
					}
				}
			}
			m.corners.corners(down, across, high, wide, 1, 1, v.high, v.wide)
			m.end(p)
		}
	}
	return m
}

// mostPhases is how many phases a launch takes.
const mostPhases = 16

// convolutionArgs is the argument of the kernels of kernels/convolution.cu.
type convolutionArgs struct {
	Planes                 planes
	Taps, Corners, Weights driver.Pointer
	Kernels, Bias, Out     driver.Pointer
	Kernel, Group, Rows    int32
	Pictures, Groups       int32
	Plane, Slice, Act      int32
	Phases                 int32
	Phase                  [mostPhases]phase
	_                      int32
}

// convolved is a result to be made: planes of size Plane, Rows channels a group.
type convolved struct {
	from                       planes
	weight, bias, out          driver.Pointer
	kernel, rows, plane, count int
	act                        op.Activation
	backward                   bool
}

func (c *compiler) conv2D(s op.Conv2D, k call) bool {
	x := k.shapes[0]
	v := newConvolution(op.ConvWeight{Window: s.Window, Groups: s.Groups, C: x[1], H: x[2], W: x[3], O: k.shape[1]})
	return v.patched() && c.convolve(v, v.forward(), convolved{
		from: v.pictures(k.in[0]), weight: k.in[1], bias: k.in[2], out: k.out,
		kernel: v.width, rows: v.og, plane: v.area, count: x[0], act: s.Act,
	})
}

func (c *compiler) convGradInput(f op.ConvWeight, k call) bool {
	v := newConvolution(f)
	return v.patched() && c.convolve(v, v.backward(), convolved{
		from: v.signals(k.in[0]), weight: k.in[1], out: k.out,
		kernel: v.cells, rows: v.cg, plane: v.H * v.W, count: k.shape[0], backward: true,
	})
}

// convolutionTiles are the tiles of kernels/convolution.cu, by precision.
var convolutionTiles = map[Precision][]tile{
	FP32: {
		{"128x128", 128, 128, 256, 0.68}, {"64x128", 64, 128, 128, 0.64}, {"32x128", 32, 128, 64, 0.58},
		{"64x64", 64, 64, 128, 0.6}, {"16x128", 16, 128, 64, 0.47}, {"32x32", 32, 32, 64, 0.42},
	},
	TF32: {
		{"128x128_tf32", 128, 128, 256, 2}, {"64x128_tf32", 64, 128, 256, 1.7}, {"32x128_tf32", 32, 128, 128, 1.1}, {"64x64_tf32", 64, 64, 128, 1.2},
	},
	BF16: {
		{"128x128_bf16", 128, 128, 256, 2.4}, {"64x128_bf16", 64, 128, 256, 1.9}, {"32x128_bf16", 32, 128, 128, 1.2}, {"64x64_bf16", 64, 64, 128, 1.3},
	},
}

// convolve launches all phases of a convolution.
func (c *compiler) convolve(v convolution, m meetings, r convolved) bool {
	if !fits(v.Groups) {
		return false
	}
	depth, columns := 0, 0
	for _, p := range m.phases {
		depth = max(depth, int(p.Depth))
		columns = max(columns, r.count*int(p.Area.By))
	}
	// A picture gets the same bits in every microbatch: its shape alone cuts the sum.
	length, count := cut(depth, depth/256)
	all := columns * v.Groups * len(m.phases)
	s := c.plan(convolutionTiles[c.options.Precision], r.rows, all, depth, length, count)
	if c.convolvedByLibrary(v, r, all, depth, s.time) {
		return true
	}
	args := convolutionArgs{
		Planes: r.from, Taps: c.constant(m.taps), Corners: c.constant(m.corners), Weights: c.constant(m.weights),
		Kernels: r.weight, Bias: r.bias, Out: r.out, Kernel: int32(r.kernel), Group: int32(v.og * v.width), Rows: int32(r.rows),
		Pictures: int32(r.count), Groups: int32(v.Groups), Plane: int32(r.plane), Slice: int32(length), Act: int32(r.act),
	}
	apart := 1
	size := r.count * v.Groups * r.rows * r.plane
	if s.apart {
		apart = count
		args.Out = c.scratch(4 * size * count)
	}
	for len(m.phases) > 0 {
		n := copy(args.Phase[:min(mostPhases, math.MaxUint16/v.Groups)], m.phases)
		args.Phases, m.phases = int32(n), m.phases[n:]
		grid := dim{uint32(s.tile.count(r.rows, columns)), uint32(n * v.Groups), uint32(apart)}
		c.launch("convolution_"+s.tile.name, grid, dim{s.tile.threads, 1, 1}, args)
	}
	if s.apart {
		c.endConvolution(v, r, args.Out, count)
	}
	return true
}

// endConvolution adds up slices that were computed apart, with the bias and the activation.
func (c *compiler) endConvolution(v convolution, r convolved, partial driver.Pointer, slices int) {
	size := r.count * v.Groups * r.rows * r.plane
	c.launch("convolution_end", blocks(size), threads, r.out, partial, r.bias, int32(size),
		newDivider(r.plane), newDivider(v.Groups*r.rows), int32(slices), int32(r.act))
}
