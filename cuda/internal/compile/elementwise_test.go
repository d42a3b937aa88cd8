//go:build gpu

package compile

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"gorgonia.org/tensor"
)

// Programs of random elementwise operations and normalizations, with results in place of
// operands, have the same bits as their operations one by one.
func TestJoinChains_RandomProgramsGiveSameBits(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(15, 4))
	joined := 0
	for _, inner := range []int{7, 700} { // a warp and a block per chunk
		for range 12 {
			p := randomChain(r, inner)
			run := func(joins bool) (results [][]float32, nodes int) {
				t.Setenv("DPTRAIN_GRAPH", map[bool]string{false: "separate"}[joins])
				made, err := New(p, plan.Optimizer{Kind: plan.SGD}, false, Options{})
				if err != nil {
					t.Fatal(err)
				}
				m := made.(*Executable)
				defer m.Close()
				values := rand.New(rand.NewPCG(1, 1))
				for i := range m.host.inputs {
					for j := range m.Input(i) {
						m.Input(i)[j] = float32(values.NormFloat64())
					}
				}
				if err := m.Forward(); err != nil {
					t.Fatal(err)
				}
				for i := range m.host.observed {
					results = append(results, append([]float32(nil), m.Observed(i)...))
				}
				return results, graphSizes(m)[0][0]
			}
			want, separate := run(false)
			got, nodes := run(true)
			joined += separate - nodes
			for i := range want {
				same(t, fmt.Sprint("result ", i, " of ", programText(p)), got[i], want[i])
			}
		}
	}
	if joined < 48 {
		t.Errorf("%d launches were joined in 24 programs", joined)
	}
}

// A thread reads only what it wrote itself: operations on memory that overlaps in other places are
// not joined, nor are those that share no memory or have other sizes.
func TestJoinChains_NeedsSamePlaces(t *testing.T) {
	for _, c := range []struct {
		what   string
		n      int
		reads  span // of the second step; the first writes [0, 16)
		joined bool
	}{
		{"the same tensor", 4, span{0, 16}, true},
		{"a part of it", 4, span{0, 4}, false},
		{"a shifted tensor", 4, span{4, 20}, false},
		{"other memory", 4, span{16, 32}, false},
		{"another size", 2, span{0, 16}, false},
	} {
		launch := func(n int, a access) step {
			return step{chain: &chainLaunch{n: n, before: make([]element, 1)}, access: &a}
		}
		steps := joinChains(nil, []step{
			launch(4, access{writes: []span{{0, 16}}}),
			launch(c.n, access{reads: []span{c.reads}, writes: []span{{64, 80}}}),
		})
		if joined := len(steps) == 1; joined != c.joined {
			t.Errorf("%s: joined: %v", c.what, joined)
		}
	}
}

// randomChain is a program of at most 12 operations on four tensors. All tensors are results.
func randomChain(r *rand.Rand, inner int) *plan.Program {
	const records, channels, tensors = 2, 3, 4
	shape, n := tensor.Shape{records, channels, inner}, records*channels*inner
	p := &plan.Program{Batch: records, Records: records, PerRecord: 1}
	add := func(role plan.Role, shape tensor.Shape, index int) int {
		p.Buffers = append(p.Buffers, plan.Buffer{Name: fmt.Sprint(len(p.Buffers)), Role: role, Index: index, Shape: shape, Base: len(p.Buffers)})
		return len(p.Buffers) - 1
	}
	input, scale, shift := add(plan.RoleInput, shape, 0), add(plan.RoleInput, tensor.Shape{channels}, 1), add(plan.RoleInput, tensor.Shape{channels}, 2)
	var at [tensors]int
	for i := range at {
		at[i] = add(plan.RoleObserved, shape, i)
		p.Front = append(p.Front, plan.Instruction{Spec: op.Add{}, In: []int{input, input}, Out: at[i]})
	}
	chunk := n / records
	for range 12 {
		x, y, out := at[r.IntN(tensors)], at[r.IntN(tensors)], at[r.IntN(tensors)]
		i := plan.Instruction{Out: out}
		switch r.IntN(6) {
		case 0:
			i.Spec, i.In = op.Add{}, []int{x, y}
		case 1:
			i.Spec, i.In = op.Activate{Act: op.Tanh}, []int{x}
		case 2:
			i.Spec, i.In = op.ActivationGrad{Act: op.ReLU}, []int{x, y}
		case 3:
			i.Spec, i.In = op.ScaleShift{Channels: channels, Inner: inner}, []int{x, scale, shift}
		case 4:
			if x == out { // not in place
				continue
			}
			i.Spec, i.In = op.Normalize{Chunk: chunk, Eps: 1e-5, Center: true}, []int{x}
		case 5:
			if x == out || y == out {
				continue
			}
			i.Spec, i.In = op.NormalizeGrad{Chunk: chunk, Eps: 1e-5, Center: true}, []int{x, y}
		}
		p.Front = append(p.Front, i)
	}
	return p
}

func programText(p *plan.Program) string {
	var text strings.Builder
	for _, i := range p.Front {
		fmt.Fprintf(&text, "%v%v>%d ", i.Spec, i.In, i.Out)
	}
	return text.String()
}
