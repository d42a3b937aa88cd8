//go:build gpu

package compile

import (
	"math"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
)

// maxGradientBytes is the memory that records' gradients, or their rounded rows, may take
// together; there is always room for one record. They are read again at once, so they
// should fit the second-level cache, which has 40 to 50 MB on a data center's GPU.
var maxGradientBytes = 24 << 20

// lowerMultiUseNorms builds the gradient of a parameter with several uses in float64, for
// some records at a time, and squares it: if uses cancel, float32 would find far less than
// the norm. The clipped sums add several uses, or several positions of a use that read the
// same element of the parameter, one after the other in float32, each for all records of a
// microbatch. The result therefore includes a bound on the error that these roundings
// leave, including those by other records between two uses. An exact program adds the integers
// of each record by themselves, so no other records are in between. A program computes the norm of
// a single use by another method.
func lowerMultiUseNorms(c *compiler, s op.MultiUseNorms, k call) {
	if t, ok := newTiedTable(s, k); ok {
		launchTiedNorms(c, t, s.Records, k)
		return
	}
	terms, each := 0, s.SumRoundoff()
	for i, p := range *s.Uses {
		terms += newParameterUse(c, s, i, 0, k).terms + otherRowsRoundings(c, s, i, k) + p.Map.MaxMultiplicity(s.Size)
	}
	relative := float64(terms+8) * each
	b := newMultiUseBuilder(c, s, k)
	at, sum := b.records, b.sum
	chunk := max(8192, ceil(s.Size, maxGridDepth))
	chunks := ceil(s.Size, chunk)
	squares, bound, operands := c.allocScratch(8*chunks*at), c.allocScratch(8*at), c.allocScratch(8*at)
	for first := 0; first < s.Records; first += at {
		records := min(at, s.Records-first)
		b.build(first, records)
		for i := range *s.Uses {
			u := newParameterUse(c, s, i, first, k)
			c.launch("double_bound", dim{uint32(records), 1, 1}, threads,
				bound, operands, u.bounding, u.delta, int32(u.na), int32(u.nd), relative*u.scale, boolArg(i > 0))
		}
		c.launch("double_squares", dim{uint32(chunks), uint32(records), 1}, threads, squares, sum, int32(s.Size), int32(chunk))
		c.launch("double_norms", blocks(records), threads,
			k.out+driver.Pointer(4*first), squares, bound, operands, op.OperandNormShare, int32(records), int32(chunks))
	}
}

// multiUseBuilder builds gradients of a parameter with several uses in float64.
type multiUseBuilder struct {
	*compiler
	op.MultiUseNorms
	call
	records   int            // whose gradients fit the memory
	sum, view driver.Pointer // the gradients, and those of one use
}

func newMultiUseBuilder(c *compiler, s op.MultiUseNorms, k call) multiUseBuilder {
	largest := 0
	for _, p := range *s.Uses {
		largest = max(largest, p.Form.Size())
	}
	n := min(s.Records, maxGridDepth, max(1, maxGradientBytes/(8*(s.Size+largest))))
	return multiUseBuilder{c, s, k, n, c.allocScratch(8 * s.Size * n), c.allocScratch(8 * largest * n)}
}

// build builds the gradients of records from first on.
func (b multiUseBuilder) build(first, records int) {
	for i, p := range *b.Uses {
		u := newParameterUse(b.compiler, b.MultiUseNorms, i, first, b.call)
		if i == 0 && p.Map == nil {
			buildGradients(b.compiler, u, records, b.sum)
			continue
		}
		buildGradients(b.compiler, u, records, b.view)
		var places, from driver.Pointer
		if p.Map != nil {
			starts, of := op.Scatter{At: p.Map, Size: b.Size}.Sources()
			places, from = b.constant(starts), b.constant(of)
		}
		b.launch("double_add", blocks(records*b.Size), threads,
			b.sum, b.view, places, from, int32(records), int32(p.Form.Size()), int32(b.Size), boolArg(i > 0))
	}
}

// parameterUse is one use of a parameter by some records.
type parameterUse struct {
	form     op.Form
	a, delta driver.Pointer
	na, nd   int            // elements of a record's blocks
	bounding driver.Pointer // A, where the gradient is linear in it too, else 0
	terms    int            // that are added up in one place, or roundings of their sum
	scale    float64        // the sum of their sizes is at most this times ‖A‖‖Δ‖
}

// newParameterUse describes a part's use by the records from first on.
//
// Adding n terms has an error of at most n+8 roundings of the sum of their magnitudes.
// This sum is at most √repeats·‖A‖‖Δ‖ where each element of A is multiplied by that many
// rows of Δ. Without A it is √n·‖Δ‖, and √(n·bag)·‖Δ‖ where a row of Δ is added for every
// index of a bag.
func newParameterUse(c *compiler, s op.MultiUseNorms, part, first int, k call) parameterUse {
	u := parameterUse{form: (*s.Uses)[part].Form}
	from, to := s.InputRange(part)
	u.nd = k.size(to-1) / s.Records
	u.delta = k.in[to-1] + driver.Pointer(4*first*u.nd)
	if to-from == 2 {
		u.na = k.size(from) / s.Records
		u.a = k.in[from] + driver.Pointer(4*first*u.na)
	}
	repeats := 1
	u.bounding = u.a
	switch f := u.form.(type) {
	case op.Product:
		u.terms = c.sumRoundings(u.nd / f.Out)
	case op.ConvWeight:
		u.terms, repeats = c.sumRoundings(u.nd/f.O), f.KernelH*f.KernelW
	case op.Scale:
		u.terms = u.nd / f.Channels
	case op.Shift:
		u.terms = u.nd / f.Channels
		repeats = u.terms
	case op.Gather:
		u.terms, repeats = u.na, u.na*f.Bag
		u.bounding = 0
	}
	u.scale = math.Sqrt(float64(repeats * (*s.Uses)[part].Map.MaxMultiplicity(s.Size)))
	return u
}

