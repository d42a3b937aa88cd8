package cpu

import (
	"slices"

	"github.com/dptrain/dptrain/internal/op"
	"github.com/dptrain/dptrain/internal/plan"
)

// An LSTM makes the products beside it as it walks, one step of its examples at a
// time, while the rows are in the cache: what its inputs give the gates, and what
// the signals at the gates give its inputs. Its hidden states it writes at once.
// The bits are those of the operations alone.

// leaves tells whether the product k is left to the LSTM that follows: nothing
// else reads it, and what it reads is there until then.
func (l *lowering) leaves(k call) bool {
	if l.program.Buffers[k.base].Role != plan.RoleTemporary {
		return false
	}
	left := false
	for _, i := range slices.Concat(k.next, l.program.Back) {
		if !left && l.overlaps(k.bases, i.Out) {
			return false
		}
		switch i.Spec.(type) {
		case op.LSTM: // takes everything off its trace
			continue
		case op.LSTMTrace:
			if !left && l.reads(i, 0, k.base, k.shape[1]) {
				left = true
				continue
			}
		}
		if slices.ContainsFunc(i.In, func(id int) bool { return l.base(id) == k.base }) {
			return false
		}
	}
	if left {
		l.left[k.base] = k
	}
	return left
}

// reads tells whether an instruction reads, as its input number in, the rows of a
// buffer.
func (l *lowering) reads(i plan.Instruction, in, base, width int) bool {
	shape := l.program.Buffers[i.In[in]].Shape
	return l.base(i.In[in]) == base && shape[len(shape)-1] == width
}

// takes gives the first of the wanted operations that follow k, if k can make its
// result as well; made then tells that it is done. What k reads besides its inputs
// is told by others.
func (l *lowering) takes(k call, others []int, wanted func(plan.Instruction) bool) (taken call, ok bool) {
	used := append(others, k.bases...)
	for _, i := range k.next {
		if !wanted(i) {
			used = append(append(used, i.In...), i.Out)
			continue
		}
		if i.Accumulate || l.program.Buffers[l.base(i.Out)].Role != plan.RoleTemporary {
			break
		}
		if l.overlaps(used, i.Out) {
			l.apart(i.Out)
		}
		taken = l.call(i)
		l.early[taken.base] = true
		return taken, true
	}
	return call{}, false
}

// made tells whether an operation before has made the result of k.
func (l *lowering) made(k call) bool { return l.early[k.base] }

func (l *lowering) base(id int) int { return l.program.Buffers[id].Base }

// overlaps tells whether a buffer shares memory of the arena with one of others.
func (l *lowering) overlaps(others []int, id int) bool {
	b := l.program.Buffers[l.base(id)]
	return b.Role == plan.RoleTemporary && slices.ContainsFunc(others, func(other int) bool {
		a := l.program.Buffers[l.base(other)]
		return a.Role == plan.RoleTemporary && a.Offset < b.Offset+b.Size() && b.Offset < a.Offset+a.Size()
	})
}

// apart gives a buffer memory of its own, before any operation that knows it is
// made.
func (l *lowering) apart(id int) {
	base := l.base(id)
	memory := zeros(l.program.Buffers[base].Size())
	for i, b := range l.program.Buffers {
		if b.Base == base {
			l.memory[i] = memory
		}
	}
}
