//go:build gpu

package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/internal/cpu"
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/plan"
	"gorgonia.org/tensor"
)

// withTwin has the emulated device use the plain twin of a library for the test, with a
// planted fault where one is named. A GPU uses its own.
func withTwin(t *testing.T, library, fault string) {
	t.Helper()
	device(t)
	list, err := Devices()
	if err != nil {
		t.Fatal(err)
	}
	variable, said := "DPTRAIN_CUBLASLT", Library
	if library == "libcudnn" {
		variable, said = "DPTRAIN_CUDNN", ConvolutionLibrary
	}
	if !list[0].Emulated {
		if _, err := said(0); err != nil {
			t.Skip(err)
		}
		if fault != "" {
			t.Skip("only the twin has faults")
		}
		return
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("the twin of a library is built with cc")
	}
	twin := filepath.Join(t.TempDir(), library+".so")
	source := filepath.Join("driver", "testdata", library+".c")
	if said, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-Wall", "-o", twin, source, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	t.Setenv(variable, twin)
	t.Setenv("DPTRAIN_TWIN", fault)
	opened.libraries = nil
	t.Cleanup(func() { opened.libraries = nil })
}

// eager has everything that may go to a library go there.
func eager(t *testing.T) {
	t.Helper()
	own, blas, dnn := worth, productLibrary, convolutionLibrary
	t.Cleanup(func() { worth, productLibrary, convolutionLibrary = own, blas, dnn })
	worth = -1
	quick := func(all map[Precision]tile) map[Precision]tile {
		tiles := map[Precision]tile{}
		for p, one := range all {
			one.speed = 1e12
			tiles[p] = one
		}
		return tiles
	}
	productLibrary, convolutionLibrary = quick(blas), quick(dnn)
}

// byLibrary counts the steps that a library computes.
func byLibrary(m plan.Machine, library string) (n int) {
	for _, c := range []*code{&m.(*Machine).front, &m.(*Machine).back} {
		for _, s := range c.steps {
			if strings.Contains(s.name, "("+library+")") {
				n++
			}
		}
	}
	return n
}

// The forward product and the gradient in the inputs go to the library, sums over
// records do not, and all are right.
func TestProductsOfTheLibrary(t *testing.T) {
	withTwin(t, "libcublasLt", "")
	eager(t)
	for precision, within := range roundings {
		r := rand.New(rand.NewPCG(10, 6))
		for i, o := range append(matrices(r, 33, 70, 290), given(r, op.MatMul{}, tensor.Shape{1, 40}, tensor.Shape{40, 50})) {
			t.Run(fmt.Sprint(precision, " ", o.spec), func(t *testing.T) {
				m := o.machine(t, Options{Precision: precision})
				if got, want := byLibrary(m, "cuBLASLt") > 0, i != 2; got != want {
					t.Fatalf("the library computes it: %v", got)
				}
				if err := m.Forward(); err != nil {
					t.Fatal(err)
				}
				o.compare(t, m.Output(), within)
			})
		}
	}
}

// Networks come to the CPU's weights when all products that may go to the library do,
// in both ways to run a microbatch.
func TestNetworksWithTheLibrary(t *testing.T) {
	withTwin(t, "libcublasLt", "")
	eager(t)
	for _, n := range []network{networks()[2], networks()[13]} {
		n.steps = 2
		t.Run(n.model, func(t *testing.T) {
			want := n.train(t, func(p *plan.Program, o optim.Optimizer) (plan.Machine, error) { return cpu.New(p, o, false, 0) })
			got := n.train(t, func(p *plan.Program, o optim.Optimizer) (plan.Machine, error) {
				m, err := New(p, o, false, Options{})
				if err == nil && byLibrary(m, "cuBLASLt") == 0 {
					t.Error("the library computes nothing")
				}
				return m, err
			})
			for v := range want {
				if d := apart(got[v], want[v]); !(d <= 1e-4) {
					t.Errorf("vector %d: weights differ by %.2g of the largest", v, d)
				}
			}
		})
	}
	l := newLots(t, streamed()[0])
	want, first, again := l.onCPU(t), l.onDevice(t, true, (*Machine).Push), l.onDevice(t, false, (*Machine).Push)
	for v := range want {
		same(t, "run again", again[v], first[v])
		if d := apart(first[v], want[v]); !(d <= 1e-4) {
			t.Errorf("vector %d: weights differ by %.2g of the largest", v, d)
		}
	}
}

// Own kernels compute what is small, and everything where the library is not there, is
// of another version, or lets one row touch another.
func TestOwnKernelsInPlaceOfTheLibrary(t *testing.T) {
	o := given(rand.New(rand.NewPCG(11, 6)), op.MatMul{}, tensor.Shape{33, 290}, tensor.Shape{290, 70})
	own := func(t *testing.T) {
		t.Helper()
		m := o.machine(t, Options{})
		if byLibrary(m, "cuBLASLt") > 0 {
			t.Error("the library computes it")
		}
		if err := m.Forward(); err != nil {
			t.Fatal(err)
		}
		o.compare(t, m.Output(), roundings[FP32])
	}
	t.Run("small", func(t *testing.T) {
		withTwin(t, "libcublasLt", "")
		own(t)
		if said, err := Library(0); err != nil || !strings.HasPrefix(said, "cuBLASLt 1") {
			t.Errorf("%q, %v", said, err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		withTwin(t, "libcublasLt", "")
		eager(t)
		t.Setenv("DPTRAIN_CUBLASLT", "none")
		opened.libraries = nil
		t.Cleanup(func() { opened.libraries = nil })
		own(t)
		if _, err := Library(0); !errors.Is(err, ErrNoLibrary) || !strings.HasPrefix(err.Error(), "own kernels compute all products: cuBLASLt was not found (none: ") {
			t.Error(err)
		}
	})
	t.Run("another version", func(t *testing.T) {
		withTwin(t, "libcublasLt", "old")
		eager(t)
		own(t)
		if _, err := Library(0); err == nil || errors.Is(err, ErrNoLibrary) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "cuBLASLt 11.8.3 (") {
			t.Error(err)
		}
	})
	for _, fault := range []string{"mixes", "place", "loses"} {
		t.Run(fault, func(t *testing.T) {
			withTwin(t, "libcublasLt", fault)
			eager(t)
			own(t)
		})
	}
}
