package plan

import (
	"cmp"
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
)

// alignment of buffers in the arena, in elements: one cache line.
const alignment = 16

// lifetime is the part of the arena that a temporary needs: from its first to its last
// instruction, size elements.
type lifetime struct{ id, from, to, size int }

// alignedSize is a number of elements rounded up to a multiple of alignment.
func alignedSize(n int) int { return (n + alignment - 1) / alignment * alignment }

// layOutArena gives every temporary a place in one arena. No two temporaries that are
// alive together overlap, except a result that overwrites an operand. The largest are
// placed first, each at the lowest place that is free for its whole lifetime.
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

// lifetimes are those of the temporaries. A result that overwrites an operand has the
// operand's lifetime.
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

// place puts a lifetime at the lowest offset where no overlapping lifetime has been
// placed.
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

// CanOverwrite reports whether an operation's result may overwrite an operand of its
// size. Each element of the result must be computed from the element of the operand at
// its place and no other, in one pass. SiLU and the slope of softplus take several
// passes. The scales and shifts of channels are shared by the rows, so they are read
// again after the first write.
func CanOverwrite(s op.Operation, operand int) bool {
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
