package plantest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// twin computes a program with one record in float64, by the references of its operations.
type twin struct {
	program *plan.Program
	values  [][]float64
}

func newTwin(p *plan.Program, inputs func(buffer plan.Buffer) []float32) *twin {
	w := &twin{p, make([][]float64, len(p.Buffers))}
	for i, b := range p.Buffers {
		if b.Base != i {
			continue
		}
		w.values[i] = make([]float64, b.Size())
		var initial []float32
		switch b.Role {
		case plan.RoleParameter, plan.RoleConstant:
			initial = make([]float32, b.Size())
			b.Initialize(initial)
		case plan.RoleClipFactors:
			initial = slices.Repeat([]float32{1}, b.Size())
		default:
			initial = inputs(b)
		}
		for j, v := range initial {
			w.values[i][j] = float64(v)
		}
	}
	return w
}

func (w *twin) run(list []plan.Instruction) {
	for _, i := range list {
		var in [][]float64
		var shapes []tensor.Shape
		for _, id := range i.In {
			b := w.program.Buffers[id]
			in, shapes = append(in, w.values[b.Base][:b.Size()]), append(shapes, b.Shape)
		}
		out := w.values[w.program.Buffers[i.Out].Base]
		result := make([]float64, w.program.Buffers[i.Out].Size())
		i.Spec.Do(result, in, shapes)
		for j, v := range result {
			if i.Accumulate {
				v += out[j]
			}
			out[j] = v
		}
	}
}

// gradient is the record's gradient of each parameter.
func (w *twin) gradient() (all [][]float64) {
	w.run(w.program.Front)
	w.run(w.program.Back)
	for _, p := range w.program.Parameters {
		all = append(all, w.values[w.program.Buffers[p.ClippedSum].Base])
	}
	return all
}

// lossNetworks are networks whose records have rows that are far longer than their gradient: rows at
// padding, whose input is zero and whose signal a normalization magnifies, and rows that are about so many
// times as long as their sum.
func lossNetworks(times ...int) []contributionNetwork {
	const steps, width, classes = 12, 24, 3
	text := models.DataSpec{Shape: []int{steps}, Vocabulary: 99, Classes: classes}
	type body = func(b *layer.Builder, x *G.Node) *G.Node
	classify := func(b *layer.Builder, x *G.Node) *G.Node {
		return fixedScores(b, layer.MeanOverTime(b, x), classes)
	}
	embed := func(b *layer.Builder, x *G.Node) *G.Node { return layer.Embedding(b, x, "table", 99, width) }
	var list []contributionNetwork
	for name, norm := range map[string]func(b *layer.Builder, x *G.Node, name string) *G.Node{"layer norm": layer.LayerNorm, "RMS norm": layer.RMSNorm} {
		for before, f := range map[string]body{
			"an embedding": embed,
			"a dense layer": func(b *layer.Builder, x *G.Node) *G.Node {
				b.UseBias(false)
				defer b.UseBias(true)
				return layer.Dense(b, embed(b, x), "dense", 40, layer.Identity)
			},
			"a convolution": func(b *layer.Builder, x *G.Node) *G.Node {
				b.UseBias(false)
				defer b.UseBias(true)
				return layer.Conv1D(b, embed(b, x), "convolution", 40, layer.Window{Size: 3, Pad: 1}, layer.Identity)
			},
		} {
			list = append(list, paddedText(name+" after "+before, text, func(b *layer.Builder, x *G.Node) *G.Node {
				return classify(b, norm(b, f(b, x), "norm"))
			}))
		}
		list = append(list, paddedText(name+" after a tied table", models.DataSpec{Shape: []int{steps}, Vocabulary: 99, Classes: 99},
			func(b *layer.Builder, x *G.Node) *G.Node {
				table := b.Parameter("table", layer.Normal(1), 99, width)
				return layer.TiedLogits(b, layer.MeanOverTime(b, norm(b, layer.Lookup(b, table, x), "norm")), table)
			}))
	}
	for _, times := range times {
		list = append(list, cancellingNetworks(times)...)
		list = append(list, bagsOfUsers(times))
	}
	return list
}

