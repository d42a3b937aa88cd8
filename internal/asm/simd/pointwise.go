package simd

import (
	"strings"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pointwise is a kernel that computes dst[i] = body(inputs[i], scalars) for i < n. dst may be
// one of the inputs.
type pointwise struct {
	name    string
	inputs  []string
	scalars []string
	unroll  int // vectors per iteration of the main loop
	body    func(g *generator, in, scalars []vec) vec
}

func pointwiseFile(g *generator) {
	list := func(names ...string) []string { return names }
	for _, p := range []pointwise{
		{"add", list("x", "y"), nil, 4, func(g *generator, in, _ []vec) vec { return g.add(in[0], in[1]) }},
		{"mul", list("x", "y"), nil, 4, func(g *generator, in, _ []vec) vec { return g.mul(in[0], in[1]) }},
		{"scale", list("x"), list("alpha"), 4, func(g *generator, in, s []vec) vec { return g.mul(in[0], s[0]) }},
		{"axpy", list("dst", "x"), list("alpha"), 4, func(g *generator, in, s []vec) vec {
			return g.add(in[0], g.mul(in[1], s[0]))
		}},
		{"relu", list("x"), nil, 4, func(g *generator, in, _ []vec) vec { return g.max(g.zero(), in[0]) }},
		{"reluGrad", list("dy", "y"), nil, 4, func(g *generator, in, _ []vec) vec {
			mask := g.YMM()
			g.VCMPPS(U8(0x16), g.zero(), in[1], mask) // not y <= 0
			return g.and(in[0], mask)
		}},
		{"tanhGrad", list("dy", "y"), nil, 2, func(g *generator, in, _ []vec) vec {
			return g.mul(in[0], g.sub(g.copyOf(g.num(1)), g.mul(in[1], in[1])))
		}},
		{"sigmoidGrad", list("dy", "y"), nil, 2, func(g *generator, in, _ []vec) vec {
			return g.mul(g.mul(in[0], in[1]), g.sub(g.copyOf(g.num(1)), in[1]))
		}},
		{"normalize", list("x"), list("mean", "rest", "scale"), 4, func(g *generator, in, s []vec) vec {
			return g.mul(g.sub(g.sub(in[0], s[0]), s[1]), s[2])
		}},
		{"normalizeGrad", list("x", "d"), list("mean", "slope", "shift", "scale"), 2, func(g *generator, in, s []vec) vec {
			product := g.mul(g.sub(in[0], s[0]), s[1])
			return g.mul(g.sub(g.sub(in[1], s[2]), product), s[3])
		}},
		{"softmaxGrad", list("p", "dp"), list("mean", "scale"), 2, func(g *generator, in, s []vec) vec {
			mask := g.YMM()
			g.VCMPPS(U8(4), g.zero(), in[0], mask) // not p == 0
			return g.and(g.mul(g.mul(in[0], g.sub(in[1], s[0])), s[1]), mask)
		}},
	} {
		emitPointwise(g, p)
	}
	// The transcendental functions are long chains of dependent instructions. Vectors that are
	// twice as wide keep twice as many elements in flight.
	transcendental := []pointwise{
		{"exp", list("x"), list("shift"), 1, func(g *generator, in, s []vec) vec { return exp(g, g.sub(in[0], s[0])) }},
		{"tanh", list("x"), nil, 1, func(g *generator, in, _ []vec) vec { return tanh(g, in[0]) }},
		{"sigmoid", list("x"), nil, 1, func(g *generator, in, _ []vec) vec { return sigmoid(g, in[0]) }},
		{"gelu", list("x"), nil, 1, func(g *generator, in, _ []vec) vec { return gelu(g, in[0]) }},
		{"geluGrad", list("dy", "x"), nil, 1, func(g *generator, in, _ []vec) vec { return g.mul(in[0], geluGrad(g, in[1])) }},
	}
	for _, g.lanes = range []int{8, 16} {
		for _, p := range transcendental {
			emitPointwise(g, p)
		}
	}
}

// instructionSet returns the suffix of a kernel's name.
func instructionSet(g *generator) string {
	if g.lanes == 16 {
		return "AVX512"
	}
	return "AVX2"
}

// emitPointwise emits a pointwise kernel.
func emitPointwise(g *generator, p pointwise) {
	var params []string
	if len(p.inputs) == 0 || p.inputs[0] != "dst" {
		params = append(params, "dst")
	}
	params = append(params, p.inputs...)
	signature := "func(" + strings.Join(params, ", ") + " *float32, n int"
	if p.scalars != nil {
		signature += ", " + strings.Join(p.scalars, ", ") + " float32"
	}
	g.function(p.name+instructionSet(g), signature+")")
	pointers := map[string]reg.Register{}
	for _, name := range params {
		pointers[name] = g.param(name)
	}
	n := g.param("n")
	var scalars []vec
	for _, name := range p.scalars {
		s := g.vector()
		g.VBROADCASTSS(g.argument(name), s)
		scalars = append(scalars, s)
	}
	inputs := func(load func(Mem) vec, disp int) []vec {
		var in []vec
		for _, name := range p.inputs {
			in = append(in, load(Mem{Base: pointers[name], Disp: disp}))
		}
		return in
	}
	chunk := func(vectors int) {
		g.forChunks(n, U32(g.lanes*vectors), func() {
			for v := range vectors {
				at := 4 * g.lanes * v
				g.store(p.body(g, inputs(g.load, at), scalars), Mem{Base: pointers["dst"], Disp: at})
			}
			for _, name := range params {
				g.ADDQ(U32(4*g.lanes*vectors), pointers[name])
			}
		})
	}
	if p.unroll > 1 {
		chunk(p.unroll)
	}
	chunk(1)
	done := g.label("done")
	g.TESTQ(n, n)
	g.JEQ(LabelRef(done))
	load, store := partialAccess(g, n)
	store(p.body(g, inputs(load, 0), scalars), Mem{Base: pointers["dst"]})
	g.Label(done)
	g.leave()
}

// partialAccess returns functions that load and store the first n lanes of a vector, n less
// than all. Other lanes are loaded as 0. It destroys n.
func partialAccess(g *generator, n reg.Register) (load func(Mem) vec, store func(vec, Mem)) {
	if g.lanes == 8 {
		mask := firstLanesMask(g, n)
		return func(m Mem) vec {
			x := g.vector()
			g.VMASKMOVPS(m, mask, x)
			return x
		}, func(x vec, m Mem) { g.VMASKMOVPS(x, mask, m) }
	}
	bits, mask := g.GP64(), g.K()
	g.MOVQ(I32(-1), bits)
	g.BZHIQ(n, bits, bits)
	g.KMOVW(bits.As32(), mask)
	return func(m Mem) vec {
		x := g.vector()
		g.VMOVUPS_Z(m, mask, x)
		return x
	}, func(x vec, m Mem) { g.VMOVUPS(x, mask, m) }
}

// firstLanesMask returns the mask of the first n lanes, n ≤ 8. It destroys n.
func firstLanesMask(g *generator, n reg.Register) vec {
	table, mask := g.GP64(), g.YMM()
	g.LEAQ(g.maskTable(8), table)
	g.NEGQ(n)
	g.VMOVUPS(Mem{Base: table, Index: n, Scale: 4, Disp: 32}, mask)
	return mask
}
