package plan

import (
	"slices"

	"github.com/dptrain/dptrain/internal/device/op"
)

// Annotation is what is decided about an instruction for every device. A device still chooses among
// its kernels, by shapes and by time.
type Annotation struct {
	Path Path

	// Of a contribution to a sum of an exact program.
	Contribution ContributionForm
	Use          int // the number of the use of a parameter that it belongs to, from 1 on

	// Of squared norms.
	Norms         NormForm
	SharesSignals bool // GramNorms: other norms of products read the same rows Δ, and so the same ΔΔᵀ
	BiasNorms     int  // RankOneNorms: the norms of a bias whose gradients are the rows of Δ; none: -1
	WithProduct   bool // they are the BiasNorms of another instruction
}

// Path is how a result comes about.
type Path uint8

const (
	ByKernel       Path = iota // by a kernel; by the reference if the device has none for the shapes
	ByReference                // by the operation's reference on the host: no kernel adds its result to another
	ByGorgonia                 // by Gorgonia's operation on the host
	ByContribution             // in integers, which are added to a sum of an exact program
)

// ContributionForm is how the integers of a contribution come about.
type ContributionForm uint8

const (
	KeptGradients  ContributionForm = 1 + iota // the program has computed the gradients; they are rounded
	BuiltGradients                             // gradients are built and rounded
	ProductRows                                // both rows of a product are rounded, also those of windows
	GatheredRows                               // the rows of Δ that indices name are rounded
	TiedRows                                   // the rows of a product with a table and of lookups in it
)

// NormForm is how squared norms of a use of a parameter come about.
type NormForm uint8

const (
	ExactNorms    NormForm = iota // from gradients that are built in float64, record by record
	RankOneNorms                  // ‖a‖²‖δ‖²: each record has one row
	GramNorms                     // ⟨AAᵀ, ΔΔᵀ⟩
	GatheredNorms                 // equal indices are merged
)

// Annotated returns the program with annotated instructions, for compilation: passes may give operands
// other buffers.
func (p *Program) Annotated() *Program {
	q := *p
	q.Front, q.Back = slices.Clone(p.Front), slices.Clone(p.Back)
	for at := range q.Front {
		q.Front[at].Annotation = Annotation{Path: q.path(q.Front[at]), Norms: q.normForm(q.Front[at]), BiasNorms: -1}
	}
	q.annotateSharedRows()
	uses := 0
	for at := range q.Back {
		i := &q.Back[at]
		if i.Annotation = (Annotation{Path: q.path(*i), BiasNorms: -1}); i.Path != ByContribution {
			continue
		}
		if i.FirstRecord == 0 { // else the instruction continues a use for other records
			uses++
		}
		i.Contribution, i.Use = q.contributionForm(*i), uses
	}
	return &q
}

func (p *Program) path(i Instruction) Path {
	if i.Spec == nil {
		return ByGorgonia
	}
	if !i.Accumulate {
		return ByKernel
	}
	if p.Exact {
		return ByContribution
	}
	switch i.Spec.(type) {
	case op.ClippedSum, op.WeightedRows:
		return ByKernel
	}
	return ByReference
}

// contributionForm decides whether rows are rounded, which is less work than to build gradients.
// ℓ₁ norms need the gradients.
func (p *Program) contributionForm(i Instruction) ContributionForm {
	switch s := i.Spec.(type) {
	case op.WeightedRows:
		return KeptGradients
	case op.MultiUseSum:
		if _, tied := op.MultiUseNorms(s).TiedTable(); tied && !p.L1 {
			return TiedRows
		}
	case op.ClippedSum:
		if p.L1 {
			return BuiltGradients
		}
		switch f := s.Form.(type) {
		case op.Product:
			return ProductRows
		case op.Gather:
			return GatheredRows
		case op.ConvWeight:
			windows := p.Buffers[i.In[1]].Size() / f.O / s.Records
			if f.Groups == 1 && !f.BuildsGradient(windows) {
				return ProductRows
			}
		}
	}
	return BuiltGradients
}

func (p *Program) normForm(i Instruction) NormForm {
	s, ok := i.Spec.(op.SquaredNorms)
	if !ok {
		return ExactNorms
	}
	switch f := s.Form.(type) {
	case op.Gather:
		return GatheredNorms
	case op.Product:
		if s.Method == op.RankOne && p.Buffers[i.In[1]].Size() == f.Out*s.Records {
			return RankOneNorms
		}
	}
	if s.Method == op.Gram {
		return GramNorms
	}
	return ExactNorms
}

// signalRows names the rows Δ of a product. Another product may read the same buffer in rows of another
// width.
type signalRows struct{ base, width int }

// signals returns the rows Δ of the norms of a product.
func (p *Program) signals(i Instruction) (rows signalRows, ok bool) {
	s, ok := i.Spec.(op.SquaredNorms)
	if !ok {
		return rows, false
	}
	f, ok := s.Form.(op.Product)
	return signalRows{p.Buffers[i.In[len(i.In)-1]].Base, f.Out}, ok
}

// annotateSharedRows finds norms that read the same rows: of two weights of an LSTM, or of a weight and
// its bias.
func (p *Program) annotateSharedRows() {
	grams := map[signalRows]int{}
	for _, i := range p.Front {
		if rows, ok := p.signals(i); ok && i.Norms == GramNorms {
			grams[rows]++
		}
	}
	for at := range p.Front {
		i := &p.Front[at]
		rows, ok := p.signals(*i)
		if !ok {
			continue
		}
		i.SharesSignals = i.Norms == GramNorms && grams[rows] > 1
		if i.Norms != RankOneNorms {
			continue
		}
		bias := slices.IndexFunc(p.Front, func(b Instruction) bool {
			_, ok := b.Spec.(op.RowSquares)
			return ok && p.Buffers[b.In[0]].Base == rows.base
		})
		if bias >= 0 && p.Buffers[p.Front[bias].Out].Size() == i.Spec.(op.SquaredNorms).Records &&
			p.Buffers[p.Front[bias].In[0]].Size() == p.Buffers[i.In[1]].Size() {
			i.BiasNorms, p.Front[bias].WithProduct = p.Front[bias].Out, true
		}
	}
}
