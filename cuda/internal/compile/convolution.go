//go:build gpu

package compile

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
)

// lowerConvolutionOp queues convolutions, pools, and Im2Col and its gradient.
func lowerConvolutionOp(c *compiler, spec op.Operation, k call) bool {
	switch s := spec.(type) {
	case op.Conv2D:
		return lowerConv2D(c, s, k)
	case op.ConvGradWeight:
		return sumWeightGradients(c, op.ConvWeight(s), k, 0, k.shapes[0][0])
	case op.ConvGradInput:
		return lowerConvGradInput(c, op.ConvWeight(s), k)
	case op.Im2Col:
		lowerIm2Col(c, s, k)
	case op.Col2Im:
		lowerCol2Im(c, s, k)
	case op.MaxPool2D:
		lowerMaxPool(c, s, k)
	case op.MaxPoolGrad:
		lowerMaxPoolGrad(c, s, k)
	case op.AvgPool2D:
		lowerAvgPool(c, s, k)
	case op.AvgPoolGrad:
		lowerAvgPoolGrad(c, s, k)
	default:
		return false
	}
	return true
}

// phase is the set of outputs that use the same elements of the kernel, as struct Phase of
// kernels/convolution.cu.
type phase struct {
	First, Depth, Corners int32
	Area, Row             divider
	Out, Down, Across     int32
}

// phaseTables are all phases of a convolution, and the tables that pair offsets in the
// kernel (in bytes) with offsets in a patch.
type phaseTables struct {
	phases        []phase
	taps, corners patchOffsets
	weights       []int32
}

// beginPhase starts a phase with this many output rows and columns; its taps follow. The
// tables of taps start with 32 that read zeros.
func (m *phaseTables) beginPhase(high, wide int) phase {
	if len(m.weights) == 0 {
		m.addTap(0, unmatchedBit, 0)
		m.padTaps()
	}
	return phase{
		First: int32(len(m.weights)), Corners: int32(len(m.corners) / 2), Area: newDivider(high * wide), Row: newDivider(wide),
	}
}

func (m *phaseTables) addTap(cell int, sides uint32, weight int) {
	m.taps.add(cell, sides)
	m.weights = append(m.weights, int32(4*weight))
}

// padTaps adds taps that read zeros up to a multiple of 32.
func (m *phaseTables) padTaps() {
	m.taps.pad(32, unmatchedBit)
	m.weights = append(m.weights, make([]int32, len(m.taps)/2-len(m.weights))...)
}

func (m *phaseTables) endPhase(p phase) {
	p.Depth = int32(len(m.weights)) - p.First
	m.padTaps()
	m.phases = append(m.phases, p)
}

// forwardPhases has one phase: every element of the kernel is used at every output.
func (v convGeometry) forwardPhases() (m phaseTables) {
	p := m.beginPhase(v.outH, v.outW)
	p.Down, p.Across = int32(v.outW), 1
	taps := v.taps()
	for k := range v.patchWidth {
		m.addTap(int(taps[2*k])/4, uint32(taps[2*k+1]), k)
	}
	m.corners = v.corners()
	m.endPhase(p)
	return m
}

// backwardPhases has one phase for each pair of remainders of an input's row and column
// modulo the strides. Input cell·s + r receives from the outputs (cell·s + r + pad −
// k·dilation)/s, for those k for which this is an integer.
func (v convGeometry) backwardPhases() (m phaseTables) {
	reached := func(far axisOffsets, r, stride int) (list []int, places axisOffsets) {
		places = make(axisOffsets, len(far))
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
			ys, down := reached(rows, ry, v.StrideH)
			xs, across := reached(columns, rx, v.StrideW)
			high, wide := ceil(v.H-ry, v.StrideH), ceil(v.W-rx, v.StrideW)
			p := m.beginPhase(high, wide)
			p.Out, p.Down, p.Across = int32(ry*v.W+rx), int32(v.StrideH*v.W), int32(v.StrideW)
			for o := range v.groupOutputs {
				for _, ky := range ys {
					for _, kx := range xs {
						m.addTap(o*v.outArea+down[ky]*v.outW+across[kx], 1<<ky|1<<(v.KernelH+kx), o*v.patchWidth+ky*v.KernelW+kx)
					}
				}
			}
			m.corners.corners(down, across, windowGrid{high, wide, 1, 1}, v.outH, v.outW)
			m.endPhase(p)
		}
	}
	return m
}

