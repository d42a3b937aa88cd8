package perexample

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
)

// Parameter is a trained parameter with the nodes that a private step needs.
type Parameter struct {
	Node *G.Node
	// Kind is how the network uses the parameter: product (dense layers, convolutions), shift
	// (biases), scale (normalisation) or gather (embeddings); mixed for several kinds or a
	// function of the parameter; whole if records are computed one at a time.
	Kind         string
	Method       string  // how its norms are computed
	SquaredNorms *G.Node // [records]: squared norm of each record's gradient
	ClipFactors  *G.Node // [records], an input: the factor of each record's gradient
	ClippedSum   *G.Node // Σ_r ClipFactors_r·gradient_r
}

// addParameter adds the nodes for one parameter.
func (p *PrivateNetwork) addParameter(r *layoutAnalysis, param *G.Node, signal *signalWeighting) (Parameter, error) {
	v := Parameter{Node: param, ClipFactors: p.newClipFactors(param)}
	us, plain, err := r.findUses(param, signal)
	if err != nil {
		return v, err
	}
	var weights []derivedWeight
	if !plain {
		if weights, err = r.derivedWeights(param, signal); err != nil {
			return v, err
		}
	}
	switch {
	case len(us)+len(weights) == 0:
		return v, fmt.Errorf("no example's loss depends on it; remove it from Params")
	case !plain:
		return v, p.addDerived(r, &v, weights)
	}
	size := param.Shape().TotalSize()
	if us, err = p.stackUses(us, size); err != nil {
		return v, err
	}
	var all []elementMap
	for _, u := range us {
		all = append(all, u.at)
	}
	if !coverDisjointly(all, size) {
		return v, p.addMixed(&v, us)
	}
	for _, u := range us {
		if err := p.addUse(&v, u); err != nil {
			return v, err
		}
	}
	return v, nil
}

func (p *PrivateNetwork) newClipFactors(param *G.Node) *G.Node {
	return newVectorInput(p.Network, "factor of "+param.Name(), p.Records)
}

