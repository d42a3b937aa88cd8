//go:build gpu

package compile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/internal/half"
	"github.com/dptrain/dptrain/perexample"
	"gorgonia.org/tensor"
)

// roundedTo returns the operation with the numbers of one operand rounded to a format. The first ones are 0, the smallest
// number, and the smallest normal bfloat16 or the largest binary16.
func (o operation) roundedTo(f half.Format, operand int) operation {
	x := o.in[operand]
	for i := range x {
		x[i] = f.Value(f.BitsOf(x[i]))
	}
	x[0], x[1], x[2] = 0, f.Value(1), f.Value(map[half.Format]uint16{half.BFloat16: 0x0080, half.Float16: 0x7bff}[f])
	return o
}

// runStored runs the operation with one operand, weights, as numbers of 16 bits.
func (o operation) runStored(t *testing.T, f half.Format, operand int, options Options) []float32 {
	t.Helper()
	p := o.program(t)
	x := o.in[operand]
	value := perexample.NewInitialValue(func(into []float32) { copy(into, x) }, o.shapes[operand]...)
	value.StoredAs(f, func(into []uint16) {
		for i := range x {
			into[i] = f.BitsOf(x[i])
		}
	})
	for i := range p.Buffers {
		b := &p.Buffers[i]
		switch {
		case i == operand:
			b.Role, b.Index, b.Shared = plan.RoleConstant, 0, value
		case b.Role == plan.RoleInput && i > operand:
			b.Index--
		}
	}
	wide := p.Bytes()
	if p.KeepHalf(); wide-p.Bytes() != 2*(len(x)/2*2) {
		t.Errorf("%v: %d bytes fewer for %d numbers", o.spec, wide-p.Bytes(), len(x))
	}
	m := o.compiled(t, p, options)
	if value.IsInMemory() {
		t.Errorf("%v: the host has the weights as float32", o.spec)
	}
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	return append([]float32(nil), m.Output()...)
}

// Weights of 16 bits give the bits of float32: in each tile, with few columns, and in lookups.
func TestHalves_KeepBits(t *testing.T) {
	device(t)
	r := rand.New(rand.NewPCG(17, 6))
	for _, f := range []half.Format{half.BFloat16, half.Float16} {
		for precision, tiles := range productTiles {
			for _, width := range []int{70, 132} { // rows that start at multiples of 8 bytes, and rows that do not
				for _, o := range []operation{
					given(r, op.Linear{Act: op.Tanh}, tensor.Shape{20, width}, tensor.Shape{width, 35}, tensor.Shape{35}),
					given(r, op.MatMul{}, tensor.Shape{20, width}, tensor.Shape{width, 36}),
					given(r, op.MatMul{TransB: true}, tensor.Shape{20, width}, tensor.Shape{37, width}),
				} {
					o = o.roundedTo(f, 1)
					want := forced(tiles[0], false, func() []float32 { return o.run(t, Options{Precision: precision}) })
					for _, one := range tiles {
						for _, separate := range []bool{false, true} {
							what := fmt.Sprint(f, o.spec, o.shapes, one.name, separate)
							got := forced(one, separate, func() []float32 { return o.runStored(t, f, 1, Options{Precision: precision}) })
							same(t, what, got, want)
						}
					}
				}
			}
		}
		table := given(r, op.Embed{}, tensor.Shape{11, 7}, tensor.Shape{3, 5}).roundedTo(f, 0)
		for i := range table.in[1] {
			table.in[1][i] = float32(i % 11)
		}
		same(t, "lookup", table.runStored(t, f, 0, Options{}), table.run(t, Options{}))
		for _, columns := range []int{3, 12, 30} {
			for _, o := range []operation{
				given(r, op.Linear{}, tensor.Shape{9, 150}, tensor.Shape{150, columns}, tensor.Shape{columns}),
				given(r, op.MatMul{TransB: true}, tensor.Shape{9, 150}, tensor.Shape{columns, 150}),
			} {
				o = o.roundedTo(f, 1)
				same(t, fmt.Sprint(columns, " columns"), o.runStored(t, f, 1, Options{}), o.run(t, Options{}))
			}
		}
	}
}
