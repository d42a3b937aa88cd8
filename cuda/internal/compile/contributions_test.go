//go:build gpu

package compile

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
	"gorgonia.org/tensor"
)

// contributing is a sum of an exact program with the operands of its records.
type contributing struct {
	name  string
	spec  func(records int) op.Operation
	in    [][]float32 // of all records
	at    *op.Map
	size  int // of the parameter
	first int // the record of the first factor
}

func (s contributing) convolution() (f op.ConvWeight, ok bool) {
	if sum, clips := s.spec(1).(op.ClippedSum); clips {
		f, ok = sum.Form.(op.ConvWeight)
	}
	return f, ok
}

// exactProgram is a program that adds these contributions, each to a parameter of its own, with the
// clip factors of the first parameter for all.
func exactProgram(records int, sums []contributing) *plan.Program {
	p := &plan.Program{Batch: records, Records: records, PerRecord: 1, Exact: true}
	buffer := func(b plan.Buffer) int {
		b.Base = len(p.Buffers)
		p.Buffers = append(p.Buffers, b)
		return b.Base
	}
	inputs := 0
	for v, s := range sums {
		contributing := records - s.first
		var in []int
		for _, x := range s.in {
			shape := tensor.Shape{contributing, len(x) / contributing}
			if f, ok := s.convolution(); ok && len(in) == 0 {
				shape = tensor.Shape{len(x) / (f.C * f.H * f.W), f.C, f.H, f.W}
			}
			in = append(in, buffer(plan.Buffer{Name: "operand", Shape: shape, Role: plan.RoleInput, Index: inputs}))
			inputs++
		}
		factors := buffer(plan.Buffer{Name: "factors", Shape: tensor.Shape{contributing}, Role: plan.RoleClipFactors, Index: v})
		weights := buffer(plan.Buffer{Name: "weights", Shape: tensor.Shape{s.size}, Role: plan.RoleParameter, Index: v, Value: make([]float32, s.size)})
		sum := buffer(plan.Buffer{Name: "sum", Shape: tensor.Shape{s.size}, Role: plan.RoleClippedSum, Index: v})
		p.Back = append(p.Back, plan.Instruction{Spec: s.spec(contributing), In: append(in, factors), Out: sum, Accumulate: true, At: s.at, FirstRecord: s.first})
		p.Parameters = append(p.Parameters, plan.Parameter{
			Name: "weights", Shape: tensor.Shape{s.size}, Value: weights, SquaredNorms: -1, ClipFactors: factors, ClippedSum: sum,
		})
	}
	return p
}

// addTo runs a microbatch and returns the sums.
func addTo(t *testing.T, m plan.Executable, sums []contributing, factors []float32) (all [][]int64) {
	t.Helper()
	input := 0
	c := m.Contributions()
	for r := range c.Seeds {
		c.Seeds[r] = uint64(r+1) * 0x2545f4914f6cdd1d
	}
	for v, s := range sums {
		c.Steps[v], c.Group[v] = plan.Bound/float64(v+1), v/2%2
		for _, x := range s.in {
			copy(m.Input(input), x)
			input++
		}
		copy(m.ClipFactors(v), factors[s.first:])
	}
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	if err := m.AddClippedSums(); err != nil {
		t.Fatal(err)
	}
	for v := range sums {
		switch m := m.(type) {
		case *cpu.Executable:
			all = append(all, slices.Clone(m.IntegerSum(v)))
		case *Executable:
			sum, err := m.IntegerSum(v)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, sum)
		}
	}
	return all
}

// hostileNormals are numbers of records, about 1 in norm. Those of some records are not finite, very
// large, very small or zero.
func hostileNormals(r *rand.Rand, records, width int) []float32 {
	x := make([]float32, records*width)
	for i := range x {
		record := i / width
		switch v := float32(r.NormFloat64() / math.Sqrt(float64(width))); record % 16 {
		case 9:
			x[i] = float32(math.NaN())
		case 10:
			x[i] = float32(math.Inf(1 - i%2*2))
		case 11:
			x[i] = math.MaxFloat32
		case 12:
			x[i] = v * 1e-38
		case 13:
			x[i] = 0
		case 14:
			x[i] = v * 1e20
		default:
			x[i] = v
		}
	}
	return x
}

