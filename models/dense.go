package models

import (
	"fmt"

	"github.com/dptrain/dptrain/models/layer"
	G "gorgonia.org/gorgonia"
)

func logistic(b *layer.Builder, x *G.Node, data DataSpec, _ args) *G.Node {
	return layer.Dense(b, layer.Flatten(b, x), "fc", data.outputs(), layer.Identity)
}

func mlp(b *layer.Builder, x *G.Node, data DataSpec, a args) *G.Node {
	x = layer.Flatten(b, x)
	for i, units := range a.hidden {
		x = layer.Dropout(b, layer.Dense(b, x, fmt.Sprintf("fc%d", i+1), units, a.act), a.dropout)
	}
	return layer.Dense(b, x, fmt.Sprintf("fc%d", len(a.hidden)+1), data.outputs(), layer.Identity)
}

func abadiMLP(b *layer.Builder, x *G.Node, data DataSpec, _ args) *G.Node {
	return mlp(b, x, data, args{hidden: []int{1000}, act: layer.ReLU})
}

func bagOfWords(b *layer.Builder, ids *G.Node, data DataSpec, _ args) *G.Node {
	return layer.NormalizedBag(b, ids, "bag", data.Vocabulary, data.outputs())
}

func embeddingBag(b *layer.Builder, ids *G.Node, data DataSpec, a args) *G.Node {
	bag := layer.EmbeddingBag
	if data.Padded {
		bag = layer.EmbeddingBagWithoutPadding
	}
	x := bag(b, ids, "embedding", data.Vocabulary, a.hidden[0])
	x = layer.Dense(b, x, "fc1", a.hidden[0], layer.ReLU)
	return layer.Dense(b, x, "fc2", data.outputs(), layer.Identity)
}
