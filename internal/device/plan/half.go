package plan

import (
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
)

// KeepHalf marks the constants that a device can keep as numbers of 16 bits: they are stored so, and only products and lookups
// read them, which widen the numbers that they read. Widening is exact, so every result keeps its bits. Other operations are
// few and read small constants, so they have float32.
//
// A device that computes with these numbers calls KeepHalf after all other passes. It can be called again.
func (p *Program) KeepHalf() {
	wide := map[int]bool{}
	for _, i := range slices.Concat(p.Front, p.Back) {
		for at, id := range i.In {
			if !readsHalf(i.Spec, at) {
				wide[p.Buffers[id].Base] = true
			}
		}
		for _, fused := range []*Instruction{i.Before, i.After} {
			for at := 0; fused != nil && at < len(fused.In); at++ {
				wide[p.Buffers[fused.In[at]].Base] = true
			}
		}
	}
	for id := range p.Buffers {
		b := &p.Buffers[id]
		b.Half = b.Base == id && b.Shared != nil && b.Shared.IsHalf() && !wide[id]
	}
}

// readsHalf reports whether an operation can read numbers of 16 bits as one of its inputs.
func readsHalf(spec op.Operation, input int) bool {
	switch s := spec.(type) {
	case op.Embed:
		return input == 0
	case op.MatMul:
		return input == 1 && !s.TransA
	case op.Linear, op.VocabularyLoss, op.VocabularyLossGrad:
		return input == 1
	}
	return false
}