// convolving is the sum of a convolution with this many pictures a record. newOperand makes an operand
// of all records from the floats of a record.
func convolving(name string, f op.ConvWeight, pictures int, newOperand func(width int) []float32) contributing {
	high, wide, _ := f.OutputSize(f.H, f.W)
	if f.BuildsGradient(pictures * high * wide) {
		panic(name + ": the CPU builds this gradient")
	}
	x, delta := newOperand(pictures*f.C*f.H*f.W), newOperand(pictures*f.O*high*wide)
	return contributing{name, clippedSum(f), [][]float32{x, delta}, nil, f.Size(), 0}
}

// window is a square kernel.
func window(kernel, stride, pad, dilation int) op.Window {
	return op.Window{KernelH: kernel, KernelW: kernel, StrideH: stride, StrideW: stride, PadH: pad, PadW: pad, DilationH: dilation, DilationW: dilation}
}

// tied is the sum of a table of 9 rows that is looked up in and multiplied with.
func tied(name string, transposed bool, dim, records int, index, lookups, byDim, byEntry []float32) contributing {
	table := op.Gather{Vocabulary: 9, Dim: dim, Bag: 1}
	lookup, product := op.MappedForm{Form: table}, op.MappedForm{Form: op.Product{In: 9, Out: dim}}
	rows := [][]float32{byEntry, byDim}
	if transposed {
		at := make([]int32, table.Size())
		for i := range at {
			at[i] = int32(i%9*dim + i/9)
		}
		product = op.MappedForm{Form: op.Product{In: dim, Out: 9}, Map: op.NewMap(at)}
		rows = [][]float32{byDim, byEntry}
	}
	parts, in := []op.MappedForm{lookup, product}, append([][]float32{index, lookups}, rows...)
	if transposed {
		slices.Reverse(parts)
		in = append(rows, index, lookups)
	}
	return contributing{name, func(records int) op.Operation {
		return op.MultiUseSum{Uses: &parts, Size: table.Size(), Records: records}
	}, in, nil, table.Size(), 0}
}

// tiedTables are sums of tables that are looked up in and multiplied with: transposed or not, with one
// row and several rows a record, with indices that are equal or none, and with rows that cancel.
func tiedTables(r *rand.Rand, records int, newOperand func(width int) []float32) []contributing {
	index := func(n int) []float32 { return wholeNumbers(r, n*records, -1, 11) }
	padded := paddedLookups(r, records, 6, 1, 33)
	cancelling, short := cancellingRows(r, records, 9, 33), wholeNumbers(r, 3*33*records, -2, 3)
	for i := range short {
		short[i] /= 64
	}
	return []contributing{
		tied("tied table", false, 33, records, index(7), newOperand(7*33), newOperand(5*33), newOperand(5*9)),
		tied("transposed tied table", true, 70, records, index(40), newOperand(40*70), newOperand(3*70), newOperand(3*9)),
		tied("tied table of one row", true, 6, records, index(1), newOperand(6), newOperand(6), newOperand(9)),
		tied("tied table with padding", false, 33, records, padded[0], padded[1], newOperand(5*33), newOperand(5*9)),
		tied("tied table that cancels", true, 33, records, wholeNumbers(r, 3*records, 0, 9), short, cancelling[1], cancelling[0]),
	}
}

// cancellingPictures are the sum of a convolution of four pictures a record, whose rows cancel.
func cancellingPictures(r *rand.Rand, records int) contributing {
	f := op.ConvWeight{Window: window(2, 1, 0, 1), Groups: 1, C: 7, H: 2, W: 3, O: 30}
	return contributing{"pictures that cancel", clippedSum(f), cancellingRows(r, records, 42, 60), nil, f.Size(), 0}
}

// convolutions are sums of convolutions whose rows both devices round: with strides, padding and
// dilation, without neighbours, with one window that leaves a part of the picture out, with norms from
// the product and from Gram matrices, and of several pictures.
func convolutions(newOperand func(width int) []float32) []contributing {
	uneven := op.Window{KernelH: 2, KernelW: 3, StrideH: 1, StrideW: 2, PadH: 0, PadW: 1, DilationH: 2, DilationW: 1}
	return []contributing{
		convolving("convolution", op.ConvWeight{Window: window(3, 1, 1, 1), Groups: 1, C: 8, H: 3, W: 3, O: 70}, 1, newOperand),
		convolving("convolution with strides", op.ConvWeight{Window: window(3, 2, 1, 1), Groups: 1, C: 5, H: 7, W: 6, O: 66}, 1, newOperand),
		convolving("dilated convolution", op.ConvWeight{Window: window(3, 1, 1, 2), Groups: 1, C: 7, H: 5, W: 4, O: 31}, 1, newOperand),
		convolving("convolution with an uneven kernel", op.ConvWeight{Window: uneven, Groups: 1, C: 9, H: 4, W: 5, O: 21}, 1, newOperand),
		convolving("convolution of positions", op.ConvWeight{Window: window(1, 1, 0, 1), Groups: 1, C: 200, H: 2, W: 2, O: 200}, 1, newOperand),
		convolving("convolution of every second position", op.ConvWeight{Window: window(1, 2, 0, 1), Groups: 1, C: 33, H: 4, W: 3, O: 20}, 1, newOperand),
		convolving("convolution with one window", op.ConvWeight{Window: window(4, 2, 0, 1), Groups: 1, C: 3, H: 4, W: 5, O: 9}, 1, newOperand),
		convolving("convolution of three pictures", op.ConvWeight{Window: window(2, 1, 1, 1), Groups: 1, C: 20, H: 2, W: 2, O: 90}, 3, newOperand),
	}
}

