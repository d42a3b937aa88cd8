package simd

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

func recurrentFile(g *generator) {
	for _, g.lanes = range []int{8, 16} {
		emitLSTMStep(g)
		emitLSTMSignals(g)
	}
}

// gates are pointers to contiguous arrays of n floats.
type gates struct {
	low, high reg.Register // the first and the fourth array
	size      reg.Register // bytes of one array
}

func (s gates) at(i int) Mem {
	switch i {
	case 0:
		return Mem{Base: s.low}
	case 3:
		return Mem{Base: s.high}
	}
	return Mem{Base: s.low, Index: s.size, Scale: uint8(i)}
}

// loadGates loads a parameter that points to four or five arrays.
func loadGates(g *generator, name string, size reg.Register) gates {
	s := gates{g.param(name), g.GP64(), size}
	g.LEAQ(Mem{Base: s.low, Index: size, Scale: 2}, s.high)
	g.ADDQ(size, s.high)
	return s
}

// emitLSTMStep emits lstmStep.
func emitLSTMStep(g *generator) {
	g.function("lstmStep"+instructionSet(g), "func(trace, hidden, cellTanh, x, p, previousCell *float32, n int)")
	n := g.param("n")
	size := g.GP64()
	g.MOVQ(n, size)
	g.SHLQ(U8(2), size)
	trace, x, p := loadGates(g, "trace", size), loadGates(g, "x", size), loadGates(g, "p", size)
	hidden := g.param("hidden")
	cellTanh := g.param("cellTanh")
	previousCell := g.param("previousCell")
	pointers := []reg.Register{trace.low, trace.high, x.low, x.high, p.low, p.high, hidden, cellTanh, previousCell}
	forEachVector(g, n, pointers, func(load func(Mem) vec, store func(vec, Mem)) {
		gate := func(i int, f func(vec) vec) vec {
			y := f(g.add(load(x.at(i)), load(p.at(i))))
			store(y, trace.at(i))
			return y
		}
		c := g.mul(gate(0, func(x vec) vec { return sigmoid(g, x) }), gate(2, func(x vec) vec { return tanh(g, x) }))
		g.VFMADD231PS(load(Mem{Base: previousCell}), gate(1, func(x vec) vec { return sigmoid(g, x) }), c)
		store(c, trace.at(4))
		t := tanh(g, c)
		store(t, Mem{Base: cellTanh})
		store(g.mul(gate(3, func(x vec) vec { return sigmoid(g, x) }), t), Mem{Base: hidden})
	})
}

// emitLSTMSignals emits lstmSignals.
func emitLSTMSignals(g *generator) {
	g.function("lstmSignals"+instructionSet(g), "func(d, cell, trace, cellTanh, previousCell, grad, recurrentGrad *float32, n int)")
	n := g.param("n")
	size := g.GP64()
	g.MOVQ(n, size)
	g.SHLQ(U8(2), size)
	d, trace := loadGates(g, "d", size), loadGates(g, "trace", size)
	pointers := []reg.Register{d.low, d.high, trace.low, trace.high}
	at := func(name string) Mem {
		p := g.param(name)
		pointers = append(pointers, p)
		return Mem{Base: p}
	}
	cell, cellTanh, previousCell, grad, recurrentGrad := at("cell"), at("cellTanh"), at("previousCell"), at("grad"), at("recurrentGrad")
	forEachVector(g, n, pointers, func(load func(Mem) vec, store func(vec, Mem)) {
		// complement returns 1 - x.
		complement := func(x vec) vec { return g.sub(g.copyOf(g.num(1)), x) }
		v := g.add(load(grad), load(recurrentGrad))
		i, f, cand, o, t := load(trace.at(0)), load(trace.at(1)), load(trace.at(2)), load(trace.at(3)), load(cellTanh)
		vo := g.mul(v, o)
		store(g.mul(g.mul(vo, t), complement(o)), d.at(3))
		dc := g.fma(vo, complement(g.mul(t, t)), load(cell))
		store(g.mul(dc, f), cell)
		store(g.mul(g.mul(g.mul(dc, cand), i), complement(i)), d.at(0))
		store(g.mul(g.mul(g.mul(dc, load(previousCell)), f), complement(f)), d.at(1))
		store(g.mul(g.mul(dc, i), complement(g.mul(cand, cand))), d.at(2))
	})
}
