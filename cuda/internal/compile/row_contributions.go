//go:build gpu

package compile

import (
	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/lattice"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
)

// rowSumArgs is struct RowSum of kernels/rounded_rows.cu.
type rowSumArgs struct {
	Contribution                            contributionArgs
	A, Delta                                rowOperand
	Lookups                                 rowLookups
	Lengths, Norms, Sums, At                driver.Pointer
	Errors                                  plan.RowErrors
	Aspect, Overlap                         float64
	Rows, FromProduct, Units, Records, Each int32
}

// rowNormBytes is the size of struct RowNorm of kernels/rounded_rows.cu.
const rowNormBytes = 48

// rowOperand is struct RowOperand of kernels/rounded_rows.cu.
type rowOperand struct {
	X, Rounded, Taps, Corners driver.Pointer
	Area                      divider
	Size, Picture             int32
	Width, Stride             int32
	Kind, Side                rowKind
	_                         int32
}

// rowLookups is struct Lookups of kernels/rounded_rows.cu.
type rowLookups struct {
	Index, Delta, Rounded, Squares, Links driver.Pointer
	Count                                 int32
	_                                     int32
}

// rowKind is enum RowKind of kernels/rounded_rows.cu.
type rowKind = int32

const (
	rowsOfNumbers rowKind = iota
	rowsOfSignals
	rowsOfPatches
)

// sections returns the number of sections of a record's floats. Each has its own sum of squares.
func (o rowOperand) sections() int { return ceil(int(o.Size), rowSection) }

// integerSide and integerDepth are the sides of a block's tile and the elements of a step of
// kernels/integer.h.
const integerSide, integerDepth = 64, 32

// lowerProduct adds products of the rows of each record.
func (s *contributionSum) lowerProduct(f op.Product) {
	size := s.size(0) / s.records
	s.lowerRows(f, size/f.In, 1,
		rowOperand{X: s.in[0], Size: int32(size), Kind: rowsOfNumbers, Side: 0},
		rowOperand{X: s.in[1], Size: int32(s.size(1) / s.records), Kind: rowsOfNumbers, Side: 1}, rowLookups{})
}

// lowerTied adds the gradient of a table that is multiplied with and looked up in, the sum of the rows
// of the product and of those of the lookups.
func (s *contributionSum) lowerTied(m op.MultiUseNorms) {
	t, _ := m.TiedTable()
	byDim, byEntry := s.size(t.RowsByDim)/s.records, s.size(t.RowsByEntry)/s.records
	s.lowerRows(op.Product{In: t.Table.Vocabulary, Out: t.Table.Dim}, byDim/t.Table.Dim, 1,
		rowOperand{X: s.in[t.RowsByEntry], Size: int32(byEntry), Kind: rowsOfNumbers, Side: 1},
		rowOperand{X: s.in[t.RowsByDim], Size: int32(byDim), Kind: rowsOfNumbers, Side: 0},
		rowLookups{Index: s.in[t.Index], Delta: s.in[t.Delta], Count: int32(s.size(t.Index) / s.records)})
}

// lowerConvolution adds a convolution's gradient, the product of the signals and the patch of each
// position.
func (s *contributionSum) lowerConvolution(f op.ConvWeight) {
	v := newConvGeometry(f)
	signals, pictures := s.size(1)/s.records, s.size(0)/s.records
	rows := signals / f.O
	area := newDivider(v.outArea)
	s.lowerRows(op.Product{In: f.O, Out: v.patchWidth}, rows, float64(v.kernelCells),
		rowOperand{X: s.in[1], Area: area, Size: int32(signals), Picture: int32(f.O * v.outArea), Kind: rowsOfSignals, Side: 1},
		rowOperand{
			X: s.in[0], Taps: s.constant(v.taps()), Corners: s.constant(v.corners()), Area: area,
			Size: int32(pictures), Picture: int32(f.C * f.H * f.W), Kind: rowsOfPatches, Side: 0,
		}, rowLookups{})
}

