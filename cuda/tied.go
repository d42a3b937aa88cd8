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
	lookup, product, ok := s.Tied()
	if !ok {
		return t, false
	}
	gather := (*s.Parts)[lookup].Form.(op.Gather)
	a, _ := s.Inputs(product)
	index, _ := s.Inputs(lookup)
	rows, looked := k.size(a)/gather.Dim/s.Records, k.size(index)/s.Records
	t = tied{
		A: k.in[a], Delta: k.in[a+1], Index: k.in[index], Lookups: k.in[index+1],
		Rows: int32(rows), Looked: int32(looked), Width: int32(gather.Dim), Vocabulary: int32(gather.Vocabulary),
		AlignedA: aligned(k.in[a]|k.in[index+1], gather.Dim), AlignedDelta: aligned(k.in[a+1], gather.Vocabulary),
	}
	return t, (rows+looked)*(rows+looked)/2*(gather.Dim+gather.Vocabulary) < 4*rows*gather.Size()
}

func (c *compiler) tiedNorms(t tied, records int, k call) {
	rows, looked := int(t.Rows), int(t.Looked)
	_, slices := byRows(int(t.Width), int(t.Vocabulary), rows*records)
	c.gramNorms(gram{
		kernel: "tied_gram", tiles: []int{64}, args: []any{t},
		records: records, groups: 1, rows: rows + looked, na: int(t.Width), nd: int(t.Vocabulary), delta: -1,
		meanwhile: slices + lookedUp(looked*records),
	}, k.out)
}
