package plan

import (
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
	"gorgonia.org/tensor"
)

// FuseVocabularyLoss joins the product with a frozen matrix of classes, the cross-entropy of its rows and the gradient in the
// other operand, if the logits have at least this number of elements. A device can then compute some rows at a time, so that neither
// the logits nor their gradient exist whole. Every result keeps its bits, because the bits of a row of a product depend on no
// other row.
//
// Nothing else may read the logits. Where the matrix is trained, its norms need the gradient of the logits, and the program
// does not change. The same holds where the losses are computed in front of the gradient, as without norms.
func (p *Program) FuseVocabularyLoss(least int) {
	changed := false
	for at := range p.Front {
		if f := p.findVocabularyLoss(at); f != nil && p.Buffers[p.Front[at].In[0]].Size() >= least {
			f.rewrite(p)
			changed = true
		}
	}
	if !changed {
		return
	}
	p.Front = slices.DeleteFunc(p.Front, func(i Instruction) bool { return i.Spec == nil && i.Foreign == nil })
	p.Arena = 0
	p.layOutArena()
}

// vocabularyLoss are the places of instructions that are fused.
type vocabularyLoss struct {
	logits, slopes, back int
	loss                 int // −1: none
}

// findVocabularyLoss returns the instructions around a gradient of cross-entropy, or nil.
func (p *Program) findVocabularyLoss(slopes int) *vocabularyLoss {
	base := func(id int) int { return p.Buffers[id].Base }
	grad := p.Front[slopes]
	if grad.Spec != op.Operation(op.CrossEntropyGrad{}) {
		return nil
	}
	f := vocabularyLoss{logits: -1, slopes: slopes, back: -1, loss: -1}
	for at, i := range slices.Concat(p.Front, p.Back) {
		reads := func(id int) bool { return slices.ContainsFunc(i.In, func(in int) bool { return base(in) == base(id) }) }
		switch {
		case at == slopes:
		case base(i.Out) == base(grad.In[0]):
			f.logits = at
		case reads(grad.In[0]) && f.loss < 0 && i.Spec == op.Operation(op.CrossEntropy{}) && base(i.In[1]) == base(grad.In[1]):
			f.loss = at
		case reads(grad.Out) && f.back < 0 && base(i.In[0]) == base(grad.Out):
			f.back = at
		case reads(grad.In[0]) || reads(grad.Out):
			return nil // something else reads the logits, or their gradient
		}
	}
	if f.logits < 0 || f.back < 0 || f.back >= len(p.Front) || f.loss >= len(p.Front) || f.loss >= 0 && f.loss < f.back ||
		!p.fitsVocabularyLoss(&f) {
		return nil
	}
	return &f
}

// fitsVocabularyLoss compares the products and their shapes.
func (p *Program) fitsVocabularyLoss(f *vocabularyLoss) bool {
	logits, grad, back := p.Front[f.logits], p.Front[f.slopes], p.Front[f.back]
	fused, is := fusedLoss(logits.Spec)
	if !is || back.Spec != op.Operation(op.MatMul{TransB: !fused.Trans}) || logits.Accumulate || back.Accumulate {
		return false
	}
	matrix := p.Buffers[logits.In[1]]
	if p.Buffers[matrix.Base].Role != RoleConstant || p.Buffers[back.In[1]].Base != matrix.Base {
		return false
	}
	for _, id := range []int{logits.Out, grad.In[0], grad.Out, back.In[0]} {
		b := p.Buffers[id]
		if p.Buffers[b.Base].Role != RoleTemporary || !slices.Equal(b.Shape, p.Buffers[grad.In[0]].Shape) {
			return false
		}
	}
	return slices.Equal(p.Buffers[back.In[1]].Shape, matrix.Shape) && slices.Equal(p.Buffers[back.Out].Shape, p.Buffers[logits.In[0]].Shape)
}

// fusedLoss returns the loss that computes logits with a product.
func fusedLoss(product op.Operation) (v op.VocabularyLoss, ok bool) {
	switch s := product.(type) {
	case op.MatMul:
		return op.VocabularyLoss{Trans: s.TransB}, !s.TransA
	case op.Linear:
		return op.VocabularyLoss{Bias: true}, s.Act == op.Identity
	}
	return v, false
}

// rewrite replaces the instructions. Those without an operation are to be removed.
func (f *vocabularyLoss) rewrite(p *Program) {
	logits, grad := p.Front[f.logits], p.Front[f.slopes]
	fused, _ := fusedLoss(logits.Spec)
	p.Front, p.Buffers = slices.Clone(p.Front), slices.Clone(p.Buffers)
	p.Front[f.back].Spec = op.VocabularyLossGrad(fused)
	p.Front[f.back].In = append(slices.Clone(logits.In), grad.In[1], grad.In[2])
	p.Front[f.logits], p.Front[f.slopes] = Instruction{}, Instruction{}
	for _, id := range []int{logits.Out, grad.Out} {
		b := &p.Buffers[p.Buffers[id].Base]
		b.Shape, b.Offset = tensor.Shape{0}, 0 // no instruction has it
	}
	if f.loss >= 0 {
		p.Front[f.loss].Spec, p.Front[f.loss].In = fused, append(slices.Clone(logits.In), grad.In[1])
	}
}
