package neon

import "strings"

// elementwise is a kernel that computes dst[i] = body(inputs[i], scalars) for i < n. dst may be
// one of the inputs. A scalar is in every lane of its register.
type elementwise struct {
	name    string
	inputs  string
	scalars string
	vectors int // per iteration of the main loop
	body    func(f *function, in []*reg, s []lane) *reg
}

func pointwise() (list []*function) {
	for _, p := range []elementwise{
		{"addNEON", "x y", "", 4, func(f *function, in []*reg, _ []lane) *reg { return add(f, in[0], in[1]) }},
		{"mulNEON", "x y", "", 4, func(f *function, in []*reg, _ []lane) *reg { return mul(f, in[0], in[1]) }},
		{"scaleNEON", "x", "alpha", 4, func(f *function, in []*reg, s []lane) *reg { return mulLane(f, in[0], s[0]) }},
		{"axpyNEON", "dst x", "alpha", 4, func(f *function, in []*reg, s []lane) *reg {
			return add(f, in[0], mulLane(f, in[1], s[0]))
		}},
		{"reluNEON", "x", "", 4, func(f *function, in []*reg, _ []lane) *reg { return relu(f, in[0]) }},
		{"reluGradNEON", "dy y", "", 4, func(f *function, in []*reg, _ []lane) *reg {
			return andNot(f, in[0], f.make("fcmle v%d.4s, v%d.4s, #0.0", in[1]))
		}},
		{"tanhGradNEON", "dy y", "", 2, func(f *function, in []*reg, _ []lane) *reg {
			return mul(f, in[0], sub(f, f.num(1), mul(f, in[1], in[1])))
		}},
		{"sigmoidGradNEON", "dy y", "", 2, func(f *function, in []*reg, _ []lane) *reg {
			return mul(f, mul(f, in[0], in[1]), sub(f, f.num(1), in[1]))
		}},
		{"normalizeNEON", "x", "mean rest scale", 4, func(f *function, in []*reg, s []lane) *reg {
			return mulLane(f, sub(f, sub(f, in[0], s[0].of), s[1].of), s[2])
		}},
		{"normalizeGradNEON", "x d", "mean slope shift scale", 2, func(f *function, in []*reg, s []lane) *reg {
			product := mulLane(f, sub(f, in[0], s[0].of), s[1])
			return mulLane(f, sub(f, sub(f, in[1], s[2].of), product), s[3])
		}},
		{"softmaxGradNEON", "p dp", "mean scale", 2, func(f *function, in []*reg, s []lane) *reg {
			mask := f.make("fcmeq v%d.4s, v%d.4s, #0.0", in[0])
			return andNot(f, mulLane(f, mul(f, in[0], sub(f, in[1], s[0].of)), s[1]), mask)
		}},
		{"expNEON", "x", "shift", 4, func(f *function, in []*reg, s []lane) *reg { return exp(f, sub(f, in[0], s[0].of)) }},
		{"tanhNEON", "x", "", 4, func(f *function, in []*reg, _ []lane) *reg { return tanh(f, in[0]) }},
		{"sigmoidNEON", "x", "", 4, func(f *function, in []*reg, _ []lane) *reg { return sigmoid(f, in[0]) }},
		{"geluNEON", "x", "", 3, func(f *function, in []*reg, _ []lane) *reg { return gelu(f, in[0]) }},
		{"geluGradNEON", "dy x", "", 3, func(f *function, in []*reg, _ []lane) *reg { return mul(f, in[0], geluGrad(f, in[1])) }},
	} {
		list = append(list, p.function())
	}
	return list
}

// relu returns max(0, x). It keeps NaN and the sign of zero.
func relu(f *function, x *reg) *reg { return andNot(f, x, f.make("fcmlt v%d.4s, v%d.4s, #0.0", x)) }

// function emits the kernel.
func (p elementwise) function() *function {
	inputs, scalars := strings.Fields(p.inputs), strings.Fields(p.scalars)
	pointers := inputs
	if inputs[0] != "dst" {
		pointers = append([]string{"dst"}, inputs...)
	}
	signature := "func(" + strings.Join(pointers, ", ") + " *float32, n int"
	if len(scalars) > 0 {
		signature += ", " + strings.Join(scalars, ", ") + " float32"
	}
	f := newFunction(p.name, signature+")")
	at := map[string]*reg{}
	for _, name := range pointers {
		at[name] = f.load(name)
	}
	n := f.load("n")
	s := make([]lane, len(scalars))
	for i, name := range scalars {
		s[i] = lane{of: broadcast(f, f.scalar(name))}
	}
	chunk := func(vectors int) {
		forChunks(f, n, 4*vectors, func() {
			in := make([][]*reg, vectors)
			for _, name := range inputs {
				for v, x := range loadVectors(f, at[name], 0, vectors) {
					in[v] = append(in[v], x)
				}
			}
			out, bodies := make([]*reg, vectors), make([]func(), vectors)
			for v := range bodies {
				bodies[v] = func() { out[v] = p.body(f, in[v], s) }
			}
			f.interleave(bodies...)
			storeVectors(f, out, at["dst"], 0)
			for _, name := range pointers {
				increment(f, at[name], 16*vectors)
			}
		})
	}
	if p.vectors > 1 {
		chunk(p.vectors)
	}
	chunk(1)
	done := f.label("done")
	f.branch("CBZ R%d,", done, n)
	var in []*reg
	for _, name := range inputs {
		in = append(in, loadFirst(f, at[name], 0, n))
	}
	storeFirst(f, p.body(f, in, s), at["dst"], 0, n)
	f.at(done)
	f.ret()
	return f
}
