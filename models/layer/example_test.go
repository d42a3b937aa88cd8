package layer_test

import (
	"fmt"

	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	"gorgonia.org/gorgonia"
)

// A custom network: layers, with one of Gorgonia's functions between them.
func Example() {
	build := func(batch int) (*perexample.Network, error) {
		b := layer.NewBuilder(batch, 1)
		x := b.Input("picture", 1, 28, 28)
		h := layer.Conv2D(b, x, "conv1", 8, layer.Window{Size: 5, Stride: 2, Pad: 2}, layer.Tanh)
		h = b.Try(func() (*gorgonia.Node, error) { return gorgonia.Square(h) })
		h = layer.MaxPool(b, h, layer.Window{Size: 2, Stride: 2})
		logits := layer.Dense(b, layer.Flatten(b, h), "fc", 10, layer.Identity)
		b.SetLoss(layer.CrossEntropy(b, logits, b.Input("label")), logits)
		return b.Network()
	}
	net, err := build(32)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range net.Params {
		fmt.Println(p.Name(), p.Shape())
	}
	// Output:
	// conv1.weight (8, 1, 5, 5)
	// conv1.bias (8)
	// fc.weight (392, 10)
	// fc.bias (10)
}
