package op

import (
	"fmt"
	"math"
	"slices"

	G "gorgonia.org/gorgonia"
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

// blocks checks a form's inputs: each is a block a record, the last, where extra is 1, a
// factor a record.
func blocks(f Form, records int, in []tensor.Shape, extra int) error {
	want := 2 + extra
	if !NeedsA(f) {
		want--
	}
	if err := arity(in, want); err != nil {
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

// record gives the gradient of record r into dst.
func record(f Form, dst []float64, r, records int, in [][]float64) {
	clear(dst)
	var a []float64
	delta := in[0]
	if NeedsA(f) {
		n := len(in[0]) / records
		a, delta = in[0][r*n:(r+1)*n], in[1]
	}
	n := len(delta) / records
	f.Add(dst, a, delta[r*n:(r+1)*n])
}

func squares(x []float64) float64 {
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
	return tensor.Shape{g.Records, g.Form.Size()}, blocks(g.Form, g.Records, in, 0)
}

func (g RecordGradients) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	n := g.Form.Size()
	for r := range g.Records {
		record(g.Form, out[r*n:(r+1)*n], r, g.Records, in)
	}
}

// OperandShare is how much of the squared norms of its operands is in that of a record.
// A record of rows of zeros has no norm whatever its signals are: the factor of a rule that
// lengthens records would make them infinite, and zeros times infinity are no number, in the
// sum of all. So a factor makes no operand longer than 2⁶⁰ bounds, and a record whose
// operands are longer than 2¹²⁴, so that to add up four of their numbers may be too much,
// takes no part. 2⁻⁶⁰ of an operand's length is far below what rounding leaves of it.
const OperandShare = 0x1p-120

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
	return tensor.Shape{s.Records}, blocks(s.Form, s.Records, in, 0)
}

func (s SquaredNorms) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	g := make([]float64, s.Form.Size())
	for r := range out {
		record(s.Form, g, r, s.Records, in)
		out[r] = squares(g)
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
	return tensor.Shape{s.Form.Size()}, blocks(s.Form, s.Records, in, 1)
}

func (s ClippedSum) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	g := make([]float64, len(out))
	for r, c := range in[len(in)-1] {
		if c == 0 {
			continue
		}
		record(s.Form, g, r, s.Records, in)
		for i, v := range g {
			out[i] += c * v
		}
	}
}

// RowSquares gives the sum of squares of each row of a matrix of kept gradients.
type RowSquares struct{}

func (RowSquares) String() string { return "rowSquares" }

func (RowSquares) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	return tensor.Shape{in[0][0]}, nil
}

func (RowSquares) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	n := len(in[0]) / len(out)
	for r := range out {
		out[r] = squares(in[0][r*n : (r+1)*n])
	}
}

// WeightedRows is Σ_r c_r·row_r of kept gradients; rows of factor zero are not
// read.
type WeightedRows struct{}

func (WeightedRows) String() string { return "weightedRows" }

func (WeightedRows) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if in[1].TotalSize() != in[0][0] {
		return nil, fmt.Errorf("%v factors for %d rows", in[1], in[0][0])
	}
	return tensor.Shape{in[0].TotalSize() / in[0][0]}, nil
}

func (WeightedRows) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	for r, c := range in[1] {
		if c == 0 {
			continue
		}
		for i := range out {
			out[i] += c * in[0][r*len(out)+i]
		}
	}
}

// Part is one of several uses of a parameter: element i of the form's gradient
// belongs to element At[i] of the parameter (negative: to none). A nil At is
// the identity.
type Part struct {
	Form Form
	At   *Map
}

// Mixed gives the squared norm of each record's gradient of a parameter that is
// used in several ways: the uses are added before squaring, so that no cross term
// is forgotten. It builds one record's gradient at a time and keeps none. Inputs
// are those of each part in turn.
type Mixed struct {
	Parts   *[]Part
	Size    int
	Records int
}

func (m Mixed) String() string {
	s := fmt.Sprintf("mixed{%d,%d", m.Size, m.Records)
	for _, p := range *m.Parts {
		s += fmt.Sprintf(",%v@%v", p.Form, p.At)
	}
	return s + "}"
}

