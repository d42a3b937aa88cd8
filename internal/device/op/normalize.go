package op

import (
	"fmt"
	"math"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Normalize scales each run of Chunk consecutive elements to variance one:
// (x−μ)/√(σ²+Eps), with μ and σ² of the run, or x/√(mean(x²)+Eps) if Center is false.
// Chunk selects the layer: the last axis is LayerNorm (RMSNorm if not centered), C/G·H·W
// of a [B, C, H, W] tensor is GroupNorm, and H·W is InstanceNorm. A chunk never spans two
// rows of axis 0, so examples do not affect each other. ScaleShift adds the learned scale
// and shift.
type Normalize struct {
	Chunk  int
	Eps    float64
	Center bool
}

func (n Normalize) String() string {
	return fmt.Sprintf("normalize{%d,%g,%t}", n.Chunk, n.Eps, n.Center)
}

func (n Normalize) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	x := in[0]
	if !(n.Eps > 0) || math.IsInf(n.Eps, 1) {
		return nil, fmt.Errorf("epsilon %g must be above 0", n.Eps)
	}
	if x.Dims() == 0 || x[0] < 1 || n.Chunk < 1 || x.TotalSize()/x[0]%n.Chunk != 0 {
		return nil, fmt.Errorf("the rows of shape %v cannot be cut into chunks of %d", x, n.Chunk)
	}
	return x.Clone(), nil
}

// stats returns the mean (0 if not centered) and the reciprocal of the deviation.
func (n Normalize) stats(x []float64) (mean, scale float64) {
	if n.Center {
		for _, v := range x {
			mean += v
		}
		mean /= float64(len(x))
	}
	var square float64
	for _, v := range x {
		square += (v - mean) * (v - mean)
	}
	return mean, 1 / math.Sqrt(square/float64(len(x))+n.Eps)
}

func (n Normalize) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	for at := 0; at < len(out); at += n.Chunk {
		x := in[0][at : at+n.Chunk]
		mean, scale := n.stats(x)
		for i, v := range x {
			out[at+i] = (v - mean) * scale
		}
	}
}

func (n Normalize) Rows(int) []bool { return allTrue(1) }
func (n Normalize) Wrt(int) []bool  { return allTrue(1) }

func (n Normalize) Diff(in G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	d, err := Apply(NormalizeGrad(n), in[0], grad)
	return G.Nodes{d}, err
}

// NormalizeGrad is the gradient in x, from x and the gradient in x̂. In each chunk it is
// (dx̂ − mean(dx̂) − x̂·mean(dx̂·x̂))/√(σ²+Eps), without mean(dx̂) if Center is false. It
// computes μ and σ² again instead of keeping them.
type NormalizeGrad Normalize

func (n NormalizeGrad) String() string {
	return fmt.Sprintf("normalizeGrad{%d,%g,%t}", n.Chunk, n.Eps, n.Center)
}

func (n NormalizeGrad) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if _, err := commonShape(in, 2); err != nil {
		return nil, err
	}
	return Normalize(n).Shape(in[:1])
}

func (n NormalizeGrad) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	for at := 0; at < len(out); at += n.Chunk {
		x, d := in[0][at:at+n.Chunk], in[1][at:at+n.Chunk]
		mean, scale := Normalize(n).stats(x)
		var sum, dot float64
		for i, v := range d {
			sum += v
			dot += v * (x[i] - mean) * scale
		}
		if !n.Center {
			sum = 0
		}
		for i, v := range d {
			out[at+i] = scale * (v - (sum+dot*(x[i]-mean)*scale)/float64(n.Chunk))
		}
	}
}
