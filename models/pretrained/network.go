package pretrained

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// Outputs adds the network to a builder. It reads ids [batch, time] of the tokenizer, where −1 is
// padding, or pictures [batch, channels, height, width] of numbers from 0 to 1, and returns outputs [batch, outputs].
func (m *Model) Outputs(b *layer.Builder, ids *G.Node, vocabulary, outputs int) *G.Node {
	return m.add(b, ids, vocabulary, func(n *network) *G.Node {
		switch {
		case m.picture != nil:
			return n.classify(ids, outputs)
		case m.decoder == nil:
			return n.head(n.encode(ids), ids, outputs)
		}
		x, _ := n.decode(ids)
		return n.linear(layer.LastStep(b, x, ids), textHead, outputs, false)
	})
}

// OutputsOfPairs is Outputs for pairs of texts: ids from vocabulary on are those of the second segment, plus vocabulary.
func (m *Model) OutputsOfPairs(b *layer.Builder, ids *G.Node, vocabulary, outputs int) *G.Node {
	own, marks := layer.SplitMarks(b, ids, vocabulary)
	return m.add(b, own, vocabulary, func(n *network) *G.Node {
		switch {
		case m.decoder != nil:
			x, _ := n.decode(own)
			return n.linear(layer.LastStep(b, x, own), textHead, outputs, false)
		case m.Family == bert && m.segments < 2:
			n.err = fmt.Errorf("type_vocab_size is %d: the checkpoint has no segment for the second text; join the texts in one column", m.segments)
			return nil
		case m.Family == bert:
			n.marks = marks
		}
		return n.head(n.encode(own), own, outputs)
	})
}

// add adds a network with the checkpoint's values to a builder.
func (m *Model) add(b *layer.Builder, ids *G.Node, vocabulary int, build func(n *network) *G.Node) *G.Node {
	return b.Try(func() (*G.Node, error) {
		if err := m.checkInput(ids.Shape()[1:], vocabulary); err != nil {
			return nil, err
		}
		checkpoint, err := m.tensors.load()
		if err != nil {
			return nil, err
		}
		n := &network{Model: m, Builder: b, checkpoint: checkpoint, used: map[string]bool{}}
		b.UseStoredValues(n.initialValue)
		b.UseNormEpsilon(m.epsilon)
		y := build(n)
		if n.err != nil {
			return nil, n.err
		}
		if y == nil {
			return nil, nil // the builder has the error
		}
		return y, n.checkAllUsed()
	})
}

// checkInput compares the ids with the tables of the checkpoint, and pictures with those that it reads.
func (m *Model) checkInput(shape []int, vocabulary int) error {
	if m.picture != nil {
		return m.checkPictures(shape)
	}
	if steps, longest := shape[0], m.maxSteps(); steps > longest {
		return fmt.Errorf("texts of %d ids: the checkpoint has positions for %d; set a smaller length", steps, longest)
	}
	if vocabulary > m.vocabulary {
		return fmt.Errorf("the tokenizer has %d ids, and the checkpoint a vocabulary of %d; give the tokenizer of the checkpoint", vocabulary, m.vocabulary)
	}
	return nil
}

// network is a network under construction.
type network struct {
	*Model
	*layer.Builder
	checkpoint *contents
	used       map[string]bool // names of the checkpoint's tensors
	marks      *G.Node         // 1 for the ids of the second segment; nil without one
	blocks     *G.Node         // 1 where a text begins, −1 for padding; nil if an example is one text
	words      *G.Node         // the table of an encoder's ids
	outputs    []*G.Node       // of an encoder's layers: the embeddings and the blocks
	err        error
}

// initialValue returns the initial value of a parameter; nil for a parameter that is
// drawn.
func (n *network) initialValue(name string, shape []int) *perexample.InitialValue {
	f, err := n.checkpoint.value(n.Config, name, shape)
	n.used[name] = true
	if n.isHead(name) || isAdapter(name) {
		return f // a head for other outputs is drawn
	}
	switch {
	case n.err != nil:
	case err != nil:
		n.err = err
	case f == nil:
		n.err = fmt.Errorf("%s has no tensor %s", n.Dir, name)
	}
	return f
}

