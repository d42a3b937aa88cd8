package pretrained

import (
	"fmt"
	"math"
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// Generator computes the logits of the next id, one id after the other. It keeps the keys and values of the ids
// before, so that an id costs one pass over the weights.
type Generator struct {
	*Model
	weights  map[string][]float32 // dense layers as [in, out]
	keys     [][]float32          // of each block: a row of all heads of keys for each id
	values   [][]float32
	steps    int
	turn     [2][]float64 // frequencies of the rotations, and those of the local blocks
	attended []float64
}

// Generator returns a generator with the weights of a network of the model that predicts the next id.
func (m *Model) Generator(net *perexample.Network) (*Generator, error) {
	if m.decoder == nil {
		return nil, fmt.Errorf("model_type %s does not predict the next id; a decoder does", m.Family)
	}
	g := &Generator{Model: m, weights: map[string][]float32{}, keys: make([][]float32, m.layers), values: make([][]float32, m.layers)}
	for _, p := range net.Params {
		values, err := op.Values(p)
		if err != nil {
			return nil, err
		}
		g.weights[p.Name()] = values
	}
	if _, is := g.weights[textHead+".weight"]; is {
		return nil, fmt.Errorf("the network predicts a class or a number of a text, and not the next id")
	}
	for i, r := range []layer.Rotation{m.decoder.rotation, m.decoder.localRotation} {
		g.turn[i] = op.RotaryFrequencies(m.decoder.headSize, r.Base, r.Scaling)
	}
	return g, nil
}

// Steps is the number of ids that were read.
func (g *Generator) Steps() int { return g.steps }

// MaxSteps is the largest number of ids that can be read.
func (g *Generator) MaxSteps() int { return g.maxSteps() }

// Reset forgets the ids that were read.
func (g *Generator) Reset() {
	g.steps = 0
	for i := range g.keys {
		g.keys[i], g.values[i] = g.keys[i][:0], g.values[i][:0]
	}
}

// Next reads an id and returns the logits of the id after it.
func (g *Generator) Next(id int) ([]float32, error) {
	if id < 0 || id >= g.vocabulary {
		return nil, fmt.Errorf("the id %d is not below %d", id, g.vocabulary)
	}
	if g.steps >= g.maxSteps() {
		return nil, fmt.Errorf("%d ids are read, and the checkpoint has no more positions", g.steps)
	}
	x, table := g.embed(id)
	for i := range g.layers {
		name := g.prefix + fmt.Sprintf(g.block, i)
		add(x, g.normalizedIf(g.attend(g.normalized(x, name+g.names.attentionNorm), name, i), name, g.names.afterAttention))
		add(x, g.normalizedIf(g.perceptron(g.normalized(x, name+g.names.outerNorm), name), name, g.names.afterOuter))
	}
	g.steps++
	last := "norm"
	if g.Family == gpt2 {
		last = "ln_f"
	}
	x = g.normalized(x, g.prefix+last)
	if !g.decoder.tied {
		return g.capped(g.product(x, nextHead)), nil
	}
	logits := make([]float32, g.vocabulary)
	for i := range logits {
		logits[i] = dot(x, table[i*g.hidden:][:g.hidden])
	}
	return g.capped(logits), nil
}

// capped limits logits in place.
func (g *Generator) capped(logits []float32) []float32 {
	if c := g.decoder.logitCap; c > 0 {
		for i, v := range logits {
			logits[i] = float32(c * math.Tanh(float64(v)/c))
		}
	}
	return logits
}

// embed returns the embedding of an id, and the table.
func (g *Generator) embed(id int) (x, table []float32) {
	name := "embed_tokens"
	if g.Family == gpt2 {
		name = "wte"
	}
	table = g.weights[g.prefix+name+".weight"]
	x = slices.Clone(table[id*g.hidden:][:g.hidden])
	if g.Family == gpt2 {
		add(x, g.weights[g.prefix+"wpe.weight"][g.steps*g.hidden:][:g.hidden])
	}
	if g.decoder.scaledEmbedding {
		for i := range x {
			x[i] *= float32(math.Sqrt(float64(g.hidden)))
		}
	}
	return x, table
}

// normalized returns the norm of x with the scale and the shift of a layer.
func (g *Generator) normalized(x []float32, layer string) []float32 {
	y := slices.Clone(x)
	g.normalize(y, g.Family == gpt2)
	scale, shift := g.weights[layer+".weight"], g.weights[layer+".bias"]
	for i := range y {
		y[i] *= g.scaleOf(scale[i])
		if shift != nil {
			y[i] += shift[i]
		}
	}
	return y
}

// scaleOf is the factor that the weight of a norm stands for.
func (g *Generator) scaleOf(weight float32) float32 {
	if g.decoder.shiftedNorms {
		return 1 + weight
	}
	return weight
}

// normalizedIf is normalized with the layer of a block that has a last name, and x without it.
func (g *Generator) normalizedIf(x []float32, block, last string) []float32 {
	if last == "" {
		return x
	}
	return g.normalized(x, block+last)
}

// normalize divides by the root mean square, of what remains without the mean if center is set.
func (g *Generator) normalize(x []float32, center bool) {
	var mean, square float64
	if center {
		for _, v := range x {
			mean += float64(v)
		}
		mean /= float64(len(x))
	}
	for _, v := range x {
		square += (float64(v) - mean) * (float64(v) - mean)
	}
	scale := 1 / math.Sqrt(square/float64(len(x))+g.epsilon)
	for i, v := range x {
		x[i] = float32((float64(v) - mean) * scale)
	}
}

// product returns x·W + b of a dense layer, with its adapter.
func (g *Generator) product(x []float32, layer string) []float32 {
	y := multiply(x, g.weights[layer+".weight"])
	if bias := g.weights[layer+".bias"]; bias != nil {
		add(y, bias)
	}
	if down := g.weights[layer+adapter+".A.weight"]; down != nil {
		change := multiply(multiply(x, down), g.weights[layer+adapter+".B.weight"])
		for i, v := range change {
			y[i] += v * float32(g.Tuning.scale())
		}
	}
	return y
}

// attend returns the attention of the last id to all ids, behind its dense layer.
func (g *Generator) attend(x []float32, name string, block int) []float32 {
	d, names := g.decoder, g.names
	var query, key, value []float32
	if g.Family == gpt2 {
		packed := g.product(x, name+names.query)
		query, key, value = packed[:g.hidden], packed[g.hidden:2*g.hidden], packed[2*g.hidden:]
	} else {
		query, key, value = g.product(x, name+names.query), g.product(x, name+names.key), g.product(x, name+names.value)
		turn := g.turn[0]
		if d.isLocal(block) {
			turn = g.turn[1]
		}
		g.turnHeads(query, g.weights[name+queryNorm+".weight"], turn)
		g.turnHeads(key, g.weights[name+keyNorm+".weight"], turn)
	}
	g.keys[block], g.values[block] = append(g.keys[block], key...), append(g.values[block], value...)
	out := make([]float32, len(query))
	width := d.keyHeads * d.headSize
	attention := op.Attention{Scale: d.scoreScale, Cap: d.scoreCap}
	if d.isLocal(block) {
		attention.Window = d.window
	}
	first := attention.FirstSeen(g.steps) * width
	keys, values := g.keys[block][first:], g.values[block][first:]
	for head := range g.heads {
		at := head / (g.heads / d.keyHeads) * d.headSize
		g.mix(attention, out[head*d.headSize:][:d.headSize], query[head*d.headSize:][:d.headSize], rows{keys[at:], values[at:], width})
	}
	return g.product(out, name+names.attentionOut)
}

// rows are keys and values of the steps that a step sees, width apart.
type rows struct {
	keys, values []float32
	width        int
}

// mix writes the mean of the values, weighted by the softmax of the keys' products with a query.
func (g *Generator) mix(a op.Attention, out, query []float32, r rows) {
	size := len(query)
	weights, largest := g.attended[:0], math.Inf(-1)
	for at := 0; at < len(r.keys); at += r.width {
		w := float64(dot(query, r.keys[at:][:size])) * a.ScaleOf(size)
		if a.Cap > 0 {
			w = a.Cap * math.Tanh(w/a.Cap)
		}
		weights, largest = append(weights, w), max(largest, w)
	}
	g.attended = weights
	var total float64
	for t, w := range weights {
		weights[t] = math.Exp(w - largest)
		total += weights[t]
	}
	for t, w := range weights {
		for j, v := range r.values[t*r.width:][:size] {
			out[j] += float32(w/total) * v
		}
	}
}

// turnHeads normalizes the heads if there is a scale, and rotates them.
func (g *Generator) turnHeads(x, scale []float32, turn []float64) {
	size := g.decoder.headSize
	for head := range slices.Chunk(x, size) {
		if scale != nil {
			g.normalize(head, false)
			for i := range head {
				head[i] *= g.scaleOf(scale[i])
			}
		}
		for j, frequency := range turn {
			sin, cos := math.Sincos(float64(g.steps) * frequency)
			a, b := float64(head[j]), float64(head[j+size/2])
			head[j], head[j+size/2] = float32(a*cos-b*sin), float32(a*sin+b*cos)
		}
	}
}

func (g *Generator) perceptron(x []float32, name string) []float32 {
	inner := g.product(x, name+g.names.inner)
	if g.names.gate == "" {
		return g.product(g.activation.of(inner), name+g.names.outer)
	}
	for i, v := range g.activation.of(g.product(x, name+g.names.gate)) {
		inner[i] *= v
	}
	return g.product(inner, name+g.names.outer)
}

// of returns the activation of each number.
func (a activation) of(x []float32) []float32 {
	in, out := make([]float64, len(x)), make([]float64, len(x))
	for i, v := range x {
		in[i] = float64(v)
		out[i] = 0.5 * in[i] * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(in[i]+0.044715*in[i]*in[i]*in[i])))
	}
	if !a.tanhFit {
		op.Activate{Act: a.exact}.Do(out, [][]float64{in}, nil)
	}
	y := make([]float32, len(x))
	for i, v := range out {
		y[i] = float32(v)
	}
	return y
}

func add(into, x []float32) {
	for i, v := range x {
		into[i] += v
	}
}

func dot(x, y []float32) float32 {
	var s [4]float32
	i := 0
	for ; i+4 <= len(x); i += 4 {
		s[0] += x[i] * y[i]
		s[1] += x[i+1] * y[i+1]
		s[2] += x[i+2] * y[i+2]
		s[3] += x[i+3] * y[i+3]
	}
	for ; i < len(x); i++ {
		s[0] += x[i] * y[i]
	}
	return s[0] + s[1] + s[2] + s[3]
}

// multiply returns x·W.
func multiply(x, w []float32) []float32 {
	y := make([]float32, len(w)/len(x))
	for i, v := range x {
		if v == 0 {
			continue
		}
		for j, u := range w[i*len(y):][:len(y)] {
			y[j] += v * u
		}
	}
	return y
}
