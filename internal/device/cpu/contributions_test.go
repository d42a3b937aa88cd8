package cpu

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"gorgonia.org/tensor"
)

// A built gradient is rounded in its own memory. If the integers exceed the record's budget or
// their range, the second rounding begins with the gradient and not with integers.
func TestChooseBuilt_SecondRoundingBuildsAgain(t *testing.T) {
	const size = 2*plan.BuiltBlock + 5
	for name, largest := range map[string]float32{"budget": 1, "range": 1e30} {
		gradient := make([]float32, size)
		norm := 0.0
		for i := range gradient {
			gradient[i] = float32(i%7) - 3
			norm += float64(gradient[i]) * float64(gradient[i])
		}
		steps := 1.5 * plan.Bound / math.Sqrt(norm)
		if largest > 1 {
			steps = plan.Bound / float64(largest)
			gradient[size-1] = largest
		}
		c := &plan.Admission{Contributions: &plan.Contributions{Seeds: []uint64{7}, Steps: []float64{steps}, Group: []int{0}}}
		c.Begin()
		p := &part{Contribution: plan.Contribution{Admission: c, Factors: []float32{1}}}
		if largest > 1 {
			p.Factors[0] = 1.5
		}
		row, built := make([]float32, size), 0
		ints := asInts(row)
		how := p.chooseBuilt(0, ints, row, func(row []float32, _ int, _ *worker) {
			built++
			copy(row, gradient)
		}, nil)
		if c.End(); built != 2 || how.Scale == 0 || c.Reduced != 1 || c.Omitted != 0 {
			t.Fatalf("%s: built %d times, scale %v, %d reduced, %d omitted", name, built, how.Scale, c.Reduced, c.Omitted)
		}
		var squares int64
		for i, v := range ints {
			if want := float64(gradient[i]) * how.Scale; math.Abs(float64(v)-want) > 1+1e-6*math.Abs(want) {
				t.Fatalf("%s: element %d is %d, want %v rounded", name, i, v, want)
			}
			squares += int64(v) * int64(v)
		}
		if taken := c.Taken(0, 0); taken != squares {
			t.Errorf("%s: %d is taken of the budget, want %d", name, taken, squares)
		}
	}
}

// Every record of two microbatches adds the largest contribution to the same element: the sums leave 32
// bits several times within a microbatch and between microbatches, for every way to add.
func TestContributions_ManyFullRecords(t *testing.T) {
	const records, width = 1100, 70
	ones, zeros := slices.Repeat([]float32{1}, records), make([]float32, records)
	first := make([]float32, records*width)
	for r := range records {
		first[r*width] = 1
	}
	clipped := func(f op.Form) op.Operation { return op.ClippedSum{Form: f, Records: records} }
	reversed := make([]int32, width)
	for i := range reversed {
		reversed[i] = int32(width - 1 - i)
	}
	for name, c := range map[string]struct {
		spec op.Operation
		in   [][]float32
	}{
		"narrow product": {clipped(op.Product{In: width, Out: 1}), [][]float32{first, ones}},
		"product":        {clipped(op.Product{In: 1, Out: width}), [][]float32{ones, first}},
		"gradients":      {op.WeightedRows{}, [][]float32{first}},
		"built":          {clipped(op.Shift{Channels: width, Inner: 1}), [][]float32{first}},
		"lookups":        {clipped(op.Gather{Vocabulary: 1, Dim: width, Bag: 1}), [][]float32{zeros, first}},
	} {
		for _, at := range []*op.Map{nil, op.NewMap(reversed)} {
			p := &plan.Program{Batch: records, Records: records, PerRecord: 1, Exact: true}
			buffer := func(b plan.Buffer) int {
				b.Base = len(p.Buffers)
				p.Buffers = append(p.Buffers, b)
				return b.Base
			}
			var in []int
			for i, x := range c.in {
				in = append(in, buffer(plan.Buffer{Name: "operand", Shape: tensor.Shape{records, len(x) / records}, Role: plan.RoleInput, Index: i}))
			}
			factors := buffer(plan.Buffer{Name: "factors", Shape: tensor.Shape{records}, Role: plan.RoleClipFactors})
			weights := buffer(plan.Buffer{Name: "weights", Shape: tensor.Shape{width}, Role: plan.RoleParameter, Value: make([]float32, width)})
			sum := buffer(plan.Buffer{Name: "sum", Shape: tensor.Shape{width}, Role: plan.RoleClippedSum})
			p.Back = []plan.Instruction{{Spec: c.spec, In: append(in, factors), Out: sum, Accumulate: true, At: at}}
			p.Parameters = []plan.Parameter{{Name: "weights", Shape: tensor.Shape{width}, Value: weights, SquaredNorms: -1, ClipFactors: factors, ClippedSum: sum}}
			m, err := New(p, plan.Optimizer{Kind: plan.SGD}, false, 2)
			if err != nil {
				t.Fatal(err)
			}
			m.Contributions().Steps[0] = plan.Bound
			for i, x := range c.in {
				copy(m.Input(i), x)
			}
			copy(m.ClipFactors(0), ones)
			want := make([]int64, width)
			for range 2 {
				if err := m.AddClippedSums(); err != nil {
					t.Fatal(err)
				}
				if at == nil {
					want[0] += records * plan.Bound
				} else {
					want[width-1] += records * plan.Bound
				}
				if got := m.IntegerSum(0); !slices.Equal(got, want) {
					t.Errorf("%s, in another order %v: %v, want %v", name, at != nil, got, want)
				}
			}
			m.Close()
		}
	}
}

