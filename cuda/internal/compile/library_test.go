//go:build gpu

package compile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"gorgonia.org/tensor"
)

// standIn is a simple substitute for a library on the emulated device.
type standIn struct {
	source, name, variable, work string
	output                       func(int) (string, error)
}

var (
	blasStandIn = standIn{"libcublasLt", "cuBLASLt", "DPTRAIN_CUBLASLT", "products", ProductLibrary}
	dnnStandIn  = standIn{"libcudnn", "cuDNN", "DPTRAIN_CUDNN", "convolutions", ConvolutionLibrary}
)

// use makes the emulated device use the stand-in for the test, with an optional planted fault.
// A GPU uses its own library.
func (w standIn) use(t *testing.T, fault string) {
	t.Helper()
	device(t)
	list, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	if !list[0].Emulated() {
		if _, err := w.output(0); err != nil {
			t.Skip(err)
		}
		if fault != "" {
			t.Skip("only the stand-in has faults")
		}
		return
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("the stand-in for a library is built with cc")
	}
	sources := filepath.Join("..", "driver")
	if _, err := os.Stat(sources); err != nil {
		t.Skip("a bundle has no sources of stand-ins")
	}
	file := filepath.Join(t.TempDir(), w.source+".so")
	build(t, file, filepath.Join(sources, "testdata", w.source+".c"))
	if w.source == dnnStandIn.source { // cuDNN opens cuBLASLt
		build(t, filepath.Join(filepath.Dir(file), "libcublasLt.so.12"), filepath.Join(sources, "testdata", "libcublasLt.c"))
	}
	t.Setenv("DPTRAIN_TWIN", fault)
	w.set(t, file)
}

func build(t *testing.T, file, source string) {
	t.Helper()
	c := exec.Command("cc", "-O2", "-shared", "-fPIC", "-Wall", "-Wl,-soname,"+filepath.Base(file), "-o", file, source, "-ldl")
	if output, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
}

// set makes the process open the library from another file.
func (w standIn) set(t *testing.T, file string) {
	t.Setenv(w.variable, file)
	opened.libraries = nil
	t.Cleanup(func() { opened.libraries = nil })
}

// computes counts the steps that the library computes.
func (w standIn) computes(m plan.Executable) (n int) {
	for _, c := range []*stepSequence{&m.(*Executable).front, &m.(*Executable).back} {
		for _, s := range c.steps {
			if strings.Contains(s.name, "("+w.name+")") {
				n++
			}
		}
	}
	return n
}

// wanted checks that the library computes something. On a GPU it need not: the real
// library may have no algorithm that isolates records.
func (w standIn) wanted(t *testing.T, m plan.Executable) {
	t.Helper()
	complain := t.Errorf
	if !m.(*Executable).device.Emulated() {
		complain = t.Logf
	}
	if w.computes(m) == 0 {
		complain("%s computes nothing", w.name)
	}
}

// check runs an operation that the library computes, or does not compute.
func (w standIn) check(t *testing.T, o operation, precision Precision, goes bool) {
	t.Helper()
	m := o.machine(t, Options{Precision: precision})
	switch {
	case goes:
		w.wanted(t, m)
	case w.computes(m) > 0:
		t.Fatalf("%v: the library computes it", o.spec)
	}
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	o.compare(t, m.Output(), allowed[precision].products)
}

// eager makes the library compute every operation that it may compute.
func eager(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { forceOption = nil })
	forceOption = func(names []string) int {
		return slices.IndexFunc(names, func(n string) bool { return n == blasStandIn.name || n == dnnStandIn.name })
	}
}

// unmeasured makes a GPU choose as the emulated device does: nothing is measured.
func unmeasured(t *testing.T) {
	t.Helper()
	before := opened.choices
	t.Cleanup(func() { opened.choices = before })
	opened.choices = nil
}

// The library computes the forward product and the gradient with respect to the inputs,
// but not sums over records; all results are right.
func TestProductLibrary_Computes(t *testing.T) {
	blasStandIn.use(t, "")
	eager(t)
	for precision := range allowed {
		r := rand.New(rand.NewPCG(10, 6))
		for i, o := range append(matrices(r, 33, 70, 290), given(r, op.MatMul{}, tensor.Shape{1, 40}, tensor.Shape{40, 50})) {
			t.Run(fmt.Sprint(precision, " ", o.spec), func(t *testing.T) { blasStandIn.check(t, o, precision, i != 2) })
		}
	}
}

// windowed is a convolution of five images with bias and activation, and the gradient with
// respect to the images, with cells that no window covers.
func windowed(r *rand.Rand) []operation {
	f := op.ConvWeight{Window: square(2, 3, 0), Groups: 2, C: 4, H: 9, W: 8, O: 6}
	return []operation{
		given(r, op.Conv2D{Window: f.Window, Groups: 2, Act: op.Tanh}, tensor.Shape{5, 4, 9, 8}, tensor.Shape{6, 2, 2, 2}, tensor.Shape{6}),
		given(r, op.ConvGradInput(f), tensor.Shape{5, 6, 3, 3}, tensor.Shape{6, 2, 2, 2}),
	}
}