// checkAllUsed refuses a checkpoint with a tensor that the network does not have: it is of a feature
// that is not supported.
func (n *network) checkAllUsed() error {
	var unknown []string
	for name := range n.checkpoint.byName {
		if !n.used[name] && !n.isHead(name) && !strings.HasPrefix(name, n.prefix+"pooler.") {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return fmt.Errorf("%s has the tensor %.80s, which a network of model_type %s with its config.json does not have", n.Dir, unknown[0], n.Family)
}

// encode adds embeddings and blocks. The result is [batch, time, width].
func (n *network) encode(ids *G.Node) *G.Node {
	b := n.Builder
	const embeddings = "embeddings."
	table := func(name string, rows int) *G.Node {
		return b.Parameter(n.prefix+embeddings+name+".weight", layer.Constant(0), rows, n.hidden)
	}
	steps := make([]int, ids.Shape()[1])
	for t := range steps {
		steps[t] = n.firstPosition + t
	}
	n.words = table("word_embeddings", n.vocabulary)
	x := layer.Lookup(b, n.words, ids)
	x = layer.Add(b, x, layer.Lookup(b, table("position_embeddings", n.positions), layer.SameIndices(b, ids, "positions", steps)))
	if n.segments > 0 {
		segments := n.marks
		if segments == nil {
			segments = layer.SameIndices(b, ids, "segments", make([]int, len(steps)))
		}
		x = layer.Add(b, x, layer.Lookup(b, table("token_type_embeddings", n.segments), segments))
	}
	x = layer.LayerNorm(b, x, n.prefix+embeddings+"LayerNorm")
	n.outputs = append(n.outputs, x)
	for i := range n.layers {
		x = n.addBlock(x, ids, n.prefix+fmt.Sprintf(n.block, i))
		n.outputs = append(n.outputs, x)
	}
	return x
}

// addBlock adds attention and two dense layers, each with a residual connection and a norm behind it.
func (n *network) addBlock(x, ids *G.Node, name string) *G.Node {
	b, names := n.Builder, n.names
	width := n.hidden
	packed := layer.Join(b, n.dense(x, name+names.query, width), n.dense(x, name+names.key, width), n.dense(x, name+names.value, width))
	h := layer.Attention(b, packed, name+"attention", layer.AttentionOptions{Heads: n.heads, Padding: ids})
	h = n.dense(h, name+names.attentionOut, width)
	x = layer.LayerNorm(b, layer.Add(b, x, h), name+names.attentionNorm)
	h = n.dense(x, name+names.inner, n.inner)
	h = n.activate(h)
	return layer.LayerNorm(b, layer.Add(b, x, n.dense(h, name+names.outer, width)), name+names.outerNorm)
}

func (n *network) activate(x *G.Node) *G.Node {
	if n.activation.tanhFit {
		return layer.TanhGELU(n.Builder, x)
	}
	return layer.Activate(n.Builder, x, n.activation.exact)
}

// dense adds a dense layer, with its adapter if it is a target of one.
func (n *network) dense(x *G.Node, name string, out int) *G.Node {
	b := n.Builder
	y := layer.Dense(b, x, name, out, layer.Identity)
	if t := n.Tuning; t.isTarget(name) && n.isInLastBlocks(name) {
		y = layer.Add(b, y, layer.LoRA(b, x, name+adapter, out, t.Rank, t.scale()))
	}
	return y
}

// adapter is what the names of an adapter have behind those of its layer.
const adapter = ".lora"

func isAdapter(name string) bool { return strings.Contains(name, adapter+".") }

// head adds what follows the last block: it reads the first step, or what the pooling makes of all steps.
func (n *network) head(x, ids *G.Node, outputs int) *G.Node {
	b := n.Builder
	var pooled *G.Node
	switch n.pooling {
	case meanOfSteps:
		pooled = layer.MeanWithoutPadding(b, x, ids)
	case firstStep:
		pooled = layer.FirstStep(b, x)
	case meansOfLayers:
		var means []*G.Node
		for _, output := range n.outputs {
			means = append(means, layer.MeanWithoutPadding(b, output, ids))
		}
		pooled = layer.Join(b, means...)
	}
	if n.pooling != "" {
		return layer.Dense(b, pooled, linearHead, outputs, layer.Identity)
	}
	first := layer.FirstStep(b, x)
	switch n.architecture.head {
	case robertaHead:
		h := layer.Dense(b, first, "classifier.dense", n.hidden, layer.Tanh)
		return layer.Dense(b, h, "classifier.out_proj", outputs, layer.Identity)
	case distilledHead:
		h := layer.Dense(b, first, "pre_classifier", n.hidden, layer.ReLU)
		return layer.Dense(b, h, "classifier", outputs, layer.Identity)
	}
	h := layer.Dense(b, first, n.prefix+"pooler.dense", n.hidden, layer.Tanh)
	return layer.Dense(b, h, "classifier", outputs, layer.Identity)
}

// isTextHead reports whether a parameter follows the last block, except for the head for the next id: that is as large
// as the table of the embedding, and stays frozen where adapters or biases are trained.
func (c *Config) isTextHead(name string) bool {
	return c.isHead(name) && (c.decoder == nil || !strings.HasPrefix(name, nextHead+"."))
}

// isHead reports whether a parameter follows the last block.
func (c *Config) isHead(name string) bool {
	for _, p := range []string{c.prefix + "pooler.", "classifier.", "pre_classifier.", tokenHead + ".", distilledTo + ".", textHead + ".", nextHead + "."} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return c.decoder == nil && slices.ContainsFunc(maskedHeads, func(p string) bool { return strings.HasPrefix(name, p) })
}

// Parts returns the names of the parameters that are not trained, and of those that the checkpoint does not
// have.
func (m *Model) Parts(net *perexample.Network) (frozen, fresh []string, err error) {
	checkpoint, err := m.tensors.load()
	if err != nil {
		return nil, nil, err
	}
	for _, p := range net.Params {
		name := p.Name()
		if value, err := checkpoint.value(m.Config, name, p.Shape()); value == nil || err != nil {
			fresh = append(fresh, name)
		}
		if !m.trains(name) {
			frozen = append(frozen, name)
		}
	}
	return frozen, fresh, nil
}

// trains reports whether a parameter is trained.
func (m *Model) trains(name string) bool {
	if !m.isInLastBlocks(name) {
		return false
	}
	switch m.Tuning.Train {
	case All:
		return true
	case Biases:
		return m.isTextHead(name) || strings.HasSuffix(name, ".bias")
	case LoRA:
		return m.isTextHead(name) || isAdapter(name)
	}
	return m.isHead(name)
}
