//go:build gpu

package cuda

import (
	"strconv"

	"github.com/dptrain/dptrain/cuda/driver"
	"github.com/dptrain/dptrain/internal/op"
)

// Squared norms keep the promise of clip.Single, ‖u‖² ≤ (sq + 1e-30)/(1 − 1e-5), for
// every record: squares are added up in float64, where none overflows or is lost, and
// where terms can cancel, a bound on the roundings is added. Where a sum in float32 takes a record's rows that may cancel, what its roundings leave
// of them is added, too.

// roundoff is the relative error of one operation in float64, singleRoundoff that in
// float32.
const (
	roundoff       = 1.0 / (1 << 53)
	singleRoundoff = 1.0 / (1 << 24)
)

func lowerProductNorms(c *compiler, f op.Product, s op.SquaredNorms, k call) {
	rows := k.size(1) / f.Out / s.Records
	switch {
	case s.Method == op.RankOne && rows == 1:
		c.launch("rank_one", dim{uint32(s.Records), 1, 1}, squaresBlock(f.In+f.Out), k.out, k.in[0], k.in[1], int32(f.In), int32(f.Out), op.OperandNormShare)
	case s.Method == op.Gram:
		lowerProductGram(c, f, s.Records, rows, k)
	default:
		lowerMultiUseNorms(c, op.MultiUseNorms{Parts: &[]op.MappedForm{{Form: s.Form}}, Size: s.Form.Size(), Records: s.Records}, k)
	}
}

// gramNorm is a squared norm that is found from Gram matrices, by the kernels of
// kernels/gram.cu and convolution_norm.cu.
type gramNorm struct {
	kernel  string
	args    []any
	tiles   []int // whose kernels there are in float, the smaller first
	records int
	groups  int // products of a record, whose norms add up
	rows    int // of a record
	na, nd  int // elements of a row of A and of Δ
	delta   int // the buffer of a Δ that other products may have too, or -1

	otherRowsRoundings int // roundings by others' rows between two uses
}

// gramArgs is struct Gram of kernels/gram.h.
type gramArgs struct {
	Partial, DeltaGrams, Recheck driver.Pointer
	Known, Rows, Pairs, Slice    int32
}

// gramRoundings is struct Roundings of kernels/gram.cu.
type gramRoundings struct{ Gamma, Lost float64 }

func lowerProductGram(c *compiler, f op.Product, records, rows int, k call) {
	launchGramNorms(c, gramNorm{
		kernel: "product_gram", tiles: []int{32, 64},
		args: []any{gramRows{
			k.in[0], k.in[1], int32(f.In), int32(f.Out), alignedArg(k.in[0], f.In), alignedArg(k.in[1], f.Out),
		}},
		records: records, groups: 1, rows: rows, na: f.In, nd: f.Out, delta: k.bases[1],
	}, k.out)
}

// gramRows is struct Rows of kernels/gram.cu.
type gramRows struct {
	A, Delta                        driver.Pointer
	In, Out, AlignedA, AlignedDelta int32
}

// launchGramNorms finds norms in double, or where a card does few doubles in float, and in
// double those alone that are in doubt.
func launchGramNorms(c *compiler, g gramNorm, out driver.Pointer) {
	const tile = 32
	var doubted driver.Pointer
	if c.device.SlowDoubles() {
		doubted = launchFloatGramNorms(c, g, out)
	}
	args, grid := newGramArgs(c, g, tile, 3)
	if args.Recheck = doubted; doubted == 0 {
		shareDeltaGrams(c, &args, g, 8*tile*tile)
	}
	c.launch(g.kernel, grid, dim{128, 1, 1}, append([]any{args}, g.args...)...)
	c.launch("gram_norms", dim{uint32(ceil(g.records, 4)), 1, 1}, dim{128, 1, 1},
		out, args.Partial, doubted, int32(g.records), args.Pairs*int32(g.groups),
		2*float64(g.na+g.nd+2*g.rows+8)*roundoff, g.addedError())
}

// gramAddedError is struct Added of kernels/gram.cu.
type gramAddedError struct{ Summed, Share float64 }

