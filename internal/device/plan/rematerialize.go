package plan

import (
	"math"
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
)

// Rematerialize recomputes results in the backward pass instead of keeping them, if that
// takes almost no time and makes the arena smaller by an eighth or more. Every result
// keeps its bits. Programs of at most cacheBytes do not change: results that fit the
// device's cache cost nothing to keep.
func (p *Program) Rematerialize(cacheBytes int) {
	if p.Bytes() <= cacheBytes {
		return
	}
	best, least := p, math.MaxInt
	for q := p; q != nil; {
		next, alive := q.rematerializeAtPeak()
		if alive < least {
			best, least = q, alive
		}
		q = next
	}
	if best.layOutArena(); best.Arena <= p.Arena-p.Arena/8 {
		*p = *best
	}
}

// rematerializeAtPeak is one round: at the instruction where the most memory is alive, it
// drops results that are only kept for later. When such a result is next read, the same
// operation computes it again, with the same bits. Only results of cheap operations are
// dropped, and only if their operands are alive then or can be computed again too. The
// arena of q is not laid out; q is nil if no result can be dropped. Alive is the largest
// number of elements that are alive together in p.
func (p *Program) rematerializeAtPeak() (q *Program, alive int) {
	r := rematerializer{program: p, accesses: p.accesses(), producer: make([]*Instruction, len(p.Buffers)),
		dropped: map[int]bool{}, recomputed: map[int]int{}}
	code := slices.Concat(p.Front, p.Back)
	for at, c := range code {
		r.producer[p.Buffers[c.Out].Base] = &code[at]
	}
	peak, alive := r.accesses.peak(p)
	for b := range p.Buffers {
		if to, spans := r.accesses.aliveAcross(b, peak); spans && r.canRecompute(b, to, maxRecomputeChain) {
			r.dropped[b] = true
		}
	}
	if len(r.dropped) == 0 {
		return nil, alive
	}
	q = new(Program)
	*q = *p
	q.Buffers, q.Arena = slices.Clone(p.Buffers), 0
	r.program = q
	for at, c := range code {
		if at > peak {
			c.In = slices.Clone(c.In)
			for k, id := range c.In {
				c.In[k] = r.operand(id, at)
			}
		}
		r.code = append(r.code, c)
		if at == len(p.Front)-1 {
			q.Front = slices.Clip(r.code)
		}
	}
	q.Back = r.code[len(q.Front):]
	return q, alive
}

// accesses are the instructions that read or write each temporary. Back's instructions
// are numbered after Front's.
type accesses [][]int

func (p *Program) accesses() accesses {
	l := make(accesses, len(p.Buffers))
	for at, c := range slices.Concat(p.Front, p.Back) {
		for _, id := range append(slices.Clip(c.In), c.Out) {
			b := p.Buffers[id].Base
			if t := l[b]; p.Buffers[b].Role == RoleTemporary && (len(t) == 0 || t[len(t)-1] != at) {
				l[b] = append(t, at)
			}
		}
	}
	return l
}

// peak is the instruction at which the most elements are alive.
func (l accesses) peak(p *Program) (at, elements int) {
	change := make([]int, len(p.Front)+len(p.Back)+1)
	for b, t := range l {
		if len(t) > 0 {
			change[t[0]] += p.Buffers[b].Size()
			change[t[len(t)-1]+1] -= p.Buffers[b].Size()
		}
	}
	alive := 0
	for i, c := range change {
		if alive += c; alive > elements {
			at, elements = i, alive
		}
	}
	return at, elements
}

// aliveAcross returns the next access of a buffer that is alive at an instruction which
// does not access it.
func (l accesses) aliveAcross(b, at int) (next int, ok bool) {
	i, touches := slices.BinarySearch(l[b], at)
	if touches || i == 0 || i == len(l[b]) {
		return 0, false
	}
	return l[b][i], true
}

// rematerializer rewrites a program to one that keeps fewer results.
type rematerializer struct {
	program    *Program
	accesses   accesses       // of the program before the rewrite; nil: what is not dropped is kept as long as it is read
	producer   []*Instruction // of each buffer
	dropped    map[int]bool   // results that are not kept
	recomputed map[int]int    // the buffer that contains a result computed again
	code       []Instruction
}

// isAlive reports whether a buffer keeps its value until an instruction without the pass.
func (r *rematerializer) isAlive(b, at int) bool {
	if r.accesses == nil {
		return true
	}
	t := r.accesses[b]
	return r.program.Buffers[b].Role != RoleTemporary || len(t) > 0 && t[len(t)-1] >= at
}

// maxRecomputeChain is the largest number of operations computed again in a row: a
// normalization, its scale and its activation.
const maxRecomputeChain = 3

// canRecompute reports whether the given number of operations in a row can compute a
// buffer again for an instruction.
func (r *rematerializer) canRecompute(b, at, operations int) bool {
	c := r.producer[b]
	if operations == 0 || c == nil || c.Accumulate || !isCheap(c.Spec) || len(r.accesses[b]) == 0 {
		return false
	}
	for _, id := range c.In {
		if x := r.program.Buffers[id].Base; !r.isAlive(x, at) && !r.canRecompute(x, at, operations-1) {
			return false
		}
	}
	return true
}

// operand returns a buffer with the content of another. It computes the content again if
// that was dropped.
func (r *rematerializer) operand(id, at int) int {
	of := r.program.Buffers[id]
	if !r.dropped[of.Base] && r.isAlive(of.Base, at) {
		return id
	}
	b, done := r.recomputed[of.Base]
	if !done {
		c := *r.producer[of.Base]
		c.In = slices.Clone(c.In)
		for k, x := range c.In {
			c.In[k] = r.operand(x, at)
		}
		b = r.buffer(r.program.Buffers[c.Out], len(r.program.Buffers))
		c.Out = b
		r.code = append(r.code, c)
		r.recomputed[of.Base] = b
	}
	if of.Base == id {
		return b
	}
	return r.buffer(of, b)
}

func (r *rematerializer) buffer(like Buffer, base int) int {
	like.Base = base
	r.program.Buffers = append(r.program.Buffers, like)
	return len(r.program.Buffers) - 1
}

// isCheap reports whether an operation takes no more time than reading its result.
func isCheap(s op.Operation) bool {
	switch s := s.(type) {
	case op.Activate:
		return s.Act == op.ReLU || s.Act == op.LeakyReLU
	case op.Binary:
		return s.Kind != "^"
	case op.Normalize, op.ScaleShift, op.ChannelScale, op.ChannelShift, op.Add:
		return true
	}
	return false
}
