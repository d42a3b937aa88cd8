//go:build gpu

package cuda

import (
	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// tiedTable is a table that is looked up in and also multiplied with, as an embedding tied
// to the last layer is: the argument of the kernel tied_gram, which finds its norms
// from Gram matrices and never builds the table.
type tiedTable struct {
	A, Delta, Index, Lookups driver.Pointer
	Rows, Looked             int32
	Width, Vocabulary        int32
	AlignedA, AlignedDelta   int32
}

// newTiedTable tells whether two uses are of that kind, and Gram matrices are the cheaper
// way: they cost half of rows² for each element of a row of A and of Δ, the table a
// product, and its writing and reading in float64 several times as much.
func newTiedTable(s op.MultiUseNorms, k call) (t tiedTable, ok bool) {
	u, ok := s.TiedTable()
	if !ok {
		return t, false
	}
	width, entries := u.Table.Dim, u.Table.Vocabulary
	rows, looked := k.size(u.RowsByDim)/width/s.Records, k.size(u.Index)/s.Records
	t = tiedTable{
		A: k.in[u.RowsByDim], Delta: k.in[u.RowsByEntry], Index: k.in[u.Index], Lookups: k.in[u.Delta],
		Rows: int32(rows), Looked: int32(looked), Width: int32(width), Vocabulary: int32(entries),
		AlignedA: alignedArg(k.in[u.RowsByDim]|k.in[u.Delta], width), AlignedDelta: alignedArg(k.in[u.RowsByEntry], entries),
	}
	return t, (rows+looked)*(rows+looked)/2*(width+entries) < 4*rows*u.Table.Size()
}

func (c *compiler) launchTiedNorms(t tiedTable, records int, k call) {
	rows, looked := int(t.Rows), int(t.Looked)
	_, slices := splitByRows(int(t.Width), int(t.Vocabulary), rows*records)
	c.launchGramNorms(gramNorm{
		kernel: "tied_gram", tiles: []int{64}, args: []any{t},
		records: records, groups: 1, rows: rows + looked, na: int(t.Width), nd: int(t.Vocabulary), delta: -1,
		otherRowsRoundings: slices + scatterAddRoundings(looked*records),
	}, k.out)
}