// cancellingRows are four rows for each record, so long that their rounding to 16 bits would not do,
// while the sum of their products is short. This sum is exact in float32 in every order.
func cancellingRows(r *rand.Rand, records, width, signals int) [][]float32 {
	const rows = 4
	a, delta := make([]float32, 0, records*rows*width), make([]float32, 0, records*rows*signals)
	for range records {
		first, base := wholeNumbers(r, width, -3, 4), wholeNumbers(r, signals, -3, 4)
		for t := range rows {
			for _, v := range first {
				a = append(a, v/1024*float32(1-t%2*2))
			}
			for _, v := range base {
				delta = append(delta, v*8192+float32(r.IntN(5)-2)/64)
			}
		}
	}
	return [][]float32{a, delta}
}

// nearlyCancellingRows are cancellingRows that 16 bits hold. Their errors of rounding are too large.
func nearlyCancellingRows(r *rand.Rand, records, width, signals int) [][]float32 {
	rows := cancellingRows(r, records, width, signals)
	for i := range rows[0] {
		rows[0][i] *= 64
	}
	for i, v := range rows[1] { // long and short parts
		long := float32(math.Round(float64(v) / 8192))
		rows[1][i] = v - long*8192 + long/4
	}
	return rows
}

// cancellingLookups are rows of Δ, and a bag of indices for each. Two rows in turn have the same indices,
// some of them twice, and nearly cancel.
func cancellingLookups(r *rand.Rand, records, rows, bag, dim int) [][]float32 {
	var index, delta []float32
	for range records {
		long := wholeNumbers(r, dim, -9, 10)
		for t := range rows {
			for i := range bag {
				index = append(index, float32(3+(t/2+i)%2))
			}
			for _, v := range long {
				delta = append(delta, v*float32(1-t%2*2)+float32(r.IntN(5)-2)/64)
			}
		}
	}
	return [][]float32{index, delta}
}

// paddedLookups are rows of Δ, and a bag of indices for each. Every third row belongs to no row of the table,
// and is large or not finite.
func paddedLookups(r *rand.Rand, records, rows, bag, dim int) [][]float32 {
	var index, delta []float32
	for record := range records {
		for t := range rows {
			for i := range bag {
				index = append(index, float32(r.IntN(8)))
				if t%3 == 2 || i == 0 && bag > 1 {
					index[len(index)-1] = -1
				}
			}
			for range dim {
				v := r.NormFloat64() / math.Sqrt(float64(rows*bag*dim))
				if t%3 == 2 {
					v = []float64{1e6, math.Inf(1), math.NaN()}[record%3]
				}
				delta = append(delta, float32(v))
			}
		}
	}
	return [][]float32{index, delta}
}

func wholeNumbers(r *rand.Rand, n, from, to int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(from + r.IntN(to-from))
	}
	return x
}

func clippedSum(f op.Form) func(int) op.Operation {
	return func(records int) op.Operation { return op.ClippedSum{Form: f, Records: records} }
}

