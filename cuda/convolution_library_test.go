//go:build gpu

package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/internal/cpu"
	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/plan"
	"gorgonia.org/tensor"
)

// windowed is a convolution of five pictures with all that may come after it, and the
// gradient in the pictures, with cells that no window meets.
func windowed(r *rand.Rand) []operation {
	f := op.ConvWeight{Window: square(2, 3, 0), Groups: 2, C: 4, H: 9, W: 8, O: 6}
	return []operation{
		given(r, op.Conv2D{Window: f.Window, Groups: 2, Act: op.Tanh}, tensor.Shape{5, 4, 9, 8}, tensor.Shape{6, 2, 2, 2}, tensor.Shape{6}),
		given(r, op.ConvGradInput(f), tensor.Shape{5, 6, 3, 3}, tensor.Shape{6, 2, 2, 2}),
	}
}

// Convolutions and gradients in the pictures go to the library except in bfloat16, sums
// over records do not, and all are right.
func TestConvolutionsOfTheLibrary(t *testing.T) {
	withTwin(t, "libcudnn", "")
	eager(t)
	r := rand.New(rand.NewPCG(10, 6))
	f := op.ConvWeight{Window: square(3, 1, 1), Groups: 1, C: 2, H: 6, W: 7, O: 3}
	sum := given(r, op.ConvGradWeight(f), tensor.Shape{3, 2, 6, 7}, tensor.Shape{3, 3, 6, 7})
	for precision, within := range roundings {
		for i, o := range append(windowed(r), sum) {
			t.Run(fmt.Sprint(precision, " ", o.spec), func(t *testing.T) {
				m := o.machine(t, Options{Precision: precision})
				if got, want := byLibrary(m, "cuDNN") > 0, i < 2 && precision != BF16; got != want {
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

// Networks come to the CPU's weights when all convolutions that may go to the library do.
func TestConvolutionalNetworksWithTheLibrary(t *testing.T) {
	withTwin(t, "libcudnn", "")
	eager(t)
	for _, n := range []network{networks()[5], networks()[9]} {
		n.steps = 1
		t.Run(n.model, func(t *testing.T) {
			want := n.train(t, func(p *plan.Program, o optim.Optimizer) (plan.Machine, error) { return cpu.New(p, o, false, 0) })
			got := n.train(t, func(p *plan.Program, o optim.Optimizer) (plan.Machine, error) {
				m, err := New(p, o, false, Options{})
				if err == nil && byLibrary(m, "cuDNN") == 0 {
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
}

// Own kernels compute what is small, and everything where the library is not there, is
// of another version, cannot compute it or has no deterministic way, or lets one record
// touch another.
func TestOwnConvolutionsInPlaceOfTheLibrary(t *testing.T) {
	own := func(t *testing.T) {
		t.Helper()
		for _, o := range windowed(rand.New(rand.NewPCG(11, 6))) {
			m := o.machine(t, Options{})
			if byLibrary(m, "cuDNN") > 0 {
				t.Error("the library computes it")
			}
			if err := m.Forward(); err != nil {
				t.Fatal(err)
			}
			o.compare(t, m.Output(), roundings[FP32])
		}
	}
	t.Run("small", func(t *testing.T) {
		withTwin(t, "libcudnn", "")
		own(t)
		if said, err := ConvolutionLibrary(0); err != nil || !strings.HasPrefix(said, "cuDNN ") {
			t.Errorf("%q, %v", said, err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		withTwin(t, "libcudnn", "")
		eager(t)
		t.Setenv("DPTRAIN_CUDNN", "none")
		opened.libraries = nil
		t.Cleanup(func() { opened.libraries = nil })
		own(t)
		if _, err := ConvolutionLibrary(0); !errors.Is(err, ErrNoLibrary) || !strings.HasPrefix(err.Error(), "own kernels compute all convolutions: cuDNN was not found (none: ") {
			t.Error(err)
		}
	})
	for _, fault := range []string{"old", "random", "greedy", "too little", "fails", "mixes", "place", "loses"} {
		t.Run(fault, func(t *testing.T) {
			withTwin(t, "libcudnn", fault)
			eager(t)
			own(t)
		})
	}
}
