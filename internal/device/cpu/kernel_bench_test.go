package cpu

import (
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"gorgonia.org/tensor"
)

// kernelCase is one operation at a shape of the workloads. flops counts a multiply-add as
// two, and is 0 where memory bandwidth limits the operation.
type kernelCase struct {
	name       string
	spec       op.Operation
	in         []tensor.Shape
	vocabulary int // if above 0, the last input contains indices below it
	flops      int
}

func kernelCases() []kernelCase {
	square := func(k, stride, pad int) op.Window {
		return op.Window{KernelH: k, KernelW: k, StrideH: stride, StrideW: stride, PadH: pad, PadW: pad, DilationH: 1, DilationW: 1}
	}
	list := []kernelCase{
		{"linear/mlp-256", op.Linear{Act: op.ReLU}, []tensor.Shape{{256, 784}, {784, 1000}, {1000}}, 0, 2 * 256 * 784 * 1000},
		{"linear/logistic-256", op.Linear{}, []tensor.Shape{{256, 784}, {784, 10}, {10}}, 0, 2 * 256 * 784 * 10},
		{"gradInput/mlp-256", op.MatMul{TransB: true}, []tensor.Shape{{256, 10}, {1000, 10}}, 0, 2 * 256 * 1000 * 10},
		{"rankOne/mlp-256", op.SquaredNorms{Form: op.Product{In: 784, Out: 1000}, Records: 256, Method: op.RankOne}, []tensor.Shape{{256, 784}, {256, 1000}}, 0, 0},
		{"clippedSum/mlp-256", op.ClippedSum{Form: op.Product{In: 784, Out: 1000}, Records: 256}, []tensor.Shape{{256, 784}, {256, 1000}, {256}}, 0, 2 * 256 * 784 * 1000},
		{"gram/lstm-64", op.SquaredNorms{Form: op.Product{In: 128, Out: 512}, Records: 64, Method: op.Gram}, []tensor.Shape{{4096, 128}, {4096, 512}}, 0, 64 * 64 * 65 * 640},
		{"attention/transformer-32", op.Attention{Heads: 4, Causal: true}, []tensor.Shape{{32, 64, 384}}, 0, 4 * 32 * 64 * 64 * 128},
		{"attentionGrad/transformer-32", op.AttentionGrad{Heads: 4, Causal: true}, []tensor.Shape{{32, 64, 384}, {32, 64, 128}}, 0, 10 * 32 * 64 * 64 * 128},
		{"crossEntropy/transformer-32", op.CrossEntropy{}, []tensor.Shape{{2048, 5000}, {2048}}, 5000, 0},
		{"normalize/transformer-32", op.Normalize{Chunk: 128, Eps: 1e-5, Center: true}, []tensor.Shape{{2048, 128}}, 0, 0},
		{"dropout/mlp-256", op.Dropout{Rate: 0.5}, []tensor.Shape{{256, 1000}, {256, op.MaskSeedWidth}}, 1 << 24, 0},
		{"embed/embbag-256", op.Embed{}, []tensor.Shape{{20000, 16}, {256, 128}}, 20000, 0},
		{"maxPool/mnist-cnn-256", op.MaxPool2D{Window: square(2, 1, 0)}, []tensor.Shape{{256, 16, 14, 14}}, 0, 0},
		{"maxPoolGrad/mnist-cnn-256", op.MaxPoolGrad{Window: square(2, 1, 0)}, []tensor.Shape{{256, 16, 14, 14}, {256, 16, 13, 13}}, 0, 0},
	}
	for _, g := range []struct {
		name    string
		batch   int
		c, h, o int
		window  op.Window
	}{
		{"mnist-cnn-256/1", 256, 1, 28, 16, square(8, 2, 3)},
		{"mnist-cnn-256/2", 256, 16, 13, 32, square(4, 2, 0)},
		{"cifar-abadi-64/2", 64, 64, 12, 64, square(5, 1, 2)},
		{"cifar-tanh-64/6", 64, 128, 8, 128, square(3, 1, 1)},
		{"wrn16-4-16/32", 16, 64, 32, 64, square(3, 1, 1)},
		{"wrn16-4-16/8", 16, 256, 8, 256, square(3, 1, 1)},
	} {
		f := op.ConvWeight{Window: g.window, Groups: 1, C: g.c, H: g.h, W: g.h, O: g.o}
		oh, ow, err := g.window.OutputSize(g.h, g.h)
		if err != nil {
			panic(err)
		}
		x, y := tensor.Shape{g.batch, g.c, g.h, g.h}, tensor.Shape{g.batch, g.o, oh, ow}
		w := tensor.Shape{g.o, g.c, f.KernelH, f.KernelW}
		rows, flops := oh*ow, 2*g.batch*oh*ow*f.Size()
		list = append(list,
			kernelCase{"conv2d/" + g.name, op.Conv2D{Window: g.window, Groups: 1, Act: op.ReLU}, []tensor.Shape{x, w, {g.o}}, 0, flops},
			kernelCase{"convGradInput/" + g.name, op.ConvGradInput(f), []tensor.Shape{y, w}, 0, flops},
			kernelCase{"recordGradients/" + g.name, op.RecordGradients{Form: f, Records: g.batch}, []tensor.Shape{x, y}, 0, flops},
			kernelCase{"clippedSum/" + g.name, op.ClippedSum{Form: f, Records: g.batch}, []tensor.Shape{x, y, {g.batch}}, 0, flops},
			kernelCase{"gram/" + g.name, op.SquaredNorms{Form: f, Records: g.batch, Method: op.Gram}, []tensor.Shape{x, y}, 0,
				g.batch * rows * (rows + 1) * (f.Size()/g.o + g.o)})
	}
	return list
}

// BenchmarkKernel runs single operations at the shapes of the workloads.
func BenchmarkKernel(b *testing.B) {
	for _, c := range kernelCases() {
		b.Run(c.name, func(b *testing.B) {
			shape, err := c.spec.Shape(c.in)
			if err != nil {
				b.Fatal(err)
			}
			p := &plan.Program{Batch: 1, Records: 1, PerRecord: 1}
			code := plan.Instruction{Spec: c.spec, Out: len(c.in)}
			for i, s := range c.in {
				p.Buffers = append(p.Buffers, plan.Buffer{Shape: s, Role: plan.RoleInput, Index: i, Base: i})
				code.In = append(code.In, i)
			}
			p.Buffers = append(p.Buffers, plan.Buffer{Shape: shape, Role: plan.RoleOutput, Base: code.Out})
			p.Front = []plan.Instruction{code}
			m, err := New(p, plan.Optimizer{Kind: plan.SGD}, false, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			r := rand.New(rand.NewPCG(1, 2))
			for i := range c.in {
				for j := range m.Input(i) {
					if m.Input(i)[j] = float32(r.NormFloat64()); c.vocabulary > 0 && i == len(c.in)-1 {
						m.Input(i)[j] = float32(r.IntN(c.vocabulary))
					}
				}
			}
			for b.Loop() {
				if err := m.Forward(); err != nil {
					b.Fatal(err)
				}
			}
			if c.flops > 0 {
				b.ReportMetric(float64(c.flops)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			}
		})
	}
}