// exactSums are sums whose rows both devices round: gradients that are kept, products of one row and of
// several rows a record, lookups of one row and of bags, sums of one element; in the parameter's order and in
// another one, and for the last records only.
func exactSums(r *rand.Rand, records int) []contributing {
	permutation := make([]int32, 35)
	for i, to := range r.Perm(40)[:35] {
		permutation[i] = int32(to)
	}
	other := op.NewMap(permutation)
	kept := func(int) op.Operation { return op.WeightedRows{} }
	return []contributing{
		{"short gradient", kept, [][]float32{hostileNormals(r, records, 7)}, nil, 7, 0},
		{"long gradient", kept, [][]float32{hostileNormals(r, records, 5003)}, nil, 5003, 0},
		{"gradient in another order", kept, [][]float32{hostileNormals(r, records, 35)}, other, 40, 0},
		{"gradient of the last records", kept, [][]float32{hostileNormals(r, records-3, 35)}, nil, 35, 3},
		{"product", clippedSum(op.Product{In: 70, Out: 67}), [][]float32{hostileNormals(r, records, 70), hostileNormals(r, records, 67)}, nil, 70 * 67, 0},
		{"product of long rows", clippedSum(op.Product{In: 600, Out: 3}), [][]float32{hostileNormals(r, records, 600), hostileNormals(r, records, 3)}, nil, 1800, 0},
		{"product in another order", clippedSum(op.Product{In: 5, Out: 7}), [][]float32{hostileNormals(r, records, 5), hostileNormals(r, records, 7)}, other, 40, 0},
		{"rows", clippedSum(op.Product{In: 33, Out: 66}), [][]float32{hostileNormals(r, records, 5*33), hostileNormals(r, records, 5*66)}, nil, 33 * 66, 0},
		{"many rows", clippedSum(op.Product{In: 126, Out: 9}), [][]float32{hostileNormals(r, records, 131*126), hostileNormals(r, records, 131*9)}, nil, 126 * 9, 0},
		{"rows of a wide product", clippedSum(op.Product{In: 200, Out: 131}), [][]float32{hostileNormals(r, records, 3*200), hostileNormals(r, records, 3*131)}, nil, 200 * 131, 0},
		{"rows in another order", clippedSum(op.Product{In: 5, Out: 7}), [][]float32{hostileNormals(r, records, 9*5), hostileNormals(r, records, 9*7)}, other, 40, 0},
		{"rows of the last records", clippedSum(op.Product{In: 5, Out: 7}), [][]float32{hostileNormals(r, records-3, 2*5), hostileNormals(r, records-3, 2*7)}, nil, 35, 3},
		{"rows that cancel", clippedSum(op.Product{In: 67, Out: 65}), cancellingRows(r, records, 67, 65), nil, 67 * 65, 0},
		{"rows that cancel in another order", clippedSum(op.Product{In: 5, Out: 7}), cancellingRows(r, records, 5, 7), other, 40, 0},
		{"rows that nearly cancel", clippedSum(op.Product{In: 67, Out: 65}), nearlyCancellingRows(r, records, 67, 65), nil, 67 * 65, 0},
		{"shift", clippedSum(op.Shift{Channels: 19, Inner: 1}), [][]float32{hostileNormals(r, records, 19)}, nil, 19, 0},
		{"lookups", clippedSum(op.Gather{Vocabulary: 9, Dim: 33, Bag: 1}), [][]float32{wholeNumbers(r, 14*records, -2, 11), hostileNormals(r, records, 14*33)}, nil, 9 * 33, 0},
		{"bag", clippedSum(op.Gather{Vocabulary: 9, Dim: 5, Bag: 14}), [][]float32{wholeNumbers(r, 14*records, -1, 9), hostileNormals(r, records, 5)}, nil, 45, 0},
		{"bags in another order", clippedSum(op.Gather{Vocabulary: 7, Dim: 5, Bag: 2}), [][]float32{wholeNumbers(r, 6*records, -1, 8), hostileNormals(r, records, 15)}, other, 40, 0},
		{"lookups that cancel", clippedSum(op.Gather{Vocabulary: 9, Dim: 33, Bag: 1}), cancellingLookups(r, records, 4, 1, 33), nil, 9 * 33, 0},
		{"bags that cancel", clippedSum(op.Gather{Vocabulary: 9, Dim: 5, Bag: 3}), cancellingLookups(r, records, 4, 3, 5), nil, 45, 0},
		{"lookups that cancel in another order", clippedSum(op.Gather{Vocabulary: 7, Dim: 5, Bag: 1}), cancellingLookups(r, records, 6, 1, 5), other, 40, 0},
		{"lookups with padding", clippedSum(op.Gather{Vocabulary: 9, Dim: 33, Bag: 1}), paddedLookups(r, records, 4, 1, 33), nil, 9 * 33, 0},
		{"bags with padding", clippedSum(op.Gather{Vocabulary: 9, Dim: 5, Bag: 3}), paddedLookups(r, records, 4, 3, 5), nil, 45, 0},
		{"many lookups", clippedSum(op.Gather{Vocabulary: 50, Dim: 2, Bag: 1}), [][]float32{wholeNumbers(r, 4200*records, 0, 50), hostileNormals(r, records, 8400)}, nil, 100, 0},
	}
}