// The library computes convolutions and gradients with respect to the images, except in
// bfloat16, but not sums over records; all results are right.
func TestConvolutionLibrary_Computes(t *testing.T) {
	dnnStandIn.use(t, "")
	eager(t)
	r := rand.New(rand.NewPCG(10, 6))
	f := op.ConvWeight{Window: square(3, 1, 1), Groups: 1, C: 2, H: 6, W: 7, O: 3}
	sum := given(r, op.ConvGradWeight(f), tensor.Shape{3, 2, 6, 7}, tensor.Shape{3, 3, 6, 7})
	for precision := range allowed {
		for i, o := range append(windowed(r), sum) {
			t.Run(fmt.Sprint(precision, " ", o.spec), func(t *testing.T) { dnnStandIn.check(t, o, precision, i < 2 && precision != BF16) })
		}
	}
}

// Networks reach the CPU's weights when libraries compute everything that they may, with
// and without a pipeline.
func TestNetworks_WithLibrary(t *testing.T) {
	chosen := map[string]standIn{"mlp:50,dropout=0.5": blasStandIn, "transformer": blasStandIn, "mnist-cnn": dnnStandIn, "wrn16-4:standardized": dnnStandIn}
	tried := 0
	for _, n := range networks() {
		w, is := chosen[n.model]
		if !is {
			continue
		}
		tried++
		n.steps = min(n.steps, 2)
		t.Run(n.model, func(t *testing.T) {
			w.use(t, "")
			eager(t)
			want := n.train(t, func(p *plan.Program, o plan.Optimizer) (plan.Executable, error) { return cpu.New(p, o, false, 0) })
			got := n.train(t, func(p *plan.Program, o plan.Optimizer) (plan.Executable, error) {
				m, err := New(p, o, false, Options{})
				if err == nil {
					w.wanted(t, m)
				}
				return m, err
			})
			for v := range want {
				if d := apart(got[v], want[v]); !(d <= allowedWeights(t)) {
					t.Errorf("vector %d: weights differ by %.2g of the largest", v, d)
				}
			}
		})
	}
	if tried != len(chosen) {
		t.Errorf("%d of %d networks were tried", tried, len(chosen))
	}
	blasStandIn.use(t, "")
	eager(t)
	l := newLots(t, streamed()[0])
	want, first, again := l.onCPU(t), l.onDevice(t, true, (*Executable).Push), l.onDevice(t, false, (*Executable).Push)
	for v := range want {
		same(t, "run again", again[v], first[v])
		if d := apart(first[v], want[v]); !(d <= allowedWeights(t)) {
			t.Errorf("vector %d: weights differ by %.2g of the largest", v, d)
		}
	}
}

// dptrain's own kernels compute small operations, and everything if the library is
// missing, has another version, cannot compute the operation or not deterministically, or
// lets one record affect another.
func TestLibrary_FallsBackToOwnKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 6))
	product := given(r, op.MatMul{}, tensor.Shape{33, 290}, tensor.Shape{290, 70})
	for _, each := range []struct {
		standIn
		old    string
		list   []operation
		faults []string
	}{
		{blasStandIn, "cuBLASLt 11.8.3 (", []operation{product}, []string{"at once", "mixes", "place", "loses"}},
		{dnnStandIn, "cuDNN 8.8.6 (", windowed(r), []string{"random", "greedy", "too little", "fails", "at once", "mixes", "place", "loses"}},
	} {
		own := func(t *testing.T) {
			t.Helper()
			for _, o := range each.list {
				each.check(t, o, FP32, false)
			}
		}
		t.Run(each.name+" small", func(t *testing.T) {
			each.use(t, "")
			unmeasured(t)
			own(t)
			if output, err := each.output(0); err != nil || !strings.HasPrefix(output, each.name+" ") {
				t.Errorf("%q, %v", output, err)
			}
		})
		t.Run(each.name+" missing", func(t *testing.T) {
			each.use(t, "")
			eager(t)
			each.set(t, "none")
			own(t)
			message := fmt.Sprintf("own kernels compute all %s: %s was not found (none: ", each.work, each.name)
			if _, err := each.output(0); !errors.Is(err, ErrNoLibrary) || !strings.HasPrefix(err.Error(), message) {
				t.Error(err)
			}
		})
		t.Run(each.name+" of another version", func(t *testing.T) {
			each.use(t, "old")
			eager(t)
			own(t)
			if _, err := each.output(0); err == nil || errors.Is(err, ErrNoLibrary) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), each.old) {
				t.Error(err)
			}
		})
		for _, fault := range each.faults {
			t.Run(each.name+" "+fault, func(t *testing.T) {
				each.use(t, fault)
				eager(t)
				own(t)
			})
		}
	}
}

// Tiles are compared with each other, not with a library that is installed and faster than
// the slow ones.
func TestTilesWithLibrary_Agree(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 6))
	blasStandIn.use(t, "")
	matrices(r, 36, 132, 292)[1].tilesAgree(t, productTiles, FP32)
	dnnStandIn.use(t, "")
	long(r)[1].tilesAgree(t, convolutionTiles, FP32)
}
