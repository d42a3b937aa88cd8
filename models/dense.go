package models

import (
	"fmt"

	"github.com/dptrain/dptrain/models/layer"
	G "gorgonia.org/gorgonia"
)

func logistic(n *layer.Net, x *G.Node, e Example, _ args) *G.Node {
	return n.Dense(n.Flatten(x), "fc", e.answers(), layer.Identity)
}

func mlp(n *layer.Net, x *G.Node, e Example, a args) *G.Node {
	x = n.Flatten(x)
	for i, units := range a.hidden {
		x = n.Dropout(n.Dense(x, fmt.Sprintf("fc%d", i+1), units, a.act), a.dropout)
	}
	return n.Dense(x, fmt.Sprintf("fc%d", len(a.hidden)+1), e.answers(), layer.Identity)
}

func abadiMLP(n *layer.Net, x *G.Node, e Example, _ args) *G.Node {
	return mlp(n, x, e, args{hidden: []int{1000}, act: layer.ReLU})
}

func embeddingBag(n *layer.Net, ids *G.Node, e Example, a args) *G.Node {
	bag := n.EmbeddingBag
	if e.Padded {
		bag = n.EmbeddingBagWithoutPadding
	}
	x := bag(ids, "embedding", e.Vocabulary, a.hidden[0])
	x = n.Dense(x, "fc1", a.hidden[0], layer.ReLU)
	return n.Dense(x, "fc2", e.answers(), layer.Identity)
}
