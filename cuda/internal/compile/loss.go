//go:build gpu

package compile

import (
	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
)

// The losses of kernels/loss.cu that are no op.ElementLoss.
const (
	binaryEntropy int32 = 4 + iota
	squaredError
)

// lowerLossOp queues losses and their gradients.
func lowerLossOp(c *compiler, spec op.Operation, k call) bool {
	switch s := spec.(type) {
	case op.CrossEntropy:
		newCrossEntropy(k, s.Smoothing).launchLosses(c, k.out)
	case op.CrossEntropyGrad:
		newCrossEntropy(k, s.Smoothing).launchGradient(c, k.out, k.in[2])
	case op.VocabularyLoss:
		lowerVocabularyLoss(c, s, k)
	case op.VocabularyLossGrad:
		lowerVocabularyLossGrad(c, s, k)
	case op.ElementLosses:
		launchLosses(c, int32(s.Kind), s.Width, k)
	case op.ElementLossesGrad:
		launchLossGradients(c, int32(s.Kind), s.Width, k)
	case op.SigmoidCrossEntropy:
		launchLosses(c, binaryEntropy, 0, k)
	case op.SigmoidCrossEntropyGrad:
		launchLossGradients(c, binaryEntropy, 0, k)
	case op.SquaredError:
		launchLosses(c, squaredError, 0, k)
	case op.SquaredErrorGrad:
		launchLossGradients(c, squaredError, 0, k)
	default:
		return false
	}
	return true
}

// crossEntropy compares rows of logits with their labels.
type crossEntropy struct {
	rows, classes  int
	logits, labels driver.Pointer
	smoothing      float64
}

func newCrossEntropy(k call, smoothing float64) crossEntropy {
	return crossEntropy{k.shapes[0][0], k.shapes[0][1], k.in[0], k.in[1], smoothing}
}

// launchLosses queues the loss of each row.
func (e crossEntropy) launchLosses(c *compiler, out driver.Pointer) {
	launchPerRow(c, "cross_entropy", e.rows, e.classes, out, e.logits, e.labels, int32(e.rows), int32(e.classes), float32(e.smoothing))
}

// launchGradient queues the gradient in the logits, which it may replace, from that of each row's loss.
func (e crossEntropy) launchGradient(c *compiler, out, slopes driver.Pointer) {
	launchPerRow(c, "cross_entropy_gradient", e.rows, e.classes, out, e.logits, e.labels, slopes,
		int32(e.rows), int32(e.classes), float32(e.smoothing))
}

func launchLosses(c *compiler, loss int32, width float64, k call) {
	rows := k.results()
	n := k.size(0) / rows
	launchPerRow(c, "losses", rows, n, k.out, k.in[0], k.in[1], int32(rows), int32(n), loss, float32(width))
}

func launchLossGradients(c *compiler, loss int32, width float64, k call) {
	n := k.results()
	c.launch("losses_gradient", blocks(n), threads, k.out, k.in[0], k.in[1], k.in[2],
		int32(n), newDivider(n/k.size(2)), loss, float32(width))
}
