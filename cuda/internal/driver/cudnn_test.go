//go:build gpu

package driver

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"gorgonia.org/tensor"
)

// TestCuDNN_Convolutions compares convolutions and gradients with float64 where there is a GPU with
// cuDNN, and on the emulated device with its stand-in.
func TestCuDNN_Convolutions(t *testing.T) {
	d := device(t)
	n := opened(t, d, "DPTRAIN_CUDNN", "libcudnn", OpenCuDNN)
	r := rand.New(rand.NewPCG(1, 2))
	computed := false
	for tried := 0; tried < 60; {
		v := Convolution{Backward: r.IntN(2) == 1, N: 1 + r.IntN(3), Groups: 1 + r.IntN(2), H: 1 + r.IntN(12), W: 1 + r.IntN(12), Precision: Precision(r.IntN(2))}
		v.C, v.O = v.Groups*(1+r.IntN(5)), v.Groups*(1+r.IntN(5))
		for i := range 2 {
			v.Kernel[i], v.Stride[i], v.Dilation[i] = 1+r.IntN(4), 1+r.IntN(3), 1+r.IntN(2)
			v.Pad[i] = r.IntN(v.Kernel[i])
		}
		w := window(v)
		high, wide, err := w.OutputSize(v.H, v.W)
		if err != nil {
			continue
		}
		v.High, v.Wide = high, wide
		computed = checkConvolution(t, d, n, v, r) || computed
		tried++
	}
	if !computed {
		t.Error("it computes nothing")
	}
	n.Close()
}

func window(v Convolution) op.Window {
	return op.Window{KernelH: v.Kernel[0], KernelW: v.Kernel[1], StrideH: v.Stride[0], StrideW: v.Stride[1],
		PadH: v.Pad[0], PadW: v.Pad[1], DilationH: v.Dilation[0], DilationW: v.Dilation[1]}
}

// checkConvolution runs a convolution as it is, and recorded. For some cuDNN itself need
// not have a deterministic way.
func checkConvolution(t *testing.T, d *Device, n *CuDNN, v Convolution, r *rand.Rand) (computed bool) {
	t.Helper()
	in, out := tensor.Shape{v.N, v.C, v.H, v.W}, tensor.Shape{v.N, v.O, v.High, v.Wide}
	kernels := tensor.Shape{v.O, v.C / v.Groups, v.Kernel[0], v.Kernel[1]}
	var spec op.Operation = op.Conv2D{Window: window(v), Groups: v.Groups}
	shapes := []tensor.Shape{in, kernels, {v.O}}
	if v.Backward {
		in, out = out, in
		spec = op.ConvGradInput{Window: window(v), Groups: v.Groups, C: v.C, H: v.H, W: v.W, O: v.O}
		shapes = []tensor.Shape{in, kernels}
	}
	operand := func(s tensor.Shape) (Pointer, []float64) {
		x, wide := make([]float32, s.TotalSize()), make([]float64, s.TotalSize())
		for i := range x {
			x[i] = float32(r.NormFloat64())
			wide[i] = float64(x[i])
		}
		p, err := d.Alloc(4 * len(x))
		must(t, err)
		must(t, d.CopyIn(p, floats(x...)))
		return p, wide
	}
	x, wideX := operand(in)
	defer d.Free(x)
	w, wideW := operand(kernels)
	defer d.Free(w)
	y, _ := operand(out)
	defer d.Free(y)
	m, err := n.Prepare(v, x, w, y)
	if err != nil && !d.Emulated() {
		t.Log(err)
		return false
	}
	must(t, err)
	workspace, err := d.Alloc(max(1, m.Workspace()))
	must(t, err)
	defer d.Free(workspace)
	run := func() error { return m.Run(workspace) }
	must(t, run())
	if n := testing.AllocsPerRun(10, func() { run() }); n != 0 { // of ten, for the runtime may take some meanwhile
		t.Errorf("Run takes memory %v times", n)
	}
	g, err := d.Capture(run)
	must(t, err)
	defer g.Close()
	m.Close()
	m.Close()

	want := make([]float64, out.TotalSize())
	wide := [][]float64{wideX, wideW}
	if !v.Backward {
		wide = append(wide, make([]float64, v.O))
	}
	spec.Do(want, wide, shapes)
	unit := [...]float64{FP32: 0x1p-24, TF32: 0x1p-11}[v.Precision]
	terms := float64(v.C * v.O * v.Kernel[0] * v.Kernel[1])
	bound := (2*unit + terms*0x1p-24) * 16 * math.Sqrt(terms)
	compare := func(how string) {
		t.Helper()
		bytes := read(t, d, y, 4*len(want))
		for i, w := range want {
			got := float64(math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*i:])))
			if !(math.Abs(got-w) <= bound) {
				t.Fatalf("%+v %s: number %d is %g, want %g within %g", v, how, i, got, w, bound)
			}
		}
	}
	compare("at once")
	must(t, d.Zero(y, 4*len(want)))
	must(t, d.LaunchGraph(g))
	compare("recorded")
	return true
}