// maxPhases is the number of phases that one launch can compute.
const maxPhases = 16

// convolutionArgs is the argument of the kernels of kernels/convolution.cu.
type convolutionArgs struct {
	Images                 patchImages
	Taps, Corners, Weights driver.Pointer
	Kernels, Bias, Out     driver.Pointer
	Kernel, Group, Rows    int32
	ImageCount, Groups     int32
	Plane, Slice, Act      int32
	Phases                 int32
	Phase                  [maxPhases]phase
	_                      int32
}

// convolutionOutput describes the result of a convolution: rows channels per group,
// plane elements per channel.
type convolutionOutput struct {
	from                       patchImages
	weight, bias, out          driver.Pointer
	kernel, rows, plane, count int
	act                        op.Activation
	backward                   bool
}

func lowerConv2D(c *compiler, s op.Conv2D, k call) bool {
	x := k.shapes[0]
	v := newConvGeometry(op.ConvWeight{Window: s.Window, Groups: s.Groups, C: x[1], H: x[2], W: x[3], O: k.shape[1]})
	return v.supported() && launchConvolution(c, v, v.forwardPhases(), convolutionOutput{
		from: v.inputImages(k.in[0]), weight: k.in[1], bias: k.in[2], out: k.out,
		kernel: v.patchWidth, rows: v.groupOutputs, plane: v.outArea, count: x[0], act: s.Act,
	})
}

func lowerConvGradInput(c *compiler, f op.ConvWeight, k call) bool {
	v := newConvGeometry(f)
	return v.supported() && launchConvolution(c, v, v.backwardPhases(), convolutionOutput{
		from: v.deltaImages(k.in[0]), weight: k.in[1], out: k.out,
		kernel: v.kernelCells, rows: v.groupChannels, plane: v.H * v.W, count: k.shape[0], backward: true,
	})
}

// convolutionTiles are the tiles of kernels/convolution.cu, by precision.
var convolutionTiles = map[Precision][]tile{
	FP32: {
		{"128x128", 128, 128, 256}, {"64x128", 64, 128, 128}, {"32x128", 32, 128, 64},
		{"64x64", 64, 64, 128}, {"16x128", 16, 128, 64}, {"32x32", 32, 32, 64},
	},
	TF32: {
		{"128x128_tf32", 128, 128, 256}, {"64x128_tf32", 64, 128, 256}, {"32x128_tf32", 32, 128, 128}, {"64x64_tf32", 64, 64, 128},
	},
	BF16: {
		{"128x128_bf16", 128, 128, 256}, {"64x128_bf16", 64, 128, 256}, {"32x128_bf16", 32, 128, 128}, {"64x64_bf16", 64, 64, 128},
	},
}

// launchConvolution launches all phases of a convolution.
func launchConvolution(c *compiler, v convGeometry, m phaseTables, r convolutionOutput) bool {
	if !fitsGridDepth(v.Groups) {
		return false
	}
	depth, columns := 0, 0
	for _, p := range m.phases {
		depth = max(depth, int(p.Depth))
		columns = max(columns, r.count*int(p.Area.By))
	}
	// An image gets the same bits in every microbatch: only its shape splits the sum.
	length, count := splitSum(depth, depth/256)
	all := columns * v.Groups * len(m.phases)
	convolveWithCuDNN(c, v, r, func() {
		list, unmeasured := schedules(c, convolutionTiles[c.options.Precision], r.rows, all, depth, count)
		of := fmt.Sprintf("%+v rows %d depth %d of %d slices %d", v.ConvWeight, r.rows, depth, r.count, count)
		launchSchedules(c, list, unmeasured, fmt.Sprintf("convolution backward %v precision %v", r.backward, c.options.Precision), of, func(s tileSchedule) {
			launchPhases(c, v, m, r, s, slicedSum{columns, length, count})
		})
	})
	return true
}

