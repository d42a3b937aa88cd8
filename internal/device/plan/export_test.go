package plan

import (
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
)

// RematerializeAtPeak is the program after one round of rematerialization, even if it
// saves little.
func (p *Program) RematerializeAtPeak() *Program {
	q, _ := p.rematerializeAtPeak()
	if q != nil {
		q.layOutArena()
	}
	return q
}

// WithoutKeptGradients is the program with the norms of dense layers computed without keeping
// the records' gradients, and with clipped sums of the rows.
func (p *Program) WithoutKeptGradients() *Program {
	q := *p
	q.Buffers, q.Front, q.Back, q.Arena = slices.Clone(p.Buffers), nil, nil, 0
	kept := map[int]Instruction{} // by the buffer of the gradients
	for at, c := range slices.Concat(p.Front, p.Back) {
		if s, ok := c.Spec.(op.RecordGradients); ok {
			if _, dense := s.Form.(op.Product); dense {
				kept[c.Out] = c
				continue
			}
		}
		if rows, ok := kept[c.In[0]]; ok {
			s := rows.Spec.(op.RecordGradients)
			switch c.Spec.(type) {
			case op.RowSquares:
				c.Spec = op.SquaredNorms{Form: s.Form, Records: s.Records, Method: op.Gram}
			case op.WeightedRows:
				c.Spec = op.ClippedSum{Form: s.Form, Records: s.Records}
			}
			c.In = append(slices.Clone(rows.In), c.In[1:]...)
		}
		if at < len(p.Front) {
			q.Front = append(q.Front, c)
		} else {
			q.Back = append(q.Back, c)
		}
	}
	q.layOutArena()
	return &q
}

// BytesForSums is the memory that is alive when the backward pass has ended.
func (p *Program) BytesForSums() (bytes int) {
	for b, t := range p.accesses() {
		if len(t) > 0 && t[0] < len(p.Front) && t[len(t)-1] >= len(p.Front) {
			bytes += 4 * p.Buffers[b].Size()
		}
	}
	return bytes
}
