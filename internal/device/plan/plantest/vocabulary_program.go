package plantest

import (
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// The sizes of the network of VocabularyProgram.
const (
	VocabularySteps   = 7
	VocabularyClasses = 53
)

// VocabularyProgram is the private step of a network that predicts the next index. The head is the table of the embedding, or
// a matrix of its own. It is frozen, or trained.
func VocabularyProgram(t *testing.T, tied, frozen bool, records int, exact bool) *plan.Program {
	t.Helper()
	network, err := perexample.Compile(func(batch int) (*perexample.Network, error) {
		b := layer.NewBuilder(batch, 1)
		table := b.Parameter("table", layer.Normal(1), VocabularyClasses, 20)
		x := layer.Lookup(b, table, b.Input("ids", VocabularySteps))
		x = layer.Add(b, x, layer.Dense(b, x, "trained", 20, layer.Tanh))
		var logits *G.Node
		if tied {
			logits = layer.TiedLogits(b, x, table)
		} else {
			b.UseBias(false)
			logits = layer.Dense(b, x, "head", VocabularyClasses, layer.Identity)
		}
		b.SetLoss(layer.CrossEntropy(b, logits, b.Input("labels", VocabularySteps)), logits)
		net, err := b.Network()
		if err == nil && frozen {
			net.Params = slices.DeleteFunc(net.Params, func(p *G.Node) bool { return p.Name() == "table" || p.Name() == "head.weight" })
		}
		return net, err
	}, records, 1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.LowerTraining(network, plan.TrainingOptions{Norms: true, Exact: exact})
	if err != nil {
		t.Fatal(err)
	}
	return p
}