// slicedSum is a product whose sums have count slices of the given length.
type slicedSum struct{ columns, length, count int }

// launchPhases launches a convolution with a schedule.
func launchPhases(c *compiler, v convGeometry, m phaseTables, r convolutionOutput, s tileSchedule, sum slicedSum) {
	args := convolutionArgs{
		Images: r.from, Taps: c.constant(m.taps), Corners: c.constant(m.corners), Weights: c.constant(m.weights),
		Kernels: r.weight, Bias: r.bias, Out: r.out, Kernel: int32(r.kernel),
		Group: int32(v.groupOutputs * v.patchWidth), Rows: int32(r.rows),
		ImageCount: int32(r.count), Groups: int32(v.Groups), Plane: int32(r.plane), Slice: int32(sum.length), Act: int32(r.act),
	}
	blocksPerSum := 1
	if s.separate {
		blocksPerSum = sum.count
		args.Out = c.allocScratch(4 * r.count * v.Groups * r.rows * r.plane * sum.count)
	}
	for len(m.phases) > 0 {
		n := copy(args.Phase[:min(maxPhases, math.MaxUint16/v.Groups)], m.phases)
		args.Phases, m.phases = int32(n), m.phases[n:]
		grid := dim{uint32(s.tile.count(r.rows, sum.columns)), uint32(n * v.Groups), uint32(blocksPerSum)}
		c.launch("convolution_"+s.tile.name, grid, dim{s.tile.threads, 1, 1}, args)
	}
	if s.separate {
		finishConvolution(c, v, r, args.Out, sum.count)
	}
}

// cudnnConvolution is a convolution or its gradient with respect to the input; each image
// belongs to one record.
type cudnnConvolution driver.Convolution

func (v cudnnConvolution) records() (count, in, weights, out int) {
	in, out = v.C*v.H*v.W, v.O*v.High*v.Wide
	if v.Backward {
		in, out = out, in
	}
	return v.N, in, v.O * v.C / v.Groups * v.Kernel[0] * v.Kernel[1], out
}

func (v cudnnConvolution) prepare(l *mathLibraries, o operands) (*driver.PreparedCall, error) {
	n, err := l.dnn()
	if err != nil {
		return nil, err
	}
	return n.Prepare(driver.Convolution(v), o.in, o.weights, o.out)
}

// convolveWithCuDNN queues a convolution for cuDNN, or for dptrain's own kernels, which own
// queues. cuDNN's algorithms for bfloat16 do not read float32.
func convolveWithCuDNN(c *compiler, v convGeometry, r convolutionOutput, own func()) {
	if c.options.Precision == BF16 {
		own()
		return
	}
	s := cudnnConvolution{
		Backward: r.backward, N: r.count, C: v.C, H: v.H, W: v.W, O: v.O, Groups: v.Groups, High: v.outH, Wide: v.outW,
		Kernel: [2]int{v.KernelH, v.KernelW}, Stride: [2]int{v.StrideH, v.StrideW},
		Pad: [2]int{v.PadH, v.PadW}, Dilation: [2]int{v.DilationH, v.DilationW},
		Precision: driver.Precision(c.options.Precision),
	}
	useLibrary(c, "cuDNN", libraryTask{s, operands{r.from.Data, r.weight, r.out}}, own, func() {
		if r.bias != 0 || r.act != op.Identity {
			finishConvolution(c, v, r, r.out, 1)
		}
	})
}

// finishConvolution adds up slices that were computed separately, adds the bias and
// applies the activation.
func finishConvolution(c *compiler, v convGeometry, r convolutionOutput, partial driver.Pointer, slices int) {
	size := r.count * v.Groups * r.rows * r.plane
	c.launch("convolution_add_slices", blocks(size), threads, r.out, partial, r.bias, int32(size),
		newDivider(r.plane), newDivider(v.Groups*r.rows), int32(slices), int32(r.act))
}
