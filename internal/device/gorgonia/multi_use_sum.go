package gorgonia

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// multiUseSum is Σ_r c_r·g_r of a parameter that is used in several ways or places. The
// network's own sum adds what each use contributes for all records. Float32 rounds there
// before the uses cancel, and a factor that is large because the norm is small would
// magnify the rounding error. Here a record's gradient is the one whose norm
// op.MultiUseNorms takes, in float64.
type multiUseSum struct{ op.MultiUseNorms }

// clippedSumNode is the node of a parameter's clipped sum.
func clippedSumNode(v perexample.Parameter) (*G.Node, error) {
	mixed, ok := op.OperationOf(v.SquaredNorms).(op.MultiUseNorms)
	if !ok {
		return v.ClippedSum, nil
	}
	return op.Apply(multiUseSum{mixed}, append(op.Operands(v.SquaredNorms), v.ClipFactors)...)
}

func (m multiUseSum) String() string { return "sum of " + m.MultiUseNorms.String() }

func (m multiUseSum) Shape(in []tensor.Shape) (tensor.Shape, error) {
	last := len(in) - 1
	records, err := m.MultiUseNorms.Shape(in[:last])
	if err == nil && in[last].TotalSize() != m.Records {
		err = fmt.Errorf("%v factors for %v records", in[last], records)
	}
	return tensor.Shape{m.Size}, err
}

// Do leaves out a record whose factor is zero, even if its rows contain NaN or
// infinities.
func (m multiUseSum) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	clear(out)
	gradient := make([]float64, m.Size)
	for r, c := range in[len(in)-1] {
		if c == 0 {
			continue
		}
		m.RecordGradient(gradient, r, in)
		for i, g := range gradient {
			out[i] += c * g
		}
	}
}
