package models

import (
	"fmt"

	"github.com/dptrain/dptrain/models/layer"
	G "gorgonia.org/gorgonia"
)

// sequenceHead predicts a label for each step if the labels have steps. Otherwise it
// predicts from the mean over the steps that are not padding.
func sequenceHead(b *layer.Builder, x, ids *G.Node, data DataSpec) *G.Node {
	switch {
	case len(data.LabelShape) > 0:
	case data.Padded:
		x = layer.MeanWithoutPadding(b, x, ids)
	default:
		x = layer.MeanOverTime(b, x)
	}
	return layer.Dense(b, x, "fc", data.outputs(), layer.Identity)
}

// embeddingWidth is the width of the embeddings of recurrent networks.
const embeddingWidth = 100

func lstm(b *layer.Builder, ids *G.Node, data DataSpec, a args) *G.Node {
	x := layer.Embedding(b, ids, "embedding", data.Vocabulary, embeddingWidth)
	return sequenceHead(b, layer.LSTM(b, x, "lstm", a.hidden[0], layer.RecurrentOptions{}), ids, data)
}

func gru(b *layer.Builder, ids *G.Node, data DataSpec, a args) *G.Node {
	x := layer.Embedding(b, ids, "embedding", data.Vocabulary, embeddingWidth)
	return sequenceHead(b, layer.GRU(b, x, "gru", a.hidden[0], layer.RecurrentOptions{}), ids, data)
}

// The size of the transformer.
const (
	transformerWidth  = 128
	transformerHeads  = 4
	transformerMLP    = 512
	transformerBlocks = 2
)

// transformer normalizes before each half of its blocks and starts with small embeddings,
// like GPT-2 (Radford et al. 2019). If each step has a label, such as the next index, no
// step sees the steps after it.
func transformer(b *layer.Builder, ids *G.Node, data DataSpec, a args) *G.Node {
	if a.tied && (len(data.LabelShape) == 0 || data.Classes != data.Vocabulary) {
		return b.Try(func() (*G.Node, error) {
			return nil, fmt.Errorf("tied embeddings need a label for each step, an index into the vocabulary of %d; remove :tied", data.Vocabulary)
		})
	}
	table := b.Parameter("embedding.weight", layer.Normal(0.02), data.Vocabulary, transformerWidth)
	x := layer.AddPositionEmbedding(b, layer.Lookup(b, table, ids), "position")
	for i := range transformerBlocks {
		name := fmt.Sprintf("block%d", i+1)
		h := layer.SelfAttention(b, layer.LayerNorm(b, x, name+".norm1"), name+".attention", layer.AttentionOptions{
			Heads: transformerHeads, Causal: len(data.LabelShape) > 0, Padding: ids,
		})
		x = layer.Add(b, x, h)
		h = layer.Dense(b, layer.LayerNorm(b, x, name+".norm2"), name+".fc1", transformerMLP, layer.GELU)
		x = layer.Add(b, x, layer.Dense(b, h, name+".fc2", transformerWidth, layer.Identity))
	}
	x = layer.LayerNorm(b, x, "norm")
	if a.tied {
		return layer.TiedLogits(b, x, table)
	}
	return sequenceHead(b, x, ids, data)
}
