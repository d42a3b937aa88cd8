package op

import (
	"fmt"

	"gorgonia.org/tensor"
)

// MappedForm is one of several uses of a parameter. Element i of the form's gradient
// belongs to element Map.At[i] of the parameter; a negative number is no element. A nil
// Map is the identity.
type MappedForm struct {
	Form Form
	Map  *Map
}

// MultiUseNorms is the squared norm of each record's gradient of a parameter that is used
// in several ways. It adds the uses before squaring, so that the norm includes their
// cross terms. It builds one record's gradient at a time and keeps none. Its inputs are
// the inputs of each part in turn.
type MultiUseNorms struct {
	Uses    *[]MappedForm
	Size    int
	Records int
}

func (m MultiUseNorms) String() string {
	s := fmt.Sprintf("mixed{%d,%d", m.Size, m.Records)
	for _, p := range *m.Uses {
		s += fmt.Sprintf(",%v@%v", p.Form, p.Map)
	}
	return s + "}"
}

// SumRoundoff is the relative error of one addition of the parameter's clipped sum: that of float32
// where several uses, or several places of a use, are added to one element one after the other.
func (m MultiUseNorms) SumRoundoff() float64 {
	for _, p := range *m.Uses {
		if len(*m.Uses) > 1 || p.Map.MaxMultiplicity(m.Size) > 1 {
			return SingleRoundoff
		}
	}
	return Roundoff
}

// InputRange is the range of the operation's inputs that belong to a part.
func (m MultiUseNorms) InputRange(part int) (from, to int) {
	for i, p := range *m.Uses {
		to = from + 1
		if NeedsA(p.Form) {
			to++
		}
		if i == part {
			return from, to
		}
		from = to
	}
	return from, from
}

// TiedTable describes the uses if the parameter is a TiedTable with exactly one use of
// each kind.
func (m MultiUseNorms) TiedTable() (t TiedTable, ok bool) {
	parts := *m.Uses
	if len(parts) != 2 {
		return t, false
	}
	lookup := 0
	if _, first := parts[0].Form.(Gather); !first {
		lookup = 1
	}
	product := parts[1-lookup]
	g, looked := parts[lookup].Form.(Gather)
	p, multiplied := product.Form.(Product)
	if !looked || !multiplied || g.Bag != 1 || parts[lookup].Map != nil {
		return t, false
	}
	t.Table = g
	t.Index, _ = m.InputRange(lookup)
	t.RowsByDim, _ = m.InputRange(1 - lookup)
	t.Delta, t.RowsByEntry = t.Index+1, t.RowsByDim+1
	if product.Map == nil && p.In == g.Vocabulary && p.Out == g.Dim {
		t.RowsByDim, t.RowsByEntry = t.RowsByEntry, t.RowsByDim
		return t, true
	}
	return t, product.Map.isTransposedTable(p, g)
}

func (m MultiUseNorms) Shape(in []tensor.Shape) (tensor.Shape, error) {
	_, n := m.InputRange(len(*m.Uses) - 1)
	if err := checkArity(in, n); err != nil {
		return nil, err
	}
	for i, p := range *m.Uses {
		from, to := m.InputRange(i)
		if err := checkBlocks(p.Form, m.Records, in[from:to], 0); err != nil {
			return nil, err
		}
	}
	return tensor.Shape{m.Records}, nil
}

func (m MultiUseNorms) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	sum := make([]float64, m.Size)
	for r := range out {
		m.RecordGradient(sum, r, in)
		out[r] = sumOfSquares(sum)
	}
}

// RecordGradient writes the gradient of record r, the sum of all uses, to sum.
func (m MultiUseNorms) RecordGradient(sum []float64, r int, in [][]float64) {
	clear(sum)
	for i, p := range *m.Uses {
		from, to := m.InputRange(i)
		g := make([]float64, p.Form.Size())
		recordGradient(p.Form, g, r, m.Records, in[from:to])
		p.Map.Scatter(sum, g)
	}
}

// MultiUseSum is Σ_r c_r·g_r of a parameter that is used in several ways. Its inputs are those
// of MultiUseNorms, then one factor per record. A record whose factor is zero adds nothing.
type MultiUseSum MultiUseNorms

func (m MultiUseSum) String() string { return "sum of " + MultiUseNorms(m).String() }

func (m MultiUseSum) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in[len(in)-1:], 1); err != nil {
		return nil, err
	}
	if _, err := MultiUseNorms(m).Shape(in[:len(in)-1]); err != nil {
		return nil, err
	}
	return tensor.Shape{m.Size}, nil
}

func (m MultiUseSum) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	gradient := make([]float64, m.Size)
	for r, c := range in[len(in)-1] {
		if c == 0 {
			continue
		}
		MultiUseNorms(m).RecordGradient(gradient, r, in[:len(in)-1])
		for i, v := range gradient {
			out[i] += c * v
		}
	}
}

// TiedTable is a table that is looked up in and multiplied with, such as an embedding
// tied to the last layer. Its fields are input numbers of MultiUseNorms: the indices of
// the lookup, the gradient of the rows that were found, the product's rows of the table's
// width, and the product's rows with one number per entry of the table.
type TiedTable struct {
	Table                                Gather
	Index, Delta, RowsByDim, RowsByEntry int
}

// isTransposedTable reports whether the map is the transposition of a product [dim,
// vocabulary] to the table that g looks up in.
func (m *Map) isTransposedTable(p Product, g Gather) bool {
	if m == nil || p.In != g.Dim || p.Out != g.Vocabulary {
		return false
	}
	for i, to := range m.At {
		if int(to) != i%p.Out*p.In+i/p.Out {
			return false
		}
	}
	return true
}
