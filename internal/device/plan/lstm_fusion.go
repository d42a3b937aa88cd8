package plan

import (
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
)

// FuseLSTM is the program with the products around each LSTM fused into it. A device that
// walks through the steps of a sequence can then run a step of the product while the
// step's rows are in its cache. The program p does not change.
//
// An op.LSTMTrace takes over the product that computes its input (Before) and the
// operation that reads the hidden states off the trace (After). An op.LSTMGrad takes over
// the product that computes the gradient of the LSTM's input (After). Every result has the
// bits that it has without the pass.
//
// The arena grows where the result of an After would overlap memory that is still in use
// when the result is now written.
func (p *Program) FuseLSTM() *Program {
	q := *p
	q.Buffers = slices.Clone(p.Buffers)
	f := lstmFusion{from: p, to: &q, products: map[int]Instruction{}, absorbed: map[int]bool{}}
	q.Front, q.Back = f.fuse(p.Front), f.fuse(p.Back)
	return &q
}

// lstmFusion is the state of the pass. Maps have the buffers of results as keys.
type lstmFusion struct {
	from, to *Program
	products map[int]Instruction // deferred to the LSTM that reads them
	absorbed map[int]bool        // an earlier instruction computes them
}

func (f *lstmFusion) fuse(code []Instruction) []Instruction {
	var fused []Instruction
	for n, c := range code {
		next := code[n+1:]
		switch s := c.Spec.(type) {
		case op.Linear:
			if s.Act == op.Identity && f.deferrable(c, next) {
				f.products[f.base(c.Out)] = c
				continue
			}
		case op.LSTM, op.MatMul:
			if f.absorbed[f.base(c.Out)] {
				continue
			}
		case op.LSTMTrace:
			var reads []int
			if product, ok := f.products[f.base(c.In[0])]; ok {
				c.Before, reads = &product, product.In
			}
			width := f.width(c.Out)
			c.After = f.absorb(c, next, reads, func(i Instruction) bool {
				_, is := i.Spec.(op.LSTM)
				return is && f.reads(i, 2, c.Out, width)
			})
		case op.LSTMGrad:
			width := f.width(c.Out)
			c.After = f.absorb(c, next, nil, func(i Instruction) bool {
				return i.Spec == op.Operation(op.MatMul{TransB: true}) && f.reads(i, 0, c.Out, width) &&
					f.from.Buffers[f.base(i.In[1])].Role != RoleTemporary
			})
		}
		fused = append(fused, c)
	}
	return fused
}

// deferrable reports whether a product may be left to the op.LSTMTrace that reads it.
// Nothing else may read it, and its operands must keep their values until then.
func (f *lstmFusion) deferrable(product Instruction, next []Instruction) bool {
	if f.from.Buffers[f.base(product.Out)].Role != RoleTemporary {
		return false
	}
	found := false
	for _, i := range slices.Concat(next, f.from.Back) {
		if !found && f.overlaps(product.In, i.Out) {
			return false
		}
		switch i.Spec.(type) {
		case op.LSTM: // devices read the states off the trace, not off the product
			continue
		case op.LSTMTrace:
			if !found && f.reads(i, 0, product.Out, f.from.Buffers[product.Out].Shape[1]) {
				found = true
				continue
			}
		}
		if slices.ContainsFunc(i.In, func(id int) bool { return f.base(id) == f.base(product.Out) }) {
			return false
		}
	}
	return found
}

// absorb returns the first wanted instruction after c, which c will run as well, or nil.
// The memory of its result must not be in use between c and its old place; if it is, the
// result gets memory of its own. Reads are buffers that c reads in addition to its
// operands.
func (f *lstmFusion) absorb(c Instruction, next []Instruction, reads []int, wanted func(Instruction) bool) *Instruction {
	used := slices.Concat(reads, c.In)
	for _, i := range next {
		if !wanted(i) {
			used = append(append(used, i.In...), i.Out)
			continue
		}
		out := f.base(i.Out)
		if i.Accumulate || f.from.Buffers[out].Role != RoleTemporary {
			return nil
		}
		if f.overlaps(used, out) {
			f.to.Buffers[out].Offset = f.to.Arena
			f.to.Arena += alignedSize(f.to.Buffers[out].Size())
		}
		f.absorbed[out] = true
		return &i
	}
	return nil
}

func (f *lstmFusion) base(id int) int { return f.from.Buffers[id].Base }

// width is the length of a buffer's last axis.
func (f *lstmFusion) width(id int) int {
	shape := f.from.Buffers[id].Shape
	return shape[len(shape)-1]
}

// reads reports whether operand k of an instruction is the memory of a buffer, as rows of
// the given width.
func (f *lstmFusion) reads(i Instruction, k, id, width int) bool {
	return f.base(i.In[k]) == f.base(id) && f.width(i.In[k]) == width
}

// overlaps reports whether a buffer shares memory of the arena with one of the others.
func (f *lstmFusion) overlaps(others []int, id int) bool {
	b := f.from.Buffers[f.base(id)]
	return b.Role == RoleTemporary && slices.ContainsFunc(others, func(other int) bool {
		a := f.from.Buffers[f.base(other)]
		return a.Role == RoleTemporary && a.Offset < b.Offset+b.Size() && b.Offset < a.Offset+a.Size()
	})
}