// For equal rows the device adds the CPU's integers, takes the same norms and omits the same parts:
// factors within the bound, beyond it, and far beyond it, and hostile numbers. It does so in one
// piece and with memory for a few records.
func TestContributions_SameBitsAsCPU(t *testing.T) {
	device(t)
	const records = 37
	r := rand.New(rand.NewPCG(5, 6))
	sums := append(exactSums(r, records), convolutions(func(width int) []float32 { return hostileNormals(r, records, width) })...)
	sums = append(sums, cancellingPictures(r, records))
	sums = append(sums, tiedTables(r, records, func(width int) []float32 { return hostileNormals(r, records, width) })...)
	factors := make([]float32, records)
	for i := range factors {
		factors[i] = []float32{0, 0.1, 0.2, 0.8, 1, 1.6, 1e4, 1e20, float32(math.Inf(1)), float32(math.NaN()), 0.3, 100}[i%12]
	}
	check := func(t *testing.T, sums []contributing) {
		program := exactProgram(records, sums)
		want, err := cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 2)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { want.Close() })
		expected := addTo(t, want, sums, factors)
		for _, memory := range []int{maxGradientBytes, 20_000} {
			func() {
				defer func(bytes int) { maxGradientBytes = bytes }(maxGradientBytes)
				maxGradientBytes = memory
				m := machineOf(t, program, plan.Optimizer{Kind: plan.SGD}).(*Executable)
				for v, sum := range addTo(t, m, sums, factors) {
					for i := range sum {
						if sum[i] != expected[v][i] {
							t.Fatalf("%s, memory of %d bytes: element %d is %d, want %d", sums[v].name, memory, i, sum[i], expected[v][i])
						}
					}
				}
				reduced, omitted, err := m.PartCounts()
				if c := want.Contributions(); err != nil || reduced != c.Reduced || omitted != c.Omitted || len(sums) > 1 && (reduced == 0 || omitted == 0) {
					t.Errorf("%d parts reduced and %d omitted, want %d and %d; error %v", reduced, omitted, c.Reduced, c.Omitted, err)
				}
			}()
		}
	}
	for _, s := range sums {
		t.Run(s.name, func(t *testing.T) { check(t, []contributing{s}) })
	}
	t.Run("all, with two budgets", func(t *testing.T) { check(t, sums) })
}

// Each record adds what it adds alone, while the operands of the others are not finite: a sum is that
// of its records. A record takes the squared norm of what it adds from its budget. The products are not
// whole tiles; their records are added in several blocks. The short form has fewer records.
func TestContributions_OfRecordsAlone(t *testing.T) {
	device(t)
	records := 7
	if testing.Short() {
		records = 3
	}
	r := rand.New(rand.NewPCG(7, 1))
	ordinary := func(width int) []float32 {
		x := make([]float32, records*width)
		for i := range x {
			x[i] = float32(r.NormFloat64() / math.Sqrt(float64(width)))
		}
		return x
	}
	sums := append([]contributing{
		{"gradient", func(int) op.Operation { return op.WeightedRows{} }, [][]float32{ordinary(9001)}, nil, 9001, 0},
		{"one row", clippedSum(op.Product{In: 66, Out: 3}), [][]float32{ordinary(66), ordinary(3)}, nil, 198, 0},
		{"rows with a norm from the product", clippedSum(op.Product{In: 67, Out: 5}), [][]float32{ordinary(65 * 67), ordinary(65 * 5)}, nil, 335, 0},
		{"rows with a norm from Gram matrices", clippedSum(op.Product{In: 200, Out: 131}), [][]float32{ordinary(65 * 200), ordinary(65 * 131)}, nil, 200 * 131, 0},
		{"rows that cancel", clippedSum(op.Product{In: 5, Out: 7}), cancellingRows(r, records, 5, 7), nil, 35, 0},
		cancellingPictures(r, records),
	}, convolutions(ordinary)...)
	for _, s := range append(sums, tiedTables(r, records, ordinary)...) {
		t.Run(s.name, func(t *testing.T) { checkRecordsAlone(t, s, records) })
	}
}

