package pretrained

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/models/layer"
	G "gorgonia.org/gorgonia"
)

// NextIDs adds a decoder to a builder that predicts for each step the next id: logits [batch, time, vocabulary].
// The ids [batch, time] are those of the tokenizer, where −1 is padding.
func (m *Model) NextIDs(b *layer.Builder, ids *G.Node, vocabulary int) *G.Node {
	return m.nextIDs(b, ids, nil, vocabulary)
}

// NextIDsOfPacked is NextIDs for examples of several texts: the id at the begin of a text has a mark, id + vocabulary. The
// logits are those of each text by itself.
func (m *Model) NextIDsOfPacked(b *layer.Builder, ids *G.Node, vocabulary int) *G.Node {
	own, marks := layer.SplitMarks(b, ids, vocabulary)
	return m.nextIDs(b, own, layer.BlockMarks(b, own, marks), vocabulary)
}

// nextIDs adds a decoder. Blocks is nil, or marks where texts begin.
func (m *Model) nextIDs(b *layer.Builder, ids, blocks *G.Node, vocabulary int) *G.Node {
	switch {
	case m.decoder == nil:
		return b.Try(func() (*G.Node, error) {
			return nil, fmt.Errorf("model_type %s sees the next id, so it cannot predict it; give one label or target for a text, or a decoder", m.Family)
		})
	case m.decoder.tied && m.Tuning.Train == Head:
		return b.Try(func() (*G.Node, error) {
			return nil, fmt.Errorf("train=head: the head of the checkpoint is the table of its embedding, which is frozen; use lora=RANK or train=all")
		})
	}
	return m.add(b, ids, vocabulary, func(n *network) *G.Node {
		n.blocks = blocks
		x, table := n.decode(ids)
		var logits *G.Node
		if m.decoder.tied {
			logits = layer.TiedLogits(b, x, table)
		} else {
			logits = n.linear(x, nextHead, m.vocabulary, false)
		}
		if c := m.decoder.logitCap; c > 0 {
			logits = layer.SoftCap(b, logits, c)
		}
		return logits
	})
}

// The heads of decoders: for a text, and for the next id.
const (
	textHead = "score"
	nextHead = "lm_head"
)

// decode adds embeddings and blocks. It returns the last block's output [batch, time, width] and the table of the
// embedding.
func (n *network) decode(ids *G.Node) (x, table *G.Node) {
	b, d := n.Builder, n.decoder
	lookUp := func(name string, rows int, ids *G.Node) (x, table *G.Node) {
		table = b.Parameter(n.prefix+name+".weight", layer.Constant(0), rows, n.hidden)
		return layer.Lookup(b, table, ids), table
	}
	if n.Family == gpt2 {
		x, table = lookUp("wte", n.vocabulary, ids)
		var steps *G.Node
		if n.blocks != nil {
			steps = layer.BlockSteps(b, n.blocks)
		} else {
			all := make([]int, ids.Shape()[1])
			for t := range all {
				all[t] = t
			}
			steps = layer.SameIndices(b, ids, "positions", all)
		}
		positions, _ := lookUp("wpe", n.positions, steps)
		x = layer.Add(b, x, positions)
	} else {
		x, table = lookUp("embed_tokens", n.vocabulary, ids)
	}
	if d.scaledEmbedding {
		e := x
		x = b.Try(func() (*G.Node, error) {
			return G.HadamardProd(e, G.NewConstant(float32(math.Sqrt(float64(n.hidden)))))
		})
	}
	for i := range n.layers {
		x = n.addDecoderBlock(x, ids, i)
	}
	last := "norm"
	if n.Family == gpt2 {
		last = "ln_f"
	}
	return n.norm(x, n.prefix+last), table
}

