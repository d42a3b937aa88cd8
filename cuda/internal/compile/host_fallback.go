//go:build gpu

package compile

import (
	"github.com/dptrain/dptrain/internal/device/op"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// runOnHost adds a step that the host computes: it copies the operands to the host and the
// result to the device. It is for operations without a kernel, and slow.
func runOnHost(c *compiler, k call, compute func(in [][]float32, out []float32) error) {
	if c.scratch.measuring {
		return
	}
	m, name := c.memory, c.name
	in := make([][]float32, len(k.in))
	for i := range in {
		in[i] = make([]float32, k.size(i))
	}
	out := make([]float32, k.results())
	*c.steps = append(*c.steps, step{name: name, host: func() error {
		for i, x := range in {
			if err := m.device.CopyOut(bytesOf(x), k.in[i]); err != nil {
				return err
			}
		}
		if k.accumulate {
			if err := m.device.CopyOut(bytesOf(out), k.out); err != nil {
				return err
			}
		}
		if err := m.device.Synchronize(); err != nil {
			return err
		}
		if err := compute(in, out); err != nil {
			return err
		}
		return m.upload(k.out, bytesOf(out))
	}})
}

// runReference runs an operation's reference implementation, its Do method, on the host in
// float64.
func runReference(c *compiler, spec op.Operation, k call) {
	wide := make([][]float64, len(k.in))
	for i := range wide {
		wide[i] = make([]float64, k.size(i))
	}
	result := make([]float64, k.results())
	runOnHost(c, k, func(in [][]float32, out []float32) error {
		for i, x := range in {
			for j, v := range x {
				wide[i][j] = float64(v)
			}
		}
		spec.Do(result, wide, k.shapes)
		for i, v := range result {
			if k.accumulate {
				v += float64(out[i])
			}
			out[i] = float32(v)
		}
		return nil
	})
}

// runGorgoniaOp runs an operation that only Gorgonia implements. It allocates memory in
// each run.
func runGorgoniaOp(c *compiler, f G.Op, k call) {
	runOnHost(c, k, func(in [][]float32, out []float32) error {
		args := make([]G.Value, len(in))
		for i, x := range in {
			if k.shapes[i].Dims() == 0 {
				args[i] = G.NewF32(x[0])
			} else {
				args[i] = tensor.New(tensor.WithShape(k.shapes[i]...), tensor.WithBacking(x))
			}
		}
		result, err := f.Do(args...)
		if err != nil {
			return err
		}
		return op.CopyValue(out, result)
	})
}
