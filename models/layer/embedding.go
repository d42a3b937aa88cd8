package layer

import (
	"fmt"
	"math"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

// Embedding looks up a row of the parameter name.weight [vocabulary, dim] for each
// index. Ids [batch] or [batch, time] become [batch, dim] or [batch, time, dim]. An
// index below zero is padding and gives zeros. The weights are initialized from the
// standard normal distribution.
func Embedding(b *Builder, ids *G.Node, name string, vocabulary, dim int) *G.Node {
	if !b.present(name, ids) {
		return nil
	}
	table := b.Parameter(name+".weight", Normal(1), vocabulary, dim)
	return b.apply(name, op.Embed{}, table, ids)
}

// EmbeddingBag is the mean of the rows of the parameter name.weight [vocabulary,
// dim] at the indices [batch, time]. The result is [batch, dim]. An index below zero
// is padding and counts as a row of zeros.
func EmbeddingBag(b *Builder, ids *G.Node, name string, vocabulary, dim int) *G.Node {
	if !b.present(name, ids) {
		return nil
	}
	if ids.Dims() != 2 {
		return b.fail(fmt.Errorf("%s: indices of shape %v: [batch, time] is needed", name, ids.Shape()))
	}
	table := b.Parameter(name+".weight", Normal(1), vocabulary, dim)
	return b.apply(name, op.EmbedBag{Scale: 1 / float64(ids.Shape()[1])}, table, ids)
}

// EmbeddingBagWithoutPadding is EmbeddingBag, but the mean excludes padding. It is
// zeros for an example that consists of padding only.
func EmbeddingBagWithoutPadding(b *Builder, ids *G.Node, name string, vocabulary, dim int) *G.Node {
	x := EmbeddingBag(b, ids, name, vocabulary, dim)
	if x == nil {
		return nil
	}
	// EmbeddingBag divides by T. If k of T steps are not padding, the result needs the
	// factor T/k. The k weights T/k and the zeros have the mean square T/k.
	weights := stepWeights(b, name, ids)
	squares := b.apply(name, op.ScaleRows{}, weights, weights)
	factor := b.meanOverTime(name, b.reshape(name, squares, b.net.Batch, ids.Shape()[1], 1))
	return b.apply(name, op.ScaleRows{}, x, b.reshape(name, factor, b.net.Batch))
}

// NormalizedBag is the sum of the rows of the parameter name.weight [vocabulary, dim] at the
// indices [batch, time], divided by the root of their number: a linear function of a vector of norm 1, if
// an example has no index twice. An index below zero is padding and does not count. The result is
// [batch, dim], zeros for an example that consists of padding only. The weights start at 0.
func NormalizedBag(b *Builder, ids *G.Node, name string, vocabulary, dim int) *G.Node {
	if !b.present(name, ids) {
		return nil
	}
	if ids.Dims() != 2 {
		return b.fail(fmt.Errorf("%s: indices of shape %v: [batch, time] is needed", name, ids.Shape()))
	}
	table := b.Parameter(name+".weight", Constant(0), vocabulary, dim)
	steps := ids.Shape()[1]
	x := b.apply(name, op.EmbedBag{Scale: 1 / math.Sqrt(float64(steps))}, table, ids)
	// If k of T steps are not padding, the result needs the factor √(T/k). The k numbers (T/k)^1.5
	// and the zeros have this mean.
	root := stepRoots(b, name, ids)
	cube := b.apply(name, op.ScaleRows{}, root, b.apply(name, op.ScaleRows{}, root, root))
	factor := b.meanOverTime(name, b.reshape(name, cube, b.net.Batch, steps, 1))
	return b.apply(name, op.ScaleRows{}, x, b.reshape(name, factor, b.net.Batch))
}

// Lookup returns a row of a table [vocabulary, dim] for each index, as Embedding
// does. Other layers may use the same table, which is a parameter.
func Lookup(b *Builder, table, ids *G.Node) *G.Node {
	if !b.present("lookup", table, ids) {
		return nil
	}
	return b.apply("lookup", op.Embed{}, table, ids)
}

// TiedLogits multiplies x [batch, …, dim] with every row of a table [vocabulary,
// dim]. The result is the logits [batch, …, vocabulary] of a head that shares its weight
// with an embedding (Press & Wolf 2017).
func TiedLogits(b *Builder, x, table *G.Node) *G.Node {
	const layer = "tied logits"
	if !b.present(layer, table) || !b.requireFeatures(layer, x) {
		return nil
	}
	rows, restore := b.flattenRows(layer, x)
	return restore(b.apply(layer, op.MatMul{TransB: true}, rows, table))
}

// AddPositionEmbedding adds a learned vector for each position to x [batch, time,
// width]. The vectors are the parameter name.weight [time, width].
func AddPositionEmbedding(b *Builder, x *G.Node, name string) *G.Node {
	if !b.requireSequence(name, x) {
		return nil
	}
	s := x.Shape()
	w := b.Parameter(name+".weight", Normal(0.02), s[1], s[2])
	return b.apply(name, op.ChannelShift{Channels: s[1] * s[2], Inner: 1}, x, w)
}

// SplitMarks returns the indices [batch, time] without their marks, and the marks: index + vocabulary is an index with
// the mark 1. Padding, which is below zero, stays and has the mark 0.
func SplitMarks(b *Builder, indices *G.Node, vocabulary int) (own, marks *G.Node) {
	const layer = "marks"
	if !b.present(layer, indices) {
		return nil, nil
	}
	marks = b.apply(layer, op.Binary{Kind: ">="}, indices, G.NewConstant(float32(vocabulary)))
	own = b.Try(func() (*G.Node, error) {
		offset, err := G.HadamardProd(marks, G.NewConstant(float32(vocabulary)))
		if err != nil {
			return nil, err
		}
		return G.Sub(indices, offset)
	})
	return own, marks
}

// BlockMarks returns what [AttentionOptions] reads with Blocks, for the results of [SplitMarks]: −1 for padding, 1 for an
// index with a mark, which begins a block, and 0 for the others.
func BlockMarks(b *Builder, own, marks *G.Node) *G.Node {
	const layer = "block marks"
	if !b.present(layer, own, marks) {
		return nil
	}
	present := b.apply(layer, op.Binary{Kind: ">="}, own, G.NewConstant(float32(0)))
	return b.Try(func() (*G.Node, error) {
		sum, err := G.Add(present, marks)
		if err != nil {
			return nil, err
		}
		return G.Sub(sum, G.NewConstant(float32(1)))
	})
}

// BlockSteps returns the number of each step in its block, from 0, [batch, time], for marks of [BlockMarks]. Lookup reads
// it, as for positions.
func BlockSteps(b *Builder, marks *G.Node) *G.Node {
	const layer = "steps of blocks"
	if !b.present(layer, marks) {
		return nil
	}
	return b.apply(layer, op.BlockSteps{}, marks)
}

// SameIndices returns the indices [batch, time] that are the same for each example, one for each step of
// ids [batch, time]. Lookup reads them, as for the positions of steps.
func SameIndices(b *Builder, ids *G.Node, name string, indices []int) *G.Node {
	if !b.present(name, ids) {
		return nil
	}
	if ids.Dims() != 2 || ids.Shape()[1] != len(indices) {
		return b.fail(fmt.Errorf("%s: %d indices for ids of shape %v: one for each step is needed", name, len(indices), ids.Shape()))
	}
	row := b.constant(name, func(into []float32) {
		for t, index := range indices {
			into[t] = float32(index)
		}
	}, len(indices))
	zeros := b.Try(func() (*G.Node, error) { return G.HadamardProd(ids, G.NewConstant(float32(0))) })
	return b.apply(name, op.ChannelShift{Channels: len(indices), Inner: 1}, zeros, row)
}
