package plan

import (
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"gorgonia.org/tensor"
)

// An LSTM's two weights share Δ in rows of one width; a third product reads it in rows of another.
func TestAnnotated_SharedSignals(t *testing.T) {
	const records = 2
	gram := func(in, out, a, delta int) Instruction {
		return Instruction{Spec: op.SquaredNorms{Form: op.Product{In: in, Out: out}, Records: records, Method: op.Gram}, In: []int{a, delta}, Out: 4}
	}
	p := &Program{Records: records, Buffers: []Buffer{
		{Shape: tensor.Shape{8, 3}, Base: 0}, {Shape: tensor.Shape{8, 5}, Base: 1}, {Shape: tensor.Shape{8, 4}, Base: 2},
		{Shape: tensor.Shape{16, 2}, Base: 2}, {Shape: tensor.Shape{records}, Base: 4},
	}, Front: []Instruction{gram(3, 4, 0, 2), gram(5, 4, 1, 2), gram(3, 2, 0, 3)}}
	for i, want := range []bool{true, true, false} {
		got := p.Annotated().Front[i]
		if got.SharesSignals != want || got.Norms != GramNorms || got.Path != ByKernel {
			t.Errorf("norm %d: %+v, shared want %v", i, got.Annotation, want)
		}
	}
}

// The norms of a weight of one row a record are computed with those of the bias that has the same Δ,
// but not with those of other rows.
func TestAnnotated_BiasNorms(t *testing.T) {
	const records = 4
	for _, c := range []struct {
		name       string
		bias       tensor.Shape
		base, want int
	}{{"the same rows", tensor.Shape{records, 3}, 1, 4}, {"other rows", tensor.Shape{records, 3}, 2, -1}, {"fewer", tensor.Shape{records, 2}, 1, -1}} {
		p := &Program{Records: records, Buffers: []Buffer{
			{Shape: tensor.Shape{records, 8}, Base: 0}, {Shape: tensor.Shape{records, 3}, Base: 1}, {Shape: c.bias, Base: c.base},
			{Shape: tensor.Shape{records}, Base: 3}, {Shape: tensor.Shape{records}, Base: 4},
		}, Front: []Instruction{
			{Spec: op.SquaredNorms{Form: op.Product{In: 8, Out: 3}, Records: records, Method: op.RankOne}, In: []int{0, 1}, Out: 3},
			{Spec: op.RowSquares{}, In: []int{2}, Out: 4},
		}}
		q := p.Annotated()
		if got := q.Front[0]; got.Norms != RankOneNorms || got.BiasNorms != c.want || q.Front[1].WithProduct != (c.want >= 0) {
			t.Errorf("%s: %+v and %+v, want the bias's norms in %d", c.name, got.Annotation, q.Front[1].Annotation, c.want)
		}
	}
}

func TestAnnotated_Contributions(t *testing.T) {
	const records = 2
	product, lookup := op.Product{In: 9, Out: 4}, op.Gather{Vocabulary: 9, Dim: 4, Bag: 1}
	tied := []op.MappedForm{{Form: lookup}, {Form: product}}
	apart := []op.MappedForm{{Form: product}, {Form: product}}
	several := func(uses *[]op.MappedForm) op.Operation {
		return op.MultiUseSum{Uses: uses, Size: product.Size(), Records: records}
	}
	for _, c := range []struct {
		name       string
		spec       op.Operation
		want, ifL1 ContributionForm
	}{
		{"product", op.ClippedSum{Form: product, Records: records}, ProductRows, BuiltGradients},
		{"lookup", op.ClippedSum{Form: lookup, Records: records}, GatheredRows, BuiltGradients},
		{"scale", op.ClippedSum{Form: op.Scale{Channels: 4, Inner: 1}, Records: records}, BuiltGradients, BuiltGradients},
		{"kept", op.WeightedRows{}, KeptGradients, KeptGradients},
		{"tied table", several(&tied), TiedRows, BuiltGradients},
		{"two products", several(&apart), BuiltGradients, BuiltGradients},
	} {
		for _, l1 := range []bool{false, true} {
			// The second and the third instruction are two parts of one use.
			code := make([]Instruction, 3)
			for i := range code {
				code[i] = Instruction{Spec: c.spec, In: []int{0, 0, 0, 0, 0}, Accumulate: true, FirstRecord: i / 2}
			}
			p := &Program{Exact: true, L1: l1, Records: records, Buffers: []Buffer{{Shape: tensor.Shape{records, 36}}}, Back: code}
			want := c.want
			if l1 {
				want = c.ifL1
			}
			for i, got := range p.Annotated().Back {
				if got.Path != ByContribution || got.Contribution != want || got.Use != []int{1, 2, 2}[i] {
					t.Errorf("%s, L1 %v, instruction %d: %+v, want form %d", c.name, l1, i, got.Annotation, want)
				}
			}
			if p.Back[0].Path != ByKernel {
				t.Error("the program itself was annotated")
			}
		}
	}
}
