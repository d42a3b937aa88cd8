package op

import (
	"fmt"

	"gorgonia.org/tensor"
)

// The operations in this file are those that a private step adds to an ordinary one.
// Their inputs are, in order, A (if the form needs it), Delta and, for sums, one factor
// per record.

// Method is how squared norms are computed without building the gradient.
type Method uint8

const (
	// RankOne: the record has one row, so ‖a⊗δ‖² = ‖a‖²‖δ‖².
	RankOne Method = iota
	// Gram: ⟨AAᵀ, ΔΔᵀ⟩ (Goodfellow 2015; Li et al. 2022, "ghost clipping").
	Gram
	// Group: the rows of equal indices are added, then squared.
	Group
)

func (m Method) String() string { return [...]string{"rank-one", "gram", "group"}[m] }

// checkBlocks checks a form's inputs. Each consists of one block per record. If extra is
// 1, the last input has one factor per record.
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
		return fmt.Errorf("%v clip factors for %d records", in[want-1], records)
	}
	return nil
}

// NeedsA reports whether the form reads an activation tensor.
func NeedsA(f Form) bool {
	_, shift := f.(Shift)
	return !shift
}

// recordGradient writes the gradient of record r to dst.
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

// RecordGradients is the gradient of every record, [records, size]. It is chosen only if
// it is no larger than the rows it is computed from.
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

// Roundoff and SingleRoundoff are the relative errors of one operation in float64 and in float32.
const (
	Roundoff       = 1.0 / (1 << 53)
	SingleRoundoff = 1.0 / (1 << 24)
)

// OperandNormShare times the squared norms of a record's operands is part of the record's
// squared norm. Without it, a record whose rows are zeros has norm 0 however large its
// signals are. A clipping rule that lengthens short records would then give it a factor
// that makes the signals infinite, and zero times infinity is NaN in the sum over all
// records. With it, no factor makes an operand longer than 2⁶⁰ bounds, and a record is
// left out if its operands are longer than 2¹²⁴, where the sum of four of their numbers
// may overflow. 2⁻⁶⁰ of an operand's length is far below its rounding error.
const OperandNormShare = 0x1p-120

// SquaredNorms is the squared norm of each record's gradient, computed without keeping
// the gradient.
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

// ClippedSum is Σ_r c_r·g_r. A record whose factor is zero adds nothing, even if its rows
// contain NaN or infinities.
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