func checkRecordsAlone(t *testing.T, s contributing, records int) {
	program := exactProgram(records, []contributing{s})
	m := machineOf(t, program, plan.Optimizer{Kind: plan.SGD}).(*Executable)
	all := addTo(t, m, []contributing{s}, slices.Repeat([]float32{0.5}, records))[0]
	m = machineOf(t, program, plan.Optimizer{Kind: plan.SGD}).(*Executable)
	var sum []int64
	for one := range records {
		alone := s
		alone.in = nil
		for _, x := range s.in {
			width, y := len(x)/records, slices.Repeat([]float32{float32(math.NaN())}, len(x))
			copy(y[one*width:(one+1)*width], x[one*width:])
			alone.in = append(alone.in, y)
		}
		factors := make([]float32, records)
		factors[one] = 0.5
		next := addTo(t, m, []contributing{alone}, factors)[0]
		var square int64
		for i, v := range next {
			if sum != nil {
				v -= sum[i]
			}
			square += v * v
		}
		if taken, err := m.SquaredNormTaken(0, one); err != nil || taken != square || square == 0 {
			t.Errorf("record %d takes %d from its budget, but its squared norm is %d; error %v", one, taken, square, err)
		}
		sum = next
	}
	if !slices.Equal(sum, all) {
		t.Error("the records alone add other integers than together")
	}
}

// A warp admits records whose parts fit their budgets as they are; a block admits the others. There are
// more records than one a block, and parts of two groups: products of one row and of several, gradients,
// and a tied table.
func TestContributions_WarpsAdmitRecordsThatFit(t *testing.T) {
	device(t)
	const records = 70
	r := rand.New(rand.NewPCG(15, 2))
	ordinary := func(width int) []float32 {
		x := make([]float32, records*width)
		for i := range x {
			x[i] = float32(r.NormFloat64() / math.Sqrt(float64(width)))
		}
		return x
	}
	small := [][]float32{ordinary(35), ordinary(9)} // the other group is the first that does not fit
	for _, x := range small {
		for i := range x {
			x[i] /= 8
		}
	}
	sums := []contributing{
		{"gradient", func(int) op.Operation { return op.WeightedRows{} }, [][]float32{small[0]}, nil, 35, 0},
		{"product", clippedSum(op.Product{In: 70, Out: 9}), [][]float32{ordinary(70), small[1]}, nil, 630, 0},
		{"rows", clippedSum(op.Product{In: 33, Out: 66}), [][]float32{ordinary(3 * 33), ordinary(3 * 66)}, nil, 33 * 66, 0},
		tied("tied table", false, 33, records, wholeNumbers(r, 7*records, 0, 9), ordinary(7*33), ordinary(5*33), ordinary(5*9)),
	}
	factors, graded := make([]float32, records), make([]float32, records)
	fits := 0
	for i := range factors {
		if factors[i] = 0.1; i%7 == 3 {
			factors[i] = 100
		} else {
			fits++
		}
		graded[i] = 0.08 * float32(i+1) // records that fit except for their last part
	}
	program := exactProgram(records, sums)
	want, err := cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { want.Close() })
	m := machineOf(t, program, plan.Optimizer{Kind: plan.SGD}).(*Executable)
	check := func(what string, factors []float32) (blocks int) {
		expected := addTo(t, want, sums, factors)
		for v, sum := range addTo(t, m, sums, factors) {
			if !slices.Equal(sum, expected[v]) {
				t.Errorf("%s factors: %s: other integers than the CPU's", what, sums[v].name)
			}
		}
		if _, _, err := m.PartCounts(); err != nil {
			t.Fatal(err)
		}
		return m.counters.readPart(2)
	}
	if blocks := check("clear", factors); blocks != records-fits {
		t.Errorf("blocks admit %d records, want %d", blocks, records-fits)
	}
	square := func(x []float32, record int) (sum float64) {
		width := len(x) / records
		for _, v := range x[record*width : (record+1)*width] {
			sum += float64(v) * float64(v)
		}
		return sum
	}
	for i, f := range factors {
		first, err := m.SquaredNormTaken(0, i)
		second, err2 := m.SquaredNormTaken(1, i)
		want := (square(small[0], i) + square(sums[1].in[0], i)*square(small[1], i)/4) * math.Pow(float64(f)*plan.Bound, 2)
		if err != nil || err2 != nil || f == 0.1 && (!(math.Abs(float64(first)/want-1) < 0.01) || second == 0 || second == first) {
			t.Errorf("record %d takes %d and %d from its budgets, want %.4g from the first one; errors %v, %v", i, first, second, want, err, err2)
		}
	}
	if blocks := check("graded", graded); blocks == 0 || blocks == records {
		t.Errorf("blocks admit %d of %d records", blocks, records)
	}
}