// stackUses turns several uses of the same form and the same part of the parameter into
// one use with more rows, as in a recurrent or shared layer.
func (p *PrivateNetwork) stackUses(us []parameterUse, size int) ([]parameterUse, error) {
	var out []parameterUse
	stacked := map[string]int{} // index in out
	var rows [][2]G.Nodes
	for _, u := range us {
		key := fmt.Sprintf("%v at %v", u.Form, u.at.toMap(size))
		i, known := stacked[key]
		if !known {
			i = len(out)
			stacked[key] = i
			out = append(out, u)
			rows = append(rows, [2]G.Nodes{})
		}
		rows[i][0] = append(rows[i][0], u.A)
		rows[i][1] = append(rows[i][1], u.Delta)
	}
	for i := range out {
		if len(rows[i][0]) == 1 {
			continue
		}
		var err error
		if op.NeedsA(out[i].Form) {
			if out[i].A, err = op.Apply(op.StackRows{Blocks: p.Batch}, rows[i][0]...); err != nil {
				return nil, err
			}
		}
		if out[i].Delta, err = op.Apply(op.StackRows{Blocks: p.Batch}, rows[i][1]...); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func formInputs(u op.Use, more ...*G.Node) G.Nodes {
	var in G.Nodes
	if op.NeedsA(u.Form) {
		in = append(in, u.A)
	}
	return append(append(in, u.Delta), more...)
}

// chooseMethod chooses how norms are computed: the cheapest method that keeps nothing
// larger than the rows. With T rows of p and d elements per record, the Gram matrices
// cost T²(p+d) and the gradient costs T·p·d. Comparing T(p+d) with p·d therefore decides
// both time and memory. A norm could also be added up from tiles of the gradient that are
// not kept. This takes more of both: the clipped sum then computes the product a second
// time, from rows that stay in memory until the clip factors are known.
func (p *PrivateNetwork) chooseMethod(u parameterUse) (keep bool, m op.Method) {
	switch f := u.Form.(type) {
	case op.Product:
		rows := u.Delta.Shape().TotalSize() / f.Out / p.Records
		switch {
		case rows == 1:
			return false, op.RankOne
		case rows*(f.In+f.Out) < f.In*f.Out:
			return false, op.Gram
		}
	case op.Gather:
		return false, op.Group
	case op.ConvWeight:
		windows := u.Delta.Shape().TotalSize() / f.O / p.Records
		if windows*(f.C*f.KernelH*f.KernelW+f.O) < f.Size() {
			return false, op.Gram
		}
	}
	return true, 0
}

// addUse adds the nodes for one use of a parameter. The uses cover disjoint elements, so
// their squared norms add up.
func (p *PrivateNetwork) addUse(v *Parameter, u parameterUse) error {
	one := Parameter{Node: v.Node, ClipFactors: v.ClipFactors, Kind: kindName(u.Form)}
	keep, m := p.chooseMethod(u)
	if keep {
		kept, err := p.recordGradients(u)
		if err != nil {
			return err
		}
		one.Method = "kept"
		if err := one.useRecordGradients(kept); err != nil {
			return err
		}
	} else {
		one.Method = m.String()
		var err error
		if one.SquaredNorms, err = op.Apply(op.SquaredNorms{Form: u.Form, Records: p.Records, Method: m},
			formInputs(u.Use)...); err != nil {
			return err
		}
		if err = one.useClippedSum(p, u); err != nil {
			return err
		}
	}
	if err := one.scatterSum(u); err != nil {
		return err
	}
	return v.join(one)
}

// recordGradients is the matrix of the records' gradients. For a shift with one row per
// record it is the backpropagated signal itself.
func (p *PrivateNetwork) recordGradients(u parameterUse) (*G.Node, error) {
	if f, ok := u.Form.(op.Shift); ok && u.Delta.Shape().TotalSize() == p.Records*f.Channels {
		return reshape(u.Delta, p.Records, f.Channels)
	}
	return op.Apply(op.RecordGradients{Form: u.Form, Records: p.Records}, formInputs(u.Use)...)
}

// useRecordGradients computes norms and sum from a matrix of the records' gradients.
func (v *Parameter) useRecordGradients(gradients *G.Node) (err error) {
	if v.SquaredNorms, err = op.Apply(op.RowSquares{}, gradients); err != nil {
		return err
	}
	v.ClippedSum, err = op.Apply(op.WeightedRows{}, gradients, v.ClipFactors)
	return err
}

// useClippedSum computes the sum of a use's clipped gradients without building them.
func (v *Parameter) useClippedSum(p *PrivateNetwork, u parameterUse) (err error) {
	v.ClippedSum, err = op.Apply(op.ClippedSum{Form: u.Form, Records: p.Records}, formInputs(u.Use, v.ClipFactors)...)
	return err
}

// scatterSum writes the sum of a use in the layout of the parameter.
func (v *Parameter) scatterSum(u parameterUse) (err error) {
	size := v.Node.Shape().TotalSize()
	if m := u.at.toMap(size); m != nil {
		v.ClippedSum, err = op.Apply(op.Scatter{At: m, Size: size}, v.ClippedSum)
	}
	return err
}

// join adds the results of one use to those of the uses before it.
func (v *Parameter) join(one Parameter) (err error) {
	if v.ClippedSum == nil {
		*v = one
		return nil
	}
	v.addKind(one.Kind)
	if v.Method != one.Method {
		v.Method += ", " + one.Method
	}
	if v.SquaredNorms != nil {
		if v.SquaredNorms, err = op.Apply(op.Add{}, v.SquaredNorms, one.SquaredNorms); err != nil {
			return err
		}
	}
	v.ClippedSum, err = op.Apply(op.Add{}, v.ClippedSum, one.ClippedSum)
	return err
}

// addMixed adds a parameter whose elements are used in several ways. The squared norms
// are those of the added uses. The sum is the sum of the uses' sums.
func (p *PrivateNetwork) addMixed(v *Parameter, us []parameterUse) error {
	size := v.Node.Shape().TotalSize()
	var parts []op.MappedForm
	var in G.Nodes
	for _, u := range us {
		parts = append(parts, op.MappedForm{Form: u.Form, Map: u.at.toMap(size)})
		in = append(in, formInputs(u.Use)...)
		one := Parameter{Node: v.Node, ClipFactors: v.ClipFactors}
		if err := one.useClippedSum(p, u); err != nil {
			return err
		}
		if err := one.scatterSum(u); err != nil {
			return err
		}
		if err := v.join(one); err != nil {
			return err
		}
	}
	v.Kind, v.Method = "mixed", "record by record"
	var err error
	v.SquaredNorms, err = op.Apply(op.MultiUseNorms{Uses: &parts, Size: size, Records: p.Records}, in...)
	return err
}

// addKind records the kind of a use.
func (v *Parameter) addKind(kind string) {
	if v.Kind != "" && v.Kind != kind {
		kind = "mixed"
	}
	v.Kind = kind
}

func kindName(f op.Form) string {
	switch f.(type) {
	case op.Shift:
		return "shift"
	case op.Scale:
		return "scale"
	case op.Gather:
		return "gather"
	}
	return "product"
}