// A parameter to which several instructions add is final after the last of them.
func TestAddLastClippedSums_SeveralUses(t *testing.T) {
	p := &plan.Program{Batch: 1, Records: 1, PerRecord: 1, Exact: true}
	buffer := func(role plan.Role, index int) int {
		id := len(p.Buffers)
		p.Buffers = append(p.Buffers, plan.Buffer{Name: "buffer", Shape: tensor.Shape{1}, Role: role, Index: index, Base: id, Value: make([]float32, 1)})
		return id
	}
	rows := buffer(plan.RoleInput, 0)
	for i := range 2 {
		p.Parameters = append(p.Parameters, plan.Parameter{Name: "weights", Shape: tensor.Shape{1}, SquaredNorms: -1,
			Value: buffer(plan.RoleParameter, i), ClipFactors: buffer(plan.RoleClipFactors, i), ClippedSum: buffer(plan.RoleClippedSum, i)})
	}
	for _, i := range []int{1, 0, 1} {
		of := p.Parameters[i]
		p.Back = append(p.Back, plan.Instruction{Spec: op.WeightedRows{}, In: []int{rows, of.ClipFactors}, Out: of.ClippedSum, Accumulate: true})
	}
	m, err := New(p, plan.Optimizer{Kind: plan.SGD}, false, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.Input(0)[0] = 1
	for i := range 2 {
		m.ClipFactors(i)[0], m.Contributions().Steps[i] = 1, 7
	}
	var reports []int64
	err = m.AddLastClippedSums(func(n int) { reports = append(reports, int64(n), m.IntegerSum(0)[0], m.IntegerSum(1)[0]) })
	if want := []int64{1, 7, 7, 2, 7, 14}; err != nil || !slices.Equal(reports, want) || !slices.Equal(m.SumOrder(), []int{0, 1}) {
		t.Errorf("reports %d, want %d; order %d; %v", reports, want, m.SumOrder(), err)
	}
}

// The scale of A is the largest power of two that is at most √2·√(scale·‖Δ‖·√(In/Out)/‖A‖), within
// bounds for the lengths of both rows, as math/big computes it. The product of the scales is the scale.
func TestSplitScale_AgreesWithDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(x) }
	root := func(x *big.Float) *big.Float { return new(big.Float).SetPrec(300).Sqrt(x) }
	exponent := func(x *big.Float) int { return x.MantExp(nil) - 1 } // MantExp has a mantissa below 1
	bounded := [2]int{}
	for range 20_000 {
		in, out := 1+r.IntN(2000), 1+r.IntN(2000)
		s := &rowSum{aspect: 4 * float64(in) / float64(out)}
		scale := math.Exp2(r.NormFloat64()*20 + 22)
		squaresA, squaresD := math.Exp2(r.NormFloat64()*20), math.Exp2(r.NormFloat64()*20)
		lengthA, lengthD := root(number(squaresA)), root(number(squaresD))
		aspect := root(new(big.Float).Quo(number(float64(in)), number(float64(out))))
		longD := new(big.Float).Mul(number(scale), lengthD)
		balanced := new(big.Float).Quo(new(big.Float).Mul(longD, aspect), lengthA)
		want := exponent(new(big.Float).Mul(root(number(2)), root(balanced)))
		if least := exponent(longD) + 1 - maxRowExponent; want < least {
			want = least
			bounded[0]++
		}
		if most := maxRowExponent - 1 - exponent(lengthA); want > most {
			want = most
			bounded[1]++
		}
		want = min(max(want, -120), 120)
		a, d := s.splitScale(scale, squaresA, squaresD)
		if float64(a) != math.Ldexp(1, want) || d != float32(math.Ldexp(scale, -want)) {
			t.Fatalf("%d×%d, scale %v, squared norms %v and %v: %v and %v, want 2^%d", in, out, scale, squaresA, squaresD, a, d, want)
		}
	}
	if min(bounded[0], bounded[1]) < 1000 || max(bounded[0], bounded[1]) > 15_000 {
		t.Errorf("bounds decide %v of 20000 times", bounded)
	}
}
