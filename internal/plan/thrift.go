package plan

import (
	"slices"

	"github.com/dptrain/dptrain/internal/op"
)

// cached is as much as a core's cache may hold: results that fit there cost nothing to
// keep.
const cached = 8 << 20

// Thrift makes results again on the way back instead of keeping them, where that is done
// in next to no time and makes the arena smaller by an eighth or more. Every result keeps
// its bits.
func (p *Program) Thrift() {
	if p.Bytes() <= cached {
		return
	}
	best := p
	for q := p.again(); q != nil; q = q.again() {
		if q.Arena < best.Arena {
			best = q
		}
	}
	if best.Arena <= p.Arena-p.Arena/8 {
		*p = *best
	}
}

// again is the program in which results that are only kept where most memory is taken
// are not kept but made again, by the same operation with the same bits, when they are
// next read. They are results of an operation which costs no more than reading them
// would, and which reads what is there then anyway. It is nil where there are none.
func (p *Program) again() *Program {
	code := slices.Concat(p.Front, p.Back)
	r := rewriting{
		program: p, touched: make([][]int, len(p.Buffers)), maker: make([]*Instruction, len(p.Buffers)),
		dropped: map[int]bool{}, made: map[int]int{},
	}
	for at, c := range code {
		for _, id := range append(slices.Clip(c.In), c.Out) {
			b := p.Buffers[id].Base
			if t := r.touched[b]; p.Buffers[b].Role == Temporary && (len(t) == 0 || t[len(t)-1] != at) {
				r.touched[b] = append(t, at)
			}
		}
		r.maker[p.Buffers[c.Out].Base] = &code[at]
	}
	peak := r.peak(len(code))
	for b := range p.Buffers {
		if from, to := r.around(b, peak); from >= 0 && to >= 0 && r.repeatable(b, to) {
			r.dropped[b] = true
		}
	}
	if len(r.dropped) == 0 {
		return nil
	}
	q := *p
	q.Buffers, q.Arena = slices.Clone(p.Buffers), 0
	r.program = &q
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
	q.reuse()
	return &q
}

// rewriting is a program on its way to one that keeps less.
type rewriting struct {
	program *Program
	touched [][]int        // which instructions read or write a temporary
	maker   []*Instruction // of a buffer
	dropped map[int]bool   // what is not kept
	made    map[int]int    // what was made again, and where
	code    []Instruction
}

// peak is the instruction at which temporaries that are alive take most memory.
func (r *rewriting) peak(instructions int) (at int) {
	change := make([]int, instructions+1)
	for b, t := range r.touched {
		if len(t) > 0 {
			change[t[0]] += r.program.Buffers[b].Size()
			change[t[len(t)-1]+1] -= r.program.Buffers[b].Size()
		}
	}
	alive, most := 0, 0
	for i, c := range change {
		if alive += c; alive > most {
			at, most = i, alive
		}
	}
	return at
}

// around gives when a buffer is touched last before an instruction that does not touch
// it, and first behind, or -1.
func (r *rewriting) around(b, at int) (from, to int) {
	i, touches := slices.BinarySearch(r.touched[b], at)
	if touches || i == 0 || i == len(r.touched[b]) {
		return -1, -1
	}
	return r.touched[b][i-1], r.touched[b][i]
}

// alive tells whether a buffer holds its value until an instruction anyway.
func (r *rewriting) alive(b, at int) bool {
	t := r.touched[b]
	return r.program.Buffers[b].Role != Temporary || len(t) > 0 && t[len(t)-1] >= at
}

// repeatable tells whether a buffer can be made again for an instruction.
func (r *rewriting) repeatable(b, at int) bool {
	c := r.maker[b]
	if c == nil || !cheap(c.Spec) || len(r.touched[b]) == 0 {
		return false
	}
	for _, id := range c.In {
		if x := r.program.Buffers[id].Base; !r.alive(x, at) && !r.repeatable(x, at) {
			return false
		}
	}
	return true
}

// operand is a buffer that holds what another held, made again where that was dropped.
func (r *rewriting) operand(id, at int) int {
	of := r.program.Buffers[id]
	if !r.dropped[of.Base] && r.alive(of.Base, at) {
		return id
	}
	b, done := r.made[of.Base]
	if !done {
		c := *r.maker[of.Base]
		c.In = slices.Clone(c.In)
		for k, x := range c.In {
			c.In[k] = r.operand(x, at)
		}
		b = r.buffer(r.program.Buffers[c.Out], len(r.program.Buffers))
		c.Out = b
		r.code = append(r.code, c)
		r.made[of.Base] = b
	}
	if of.Base == id {
		return b
	}
	return r.buffer(of, b)
}

func (r *rewriting) buffer(like Buffer, base int) int {
	like.Base = base
	r.program.Buffers = append(r.program.Buffers, like)
	return len(r.program.Buffers) - 1
}

// cheap tells whether an operation costs no more than reading its result.
func cheap(s op.Spec) bool {
	switch s := s.(type) {
	case op.Activate:
		return s.Act == op.ReLU || s.Act == op.LeakyReLU
	case op.Normalize, op.ScaleShift, op.ChannelScale, op.ChannelShift, op.Add:
		return true
	}
	return false
}
