package pretrained

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/models/layer"
	G "gorgonia.org/gorgonia"
)

// checkPictures compares pictures [channels, height, width] with those that the network reads.
func (m *Model) checkPictures(shape []int) error {
	p := m.picture
	if want := []int{p.channels, p.size.height, p.size.width}; !slices.Equal(shape, want) {
		return fmt.Errorf("examples of shape %v: the checkpoint reads pictures [channels, height, width] of %v; %s before training, as its preprocessor does",
			shape, want, p.resampling)
	}
	return nil
}

// classify adds embeddings of patches, blocks and the head. It reads pictures [batch, channels, height, width] of numbers from 0 to 1.
func (n *network) classify(x *G.Node, outputs int) *G.Node {
	b, p := n.Builder, n.picture
	x = layer.StandardizeChannels(b, x, n.prefix+"pixels", p.mean, p.deviation)
	x = layer.Conv2D(b, x, n.prefix+patchLayer, n.hidden, layer.Window{Size: p.patch, Stride: p.patch}, layer.Identity)
	patches := layer.Sequence(b, x)
	tokens := []*G.Node{patches}
	names := []string{classToken}
	if p.distilled {
		names = append(names, distillationToken)
	}
	for _, name := range slices.Backward(names) {
		tokens = append([]*G.Node{layer.Token(b, patches, n.prefix+name)}, tokens...)
	}
	x = layer.AddToSteps(b, layer.Concatenate(b, tokens...), n.prefix+pictureTable)
	for i := range n.layers {
		x = n.addVisionBlock(x, n.prefix+fmt.Sprintf(n.block, i))
	}
	x = layer.LayerNorm(b, x, n.prefix+"layernorm")
	if !p.twoHeads {
		return layer.Dense(b, layer.Step(b, x, 0), "classifier", outputs, layer.Identity)
	}
	first := layer.Dense(b, layer.Step(b, x, 0), tokenHead, outputs, layer.Identity)
	second := layer.Dense(b, layer.Step(b, x, 1), distilledTo, outputs, layer.Identity)
	sum := layer.Add(b, first, second)
	return b.Try(func() (*G.Node, error) { return G.HadamardProd(sum, G.NewConstant(float32(0.5))) })
}

// addVisionBlock adds attention and two dense layers, each with a norm in front of it and a residual connection.
func (n *network) addVisionBlock(x *G.Node, name string) *G.Node {
	b, names, width := n.Builder, n.names, n.hidden
	h := layer.LayerNorm(b, x, name+names.attentionNorm)
	part := func(of string) *G.Node { return n.linear(h, name+of, width, n.picture.qkvBias) }
	packed := layer.Join(b, part(names.query), part(names.key), part(names.value))
	h = layer.Attention(b, packed, name+"attention", layer.AttentionOptions{Heads: n.heads})
	x = layer.Add(b, x, n.dense(h, name+names.attentionOut, width))
	h = layer.LayerNorm(b, x, name+names.outerNorm)
	h = n.activate(n.dense(h, name+names.inner, n.inner))
	return layer.Add(b, x, n.dense(h, name+names.outer, width))
}

// isPictureTable reports whether a parameter is a table of a network for pictures. Files have one more axis of length 1.
func (c *Config) isPictureTable(name string) bool {
	return c.picture != nil && slices.Contains([]string{classToken, distillationToken, pictureTable}, strings.TrimPrefix(name, c.prefix))
}

// inModules replaces what names of files and of modules differ in.
func (c *Config) inModules(name string) string {
	if c.picture == nil {
		return name
	}
	for _, pair := range moduleNames {
		name = strings.Replace(name, pair[0], pair[1], 1)
	}
	return name
}

// targetModules are the names by which peft chooses the modules with adapters.
func (m *Model) targetModules() (list []string) {
	if m.picture == nil {
		return m.Tuning.Targets
	}
	for _, name := range m.layerNames() {
		if m.Tuning.isTarget(name) {
			list = append(list, lastName(m.inModules("."+name)))
		}
	}
	return list
}
