package engine

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/forward"
	"github.com/dptrain/dptrain/internal/ranks"
)

// ScoreTogether is [Evaluator.ScoreEach] on several ranks, which all call it with the same weights and set: each
// computes some batches. Rank 0 gets the evaluation, and calls the function. The evaluation has the bits of one process:
// the batches are the same, and rank 0 adds up their losses in order.
func (e *Evaluator) ScoreTogether(c ranks.Communicator, weights [][]float32, s data.Set,
	each func(expected, output []float32)) (Evaluation, error) {
	err := e.prepare(weights, s, e.network.Signature)
	if err := ranks.Agree(c, err); err != nil {
		return Evaluation{}, err
	}
	b := e.network.BatchFor(s.Len())
	together, err := e.canDivide(c, b, s)
	switch {
	case err != nil:
		return Evaluation{}, err
	case together:
		return e.scoreDivided(c, b, s, each)
	case c.Rank() > 0:
		return Evaluation{}, nil
	}
	return e.ScoreEach(weights, s, each)
}

// maxGatheredOutputs is the largest number of outputs of a batch that a rank sends.
const maxGatheredOutputs = 1 << 22

// canDivide reports whether the ranks divide the batches of a set. Rank 0 computes alone where there is one batch,
// where outputs are long, where it keeps the outputs of frozen layers, and where the memory of a rank makes its batches
// smaller.
func (e *Evaluator) canDivide(c ranks.Communicator, b *forward.Batch, s data.Set) (bool, error) {
	outputs := e.network.Signature.OutputSize
	mine := []byte(fmt.Sprint(s.Len(), b.Size, outputs))
	first, err := ranks.BroadcastAll(c, mine)
	if err != nil {
		return false, err
	}
	votes := []int64{0}
	if !bytes.Equal(first, mine) || e.network.KeepsFrozen() || s.Len() <= b.Size || b.Size*outputs > maxGatheredOutputs {
		votes[0] = 1
	}
	err = c.Sum(votes)
	return votes[0] == 0, err
}

// scoreDivided computes in each round a batch on each rank, and gathers the losses and outputs.
func (e *Evaluator) scoreDivided(c ranks.Communicator, b *forward.Batch, s data.Set,
	each func(expected, output []float32)) (Evaluation, error) {
	sc := e.newScorer(s, each)
	losses, outputs := b.LossesPerExample(), e.network.Signature.OutputSize
	if b.Executable.Output() == nil {
		outputs = 0
	}
	message, ends := make([]float32, c.Size()*b.Size*(losses+outputs)), make([]int, c.Size())
	var failed error // of this rank
	for first := 0; first < s.Len(); first += c.Size() * b.Size {
		sizeOf := func(rank int) int { return max(0, min(b.Size, s.Len()-first-rank*b.Size)) }
		end := 0
		for rank := range ends {
			end += 4 * sizeOf(rank) * (losses + outputs)
			ends[rank] = end
		}
		if n := sizeOf(c.Rank()); n > 0 && failed == nil {
			if failed = b.Read(s, first+c.Rank()*b.Size, n); failed == nil {
				failed = b.Executable.Forward()
				e.network.Signature.PadIgnoredLabels(b.Columns[:len(s.Columns())])
			}
		}
		if err := ranks.Agree(c, failed); err != nil {
			return Evaluation{}, err
		}
		n := sizeOf(c.Rank())
		from, _ := ranks.PartOf(ends, c.Rank())
		own := message[from/4:]
		copy(own, b.Executable.Losses()[:n*losses])
		copy(own[n*losses:], b.Executable.Output()[:n*outputs])
		if err := c.Gather(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(message))), end), ends); err != nil {
			return Evaluation{}, err
		}
		for rank := 0; c.Rank() == 0 && rank < c.Size() && failed == nil; rank++ {
			n, from := sizeOf(rank), 0
			if n == 0 {
				break
			}
			if rank > 0 { // the labels of rank 0 are still in b
				from = ends[rank-1] / 4
				failed = b.Read(s, first+rank*b.Size, n)
				e.network.Signature.PadIgnoredLabels(b.Columns[:len(s.Columns())])
			}
			if failed == nil {
				failed = sc.add(b, n, message[from:][:n*losses], message[from+n*losses:][:n*outputs])
			}
		}
	}
	if err := ranks.Agree(c, failed); err != nil || c.Rank() > 0 {
		return Evaluation{}, err
	}
	return sc.evaluation(), nil
}
