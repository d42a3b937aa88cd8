package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/device/plan/plantest"
	"github.com/dptrain/dptrain/internal/device/plan/stepbits"
	"github.com/dptrain/dptrain/internal/half"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// storedHalves are the matrices of halfProgram that are kept as 16 bits.
var storedHalves = []string{"frozen.biased.weight", "frozen.plain.weight", "frozen.table"}

// halfProgram is the private step of a network with frozen matrices whose numbers are of a format: a table, which is also the head,
// layers with and without a bias, and those that other kernels read: the weights of an LSTM, and a product of matrices.
func halfProgram(t *testing.T, values map[string]*perexample.InitialValue, stored bool, f half.Format) *plan.Program {
	t.Helper()
	network, err := perexample.Compile(func(batch int) (*perexample.Network, error) {
		b := layer.NewBuilder(batch, 1)
		b.UseStoredValues(func(name string, shape []int) *perexample.InitialValue {
			if values[name] == nil {
				r := rand.New(rand.NewPCG(uint64(len(name)), uint64(shape[0])))
				size := 1
				for _, n := range shape {
					size *= n
				}
				numbers := make([]float32, size)
				for i := range numbers {
					numbers[i] = f.Value(f.BitsOf(float32(r.NormFloat64() / 4)))
				}
				values[name] = perexample.NewInitialValue(func(into []float32) { copy(into, numbers) }, shape...)
				if stored && len(shape) == 2 {
					values[name].StoredAs(f, func(into []uint16) {
						for i, x := range numbers {
							into[i] = f.BitsOf(x)
						}
					})
				}
			}
			return values[name]
		})
		table := b.Parameter("frozen.table", layer.Normal(1), plantest.VocabularyClasses, 20)
		x := layer.Lookup(b, table, b.Input("ids", plantest.VocabularySteps))
		x = layer.Add(b, x, layer.Dense(b, x, "trained", 20, layer.Tanh))
		x = layer.Dense(b, x, "frozen.biased", 33, layer.ReLU)
		x = layer.LSTM(b, x, "frozen.lstm", 9, layer.RecurrentOptions{})
		b.UseBias(false)
		x = layer.Dense(b, x, "frozen.plain", 20, layer.Identity)
		// The rows are multiplied with left·middleᵀ·right.
		square := func(name string) *G.Node { return b.Parameter("frozen."+name, layer.Normal(1), 20, 20) }
		left, middle, right := square("left"), square("middle"), square("right")
		x = b.Try(func() (*G.Node, error) {
			w, err := op.Apply(op.MatMul{TransA: true}, middle, right)
			if err != nil {
				return nil, err
			}
			if w, err = op.Apply(op.MatMul{}, left, w); err != nil {
				return nil, err
			}
			rows, err := G.Reshape(x, []int{batch * plantest.VocabularySteps, 20})
			if err != nil {
				return nil, err
			}
			if rows, err = op.Apply(op.MatMul{}, rows, w); err != nil {
				return nil, err
			}
			return G.Reshape(rows, []int{batch, plantest.VocabularySteps, 20})
		})
		logits := layer.TiedLogits(b, x, table)
		b.SetLoss(layer.CrossEntropy(b, logits, b.Input("labels", plantest.VocabularySteps)), logits)
		net, err := b.Network()
		if err == nil {
			net.Params = slices.DeleteFunc(net.Params, func(p *G.Node) bool { return p.Name()[:6] == "frozen" })
		}
		return net, err
	}, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.LowerTraining(network, plan.TrainingOptions{Norms: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Frozen matrices of 16 bits give the bits of float32, and take half of the memory where products and lookups alone read them.
func TestHalves_KeepBits(t *testing.T) {
	for _, f := range []half.Format{half.BFloat16, half.Float16} {
		for _, fuse := range []bool{false, true} {
			values := map[string]*perexample.InitialValue{}
			narrow, wide := halfProgram(t, values, true, f), halfProgram(t, map[string]*perexample.InitialValue{}, false, f)
			for _, p := range []*plan.Program{narrow, wide} {
				if fuse {
					p.FuseVocabularyLoss(1)
				}
			}
			p, kept, saved := prepared(narrow), []string{}, 0
			after := p.Bytes()
			for i, b := range p.Buffers {
				if b.Half {
					kept, saved = append(kept, b.Name), saved+2*b.Size()
				}
				p.Buffers[i].Half = false
			}
			if slices.Sort(kept); !slices.Equal(kept, storedHalves) {
				t.Errorf("format %d, fused %v: 16 bits for %v", f, fuse, kept)
			}
			if got := p.Bytes() - after; got != saved {
				t.Errorf("format %d, fused %v: %d bytes fewer, want %d", f, fuse, got, saved)
			}
			want := vocabularyStep(t, wide, 1)
			for threads := 1; threads <= 3; threads++ {
				if got := vocabularyStep(t, narrow, threads); !slices.Equal(got, want) {
					t.Errorf("format %d, fused %v, %d threads: other bits", f, fuse, threads)
				}
			}
		}
	}
}

// An executable has the only copy of a frozen matrix, and a second one takes no memory for it.
func TestHalves_OneCopy(t *testing.T) {
	values := map[string]*perexample.InitialValue{}
	p := prepared(halfProgram(t, values, true, half.BFloat16))
	first := size(p, plan.Optimizer{}, false)
	m, err := New(p, plan.Optimizer{Kind: plan.SGD}, false, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	shared := 0
	for name, v := range values {
		stored := slices.Contains(storedHalves, name)
		if v.IsHalfInMemory() != stored || stored && v.IsInMemory() {
			t.Errorf("%s: 16 bits in memory %v, float32 %v", name, v.IsHalfInMemory(), v.IsInMemory())
		}
		switch {
		case stored:
			shared += 2 * v.Size()
		case name[:6] == "frozen":
			shared += 4 * v.Size()
		}
	}
	if second := size(p, plan.Optimizer{}, false); first-second != shared {
		t.Errorf("a second executable takes %d bytes less, want %d", first-second, shared)
	}
	stepbits.Of(t, p, m)
}
