// Package stepbits compares steps of programs bit by bit. It does not build networks, so tests of the packages that do can
// use it.
package stepbits

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/internal/device/plan"
)

// summedInFloats is an executable of the host whose sums can be read.
type summedInFloats interface {
	plan.Executable
	Sum(v int) []float32
}

// Of runs a program on its inputs with clip factors of 0, ½ and 1, and returns the bits of the squared norms, the
// output if there is one, the losses and the clipped sums.
func Of(t *testing.T, p *plan.Program, m summedInFloats) (bits []uint32) {
	t.Helper()
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	keep := func(x []float32) {
		for _, v := range x {
			bits = append(bits, math.Float32bits(v))
		}
	}
	for v := range p.Parameters {
		keep(m.SquaredNorms(v))
		for i := range m.ClipFactors(v) {
			m.ClipFactors(v)[i] = float32(i%3) / 2
		}
	}
	keep(m.Output())
	keep(m.Losses())
	if err := m.AddClippedSums(); err != nil {
		t.Fatal(err)
	}
	for v := range p.Parameters {
		keep(m.Sum(v))
	}
	return bits
}