func TestOpenCuDNN_Refuses(t *testing.T) {
	d := device(t)
	expect := func(message string, none bool) {
		t.Helper()
		_, err := OpenCuDNN(d)
		cannotServe(t, err, message, none)
	}
	t.Setenv("DPTRAIN_CUDNN", "none")
	expect("cuDNN was not found (none: ", true)
	if !d.Emulated() {
		return
	}
	t.Setenv("DPTRAIN_CUDNN", os.Getenv("DPTRAIN_LIBCUDA"))
	expect("lacks cudnnCreate", false)
	t.Setenv("DPTRAIN_CUDNN", standIn(t, "libcudnn"))
	for fault, message := range map[string]string{
		"old":      "cannot be used: dptrain needs version 8.9 or 9",
		"new":      "it needs CUDA 14, and the driver supports CUDA 12",
		"no start": "cuDNN cannot be initialized: CUDNN_STATUS_NOT_INITIALIZED",
	} {
		t.Setenv("DPTRAIN_TWIN", fault)
		expect(message, false)
	}
	t.Setenv("DPTRAIN_TWIN", "eight")
	n, err := OpenCuDNN(d)
	must(t, err)
	if !strings.HasPrefix(n.String(), "cuDNN 8.9.7 (") {
		t.Error(n)
	}
	n.Close()
	t.Setenv("DPTRAIN_CUDNN", "")
	expect("the emulated device has none", true)
}

// What cuDNN calls not deterministic, what takes more memory than the operands do, and
// what rounds them to half precision is not chosen; what it refuses is an error.
func TestCuDNN_RefusesForbiddenAlgorithms(t *testing.T) {
	d := device(t)
	if !d.Emulated() {
		t.Skip("only the stand-in has faults")
	}
	t.Setenv("DPTRAIN_CUDNN", standIn(t, "libcudnn"))
	n, err := OpenCuDNN(d)
	must(t, err)
	defer n.Close()
	p, err := d.Alloc(4096)
	must(t, err)
	defer d.Free(p)
	v := Convolution{N: 1, C: 1, H: 2, W: 2, O: 1, Groups: 1, High: 2, Wide: 2, Kernel: [2]int{1, 1}, Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}}
	for _, v.Backward = range []bool{false, true} {
		for _, fault := range []string{"random", "greedy", "halves"} {
			t.Setenv("DPTRAIN_TWIN", fault)
			if _, err := n.Prepare(v, p, p+1024, p+2048); err == nil || !strings.Contains(err.Error(), "no deterministic algorithm") {
				t.Errorf("%s: %v", fault, err)
			}
		}
		for fault, message := range map[string]string{"fails": "CUDNN_STATUS_OTHER", "too little": "CUDNN_STATUS_BAD_PARAM"} {
			t.Setenv("DPTRAIN_TWIN", fault)
			m, err := n.Prepare(v, p, p+1024, p+2048)
			must(t, err)
			if err := m.Run(p + 3072); err == nil || !strings.Contains(err.Error(), message) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v", fault, err)
			}
			m.Close()
		}
	}
}

func TestConvolution_RefusesInvalid(t *testing.T) {
	good := Convolution{N: 2, C: 4, H: 5, W: 6, O: 2, Groups: 2, High: 3, Wide: 4, Kernel: [2]int{3, 3}, Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}}
	must(t, good.valid())
	for name, change := range map[string]func(*Convolution){
		"sizes":     func(v *Convolution) { v.N = 0 },
		"at least":  func(v *Convolution) { v.Stride[1] = 0 },
		"Pad":       func(v *Convolution) { v.Pad[0] = -1 },
		"Groups":    func(v *Convolution) { v.C = 5 },
		"3×4":       func(v *Convolution) { v.High = 5 },
		"Precision": func(v *Convolution) { v.Precision = BF16 },
	} {
		v := good
		change(&v)
		if err := v.valid(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v", v, err)
		}
	}
}
