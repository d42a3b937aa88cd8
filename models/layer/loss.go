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
		n.fail(fmt.Errorf("the network has two losses: add them up first"))
	}
	n.net.Loss = n.apply("loss", total, losses)
	n.net.Output = output
}

// CrossEntropy ends a classifier: logits [batch, classes] against labels [batch].
// Logits [batch, time, classes] against labels [batch, time] make a sequence's
// loss the mean over its length; label −1 is ignored.
func (n *Net) CrossEntropy(logits, labels *G.Node) { n.SmoothedCrossEntropy(logits, labels, 0) }

// SmoothedCrossEntropy is CrossEntropy against 1−smoothing of the label and
// smoothing shared by all classes alike (Szegedy et al. 2016), smoothing from 0
// to less than 1.
func (n *Net) SmoothedCrossEntropy(logits, labels *G.Node, smoothing float64) {
	const what = "cross-entropy"
	if !n.ready(what, logits, labels) {
		return
	}
	loss := op.CrossEntropy{Smoothing: smoothing}
	if logits.Dims() != 3 {
		n.Loss(n.apply(what, loss, logits, labels), logits)
		return
	}
	s := logits.Shape()
	rows := n.reshape(what, logits, s[0]*s[1], s[2])
	losses := n.apply(what, loss, rows, n.reshape(what, labels, s[0]*s[1]))
	n.end(op.Total{Scale: 1 / float64(s[1])}, losses, logits)
	n.net.Losses = n.reshape(what, n.mean(what, n.reshape(what, losses, s[0], s[1], 1)), s[0])
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
	if n.ready("sigmoid cross-entropy", logits, targets) {
		n.Loss(n.apply("sigmoid cross-entropy", op.SigmoidCrossEntropy{}, logits, targets), logits)
	}
}

// SquaredError ends a regression: an example's loss is the sum of
// (prediction − target)² over its elements.
func (n *Net) SquaredError(prediction, target *G.Node) {
	if n.ready("squared error", prediction, target) {
		n.Loss(n.apply("squared error", op.SquaredError{}, prediction, target), prediction)
	}
}

// AbsoluteError ends a regression: an example's loss is the sum of
// |prediction − target| over its elements.
func (n *Net) AbsoluteError(prediction, target *G.Node) {
	n.elementLoss("absolute error", op.ElementLosses{Kind: op.AbsoluteError}, prediction, target)
}

// HuberError ends a regression: an element's loss is half the squared error up to
// a width, and rises by the width for every unit of error beyond (Huber 1964).
func (n *Net) HuberError(prediction, target *G.Node, width float64) {
	n.elementLoss("Huber error", op.ElementLosses{Kind: op.HuberError, Width: width}, prediction, target)
}

// PoissonLoss ends a regression on counts: an element's loss is
// exp(prediction) − target·prediction, the prediction being the logarithm of a
// rate.
func (n *Net) PoissonLoss(prediction, target *G.Node) {
	n.elementLoss("Poisson loss", op.ElementLosses{Kind: op.PoissonLoss}, prediction, target)
}

// HingeLoss ends a classifier with a margin: an element's loss is
// max(0, 1 − target·prediction), its target −1 or 1.
func (n *Net) HingeLoss(prediction, target *G.Node) {
	n.elementLoss("hinge loss", op.ElementLosses{Kind: op.HingeLoss}, prediction, target)
}

func (n *Net) elementLoss(what string, loss op.ElementLosses, prediction, target *G.Node) {
	if n.ready(what, prediction, target) {
		n.Loss(n.apply(what, loss, prediction, target), prediction)
	}
}