// fixedScores is a last layer that is not trained, so that it does not take most of the clip bound.
func fixedScores(b *layer.Builder, x *G.Node, scores int) *G.Node {
	r, rows := rand.New(rand.NewPCG(1, 2)), make([]float32, scores*x.Shape()[1])
	for i := range rows {
		rows[i] = float32(r.NormFloat64() / math.Sqrt(float64(x.Shape()[1])))
	}
	return layer.FixedProjection(b, x, fmt.Sprint("fixed", scores), rows)
}

// paddedText is a network of texts, most of which have padding at their end.
func paddedText(name string, data models.DataSpec, body func(b *layer.Builder, x *G.Node) *G.Node) contributionNetwork {
	n := customNetwork(name, data, body)
	n.draw = func(r *rand.Rand, column, size int) []float32 {
		x := make([]float32, size)
		words := 1 + r.IntN(size)
		for i := range x {
			switch {
			case column > 0:
				x[i] = float32(r.IntN(data.Classes))
			case i < words:
				x[i] = float32(r.IntN(data.Vocabulary))
			default:
				x[i] = -1
			}
		}
		return x
	}
	return n
}

// cancellingNetworks have rows that are about so many times as long as their sum: equal rows with
// signs that alternate, which differ in a small part of their length.
func cancellingNetworks(times int) []contributionNetwork {
	const steps, classes = 8, 3
	var list []contributionNetwork
	add := func(name string, body func(b *layer.Builder, signs *G.Node) *G.Node) {
		n := contributionNetwork{name: fmt.Sprintf("%s, rows of %d times their sum", name, times)}
		n.build = func(batch int) (*perexample.Network, error) {
			b := layer.NewBuilder(batch, 3)
			logits := body(b, b.Input("signs", steps))
			b.SetLoss(layer.CrossEntropy(b, logits, b.Input("label")), logits)
			return b.Network()
		}
		n.draw = func(r *rand.Rand, column, size int) []float32 {
			x := make([]float32, size)
			for i := range x {
				switch other := float32(r.NormFloat64()) / float32(times); {
				case column == 0:
					x[i] = float32(1-i%2*2) + other
				case column == 2:
					x[i] = float32(r.IntN(classes))
				case size == steps: // words
					x[i] = float32(i / 4)
				case i < size/steps:
					x[i] = float32(r.NormFloat64())
				default:
					x[i] = x[i-size/steps] * (1 + other)
				}
			}
			return x
		}
		list = append(list, n)
	}
	sum := func(b *layer.Builder, x, signs *G.Node) *G.Node { // of x [batch, steps, width]
		x = b.Try(func() (*G.Node, error) { return op.Apply(op.ScaleRows{}, x, signs) })
		return layer.MeanOverTime(b, x)
	}
	last := func(b *layer.Builder, x *G.Node) *G.Node { return fixedScores(b, x, classes) }
	add("product", func(b *layer.Builder, signs *G.Node) *G.Node {
		return last(b, sum(b, layer.Dense(b, b.Input("features", steps, 30), "dense", 30, layer.Identity), signs))
	})
	add("convolution", func(b *layer.Builder, signs *G.Node) *G.Node {
		x := layer.Conv1D(b, b.Input("features", steps, 20), "convolution", 60, layer.Window{Size: 3, Pad: 1}, layer.Identity)
		return last(b, sum(b, x, signs))
	})
	add("lookups", func(b *layer.Builder, signs *G.Node) *G.Node {
		return last(b, sum(b, layer.Embedding(b, b.Input("words", steps), "table", 99, 20), signs))
	})
	add("lookups and product", func(b *layer.Builder, signs *G.Node) *G.Node {
		table := b.Parameter("table", layer.Normal(1), 99, 20)
		x := sum(b, layer.Lookup(b, table, b.Input("words", steps)), signs)
		return last(b, layer.TiedLogits(b, fixedScores(b, x, 20), table))
	})
	return list
}