// A sum of 32 bits wraps with 512 contributions of the largest norm in one element. The product is
// so wide that its blocks divide the records no further than these sums require.
func TestContributions_ManyFullRecords(t *testing.T) {
	device(t)
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	const records = 1100
	ones, width := slices.Repeat([]float32{1}, records), 128*d.Multiprocessors()
	wide := make([]float32, records*width)
	for r := range records {
		wide[r*width] = 1
	}
	for name, s := range map[string]contributing{
		"product":  {spec: clippedSum(op.Product{In: width, Out: 1}), in: [][]float32{wide, ones}, size: width},
		"gradient": {spec: func(int) op.Operation { return op.WeightedRows{} }, in: [][]float32{ones}, size: 1},
		"lookups":  {spec: clippedSum(op.Gather{Vocabulary: 1, Dim: 1, Bag: 1}), in: [][]float32{make([]float32, records), ones}, size: 1},
	} {
		m := machineOf(t, exactProgram(records, []contributing{s}), plan.Optimizer{Kind: plan.SGD})
		if sum := addTo(t, m, []contributing{s}, ones); sum[0][0] != records*plan.Bound {
			t.Errorf("%s: %d, want %d", name, sum[0][0], records*plan.Bound)
		}
	}
}

// The lookups of a record add up to 2³² in one element, whose square is 0 modulo 2⁶⁴. The record adds
// nothing.
func TestContributions_RefusesWrappedNorm(t *testing.T) {
	device(t)
	const lookups = 1 << 32 / plan.Bound
	s := contributing{
		spec: clippedSum(op.Gather{Vocabulary: 1, Dim: 1, Bag: 1}), size: 1,
		in: [][]float32{make([]float32, lookups), slices.Repeat([]float32{1}, lookups)},
	}
	m := machineOf(t, exactProgram(1, []contributing{s}), plan.Optimizer{Kind: plan.SGD}).(*Executable)
	sum := addTo(t, m, []contributing{s}, []float32{1})
	if _, omitted, err := m.PartCounts(); sum[0][0] != 0 || omitted != 1 || err != nil {
		t.Errorf("the record adds %d, %d parts are omitted, error %v", sum[0][0], omitted, err)
	}
}

// The norm of a product of one row finds the lengths from which the sum chooses its scales, and the norm
// of a bias. The sums are those of a program that computes no norms, in one launch less.
func TestContributions_WithLengthsOfNorms(t *testing.T) {
	device(t)
	const records, in, out = 40, 70, 33
	r := rand.New(rand.NewPCG(14, 9))
	sums := []contributing{
		{spec: clippedSum(op.Product{In: in, Out: out}), in: [][]float32{hostileNormals(r, records, in), hostileNormals(r, records, out)}, size: in * out},
		{spec: clippedSum(op.Product{In: in, Out: out}), in: [][]float32{hostileNormals(r, records, in), hostileNormals(r, records, out)}, size: in * out},
	}
	factors := make([]float32, records)
	for i := range factors {
		if factors[i] = float32(i%5) / 4; i%16 == 0 {
			factors[i] = 0 // NaN and the like
		}
	}
	var norms, bias []float32
	var first [][]int64
	defer func(bytes int) { maxGradientBytes = bytes }(maxGradientBytes)
	for _, c := range []struct {
		normed   bool
		memory   int // for rounded rows
		launches int // of row_lengths
	}{{false, maxGradientBytes, 2}, {true, maxGradientBytes, 1}, {true, 2000, 5}} {
		maxGradientBytes = c.memory
		p := exactProgram(records, sums)
		if c.normed {
			product, rows := p.Back[0].In[:2], p.Back[0].In[1:2]
			for k, spec := range []op.Operation{op.RowSquares{}, op.SquaredNorms{Form: op.Product{In: in, Out: out}, Records: records, Method: op.RankOne}} {
				id := len(p.Buffers)
				p.Buffers = append(p.Buffers, plan.Buffer{Name: "norms", Shape: tensor.Shape{records}, Role: plan.RoleSquaredNorms, Index: k, Base: id})
				p.Front = append(p.Front, plan.Instruction{Spec: spec, In: [][]int{rows, product}[k], Out: id})
				p.Parameters[k].SquaredNorms = id
			}
		}
		m := machineOf(t, p, plan.Optimizer{Kind: plan.SGD}).(*Executable)
		addTo(t, m, sums, factors) // leaves numbers in the memory of the next microbatch
		got := addTo(t, m, sums, factors)
		launches := 0
		for _, s := range m.back.steps {
			if strings.Contains(s.name, "row_lengths") {
				launches++
			}
		}
		if launches != c.launches {
			t.Errorf("%+v: %d launches of row_lengths", c, launches)
		}
		if first == nil {
			first = got
		}
		for v, want := range first {
			if !slices.Equal(got[v], want) {
				t.Errorf("%+v: the sums of product %d are others", c, v)
			}
			if slices.Max(want) == 0 {
				t.Errorf("product %d adds nothing", v)
			}
		}
		if c.normed {
			bias, norms = m.SquaredNorms(0), m.SquaredNorms(1)
			if len(m.front.steps) != 1 {
				t.Errorf("the norms take %d launches", len(m.front.steps))
			}
		}
	}
	for i := range records {
		var a, d float64
		for _, x := range sums[0].in[0][i*in : (i+1)*in] {
			a += float64(x) * float64(x)
		}
		for _, x := range sums[0].in[1][i*out : (i+1)*out] {
			d += float64(x) * float64(x)
		}
		for _, c := range []struct{ got, want float64 }{{float64(bias[i]), d}, {float64(norms[i]), a*d + op.OperandNormShare*(a+d)}} {
			if c.want < 1e38 && c.want > 1e-30 && !(math.Abs(c.got-c.want) <= 1e-6*c.want) {
				t.Errorf("record %d: squared norm %v, want %v", i, c.got, c.want)
			}
		}
	}
}

