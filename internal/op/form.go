package op

import (
	"fmt"

	G "gorgonia.org/gorgonia"
)

// Form says how a record's gradient of one parameter is made from the rows that
// the record owns: a share of an activation tensor A and of a backpropagated
// tensor Delta, both cut into equal blocks along axis 0, one block a record.
type Form interface {
	// String names the form and its attributes.
	String() string
	// Size is the number of elements of the gradient.
	Size() int
	// AddGradient adds to dst what one record's blocks of A and Delta give. It is the
	// reference: plain loops in float64.
	AddGradient(dst, a, delta []float64)
}

// Use is one way in which a parameter enters the network: its gradient for a
// record is Form applied to the record's blocks of A and Delta. A is nil where
// the form needs none.
type Use struct {
	Form  Form
	A     *G.Node
	Delta *G.Node
}

// Parametric is a Spec that says itself how it uses its parameters.
type Parametric interface {
	Differentiable
	Rowwise
	// Use describes how input i, a weight that all rows share, is used; out is the
	// operation's node and grad its derivative.
	Use(i int, in G.Nodes, out, grad *G.Node) (Use, error)
}

// Product is rows·W: Σ_t a_t ⊗ δ_t, an [In, Out] matrix.
type Product struct{ In, Out int }

func (p Product) String() string { return fmt.Sprintf("product{%d,%d}", p.In, p.Out) }
func (p Product) Size() int      { return p.In * p.Out }

func (p Product) AddGradient(dst, a, delta []float64) {
	for t := range len(delta) / p.Out {
		for i := range p.In {
			for j := range p.Out {
				dst[i*p.Out+j] += a[t*p.In+i] * delta[t*p.Out+j]
			}
		}
	}
}

// Shift is x + β with one β a channel: Σ_t δ_t.
type Shift struct{ Channels, Inner int }

func (s Shift) String() string { return fmt.Sprintf("shift{%d,%d}", s.Channels, s.Inner) }
func (s Shift) Size() int      { return s.Channels }

func (s Shift) AddGradient(dst, _, delta []float64) {
	for i, d := range delta {
		dst[i/s.Inner%s.Channels] += d
	}
}

// Scale is x̂ ⊙ γ with one γ a channel: Σ_t x̂_t ⊙ δ_t.
type Scale struct{ Channels, Inner int }

func (s Scale) String() string { return fmt.Sprintf("scale{%d,%d}", s.Channels, s.Inner) }
func (s Scale) Size() int      { return s.Channels }

func (s Scale) AddGradient(dst, a, delta []float64) {
	for i, d := range delta {
		dst[i/s.Inner%s.Channels] += a[i] * d
	}
}

// Gather is E[i_t] for a table [Vocabulary, Dim]: δ_t scattered to row i_t. A
// holds the indices. An index outside the table has no row and adds nothing.
// Where rows are looked up to be added, Bag neighbouring indices share one δ.
type Gather struct{ Vocabulary, Dim, Bag int }

func (g Gather) String() string { return fmt.Sprintf("gather{%d,%d,%d}", g.Vocabulary, g.Dim, g.Bag) }
func (g Gather) Size() int      { return g.Vocabulary * g.Dim }

func (g Gather) AddGradient(dst, a, delta []float64) {
	for t, index := range a {
		row, ok := tableIndex(index, g.Vocabulary)
		if !ok {
			continue
		}
		for j := range g.Dim {
			dst[row*g.Dim+j] += delta[t/g.Bag*g.Dim+j]
		}
	}
}