// lowerRows adds products f of the rows of each record, rounded to 16 bits, for as many records at a
// time as fit the memory. overlap is the largest number of rows that read the same element. The scale
// of A is a power of two that follows from the lengths of all rows of a record; the product of both
// scales is given. The CPU adds the squares of the lengths in another order. So the integers can
// differ from the CPU's if a length is within a rounding error of a power of two. If the rows of a
// record cancel, its gradient is built, in another order than the CPU's.
func (s *contributionSum) lowerRows(f op.Product, rows int, overlap float64, a, delta rowOperand, lookups rowLookups) {
	count := int(lookups.Count)
	n := s.chunk(2*rows*(f.In+f.Out) + 4*count*f.Out)
	sections := a.sections() + delta.sections()
	lengths, known := s.knownLengths(f, a.Kind, rows, count)
	if !known {
		lengths = s.allocScratch(8 * n * sections)
	}
	args := rowSumArgs{
		Lengths: lengths, Norms: s.allocScratch(rowNormBytes * n), Sums: s.out, At: s.at, Errors: plan.NewRowErrors(f.In, f.Out, overlap),
		Aspect: 4 * float64(f.In) / float64(f.Out), Overlap: overlap, Rows: int32(rows),
	}
	round := func(o *rowOperand, width int) {
		stride := ceil(width, 4) * 4
		o.Width, o.Stride, o.Rounded = int32(width), int32(stride), s.allocScratch(2*n*rows*stride)
	}
	round(&a, f.In)
	round(&delta, f.Out)
	if count > 0 {
		lookups.Rounded, lookups.Squares, lookups.Links = s.allocScratch(4*n*count*f.Out),
			s.allocScratch(8*n*count), s.allocScratch(4*n*count)
	}
	units := 0
	if rows > 1 || a.Kind != rowsOfNumbers {
		units, args.FromProduct = normUnits(f, rows)
	}
	args.Units = int32(units)
	tiles := ceil(f.In, integerSide) * ceil(f.Out, integerSide)
	for first := 0; first < s.records; first += n {
		n := min(n, s.records-first)
		args.Contribution, args.Records = s.from(first), int32(n)
		args.A, args.Delta = a, delta
		args.A.X += driver.Pointer(4 * first * int(a.Size))
		args.Delta.X += driver.Pointer(4 * first * int(delta.Size))
		args.Lookups = lookups
		args.Lookups.Index += driver.Pointer(4 * first * count)
		args.Lookups.Delta += driver.Pointer(4 * first * count * f.Out)
		if known {
			args.Lengths = lengths + driver.Pointer(16*first)
		}
		launch := func(kernel string, across, down int) {
			s.launchPart(kernel, dim{uint32(across), uint32(down), 1}, threads, args)
		}
		blocks := ceil(4*s.device.Multiprocessors(), n) // of a record
		s.launchWith(s.rounding, func() {
			if !known {
				launch("row_lengths", sections, n)
			}
			launch("round_rows", min(ceil(max(rows, count), 8), blocks), n)
			if units > 0 {
				launch("row_norms", units, n)
			}
			if count > 0 {
				launch("tied_norms", min(ceil(count, 8), blocks), n)
			}
		})
		s.admitPart(admission{Contribution: args.Contribution, Rows: s.argument(args)}, n)
		slices := max(ceil(n, lattice.MaxRecords), min(n, ceil(n*rows, 4*integerDepth), ceil(2*s.device.Multiprocessors(), tiles)))
		args.Each = int32(ceil(n, slices))
		s.launchWith(s.adding, func() { launch("add_rows", tiles, ceil(n, int(args.Each))) })
		if count > 0 {
			s.addGathered(op.Gather{Vocabulary: f.In, Dim: f.Out, Bag: 1}, args.Contribution,
				args.Lookups.Rounded, args.Lookups.Index, n*count, count)
		}
	}
	if units > 0 || count > 0 {
		s.admitting.writes = append(s.admitting.writes, s.adding.writes...) // of records whose rows cancel
	}
}

// knownLengths returns the lengths of the rows of each record, if their norms have computed them.
func (s *contributionSum) knownLengths(f op.Product, kind rowKind, rows, lookups int) (at driver.Pointer, known bool) {
	if kind != rowsOfNumbers || rows != 1 || lookups > 0 {
		return 0, false
	}
	at, known = s.shared[operandPair{s.bases[0], s.bases[1], f.In, f.Out, s.records}]
	if known {
		s.rounding.reads = append(s.rounding.reads, bytesAt(at, 16*s.records))
	}
	return at, known
}

// argument is memory with the arguments of a sum, for admissions.
func (s *contributionSum) argument(args rowSumArgs) driver.Pointer {
	if s.scratch.measuring {
		return 0 // its scratch memory has no addresses yet
	}
	return s.constantBytes(driver.Pack(args))
}

// normUnits returns how many tiles or pairs of tiles make the squared norm of a product of integer rows,
// and 1 if it is less work from the product than from Gram matrices, in steps of kernels/integer.h.
func normUnits(f op.Product, rows int) (units int, fromProduct int32) {
	tiles := ceil(f.In, integerSide) * ceil(f.Out, integerSide)
	pairs := ceil(rows, integerSide) * (ceil(rows, integerSide) + 1) / 2
	if tiles*ceil(rows, integerDepth) < pairs*(ceil(f.In, integerDepth)+ceil(f.Out, integerDepth)) {
		return tiles, 1
	}
	return pairs, 0
}

// lowerGather adds rows of Δ that are rounded to 32 bits to the rows of the table that indices
// name.
func (s *contributionSum) lowerGather(f op.Gather) {
	lookups, slots := s.size(0)/s.records, 1
	for slots < lookups {
		slots *= 2
	}
	width := lookups / f.Bag * f.Dim
	n := s.chunk(4 * width)
	rounded := s.allocScratch(4 * n * width)
	var keys driver.Pointer
	if slots > gatherRoom {
		keys = s.allocScratch(8 * n * slots)
	}
	for first := 0; first < s.records; first += n {
		n, args := min(n, s.records-first), s.from(first)
		index, delta := s.in[0]+driver.Pointer(4*first*lookups), s.in[1]+driver.Pointer(4*first*width)
		s.admit("round_gathered", dim{uint32(n), 1, 1}, threads,
			args, rounded, index, delta, keys, int32(lookups), int32(slots), int32(f.Vocabulary), int32(f.Dim), int32(f.Bag), s.out, s.at)
		s.addGathered(f, args, rounded, index, n*lookups, lookups)
	}
	s.admitting.writes = append(s.admitting.writes, s.adding.writes...) // of records whose rows cancel
}

// addGathered adds the rounded rows of some lookups; each record has `each` of them.
func (s *contributionSum) addGathered(f op.Gather, args contributionArgs, rounded, index driver.Pointer, lookups, each int) {
	all := lookups * f.Dim
	s.add("add_gathered", blocks(all), threads,
		s.out, s.at, args.Roundings, rounded, index, int64(all), int32(each), int32(f.Vocabulary), int32(f.Dim), int32(f.Bag))
}