// Weights of 0, updated by SGD at rate −1, are the released integers in units of the gradient. They
// are those of package noise, to the bit, and the next lot starts at zero. The last lot is one of several
// ranks: the caller reads the sums and gives those of all.
func TestRelease_OfIntegerSums(t *testing.T) {
	device(t)
	const records = 3
	var sums []contributing
	r := rand.New(rand.NewPCG(8, 9))
	for _, n := range []int{1, 17, 511, 4099, 20011} {
		x := make([]float32, records*n)
		for i := range x {
			x[i] = float32(r.NormFloat64() / math.Sqrt(float64(n)))
		}
		sums = append(sums, contributing{spec: func(int) op.Operation { return op.WeightedRows{} }, in: [][]float32{x}, size: n})
	}
	sgd, source := plan.Optimizer{Kind: plan.SGD}, noise.NewSeeded(4)
	m := machineOf(t, exactProgram(records, sums), sgd).(*Executable)
	now := &plan.Release{Source: source, Scale: 1.0 / 7, Optimizer: sgd, Rate: -1}
	for v := range sums {
		now.Sigma, now.Unit = append(now.Sigma, float64(v+1)*plan.Bound/3), append(now.Unit, float64(v+2)*1e-7)
	}
	for lot := range uint64(4) {
		now.Lot, now.Step = lot, int(lot)+1
		now.Sigma[2] *= 5
		var want [][]int64
		if lot == 1 {
			for _, s := range sums {
				want = append(want, make([]int64, s.size)) // an empty lot
			}
		} else {
			want = addTo(t, m, sums, []float32{1, 0.5, 0.25})
		}
		for v := 0; lot == 3 && v < len(sums); v++ {
			all := make([]int64, sums[v].size)
			if err := m.ReadSum(v, all); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(all, want[v]) {
				t.Fatalf("parameter %d: ReadSum differs from IntegerSum", v)
			}
			for i := range all {
				all[i] += int64(i) << 30
			}
			now.Sums, want[v] = append(now.Sums, all), slices.Clone(all)
		}
		if err := m.Release(now); err != nil {
			t.Fatal(err)
		}
		if err := m.SyncState(); err != nil {
			t.Fatal(err)
		}
		for v, got := range m.State().Weights {
			gaussian := noise.RoundedGaussian{Sigma: now.Sigma[v]}
			if err := gaussian.Add(source, want[v], noise.Stream{Purpose: noise.Release, Lot: lot, Vector: uint32(v)}, 0); err != nil {
				t.Fatal(err)
			}
			unit := math.Ldexp(now.Unit[v]*now.Scale, gaussian.Grid())
			for i := range got {
				if w := float32(float64(want[v][i]) * unit); got[i] != w {
					t.Fatalf("lot %d, parameter %d: element %d is %v, want %v", lot, v, i, got[i], w)
				}
			}
			clear(got)
		}
		if err := m.LoadState(); err != nil {
			t.Fatal(err)
		}
	}
	for want, spoil := range map[string]func(r *plan.Release){
		"lattice steps":        func(r *plan.Release) { r.Unit = nil },
		"needs a noise source": func(r *plan.Release) { r.Source = nil },
		"deviation":            func(r *plan.Release) { r.Sigma = make([]float64, len(sums)) },
	} {
		spoiled := *now
		spoil(&spoiled)
		if err := m.Release(&spoiled); err == nil {
			t.Errorf("%s: no error", want)
		}
	}
}
