package perexample_test

import (
	"fmt"
	"log"

	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// Compile finds how each parameter is used, and chooses how the norms of its gradients are computed:
// from rows of equal indices (group), from Gram matrices of the 12 rows of a record (gram), from the
// norms of one row (rank-one), or from gradients that are built and kept for the sum (kept).
func ExampleCompile() {
	build := func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		h := layer.Embedding(n, n.Input("tokens", 12), "embed", 100, 32) // 12 tokens of 100
		h = layer.Dense(n, h, "hidden", 64, layer.ReLU)                  // 12 rows a record
		h = layer.LayerNorm(n, h, "norm")
		logits := layer.Dense(n, layer.MeanOverTime(n, h), "last", 5, layer.Identity)
		n.SetLoss(layer.CrossEntropy(n, logits, n.Input("label")), logits)
		return n.Network()
	}
	net, err := perexample.Compile(build, 8, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range net.Parameters {
		fmt.Printf("%s %v: %s, %s\n", p.Node.Name(), p.Node.Shape(), p.Kind, p.Method)
	}
	// Output:
	// embed.weight (100, 32): gather, group
	// hidden.weight (32, 64): product, gram
	// hidden.bias (64): shift, kept
	// norm.weight (64): scale, kept
	// norm.bias (64): shift, kept
	// last.weight (64, 5): product, rank-one
	// last.bias (5): shift, kept
}
