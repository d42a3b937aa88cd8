package cpu

import (
	"math"

	"github.com/dptrain/dptrain/internal/op"
)

// mixed builds one record's gradient at a time, all uses added up, and squares
// it. It does so in float64: where uses cancel, float32 would find far less than the
// norm. Several uses, or several places of a use that are one element of the parameter, are
// summed one after the other in float32, each for all records of a microbatch, and what its
// roundings may leave of them, and of the other records meanwhile, is added; plans have
// another way for a single one.
func (c compiler) mixed(s op.MultiUseNorms, k call) func() {
	if step := c.tied(s, k); step != nil {
		return step
	}
	type part struct {
		use  exactUse
		at   *op.Map
		size int
		meet float64 // the root of how many places of it are one element of the parameter
	}
	parts := make([]part, len(*s.Parts))
	largest, cost, terms := 0, s.Size, 0
	for i, p := range *s.Parts {
		from, to := s.InputRange(i)
		u := c.exact(p.Form, s.Records, k.in[from:to])
		meet := p.Map.MaxMultiplicity(s.Size)
		parts[i] = part{u, p.Map, p.Form.Size(), math.Sqrt(float64(meet))}
		largest = max(largest, p.Form.Size())
		cost += u.cost
		terms += u.terms + meet
	}
	c.reserve(0, s.Size+largest)
	each := roundoff
	if len(parts) > 1 || parts[0].meet > 1 {
		each = singleRoundoff
	}
	relative := float64(terms+8) * each
	out := k.out
	return c.over(s.Records, cost, func(from, to int, w *worker) {
		memory := w.doubles(s.Size + largest)
		all := memory[:s.Size]
		for r := from; r < to; r++ {
			clear(all)
			var length float64
			for _, p := range parts {
				length += p.meet * p.use.length(r)
				if p.at == nil {
					p.use.add(all, r, w)
					continue
				}
				one := memory[s.Size:][:p.size]
				clear(one)
				p.use.add(one, r, w)
				p.at.Scatter(all, one)
			}
			var total float64
			for _, v := range all {
				total += v * v
			}
			norm := math.Sqrt(total) + relative*length
			out[r] = float32(norm*norm + k.operands(r, s.Records))
		}
	})
}
