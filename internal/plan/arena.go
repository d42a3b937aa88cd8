package plan

import (
	"sort"

	"github.com/dptrain/dptrain/internal/op"
)

// alignment of buffers in the arena, in elements: a cache line.
const alignment = 16

// reuse gives every temporary a place in one arena such that no two that are
// alive together overlap, but for a result that is written over an operand. The
// largest are placed first, each at the lowest place that is free for as long as it
// lives.
func (p *Program) reuse() {
	type span struct{ id, from, to, size int }
	spans := map[int]*span{} // of each buffer; of a result written over an operand that of the operand
	at := 0
	note := func(id int) {
		id = p.Buffers[id].Base
		if p.Buffers[id].Role != Temporary {
			return
		}
		s, ok := spans[id]
		if !ok {
			size := (p.Buffers[id].Size() + alignment - 1) / alignment * alignment
			s = &span{id: id, from: at, size: size}
			spans[id] = s
		}
		s.to = at
	}
	for _, code := range [][]Instruction{p.Front, p.Back} {
		for _, c := range code {
			for _, id := range c.In {
				note(id)
			}
			note(c.Out)
			at++
		}
	}
	at = 0
	for _, code := range [][]Instruction{p.Front, p.Back} {
		for _, c := range code {
			out, made := spans[p.Buffers[c.Out].Base]
			for k, id := range c.In {
				if !made || out.from != at || !Overwrites(c.Spec, k) {
					break
				}
				if x, ok := spans[p.Buffers[id].Base]; ok && x.to == at && p.Buffers[id].Size() == p.Buffers[c.Out].Size() {
					x.to = out.to
					spans[out.id] = x
					break
				}
			}
			at++
		}
	}
	var order []*span
	for id, s := range spans {
		if s.id == id {
			order = append(order, s)
		}
	}
	sort.Slice(order, func(i, j int) bool {
		if order[i].size != order[j].size {
			return order[i].size > order[j].size
		}
		return order[i].id < order[j].id
	})
	var placed []*span
	for _, s := range order {
		offset := 0
		var busy []*span
		for _, q := range placed {
			if q.from <= s.to && s.from <= q.to {
				busy = append(busy, q)
			}
		}
		sort.Slice(busy, func(i, j int) bool { return p.Buffers[busy[i].id].Offset < p.Buffers[busy[j].id].Offset })
		for _, q := range busy {
			o := p.Buffers[q.id].Offset
			if offset+s.size <= o {
				break
			}
			offset = max(offset, o+q.size)
		}
		p.Buffers[s.id].Offset = offset
		p.Arena = max(p.Arena, offset+s.size)
		placed = append(placed, s)
	}
	for id, s := range spans {
		p.Buffers[id].Offset = p.Buffers[s.id].Offset
	}
}

// Overwrites tells whether an operation's result may lie where an operand of its size
// does: each element is made of the operand's element at its place and of no other, in
// one go, which SiLU and the slope of softplus are not. Scales and shifts of channels,
// which the rows share, are read more than once, or late.
func Overwrites(s op.Spec, operand int) bool {
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