// Inputs cuts the operation's inputs into those of each part.
func (m Mixed) Inputs(part int) (from, to int) {
	for i, p := range *m.Parts {
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

// Tied is a table that is looked up in and multiplied with, as an embedding tied to the
// last layer is, by inputs of the operation Mixed: the indices that are looked up and the
// gradient of what is found there; and of the product the rows that have the table's width,
// and those with a number for each of its entries.
type Tied struct {
	Table                       Gather
	Index, Found, Wide, Entries int
}

// Tied tells whether the parameter is such a table, with one use of each kind and no other.
func (m Mixed) Tied() (t Tied, ok bool) {
	parts := *m.Parts
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
	if !looked || !multiplied || g.Bag != 1 || parts[lookup].At != nil {
		return t, false
	}
	t.Table = g
	t.Index, _ = m.Inputs(lookup)
	t.Wide, _ = m.Inputs(1 - lookup)
	t.Found, t.Entries = t.Index+1, t.Wide+1
	if product.At == nil && p.In == g.Vocabulary && p.Out == g.Dim {
		t.Wide, t.Entries = t.Entries, t.Wide
		return t, true
	}
	return t, product.At.turns(p, g)
}

// turns tells whether it lays a product [dim, vocabulary] out as the table that g looks
// rows up in, turned.
func (m *Map) turns(p Product, g Gather) bool {
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

func (m Mixed) Shape(in []tensor.Shape) (tensor.Shape, error) {
	_, n := m.Inputs(len(*m.Parts) - 1)
	if err := arity(in, n); err != nil {
		return nil, err
	}
	for i, p := range *m.Parts {
		from, to := m.Inputs(i)
		if err := blocks(p.Form, m.Records, in[from:to], 0); err != nil {
			return nil, err
		}
	}
	return tensor.Shape{m.Records}, nil
}

func (m Mixed) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	sum := make([]float64, m.Size)
	for r := range out {
		m.Record(sum, r, in)
		out[r] = squares(sum)
	}
}

// Record gives the gradient of record r, all uses added up, into sum.
func (m Mixed) Record(sum []float64, r int, in [][]float64) {
	clear(sum)
	for i, p := range *m.Parts {
		from, to := m.Inputs(i)
		g := make([]float64, p.Form.Size())
		record(p.Form, g, r, m.Records, in[from:to])
		p.At.Scatter(sum, g)
	}
}

// Map sends the elements of a view of a parameter to the parameter's own.
type Map struct {
	At   []int32
	hash uint64
}

// NewMap fixes a map; at is not copied.
func NewMap(at []int32) *Map {
	m := &Map{At: at, hash: 14695981039346656037}
	for _, v := range at {
		m.hash = (m.hash ^ uint64(uint32(v))) * 1099511628211
	}
	return m
}

func (m *Map) String() string {
	if m == nil {
		return "self"
	}
	return fmt.Sprintf("%d:%016x", len(m.At), m.hash)
}

// Scatter adds g, laid out as the view, to dst, laid out as the parameter.
func (m *Map) Scatter(dst, g []float64) {
	if m == nil {
		for i, v := range g {
			dst[i] += v
		}
		return
	}
	for i, v := range g {
		if at := m.At[i]; at >= 0 {
			dst[at] += v
		}
	}
}

// Meeting is how many places of a view are one element of a parameter of so many, at most.
func (m *Map) Meeting(size int) int {
	if m == nil {
		return 1
	}
	most, places := 1, make([]int, size)
	for _, to := range m.At {
		if to >= 0 {
			places[to]++
			most = max(most, places[to])
		}
	}
	return most
}

// Scatter lays a view's clipped sum out as the parameter of Size elements.
type Scatter struct {
	At   *Map
	Size int
}

func (s Scatter) String() string { return fmt.Sprintf("scatter{%v,%d}", s.At, s.Size) }

func (s Scatter) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if in[0].TotalSize() != len(s.At.At) {
		return nil, fmt.Errorf("shape %v for a view of %d elements", in[0], len(s.At.At))
	}
	return tensor.Shape{s.Size}, nil
}

func (s Scatter) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	s.At.Scatter(out, in[0])
}

// Sources lists for each element of the parameter those of the view that belong to it, so
// that each is written once: for element i, from[first[i]:first[i+1]], in order.
func (s Scatter) Sources() (first, from []int32) {
	first = make([]int32, s.Size+1)
	for _, at := range s.At.At {
		if at >= 0 {
			first[at+1]++
		}
	}
	for i := range s.Size {
		first[i+1] += first[i]
	}
	from = make([]int32, first[s.Size])
	next := slices.Clone(first)
	for i, at := range s.At.At {
		if at >= 0 {
			from[next[at]] = int32(i)
			next[at]++
		}
	}
	return first, from
}

// ScaleRows multiplies each of len(weights) equal blocks of x by its weight; a
// block of weight zero becomes zero whatever it held.
type ScaleRows struct{}

func (ScaleRows) String() string { return "scaleRows" }

func (ScaleRows) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if n := in[1].TotalSize(); in[0].TotalSize()%n != 0 {
		return nil, fmt.Errorf("shape %v cannot be cut into %d rows", in[0], n)
	}
	return in[0].Clone(), nil
}

func (ScaleRows) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	n := len(out) / len(in[1])
	for i, x := range in[0] {
		if w := in[1][i/n]; w == 0 {
			out[i] = 0
		} else {
			out[i] = w * x
		}
	}
}

func (ScaleRows) Rows(int) []bool { return all(2) }
func (ScaleRows) Wrt(int) []bool  { return []bool{true, false} }

func (s ScaleRows) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	d, err := Apply(s, grad, in[1])
	return G.Nodes{d, nil}, err
}

// StackRows joins the rows of several uses of one parameter into one use with
// more rows: input u holds, for each of Blocks examples, a block of rows; the
// result holds the blocks of all inputs, example by example.
type StackRows struct{ Blocks, Width int }

func (s StackRows) String() string { return fmt.Sprintf("stackRows{%d,%d}", s.Blocks, s.Width) }

func (s StackRows) Shape(in []tensor.Shape) (tensor.Shape, error) {
	n := 0
	for _, x := range in {
		if x.TotalSize()%(s.Blocks*s.Width) != 0 {
			return nil, fmt.Errorf("shape %v cannot be cut into %d blocks of rows of %d", x, s.Blocks, s.Width)
		}
		n += x.TotalSize()
	}
	if n == 0 || n > math.MaxInt32 {
		return nil, fmt.Errorf("%d elements in all", n)
	}
	return tensor.Shape{n / s.Width, s.Width}, nil
}

func (s StackRows) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	at := 0
	for b := range s.Blocks {
		for _, x := range in {
			n := len(x) / s.Blocks
			at += copy(out[at:], x[b*n:(b+1)*n])
		}
	}
}