// addDecoderBlock adds attention and a multilayer perceptron, each with a norm in front of it and a residual connection.
func (n *network) addDecoderBlock(x, ids *G.Node, block int) *G.Node {
	b, d, names := n.Builder, n.decoder, n.names
	name := n.prefix + fmt.Sprintf(n.block, block)
	h := n.norm(x, name+names.attentionNorm)
	attention := layer.AttentionOptions{Heads: n.heads, Causal: true, Padding: ids, Scale: d.scoreScale, Cap: d.scoreCap}
	if n.blocks != nil {
		attention.Padding, attention.Blocks = n.blocks, true
	}
	if d.isLocal(block) {
		attention.Window = d.window
	}
	var packed *G.Node
	if n.Family == gpt2 {
		packed = n.linear(h, name+names.query, 3*n.hidden, true)
	} else {
		packed = n.rotatedHeads(h, name, d.rotationOf(block))
	}
	h = layer.Attention(b, packed, name+"attention", attention)
	h = n.linear(h, name+names.attentionOut, n.hidden, d.outBias || n.Family == gpt2)
	x = layer.Add(b, x, n.normIf(h, name, names.afterAttention))

	h = n.norm(x, name+names.outerNorm)
	bias := d.innerBias || n.Family == gpt2
	inner := n.linear(h, name+names.inner, n.inner, bias)
	if names.gate == "" {
		inner = n.activate(inner)
	} else {
		gate, up := n.activate(n.linear(h, name+names.gate, n.inner, bias)), inner
		inner = b.Try(func() (*G.Node, error) { return G.HadamardProd(gate, up) })
	}
	return layer.Add(b, x, n.normIf(n.linear(inner, name+names.outer, n.hidden, bias), name, names.afterOuter))
}

// isLocal reports whether the steps of a block see a window only.
func (d *decoder) isLocal(block int) bool { return d.local != nil && d.local[block] }

// rotationOf returns the angles of a block.
func (d *decoder) rotationOf(block int) layer.Rotation {
	if d.isLocal(block) {
		return d.localRotation
	}
	return d.rotation
}

// rotatedHeads adds queries, keys and values, side by side, with as many heads each.
func (n *network) rotatedHeads(x *G.Node, name string, angles layer.Rotation) *G.Node {
	b, d, names := n.Builder, n.decoder, n.names
	query := n.linear(x, name+names.query, n.heads*d.headSize, d.queryBias)
	key := n.linear(x, name+names.key, d.keyHeads*d.headSize, d.queryBias)
	value := n.linear(x, name+names.value, d.keyHeads*d.headSize, d.queryBias)
	if d.headNorms {
		norm := layer.HeadRMSNorm
		if d.shiftedNorms {
			norm = layer.ShiftedHeadRMSNorm
		}
		query = norm(b, query, name+queryNorm, d.headSize)
		key = norm(b, key, name+keyNorm, d.headSize)
	}
	query = layer.RotaryEmbedding(b, query, d.headSize, angles)
	key = layer.RotaryEmbedding(b, key, d.headSize, angles)
	shared := n.heads / d.keyHeads
	return layer.Join(b, query, layer.RepeatHeads(b, key, d.headSize, shared), layer.RepeatHeads(b, value, d.headSize, shared))
}

// The norms of the heads of queries and keys.
const (
	queryNorm = "self_attn.q_norm"
	keyNorm   = "self_attn.k_norm"
)

// normIf adds the norm with a last name, if there is one.
func (n *network) normIf(x *G.Node, block, last string) *G.Node {
	if last == "" {
		return x
	}
	return n.norm(x, block+last)
}

// linear is dense, with or without a bias.
func (n *network) linear(x *G.Node, name string, out int, bias bool) *G.Node {
	n.UseBias(bias)
	defer n.UseBias(true)
	return n.dense(x, name, out)
}

// norm adds the norm of the family.
func (n *network) norm(x *G.Node, name string) *G.Node {
	switch {
	case n.Family == gpt2:
		return layer.LayerNorm(n.Builder, x, name)
	case n.decoder.shiftedNorms:
		return layer.ShiftedRMSNorm(n.Builder, x, name)
	}
	return layer.RMSNorm(n.Builder, x, name)
}

// hasBiases reports whether blocks have biases.
func (c *Config) hasBiases() bool {
	d := c.decoder
	return d == nil || c.Family == gpt2 || d.queryBias || d.outBias || d.innerBias
}

// maxSteps is the largest number of steps that a network of the checkpoint reads.
func (c *Config) maxSteps() int { return c.positions - c.firstPosition }

// isTable reports whether a parameter is a table of embeddings.
func (c *Config) isTable(name string) bool {
	if c.isPictureTable(name) {
		return true
	}
	layer := lastName(name[:max(0, len(name)-len(".weight"))])
	return slices.Contains([]string{"word_embeddings", "position_embeddings", "token_type_embeddings", "embed_tokens", "wte", "wpe"}, layer)
}

// isTransposed reports whether the weight of a dense layer has the layout [out, in] in the checkpoint, and that of the
// network is its transpose.
func (c *Config) isTransposed(name string, shape []int) bool {
	return len(shape) == 2 && !c.isTable(name) && (c.Family != gpt2 || c.isHead(name) || isAdapter(name))
}
