package models

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/models/layer"
	G "gorgonia.org/gorgonia"
)

func logistic(b *layer.Builder, x *G.Node, data DataSpec, _ args) *G.Node {
	return layer.Dense(b, layer.Flatten(b, x), "fc", data.outputs(), layer.Identity)
}

// The scales of the random features of fourier, for x of the norm √(columns+1) at most.
// docs/defaults.md has their evidence.
const (
	fourierFrequency = 2    // times 1/√columns: the standard deviation of the frequencies
	fourierNorm      = 0.35 // norm of the features, divided by the bound of that of x
)

// fourier is a linear function of an example's numbers and of random Fourier features of them.
func fourier(b *layer.Builder, x *G.Node, data DataSpec, a args) *G.Node {
	x = layer.Flatten(b, x)
	columns := float64(a.columns)
	if a.columns == 0 {
		columns = float64(x.Shape()[1])
	}
	h := layer.FourierFeatures(b, x, "fourier", a.hidden[0], fourierFrequency/math.Sqrt(columns), fourierNorm*math.Sqrt(columns+1))
	return layer.Add(b, layer.Dense(b, x, "fc", data.outputs(), layer.Identity), layer.DenseFromZero(b, h, "features", data.outputs()))
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

// bowBias scales the bias of a regression, which has to reach the mean of the targets. Its part of an
// example's squared gradient is bowBias² times that of the words.
const bowBias = 0.3

func bagOfWords(b *layer.Builder, ids *G.Node, data DataSpec, _ args) *G.Node {
	x := layer.NormalizedBag(b, ids, "bag", data.Vocabulary, data.outputs())
	if data.Targets > 0 {
		x = layer.AddBias(b, x, "bag", bowBias)
	}
	return x
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
