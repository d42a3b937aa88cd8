package op

import (
	"fmt"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// RepeatHeads copies each run of Size consecutive elements Times times: [B, T, n·Size] becomes [B, T,
// n·Times·Size]. Heads of keys and values that several heads of queries share (Ainslie et al.
// 2023, grouped-query attention) then have one copy for each head of queries.
type RepeatHeads struct{ Size, Times int }

func (r RepeatHeads) String() string { return fmt.Sprintf("repeatHeads{%d,%d}", r.Size, r.Times) }

func (r RepeatHeads) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if in[0].Dims() != 3 || r.Size < 1 || r.Times < 1 || in[0][2]%r.Size != 0 {
		return nil, fmt.Errorf("shape %v: [batch, time, features] is needed, with features in heads of %d that are repeated at least once", in[0], r.Size)
	}
	return tensor.Shape{in[0][0], in[0][1], in[0][2] * r.Times}, nil
}

func (r RepeatHeads) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	for i := range out {
		out[i] = in[0][i/(r.Size*r.Times)*r.Size+i%r.Size]
	}
}

func (r RepeatHeads) Rows(int) []bool { return allTrue(1) }
func (r RepeatHeads) Wrt(int) []bool  { return allTrue(1) }

func (r RepeatHeads) Diff(_ G.Nodes, _, grad *G.Node) (G.Nodes, error) {
	d, err := Apply(SumHeads(r), grad)
	return G.Nodes{d}, err
}

// SumHeads adds up the copies that RepeatHeads makes.
type SumHeads struct{ Size, Times int }

func (s SumHeads) String() string { return fmt.Sprintf("sumHeads{%d,%d}", s.Size, s.Times) }

func (s SumHeads) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if in[0].Dims() != 3 || s.Size < 1 || s.Times < 1 || in[0][2]%(s.Size*s.Times) != 0 {
		return nil, fmt.Errorf("shape %v: [batch, time, features] is needed, with features in heads of %d with %d copies", in[0], s.Size, s.Times)
	}
	return tensor.Shape{in[0][0], in[0][1], in[0][2] / s.Times}, nil
}

func (s SumHeads) Do(out []float64, in [][]float64, _ []tensor.Shape) {
	for i := range out {
		out[i] = 0
		for k := range s.Times {
			out[i] += in[0][(i/s.Size*s.Times+k)*s.Size+i%s.Size]
		}
	}
}

// LastStep marks the last step of each example that is not padding: [B, T] becomes 1 there and 0 elsewhere. A
// step is padding if its number is below zero, as in the indices that Embed reads.
type LastStep struct{}

func (LastStep) String() string { return "lastStep" }

func (LastStep) Shape(in []tensor.Shape) (tensor.Shape, error) {
	if err := checkArity(in, 1); err != nil {
		return nil, err
	}
	if in[0].Dims() != 2 {
		return nil, fmt.Errorf("padding marks of shape %v: [batch, time] is needed", in[0])
	}
	return in[0].Clone(), nil
}

func (LastStep) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	clear(out)
	T := shapes[0][1]
	for b := range shapes[0][0] {
		for t := T - 1; t >= 0; t-- {
			if in[0][b*T+t] >= 0 {
				out[b*T+t] = 1
				break
			}
		}
	}
}

func (LastStep) Rows(int) []bool { return allTrue(1) }

// BlockSteps numbers the steps of each block from 0: [B, T] becomes [B, T]. A step whose number is above zero begins a
// block, as for Attention with Blocks.
type BlockSteps struct{}

func (BlockSteps) String() string { return "blockSteps" }

func (BlockSteps) Shape(in []tensor.Shape) (tensor.Shape, error) { return LastStep{}.Shape(in) }

func (BlockSteps) Do(out []float64, in [][]float64, shapes []tensor.Shape) {
	T := shapes[0][1]
	for b := range shapes[0][0] {
		begin := 0
		for t := range T {
			if in[0][b*T+t] > 0 {
				begin = t
			}
			out[b*T+t] = float64(t - begin)
		}
	}
}

func (BlockSteps) Rows(int) []bool { return allTrue(1) }
