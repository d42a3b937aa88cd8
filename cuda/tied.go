//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// tied is a table that is looked up in and also multiplied with, as an embedding tied
// to the last layer is: the argument of the kernel tied_gram, which finds its norms
// from Gram matrices and never builds the table.
type tied struct {
	A, Delta, Index, Lookups driver.Pointer
	Rows, Looked             int32
	Width, Vocabulary        int32
	AlignedA, AlignedDelta   int32
}

// tiedUses tells whether two uses are of that kind, and Gram matrices are the cheaper
// way: they cost half of rows² for each element of a row of A and of Δ, the table a
// product, and its writing and reading in float64 several times as much.
func tiedUses(s op.Mixed, k call) (t tied, ok bool) {
	parts := *s.Parts
	if len(parts) != 2 {
		return t, false
	}
	p, g := 0, 1
	if _, first := parts[0].Form.(op.Gather); first {
		p, g = 1, 0
	}
	gather, ok1 := parts[g].Form.(op.Gather)
	product, ok2 := parts[p].Form.(op.Product)
	if !ok1 || !ok2 || gather.Bag != 1 || parts[g].At != nil || !turned(parts[p].At, product, gather) {
		return t, false
	}
	a, _ := s.Inputs(p)
	index, _ := s.Inputs(g)
	rows, looked := k.size(a)/gather.Dim/s.Records, k.size(index)/s.Records
	t = tied{
		A: k.in[a], Delta: k.in[a+1], Index: k.in[index], Lookups: k.in[index+1],
		Rows: int32(rows), Looked: int32(looked), Width: int32(gather.Dim), Vocabulary: int32(gather.Vocabulary),
		AlignedA: aligned(k.in[a]|k.in[index+1], gather.Dim), AlignedDelta: aligned(k.in[a+1], gather.Vocabulary),
	}
	return t, (rows+looked)*(rows+looked)/2*(gather.Dim+gather.Vocabulary) < 4*rows*gather.Size()
}

// turned tells whether a product [dim, vocabulary] is laid out as the table that
// gather looks rows up in, turned.
func turned(at *op.Map, p op.Product, g op.Gather) bool {
	if at == nil || p.In != g.Dim || p.Out != g.Vocabulary {
		return false
	}
	for i, to := range at.At {
		if int(to) != i%p.Out*p.In+i/p.Out {
			return false
		}
	}
	return true
}

func (c *compiler) tiedNorms(t tied, records int, k call) {
	g, grid := c.newGram(records, int(t.Rows+t.Looked))
	c.launch("tied_gram", grid, dim{128, 1, 1}, g, t)
	c.gramNorms(g, k.out, records, int(t.Width+t.Vocabulary))
}
