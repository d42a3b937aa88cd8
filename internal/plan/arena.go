package plan

import (
	"cmp"
	"slices"

	"github.com/dptrain/dptrain/internal/op"
)

// alignment of buffers in the arena, in elements: a cache line.
const alignment = 16

// lifetime is a place in the arena, and from when to when it is taken.
type lifetime struct{ id, from, to, size int }

// alignedSize is a number of elements rounded up to whole alignments.
func alignedSize(n int) int { return (n + alignment - 1) / alignment * alignment }

// layOutArena gives every temporary a place in one arena such that no two that are
// alive together overlap, but for a result that is written over an operand. The
// largest are placed first, each at the lowest place that is free for as long as it
// lives.
func (p *Program) layOutArena() {
	spans := p.lifetimes()
	var order []*lifetime
	for id, s := range spans {
		if s != nil && s.id == id {
			order = append(order, s)
		}
	}
	slices.SortFunc(order, func(a, b *lifetime) int { return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.id, b.id)) })
	for i, s := range order {
		p.place(s, order[:i])
	}
	for id, s := range spans {
		if s != nil {
			p.Buffers[id].Offset = p.Buffers[s.id].Offset
		}
	}
}

// lifetimes are those of the temporaries; a result that is written over an operand has the
// operand's.
func (p *Program) lifetimes() []*lifetime {
	spans := make([]*lifetime, len(p.Buffers))
	for id, t := range p.accesses() {
		if len(t) > 0 {
			spans[id] = &lifetime{id, t[0], t[len(t)-1], alignedSize(p.Buffers[id].Size())}
		}
	}
	for at, c := range slices.Concat(p.Front, p.Back) {
		out := spans[p.Buffers[c.Out].Base]
		if out == nil || out.from != at {
			continue
		}
		for k, id := range c.In {
			if !CanOverwrite(c.Spec, k) {
				break
			}
			if x := spans[p.Buffers[id].Base]; x != nil && x.to == at && p.Buffers[id].Size() == p.Buffers[c.Out].Size() {
				x.to = out.to
				spans[out.id] = x
				break
			}
		}
	}
	return spans
}

// place puts a span where none of those placed before it is meanwhile.
func (p *Program) place(s *lifetime, placed []*lifetime) {
	var busy []*lifetime
	for _, q := range placed {
		if q.from <= s.to && s.from <= q.to {
			busy = append(busy, q)
		}
	}
	slices.SortFunc(busy, func(a, b *lifetime) int { return cmp.Compare(p.Buffers[a.id].Offset, p.Buffers[b.id].Offset) })
	offset := 0
	for _, q := range busy {
		o := p.Buffers[q.id].Offset
		if offset+s.size <= o {
			break
		}
		offset = max(offset, o+q.size)
	}
	p.Buffers[s.id].Offset = offset
	p.Arena = max(p.Arena, offset+s.size)
}

// CanOverwrite tells whether an operation's result may lie where an operand of its size
// does: each element is made of the operand's element at its place and of no other, in
// one go, which SiLU and the slope of softplus are not. Scales and shifts of channels,
// which the rows share, are read more than once, or late.
func CanOverwrite(s op.Spec, operand int) bool {
	switch s := s.(type) {
	case op.Activate:
		return s.Act != op.SiLU
	case op.ActivationGrad:
		return s.Act != op.SiLU && s.Act != op.Softplus
	case op.Add, op.Binary:
		return true
	case op.ScaleShift, op.ChannelScale, op.ChannelShift:
		return operand == 0
	}
	return false
}