// bagsOfUsers are the bags of words of a user's examples, with words that repeat. The gradients of
// the examples nearly cancel.
func bagsOfUsers(times int) contributionNetwork {
	n := contributionNetwork{name: fmt.Sprintf("bags of words, rows of %d times their sum", times), examples: 4}
	n.build = func(batch int) (*perexample.Network, error) {
		b := layer.NewBuilder(batch, 3)
		x := layer.EmbeddingBag(b, b.Input("words", 6), "table", 99, 20)
		x = b.Try(func() (*G.Node, error) { return op.Apply(op.ScaleRows{}, x, b.Input("sign")) })
		logits := fixedScores(b, x, 1)
		b.SetLoss(layer.AbsoluteError(b, logits, b.Input("target", 1)), logits)
		return b.Network()
	}
	n.draw = func(r *rand.Rand, column, size int) []float32 {
		x := make([]float32, size)
		for i := range x {
			switch column {
			case 0:
				x[i] = float32(i % 3)
			case 1:
				x[i] = float32(1-i%2*2) + float32(r.NormFloat64())/float32(times)
			default:
				x[i] = 1000
			}
		}
		return x
	}
	return n
}

// largestLoss is what a record's contribution may lack, as a share of the clip bound.
const largestLoss = 0.01

// lost returns what a record's contribution lacks of its clipped gradient, as a share of the clip bound.
// Errors of rounding are independent of the gradient, so only the part along the gradient of each parameter
// counts.
func lost(contribution [][]int64, gradient [][]float64, factor float64) float64 {
	total := 0.0
	for v, sum := range contribution {
		var along, squares float64
		for i, g := range gradient[v] {
			along += g * float64(sum[i])
			squares += g * g
		}
		if squares == 0 {
			continue
		}
		missing := math.Sqrt(squares)*factor - along/math.Sqrt(squares)/plan.Bound
		total += missing * missing
	}
	return math.Sqrt(total)
}

// Losses compares the contributions of an exact program with clipped gradients in float64: for some
// records of networks whose rows are long, and for one record of each of the other networks. It skips the
// networks of these names.
func Losses(t *testing.T, compile Compile, records int, skip ...string) {
	for _, n := range lossNetworks(3, 10, 20, 100, 1000) {
		t.Run(n.name, func(t *testing.T) { n.checkLosses(t, compile, records) })
	}
	for _, n := range contributionNetworks(t) {
		if !slices.Contains(skip, n.name) {
			t.Run(n.name, func(t *testing.T) { n.checkLosses(t, compile, 1) })
		}
	}
}

func (n contributionNetwork) checkLosses(t *testing.T, compile Compile, records int) {
	m := n.open(t, compile, 2, 1, true) // the sums of one record are the network's own gradient
	p, err := perexample.Compile(n.build, 1, max(1, n.examples))
	if err != nil {
		t.Fatal(err)
	}
	float, err := plan.LowerTraining(p, plan.TrainingOptions{Norms: true})
	if err != nil {
		t.Fatal(err)
	}
	for v := range m.program.Parameters {
		m.Contributions().Steps[v] = plan.Bound
	}
	for record := range records {
		factors := make([]float32, records)
		m.load(t, slots{empty, record}, factors)
		if err := m.Forward(); err != nil {
			t.Fatal(err)
		}
		squares := 0.0
		for v, p := range m.program.Parameters {
			if p.SquaredNorms >= 0 {
				squares += float64(m.SquaredNorms(v)[1])
			}
		}
		factors[record] = float32((1 - 1e-5) * (1 - clipping.LatticeAccuracy.Margin) / math.Sqrt(squares))
		gradient := newTwin(float, m.ofSecondRecord).gradient()
		m.partCounts(t)
		sums := m.add(t, slots{empty, record}, factors)
		if share := lost(sums, gradient, float64(factors[record])); !(share <= largestLoss) {
			reduced, omitted := m.partCounts(t)
			t.Errorf("record %d loses %.4f of the clip bound; %d parts are reduced, %d omitted", record, share, reduced, omitted)
		}
	}
}

// ofSecondRecord is what a program with one record reads, from the second slot of two.
func (m *slotExecutable) ofSecondRecord(b plan.Buffer) []float32 {
	second := func(x []float32) []float32 { return x[len(x)/2:] }
	switch {
	case b.Role == plan.RoleInput && b.Index < m.columns:
		return second(m.Input(b.Index))
	case b.Role == plan.RoleInput: // running statistics
		return m.Input(b.Index)
	case b.Role == plan.RoleMaskSeed:
		return second(m.MaskSeed())
	case b.Role == plan.RoleExampleWeights:
		return second(m.ExampleWeights())
	}
	return nil
}
