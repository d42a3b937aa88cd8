package models

import (
	"fmt"

	"github.com/dptrain/dptrain/models/layer"
	G "gorgonia.org/gorgonia"
)

// answer answers each step where labels are one a step, else the mean over the steps that
// are no padding.
func answer(n *layer.Net, x, ids *G.Node, e Example) *G.Node {
	switch {
	case len(e.Labels) > 0:
	case e.Padded:
		x = n.MeanWithoutPadding(x, ids)
	default:
		x = n.MeanOverTime(x)
	}
	return n.Dense(x, "fc", e.answers(), layer.Identity)
}

// embedded is the width that recurrent networks embed indices in.
const embedded = 100

func lstm(n *layer.Net, ids *G.Node, e Example, a args) *G.Node {
	x := n.Embedding(ids, "embedding", e.Vocabulary, embedded)
	return answer(n, n.LSTM(x, "lstm", a.hidden[0], layer.Recurrent{}), ids, e)
}

func gru(n *layer.Net, ids *G.Node, e Example, a args) *G.Node {
	x := n.Embedding(ids, "embedding", e.Vocabulary, embedded)
	return answer(n, n.GRU(x, "gru", a.hidden[0], layer.Recurrent{}), ids, e)
}

// The transformer's size.
const (
	transformerWidth  = 128
	transformerHeads  = 4
	transformerMLP    = 512
	transformerBlocks = 2
)

// transformer normalises before each half of its blocks, as GPT-2 does (Radford
// et al. 2019), and like it starts its embeddings small. With a label for each
// step, such as the index that follows, no step sees those after it.
func transformer(n *layer.Net, ids *G.Node, e Example, a args) *G.Node {
	if a.tied && (len(e.Labels) == 0 || e.Classes != e.Vocabulary) {
		return n.Try(func() (*G.Node, error) {
			return nil, fmt.Errorf("tied embeddings need a label for each step, an index into the vocabulary of %d; drop :tied", e.Vocabulary)
		})
	}
	table := n.Param("embedding.weight", layer.Normal(0.02), e.Vocabulary, transformerWidth)
	x := n.Positions(n.Lookup(table, ids), "position")
	for i := range transformerBlocks {
		name := fmt.Sprintf("block%d", i+1)
		h := n.Attention(n.LayerNorm(x, name+".norm1"), name+".attention", layer.Attention{
			Heads: transformerHeads, Causal: len(e.Labels) > 0, Padding: ids,
		})
		x = n.Add(x, h)
		h = n.Dense(n.LayerNorm(x, name+".norm2"), name+".fc1", transformerMLP, layer.GELU)
		x = n.Add(x, n.Dense(h, name+".fc2", transformerWidth, layer.Identity))
	}
	x = n.LayerNorm(x, "norm")
	if a.tied {
		return n.Scores(x, table)
	}
	return answer(n, x, ids, e)
}
