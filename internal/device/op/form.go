package op

import (
	"fmt"

	G "gorgonia.org/gorgonia"
)

// Form describes how a record's gradient of one parameter is computed from the record's
// rows: a block of an activation tensor A and a block of a backpropagated tensor Delta.
// Both tensors consist of one block per record along axis 0.
type Form interface {
	// String names the form and its attributes.
	String() string
	// Size is the number of elements of the gradient.
	Size() int
	// AddGradient adds the gradient from one record's blocks of A and Delta to dst. It is
	// the reference implementation: plain loops in float64.
	AddGradient(dst, a, delta []float64)
}

// Use is one way in which a parameter enters the network. A record's gradient is Form
// applied to the record's blocks of A and Delta. A is nil if the form does not need it.
type Use struct {
	Form  Form
	A     *G.Node
	Delta *G.Node
}

// Parametric is an Operation that describes how it uses its parameters.
type Parametric interface {
	Differentiable
	Rowwise
	// Use describes the use of input i, a weight that all rows share. Out is the
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

// Shift is x + β with one β per channel: Σ_t δ_t.
type Shift struct{ Channels, Inner int }

func (s Shift) String() string { return fmt.Sprintf("shift{%d,%d}", s.Channels, s.Inner) }
func (s Shift) Size() int      { return s.Channels }

func (s Shift) AddGradient(dst, _, delta []float64) {
	for i, d := range delta {
		dst[i/s.Inner%s.Channels] += d
	}
}

// Scale is x̂ ⊙ γ with one γ per channel: Σ_t x̂_t ⊙ δ_t.
type Scale struct{ Channels, Inner int }

func (s Scale) String() string { return fmt.Sprintf("scale{%d,%d}", s.Channels, s.Inner) }
func (s Scale) Size() int      { return s.Channels }

func (s Scale) AddGradient(dst, a, delta []float64) {
	for i, d := range delta {
		dst[i/s.Inner%s.Channels] += a[i] * d
	}
}

// Gather is E[i_t] for a table [Vocabulary, Dim]: it adds δ_t to row i_t. A contains the
// indices. An index outside the table adds nothing. In an EmbedBag, Bag consecutive
// indices share one δ.
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
