package engine

import (
	"reflect"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/network"
	"github.com/dptrain/dptrain/engine/internal/score"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// The output of one of several heads is compared with its own labels, in any column and for any
// classes of the others. Outputs that are no scores are compared with none, and ignored labels
// do not count.
func TestNetworkSignature_SeveralHeads(t *testing.T) {
	const count, void = 50, 9
	draw := func(classes int) (y []float32) {
		for i := range count {
			y = append(y, float32(i*i%7%classes))
		}
		return y
	}
	for _, classes := range [][2]int{{2, 4}, {4, 2}, {3, 3}} {
		a, b := draw(classes[0]), draw(classes[1])
		x := make([]float32, 2*count)
		for i := range x {
			x[i] = float32(i*i%11) - 5
		}
		for i := 0; i < count; i += 3 {
			b[i] = void
		}
		set, err := data.NewTable([]data.Column{
			{Name: "x", Shape: []int{2}}, {Name: "a", Kind: data.Label, Classes: classes[0]},
			{Name: "b", Kind: data.Label, Classes: void + 1}, {Name: "y", Kind: data.Target, Shape: []int{3}},
		}, [][]float32{x, a, b, make([]float32, 3*count)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for answers, want := range map[string]struct {
			truth  []float32
			labels int
		}{"a": {a, count}, "b": {b, count - (count+2)/3}, "softmax of b": {b, count - (count+2)/3}, "twice a": {a, count}, "y": {}, "features": {}} {
			build := perexample.Build(func(batch int) (*perexample.Network, error) {
				n := layer.NewBuilder(batch, 1)
				x, labelA, labelB, y := n.Input("x", 2), n.Input("a"), n.Input("b"), n.Input("y", 3)
				heads := map[string]*G.Node{"features": layer.Dense(n, x, "body", 5, layer.Tanh)}
				heads["a"] = layer.Dense(n, heads["features"], "head.a", classes[0], layer.Identity)
				heads["b"] = layer.Dense(n, heads["features"], "head.b", classes[1], layer.Identity)
				heads["softmax of b"] = n.Try(func() (*G.Node, error) { return G.SoftMax(heads["b"]) })
				heads["twice a"] = n.Try(func() (*G.Node, error) {
					return G.HadamardProd(G.NewConstant(float32(2)), layer.Add(n, heads["a"], heads["a"]))
				})
				heads["y"] = layer.Dense(n, heads["features"], "head.y", 3, layer.Identity)
				losses := layer.Add(n, layer.CrossEntropy(n, heads["a"], labelA), layer.CrossEntropy(n, heads["b"], layer.IgnoreLabel(n, labelB, void)))
				n.SetLoss(layer.Add(n, losses, layer.SquaredError(n, heads["y"], y)), heads[answers])
				return n.Network()
			})
			net, err := build.ForBatch(2)
			if err != nil {
				t.Fatal(err)
			}
			if declares := net.Label != nil || net.Target != nil; declares != (answers == "a" || answers == "b" || answers == "y") {
				t.Errorf("%v, %s: label %v and target %v are declared", classes, answers, net.Label, net.Target)
			}
			declared := network.SignatureOf(net)
			net.Label, net.Target = nil, nil
			if inferred := network.SignatureOf(net); !reflect.DeepEqual(declared, inferred) {
				t.Errorf("%v, %s: declared %+v, inferred %+v", classes, answers, declared, inferred)
			}
			e := newTestEvaluator(t, build)
			got, err := e.Score(e.Weights(), set)
			if err != nil {
				t.Fatalf("%v, %s: %v", classes, answers, err)
			}
			all, err := e.Predictions(e.Weights(), set)
			if err != nil {
				t.Fatal(err)
			}
			right := 0
			for i, truth := range want.truth {
				if score.Argmax(all[i]) == int(truth) {
					right++
				}
			}
			if got.Labels != want.labels || want.labels > 0 && got.Accuracy != float64(right)/float64(want.labels) {
				t.Errorf("%v, %s: %d labels, accuracy %v; want %d, %d of them right", classes, answers, got.Labels, got.Accuracy, want.labels, right)
			}
			if hasTargets := got.Targets > 0; hasTargets != (answers == "y") {
				t.Errorf("%v, %s: %d targets", classes, answers, got.Targets)
			}
			if want.labels == 0 {
				continue
			}
			shares, err := e.exampleScores(e.Weights(), set)
			if err != nil {
				t.Fatal(err)
			}
			if sum, err := sumOfRecordMeans(shares, set, Records{}); err != nil || sum != float64(right) {
				t.Errorf("%v, %s: validation counts %v right answers, %v; want %d", classes, answers, sum, err, right)
			}
		}
	}
}
