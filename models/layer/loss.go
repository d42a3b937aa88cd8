package layer

import (
	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

// CrossEntropy returns the cross-entropy [batch] of each example's logits [batch,
// classes] against labels [batch]. For a sequence, logits [batch, time, classes]
// against labels [batch, time], an example's loss is the mean over its steps, where
// a step with label −1 has loss 0. For a class for each pixel, move the classes to the last axis
// with gorgonia.Transpose and flatten the pixels to a sequence.
//
// Pass the losses to [Builder.SetLoss], or weight them and add them to others first:
//
//	losses := layer.Add(b, layer.CrossEntropy(b, logits, labels), layer.SquaredError(b, age, ages))
//	b.SetLoss(losses, logits)
func CrossEntropy(b *Builder, logits, labels *G.Node) *G.Node {
	return SmoothedCrossEntropy(b, logits, labels, 0)
}

// SmoothedCrossEntropy is CrossEntropy with label smoothing (Szegedy et al. 2016):
// the target gives 1−smoothing to the label and distributes smoothing evenly over all
// classes. Smoothing is from 0 to less than 1.
func SmoothedCrossEntropy(b *Builder, logits, labels *G.Node, smoothing float64) *G.Node {
	const layer = "cross-entropy"
	if !b.present(layer, logits, labels) {
		return nil
	}
	if b.labels[logits] == nil {
		b.labels[logits] = labels
	}
	loss := op.CrossEntropy{Smoothing: smoothing}
	if logits.Dims() != 3 {
		return b.apply(layer, loss, logits, labels)
	}
	s := logits.Shape()
	batch, steps := s[0], s[1]
	rows := b.reshape(layer, logits, batch*steps, s[2])
	perStep := b.apply(layer, loss, rows, b.reshape(layer, labels, batch*steps))
	if perStep == nil {
		return nil
	}
	mean := b.reshape(layer, b.meanOverTime(layer, b.reshape(layer, perStep, batch, steps, 1)), batch)
	b.perStepLoss[mean] = stepLosses{perStep, steps}
	return mean
}

// stepLosses are the losses of all steps of a batch of sequences.
type stepLosses struct {
	losses *G.Node // [batch·steps]
	steps  int     // of one example
}

// IgnoreLabel replaces one label, such as that of padding, by −1. CrossEntropy ignores
// a label of −1.
func IgnoreLabel(b *Builder, labels *G.Node, label int) *G.Node {
	if !b.present("ignore", labels) {
		return nil
	}
	return b.apply("ignore", op.Replace{Old: float64(label), New: -1}, labels)
}

// SigmoidCrossEntropy returns the losses [batch] of a network of independent
// yes-or-no predictions. Logits and targets have one shape, and targets are from 0
// to 1. An example's loss is the sum over its predictions.
func SigmoidCrossEntropy(b *Builder, logits, targets *G.Node) *G.Node {
	return elementLoss(b, "sigmoid cross-entropy", op.SigmoidCrossEntropy{}, logits, targets)
}

// SquaredError returns the losses [batch] of a regression. An example's loss is the
// sum of (prediction − target)² over its elements.
func SquaredError(b *Builder, prediction, target *G.Node) *G.Node {
	return regressionLoss(b, "squared error", op.SquaredError{}, prediction, target)
}

// AbsoluteError returns the losses [batch] of a regression. An example's loss is the
// sum of |prediction − target| over its elements.
func AbsoluteError(b *Builder, prediction, target *G.Node) *G.Node {
	return regressionLoss(b, "absolute error", op.ElementLosses{Kind: op.AbsoluteError}, prediction, target)
}

// HuberLoss returns the losses [batch] of a regression (Huber 1964). An element's
// loss is half the squared error up to an error of width. Beyond, it grows by width for
// every unit of error.
func HuberLoss(b *Builder, prediction, target *G.Node, width float64) *G.Node {
	return regressionLoss(b, "Huber loss", op.ElementLosses{Kind: op.HuberError, Width: width}, prediction, target)
}

// PoissonLoss returns the losses [batch] of a regression on counts. The prediction
// is the logarithm of a rate. An element's loss is exp(prediction) − target·prediction.
func PoissonLoss(b *Builder, prediction, target *G.Node) *G.Node {
	return elementLoss(b, "Poisson loss", op.ElementLosses{Kind: op.PoissonLoss}, prediction, target)
}

// HingeLoss returns the losses [batch] of a classifier with a margin. An element's
// loss is max(0, 1 − target·prediction), and its target is −1 or 1.
func HingeLoss(b *Builder, prediction, target *G.Node) *G.Node {
	return elementLoss(b, "hinge loss", op.ElementLosses{Kind: op.HingeLoss}, prediction, target)
}

// regressionLoss is a loss which is smallest where the prediction is the target.
func regressionLoss(b *Builder, name string, loss op.Operation, prediction, target *G.Node) *G.Node {
	losses := elementLoss(b, name, loss, prediction, target)
	if losses != nil && b.targets[prediction] == nil {
		b.targets[prediction] = target
	}
	return losses
}

func elementLoss(b *Builder, name string, loss op.Operation, prediction, target *G.Node) *G.Node {
	if !b.present(name, prediction, target) {
		return nil
	}
	return b.apply(name, loss, prediction, target)
}

// Clamp limits each element of x to low and high. If a regression loss compares x with targets, it
// is the prediction of these targets too, so that [Builder.SetLoss] can have it as output: the loss
// of x keeps its slope outside the limits.
func Clamp(b *Builder, x *G.Node, low, high float64) *G.Node {
	if !b.present("clamp", x) {
		return nil
	}
	above := Activate(b, b.Try(func() (*G.Node, error) { return G.Sub(x, G.NewConstant(float32(low))) }), ReLU)
	below := Activate(b, b.Try(func() (*G.Node, error) { return G.Sub(G.NewConstant(float32(high-low)), above) }), ReLU)
	y := b.Try(func() (*G.Node, error) { return G.Sub(G.NewConstant(float32(high)), below) })
	if target := b.targets[x]; target != nil && y != nil {
		b.targets[y] = target
	}
	return y
}
