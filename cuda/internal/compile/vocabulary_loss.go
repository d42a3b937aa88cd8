//go:build gpu

package compile

import (
	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
)

// blockLogits is the largest number of logits that exist at a time, 64 MiB. Programs with fewer logits keep all of them.
var blockLogits = 16 << 20

// logitBlocks computes the logits of some rows at a time, always in the same memory.
type logitBlocks struct {
	logits matrixProduct // of a block
	rows   int           // of all blocks
	labels driver.Pointer
}

// logitKey is the key of the memory of a block's logits. All instructions share it.
type logitKey struct{ bytes int }

// lossKey is the key of the losses that a gradient computes. The buffers identify the rows, the matrix and the labels.
type lossKey struct{ rows, matrix, labels int }

func lossKeyOf(s op.VocabularyLoss, k call) lossKey {
	return lossKey{k.bases[0], k.bases[1], k.bases[s.Labels()]}
}

// newLogitBlocks divides the rows into blocks of one size.
func newLogitBlocks(c *compiler, s op.VocabularyLoss, k call) logitBlocks {
	p := newMatrixProduct(s.Product(), k.shapes, k)
	if s.Bias {
		p.bias = k.in[2]
	}
	b := logitBlocks{rows: p.rows, labels: k.in[s.Labels()]}
	parts := ceil(p.rows, max(1, blockLogits/p.columns))
	p.rows = ceil(p.rows, parts)
	p.unaligned = parts > 1 && p.depth%4 != 0
	bytes := 4 * p.rows * p.columns
	p.out, _ = c.sharedMemory(logitKey{bytes}, bytes) // a library is tested on its operands, which scratch memory does not have yet
	b.logits = p
	return b
}

// each queues the logits and the losses of each block, and then what the caller queues. The last block repeats rows of the block
// before it: a library may compute another number of rows in another way, and a record's bits must not depend on its place.
func (b logitBlocks) each(c *compiler, losses driver.Pointer, then func(e crossEntropy, from int)) {
	used, most := c.scratch.used, 0
	for end := b.logits.rows; ; end = min(end+b.logits.rows, b.rows) {
		from := end - b.logits.rows
		p := b.logits
		p.a = floatAt(p.a, from*p.depth)
		c.scratch.used = used
		launchProduct(c, p)
		e := crossEntropy{rows: p.rows, classes: p.columns, logits: p.out, labels: floatAt(b.labels, from)}
		e.launchLosses(c, floatAt(losses, from))
		then(e, from)
		most = max(most, c.scratch.used)
		if end == b.rows {
			break
		}
	}
	c.scratch.used = most
}

func floatAt(p driver.Pointer, i int) driver.Pointer { return p + driver.Pointer(4*i) }

// lowerVocabularyLoss copies the losses that the gradient has computed, or computes them.
func lowerVocabularyLoss(c *compiler, s op.VocabularyLoss, k call) {
	if key, bytes := lossKeyOf(s, k), 4*k.results(); c.written[key] {
		losses, _ := c.sharedMemory(key, bytes)
		c.queue(c.name, func() error { return c.device.Copy(k.out, losses, bytes) })
		return
	}
	newLogitBlocks(c, s, k).each(c, k.out, func(crossEntropy, int) {})
}

// lowerVocabularyLossGrad replaces the logits of each block by the gradient in them, and multiplies it by the matrix. It keeps
// the losses.
func lowerVocabularyLossGrad(c *compiler, s op.VocabularyLossGrad, k call) {
	loss := op.VocabularyLoss(s)
	b := newLogitBlocks(c, loss, k)
	losses, _ := c.sharedMemory(lossKeyOf(loss, k), 4*b.rows)
	l, slopes := b.logits, k.in[loss.Labels()+1]
	b.each(c, losses, func(e crossEntropy, from int) {
		e.launchGradient(c, e.logits, floatAt(slopes, from))
		launchProduct(c, matrixProduct{
			a: l.out, b: l.b, format: l.format, out: floatAt(k.out, from*l.depth), transB: !l.transB, unaligned: l.unaligned,
			rows: l.rows, columns: l.depth, depth: l.columns,
		})
	})
}
