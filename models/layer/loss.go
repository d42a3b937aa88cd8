package layer

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/op"
	G "gorgonia.org/gorgonia"
)

// Loss ends the network in the sum of the examples' losses [batch]. Output is
// what the network answers, batch first; nil where there is nothing to score.
func (n *Net) Loss(losses, output *G.Node) {
	if !n.ready("loss", losses) {
		return
	}
	if losses.Dims() != 1 || losses.Shape()[0] != n.net.Batch {
		n.fail(fmt.Errorf("losses of shape %v: one for each of %d examples is needed", losses.Shape(), n.net.Batch))
	}
	n.end(op.Total{Scale: 1}, losses, output)
	n.net.Losses = losses
}

func (n *Net) end(total op.Total, losses, output *G.Node) {
	if n.err == nil && n.net.Loss != nil {
		n.fail(fmt.Errorf("the network has two losses: end it once, in the sum of such as CrossEntropies gives"))
	}
	n.net.Loss = n.apply("loss", total, losses)
	n.net.Output = output
}

// CrossEntropy ends a classifier: logits [batch, classes] against labels [batch].
// Logits [batch, time, classes] against labels [batch, time] make a sequence's
// loss the mean over its length, where label −1 counts as a loss of 0. A picture's
// pixels are a sequence once gorgonia.Transpose has their classes last.
func (n *Net) CrossEntropy(logits, labels *G.Node) { n.SmoothedCrossEntropy(logits, labels, 0) }

// CrossEntropies are the examples' losses [batch] that CrossEntropy ends a classifier in, to
// be weighed or added to others first. So are the other losses in the plural; Loss then ends
// the network.
//
//	losses := n.Add(n.CrossEntropies(logits, labels), n.SquaredErrors(age, ages))
//	n.Loss(losses, logits)
func (n *Net) CrossEntropies(logits, labels *G.Node) *G.Node {
	losses, steps := n.crossEntropies(logits, labels, 0)
	if steps == 0 {
		return losses
	}
	return n.meanOf(losses, steps)
}

// SmoothedCrossEntropy is CrossEntropy against 1−smoothing of the label and
// smoothing shared by all classes alike (Szegedy et al. 2016), smoothing from 0
// to less than 1.
func (n *Net) SmoothedCrossEntropy(logits, labels *G.Node, smoothing float64) {
	losses, steps := n.crossEntropies(logits, labels, smoothing)
	if steps == 0 {
		n.Loss(losses, logits)
		return
	}
	n.end(op.Total{Scale: 1 / float64(steps)}, losses, logits)
	n.net.Losses = n.meanOf(losses, steps)
}

// crossEntropies are the losses of all steps of the examples, which have so many each; 0 where
// an example has one label and no steps.
func (n *Net) crossEntropies(logits, labels *G.Node, smoothing float64) (losses *G.Node, steps int) {
	const what = "cross-entropy"
	if !n.ready(what, logits, labels) {
		return nil, 0
	}
	loss := op.CrossEntropy{Smoothing: smoothing}
	if logits.Dims() != 3 {
		return n.apply(what, loss, logits, labels), 0
	}
	s := logits.Shape()
	rows := n.reshape(what, logits, s[0]*s[1], s[2])
	return n.apply(what, loss, rows, n.reshape(what, labels, s[0]*s[1])), s[1]
}

// meanOf is the mean loss of the steps of each example.
func (n *Net) meanOf(losses *G.Node, steps int) *G.Node {
	const what = "cross-entropy"
	if !n.ready(what, losses) {
		return nil
	}
	batch := losses.Shape()[0] / steps
	return n.reshape(what, n.mean(what, n.reshape(what, losses, batch, steps, 1)), batch)
}

// Ignore gives labels in which one, such as that of padding, counts as −1, which
// cross-entropy ignores.
func (n *Net) Ignore(labels *G.Node, label int) *G.Node {
	if !n.ready("ignore", labels) {
		return nil
	}
	return n.apply("ignore", op.Replace{Old: float64(label), New: -1}, labels)
}

// SigmoidCrossEntropy ends a network of independent yes-or-no answers: logits and
// targets from 0 to 1, of one shape; an example's loss is the sum over its answers.
func (n *Net) SigmoidCrossEntropy(logits, targets *G.Node) {
	n.Loss(n.SigmoidCrossEntropies(logits, targets), logits)
}

// SigmoidCrossEntropies are the losses of SigmoidCrossEntropy.
func (n *Net) SigmoidCrossEntropies(logits, targets *G.Node) *G.Node {
	return n.losses("sigmoid cross-entropy", op.SigmoidCrossEntropy{}, logits, targets)
}

// SquaredError ends a regression: an example's loss is the sum of
// (prediction − target)² over its elements.
func (n *Net) SquaredError(prediction, target *G.Node) {
	n.Loss(n.SquaredErrors(prediction, target), prediction)
}

// SquaredErrors are the losses of SquaredError.
func (n *Net) SquaredErrors(prediction, target *G.Node) *G.Node {
	return n.losses("squared error", op.SquaredError{}, prediction, target)
}

// AbsoluteError ends a regression: an example's loss is the sum of
// |prediction − target| over its elements.
func (n *Net) AbsoluteError(prediction, target *G.Node) {
	n.Loss(n.AbsoluteErrors(prediction, target), prediction)
}

// AbsoluteErrors are the losses of AbsoluteError.
func (n *Net) AbsoluteErrors(prediction, target *G.Node) *G.Node {
	return n.losses("absolute error", op.ElementLosses{Kind: op.AbsoluteError}, prediction, target)
}

// HuberError ends a regression: an element's loss is half the squared error up to
// a width, and rises by the width for every unit of error beyond (Huber 1964).
func (n *Net) HuberError(prediction, target *G.Node, width float64) {
	n.Loss(n.HuberErrors(prediction, target, width), prediction)
}

// HuberErrors are the losses of HuberError.
func (n *Net) HuberErrors(prediction, target *G.Node, width float64) *G.Node {
	return n.losses("Huber error", op.ElementLosses{Kind: op.HuberError, Width: width}, prediction, target)
}

// PoissonLoss ends a regression on counts: an element's loss is
// exp(prediction) − target·prediction, the prediction being the logarithm of a
// rate.
func (n *Net) PoissonLoss(prediction, target *G.Node) {
	n.Loss(n.PoissonLosses(prediction, target), prediction)
}

// PoissonLosses are the losses of PoissonLoss.
func (n *Net) PoissonLosses(prediction, target *G.Node) *G.Node {
	return n.losses("Poisson loss", op.ElementLosses{Kind: op.PoissonLoss}, prediction, target)
}

// HingeLoss ends a classifier with a margin: an element's loss is
// max(0, 1 − target·prediction), its target −1 or 1.
func (n *Net) HingeLoss(prediction, target *G.Node) {
	n.Loss(n.HingeLosses(prediction, target), prediction)
}

// HingeLosses are the losses of HingeLoss.
func (n *Net) HingeLosses(prediction, target *G.Node) *G.Node {
	return n.losses("hinge loss", op.ElementLosses{Kind: op.HingeLoss}, prediction, target)
}

func (n *Net) losses(what string, loss op.Spec, prediction, target *G.Node) *G.Node {
	if !n.ready(what, prediction, target) {
		return nil
	}
	return n.apply(what, loss, prediction, target)
}