// sliceRoundings is how many roundings a record's rows pass through where a sum in float32 takes
// them one by one, each times the factor. Where they lie in two slices and take each other
// back, the rows of others in either are rounded as coarsely as what is taken back.
func sliceRoundings(rows int) int { return rows + 1 + maxSliceRows }

// addedError is, of the sum of the rows' lengths, what roundings leave of it.
func (g gramNorm) addedError() gramAddedError {
	return gramAddedError{float64(sliceRoundings(g.rows)+g.otherRowsRoundings) * singleRoundoff, op.OperandNormShare}
}

// gramSlice is how many products are added up in float before their sum is added to
// others: few, so that a bound on their roundings is small.
const gramSlice = 64

// launchFloatGramNorms gives the records that are in doubt.
func launchFloatGramNorms(c *compiler, g gramNorm, out driver.Pointer) (doubted driver.Pointer) {
	tile := g.tiles[0]
	if g.rows > tile {
		tile = g.tiles[len(g.tiles)-1]
	}
	args, grid := newGramArgs(c, g, tile, 5)
	shareDeltaGrams(c, &args, g, 4*tile*tile)
	c.launch(g.kernel+"_float_"+strconv.Itoa(tile), grid, dim{2 * uint32(tile), 1, 1}, append([]any{args}, g.args...)...)

	// An element is a sum of n products that passes through k roundings, and so it is off
	// by at most γ = k·u/(1 − k·u) of the product of two rows' lengths, u = 2⁻²⁴ (Higham
	// 2002, "Accuracy and Stability of Numerical Algorithms", section 3.1), and by n·2⁻¹⁴⁹
	// where products underflow. Squared and added up over all pairs of rows, γ is taken of
	// the sum of the rows' squared lengths: the trace, of which γ/(1 − γ) more is computed.
	const u, least = singleRoundoff, 0x1p-149
	roundings := func(n int) gramRoundings {
		ku := float64(min(n, gramSlice)+ceil(n, gramSlice)) * u
		gamma := ku / (1 - ku)
		return gramRoundings{gamma / (1 - gamma), float64(g.groups*g.rows*n) * least}
	}
	const ofThread = 32 // results, which are added up in float
	doubted = c.allocScratch(4 * g.records)
	c.launch("gram_norms_float", dim{uint32(ceil(g.records, 4)), 1, 1}, dim{128, 1, 1},
		out, doubted, args.Partial, int32(g.records), args.Pairs*int32(g.groups), roundings(g.na), roundings(g.nd),
		(ofThread+2)*u, 2*float64(g.groups*g.rows*g.rows)*least, g.addedError())
	return doubted
}

// newGramArgs is the layout of blocks of square tiles, and their number; every block leaves
// so many sums.
func newGramArgs(c *compiler, g gramNorm, tile, sums int) (args gramArgs, grid dim) {
	tiles := ceil(g.rows, tile)
	pairs := tiles * (tiles + 1) / 2
	blocks := g.records * g.groups * pairs
	args = gramArgs{Partial: c.allocScratch(8 * sums * blocks), Rows: int32(g.rows), Pairs: int32(pairs), Slice: gramSlice}
	return args, dim{uint32(blocks), 1, 1}
}

// deltaGramKey is the note of the ΔΔᵀ of a buffer's rows, which others may read in rows of
// another width.
type deltaGramKey struct{ delta, width int }

// shareDeltaGrams is memory for ΔΔᵀ of every record, where several products of the
// program have the same Δ, as the two weights of an LSTM have, and it takes less
// than Δ itself. A pair of tiles takes so many bytes.
func shareDeltaGrams(c *compiler, args *gramArgs, g gramNorm, tile int) {
	size := int(args.Pairs) * tile
	if g.delta < 0 || size > 4*g.rows*g.nd {
		return
	}
	users := 0
	for _, i := range c.program.Front {
		if s, ok := i.Spec.(op.SquaredNorms); ok && s.Method == op.Gram && len(i.In) == 2 && c.program.Buffers[i.In[1]].Base == g.delta {
			if f, ok := s.Form.(op.Product); ok && f.Out == g.nd {
				users++
			}
		}
	}
	if users < 2 {
		return
	}
	var known bool
	args.DeltaGrams, known = c.sharedMemory(deltaGramKey{g.delta, g.nd}, g.records*size)
	args.Known = boolArg(known)
}