// otherRowsRoundings is an upper bound on the number of sums of other records' rows that a
// use's sum over all records adds to a record's contribution before another use cancels
// it: each is rounded as coarsely as this contribution.
func otherRowsRoundings(c *compiler, s op.MultiUseNorms, part int, k call) int {
	if c.program.Exact {
		return 0
	}
	from, to := s.InputRange(part)
	switch f := (*s.Uses)[part].Form.(type) {
	case op.Product:
		_, count := splitByRows(f.In, f.Out, k.size(to-1)/f.Out)
		return count
	case op.ConvWeight:
		v := newConvGeometry(f)
		_, count, _ := splitOutputs(c, v, s.Records, k.size(to-1)/(v.O*v.outArea)/s.Records)
		return count
	case op.Gather:
		return scatterAddRoundings(k.size(from))
	}
	return 1
}

// buildGradients writes the gradients of records in float64, [records, size].
func buildGradients(c *compiler, u parameterUse, records int, out driver.Pointer) {
	switch f := u.form.(type) {
	case op.Product:
		c.launch("double_product", dim{uint32(ceil(f.In, 64) * ceil(f.Out, 64)), uint32(records), 1}, dim{128, 1, 1},
			out, u.a, u.delta, int32(u.nd/f.Out), int32(f.In), int32(f.Out))
	case op.ConvWeight:
		buildConvGradients(c, f, u, records, out)
	case op.Shift:
		buildChannelGradients(c, f.Channels, f.Inner, u, records, out)
	case op.Scale:
		buildChannelGradients(c, f.Channels, f.Inner, u, records, out)
	case op.Gather:
		c.zero(out, 8*f.Size()*records)
		c.launch("double_lookups", dim{uint32(ceil(f.Dim, 128)), uint32(records), 1}, dim{128, 1, 1},
			out, u.a, u.delta, int32(u.na), int32(f.Vocabulary), int32(f.Dim), int32(f.Bag))
	}
}

func buildChannelGradients(c *compiler, channels, inner int, u parameterUse, records int, out driver.Pointer) {
	c.launch("double_channels", blocks(64*records*channels), dim{128, 1, 1},
		out, u.a, u.delta, int32(records), int32(u.nd/(channels*inner)), int32(channels), int32(inner))
}

// tiedTable is a table that a program both looks up and multiplies, as an embedding tied
// to the last layer: the argument of the kernel tied_gram, which computes norms from Gram
// matrices without building the table's gradient.
type tiedTable struct {
	A, Delta, Index, Lookups driver.Pointer
	Rows, LookupRows         int32
	Width, Vocabulary        int32
	AlignedA, AlignedDelta   int32
}

// newTiedTable reports whether two uses form a tied table for which Gram matrices are
// cheaper. They cost half of rows² for each element of a row of A and of Δ; building the
// gradient costs a product, and writing and reading it in float64 costs several times as
// much.
func newTiedTable(s op.MultiUseNorms, k call) (t tiedTable, ok bool) {
	u, ok := s.TiedTable()
	if !ok {
		return t, false
	}
	width, entries := u.Table.Dim, u.Table.Vocabulary
	rows, lookups := k.size(u.RowsByDim)/width/s.Records, k.size(u.Index)/s.Records
	t = tiedTable{
		A: k.in[u.RowsByDim], Delta: k.in[u.RowsByEntry], Index: k.in[u.Index], Lookups: k.in[u.Delta],
		Rows: int32(rows), LookupRows: int32(lookups), Width: int32(width), Vocabulary: int32(entries),
		AlignedA: alignedArg(k.in[u.RowsByDim]|k.in[u.Delta], width), AlignedDelta: alignedArg(k.in[u.RowsByEntry], entries),
	}
	return t, (rows+lookups)*(rows+lookups)/2*(width+entries) < 4*rows*u.Table.Size()
}

func launchTiedNorms(c *compiler, t tiedTable, records int, k call) {
	rows, lookups, others := int(t.Rows), int(t.LookupRows), 0
	if !c.program.Exact {
		_, slices := splitByRows(int(t.Width), int(t.Vocabulary), rows*records)
		others = slices + scatterAddRoundings(lookups*records)
	}
	launchGramNorms(c, gramNorm{
		kernel: "tied_gram", tiles: []int{64}, args: []any{t},
		records: records, groups: 1, rows: rows + lookups, na: int(t.Width), nd: int(t.Vocabulary), delta: -1,
		otherRowsRoundings: others,
	}, k.out)
}
