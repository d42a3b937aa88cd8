// Package layer builds networks from common layers on plain Gorgonia nodes. Each
// layer is a function that takes and returns a *gorgonia.Node, so Gorgonia's own
// functions fit in between.
//
//	b := layer.NewBuilder(batch, 1)
//	x := b.Input("x", 784)
//	h := layer.Dense(b, x, "fc1", 1000, layer.ReLU)
//	logits := layer.Dense(b, h, "fc2", 10, layer.Identity)
//	b.SetLoss(layer.CrossEntropy(b, logits, b.Input("label")), logits)
//	return b.Network()
//
// A method of [Builder] declares a part of the network: an input, a parameter, the
// loss. A function adds a layer and returns its output.
//
// Every layer treats each example separately. No layer mixes the examples of a
// batch, because such a network cannot be trained privately.
//
// Initial weights are public. They come from a generator with a public seed and
// do not depend on data.
//
// The shapes of inputs and outputs, with the batch on axis 0:
//
//	dense.go, elementwise.go   [batch, …, features], the axes in front of the last one stay
//	convolution.go             [batch, channels, height, width]
//	embedding.go               indices [batch, time] become [batch, time, width]; an index below zero is padding
//	sequence.go, recurrent.go  [batch, time, features]
//	norm.go                    statistics of one example, or running statistics that are released with noise
//	loss.go                    one loss for each example, [batch]
//
// The loss of a sequence with a label for each of its T steps is (1/T)·Σ loss(step), where padding counts 0. T is
// public, so the weight of a step does not depend on the example.
//
// An index can have a mark: index + vocabulary is an index with the mark 1, and SplitMarks separates both. A mark is the
// second segment of a pair of texts, or the begin of a text among several: BlockMarks and AttentionOptions keep these apart.
package layer
