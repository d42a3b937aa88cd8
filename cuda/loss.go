//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/internal/op"
)

// The losses of kernels/loss.cu that are no op.ElementLoss.
const (
	binaryEntropy int32 = 4 + iota
	squaredError
)

// lowerLossOp queues losses and their gradients.
func (c *compiler) lowerLossOp(spec op.Spec, k call) bool {
	switch s := spec.(type) {
	case op.CrossEntropy:
		rows, classes := k.shapes[0][0], k.shapes[0][1]
		c.launchPerRow("cross_entropy", rows, classes, k.out, k.in[0], k.in[1], int32(rows), int32(classes), float32(s.Smoothing))
	case op.CrossEntropyGrad:
		rows, classes := k.shapes[0][0], k.shapes[0][1]
		c.launchPerRow("cross_entropy_gradient", rows, classes, k.out, k.in[0], k.in[1], k.in[2],
			int32(rows), int32(classes), float32(s.Smoothing))
	case op.ElementLosses:
		c.launchLosses(int32(s.Kind), s.Width, k)
	case op.ElementLossesGrad:
		c.launchLossGradients(int32(s.Kind), s.Width, k)
	case op.SigmoidCrossEntropy:
		c.launchLosses(binaryEntropy, 0, k)
	case op.SigmoidCrossEntropyGrad:
		c.launchLossGradients(binaryEntropy, 0, k)
	case op.SquaredError:
		c.launchLosses(squaredError, 0, k)
	case op.SquaredErrorGrad:
		c.launchLossGradients(squaredError, 0, k)
	default:
		return false
	}
	return true
}

func (c *compiler) launchLosses(loss int32, width float64, k call) {
	rows := k.results()
	n := k.size(0) / rows
	c.launchPerRow("losses", rows, n, k.out, k.in[0], k.in[1], int32(rows), int32(n), loss, float32(width))
}

func (c *compiler) launchLossGradients(loss int32, width float64, k call) {
	n := k.results()
	c.launch("losses_gradient", blocks(n), threads, k.out, k.in[0], k.in[1], k.in[2],
		int32(n), newDivider(n/k.size(2)), loss, float32(width))
}
