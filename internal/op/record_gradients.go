package op

import (
	"fmt"

	"gorgonia.org/tensor"
)

// The operations of this file are what a private step adds to an ordinary one.
// Their inputs are, in order, A (left out where the form needs none), Delta, and
// for the sums a factor for each record.

// Method is how squared norms are found without building the gradient.
type Method uint8

const (
	// RankOne: the record has one row, ‖a⊗δ‖² = ‖a‖²‖δ‖².
	RankOne Method = iota
	// Gram: ⟨AAᵀ, ΔΔᵀ⟩ (Goodfellow 2015; Li et al. 2022, "ghost clipping").
	Gram
	// Group: equal indices are grouped, then squared.
	Group
)

func (m Method) String() string { return [...]string{"rank-one", "gram", "group"}[m] }

// checkBlocks checks a form's inputs: each is a block a record, the last, where extra is 1, a
// factor a record.
func checkBlocks(f Form, records int, in []tensor.Shape, extra int) error {
	want := 2 + extra
	if !NeedsA(f) {
		want--
	}
	if err := checkArity(in, want); err != nil {
		return err
	}
	for _, s := range in[:want-extra] {
		if records <= 0 || s.TotalSize()%records != 0 {
			return fmt.Errorf("shape %v cannot be cut into %d records", s, records)
		}
	}
	if extra == 1 && in[want-1].TotalSize() != records {
		return fmt.Errorf("%v factors for %d records", in[want-1], records)
	}
	return nil
}

// NeedsA reports whether the form reads an activation.
func NeedsA(f Form) bool {
	_, shift := f.(Shift)
	return !shift
}

// recordGradient gives the gradient of record r into dst.
func recordGradient(f Form, dst []float64, r, records int, in [][]float64) {
	clear(dst)
	var a []float64
	delta := in[0]
	if NeedsA(f) {
		n := len(in[0]) / records
		a, delta = in[0][r*n:(r+1)*n], in[1]
	}
	n := len(delta) / records
	f.AddGradient(dst, a, delta[r*n:(r+1)*n])
}

func sumOfSquares(x []float64) float64 {
	var s float64
	for _, v := range x {
		s += v * v
	}
	return s
}

// RecordGradients keeps every record's gradient: [records, size]. It is chosen
// only where that is no larger than the rows that the gradient comes from.
type RecordGradients struct {
	Form    Form
	Records int
}

func (g RecordGradients) String() string {
	return fmt.Sprintf("recordGradients{%v,%d}", g.Form, g.Records)
}

func (g RecordGradients) Shape(in []tensor.Shape) (tensor.Shape, error) {
	return tensor.Shape{g.Records, g.Form.Size()}, checkBlocks(g.Form, g.Records, in, 0)
}

func (g RecordGradients) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	n := g.Form.Size()
	for r := range g.Records {
		recordGradient(g.Form, out[r*n:(r+1)*n], r, g.Records, in)
	}
}

// OperandNormShare is how much of the squared norms of its operands is in that of a record.
// A record of rows of zeros has no norm whatever its signals are: the factor of a rule that
// lengthens records would make them infinite, and zeros times infinity are no number, in the
// sum of all. So a factor makes no operand longer than 2⁶⁰ bounds, and a record whose
// operands are longer than 2¹²⁴, so that to add up four of their numbers may be too much,
// takes no part. 2⁻⁶⁰ of an operand's length is far below what rounding leaves of it.
const OperandNormShare = 0x1p-120

// SquaredNorms gives the squared norm of each record's gradient and keeps
// nothing of the gradient.
type SquaredNorms struct {
	Form    Form
	Records int
	Method  Method
}

func (s SquaredNorms) String() string {
	return fmt.Sprintf("squaredNorms{%v,%d,%v}", s.Form, s.Records, s.Method)
}

func (s SquaredNorms) Shape(in []tensor.Shape) (tensor.Shape, error) {
	return tensor.Shape{s.Records}, checkBlocks(s.Form, s.Records, in, 0)
}

func (s SquaredNorms) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	g := make([]float64, s.Form.Size())
	for r := range out {
		recordGradient(s.Form, g, r, s.Records, in)
		out[r] = sumOfSquares(g)
	}
}

// ClippedSum is Σ_r c_r·g_r. A record whose factor is zero adds nothing, even
// where its rows hold NaN or Inf.
type ClippedSum struct {
	Form    Form
	Records int
}

func (s ClippedSum) String() string { return fmt.Sprintf("clippedSum{%v,%d}", s.Form, s.Records) }

func (s ClippedSum) Shape(in []tensor.Shape) (tensor.Shape, error) {
	return tensor.Shape{s.Form.Size()}, checkBlocks(s.Form, s.Records, in, 1)
}

func (s ClippedSum) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	g := make([]float64, len(out))
	for r, c := range in[len(in)-1] {
		if c == 0 {
			continue
		}
		recordGradient(s.Form, g, r, s.Records, in)
		for i, v := range g {
			out[i] += c * v
		}
	}
}
