package perexample_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/gorgonia"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/noise"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// dataset contains the rows of every input column.
type dataset struct {
	count   int
	columns [][]float32
	sizes   []int // numbers per example in each column
}

func draw(t *testing.T, d design, seed uint64, count int) dataset {
	t.Helper()
	net, err := d.build(seed)(count)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(seed, 2))
	e := dataset{count: count}
	for k, in := range net.Inputs {
		x := make([]float32, in.Shape().TotalSize())
		for i := range x {
			if n := d.whole[k]; n > 0 {
				x[i] = float32(r.IntN(n))
			} else {
				x[i] = float32(r.NormFloat64())
			}
		}
		e.columns = append(e.columns, x)
		e.sizes = append(e.sizes, len(x)/count)
	}
	return e
}

func (e dataset) row(column, example int) []float32 {
	n := e.sizes[column]
	return e.columns[column][example*n : (example+1)*n]
}

// maskSeed is the mask seed of an example.
func maskSeed(example int) []float32 {
	t := make([]float32, op.MaskSeedWidth)
	op.WriteMaskSeed(t, uint64(1<<25+example), 7)
	return t
}

// oracle runs a network of one example on Gorgonia's tape machine, with the gradient that
// Gorgonia derives.
type oracle struct {
	build perexample.Build
}

// run returns the loss of one example and, if asked for, the gradient of each parameter.
// Every run has its own graph and machine, so that no state is left from another.
func (o oracle) run(e dataset, example int, nudge [][]float64, gradients bool) (float64, [][]float64) {
	net, err := o.build(1)
	if err != nil {
		panic(err)
	}
	for k, in := range net.Inputs {
		bind(in, e.row(k, example))
	}
	if net.MaskSeed != nil {
		bind(net.MaskSeed, maskSeed(example))
	}
	for i, p := range net.Params {
		w := floats(p.Value())
		for j := range w {
			if nudge != nil {
				w[j] += float32(nudge[i][j])
			}
		}
		bind(p, w)
	}
	roots := G.Nodes{net.Loss}
	if gradients {
		roots = append(roots, must(G.Grad(net.Loss, net.Params...))...)
	}
	vm := G.NewTapeMachine(net.Loss.Graph().ExactSubgraphRoots(roots...), G.TraceExec())
	defer vm.Close()
	if err := vm.RunAll(); err != nil {
		panic(err)
	}
	var out [][]float64
	for _, n := range roots {
		var wide []float64
		for _, x := range floats(n.Value()) {
			wide = append(wide, float64(x))
		}
		out = append(out, wide)
	}
	return out[0][0], out[1:]
}

func bind(n *G.Node, x []float32) {
	x = append([]float32(nil), x...)
	if n.IsScalar() {
		must(0, G.Let(n, G.NewF32(x[0])))
		return
	}
	must(0, G.Let(n, tensor.New(tensor.WithShape(n.Shape()...), tensor.WithBacking(x))))
}

func floats(v G.Value) []float32 {
	if d, ok := v.(*tensor.Dense); ok && d.RequiresIterator() {
		v = d.Materialize().(*tensor.Dense)
	}
	if x, ok := v.Data().(float32); ok {
		return []float32{x}
	}
	return append([]float32(nil), v.Data().([]float32)...)
}

// slopes compares the oracle's gradient with a difference of losses along a random
// direction.
func (o oracle) slopes(t *testing.T, e dataset, seed uint64) {
	t.Helper()
	_, g := o.run(e, 0, nil, true)
	r := rand.New(rand.NewPCG(seed, 3))
	const step = 1e-2
	var up, down [][]float64
	var want, scale float64
	for _, x := range g {
		u, d := make([]float64, len(x)), make([]float64, len(x))
		for i, v := range x {
			z := r.NormFloat64() / math.Sqrt(float64(len(x)))
			u[i], d[i] = step*z, -step*z
			want += v * z
			scale += math.Abs(v * z)
		}
		up, down = append(up, u), append(down, d)
	}
	a, _ := o.run(e, 0, up, false)
	b, _ := o.run(e, 0, down, false)
	got := (a - b) / (2 * step)
	if !(math.Abs(got-want) <= 0.05*scale+1e-4*math.Abs(a)/step) {
		t.Errorf("Gorgonia's own gradient is %g along a direction in which the loss rises by %g", want, got)
	}
}

// device is a device that private networks are tested on.
type device struct {
	name string
	open func(p *perexample.PrivateNetwork) (accumulator, error)
}

// accumulator is an executable whose clipped sums can be read.
type accumulator interface {
	plan.Executable
	Sum(v int) []float32
}

var onCPU = device{"cpu", func(p *perexample.PrivateNetwork) (accumulator, error) {
	program, err := plan.LowerTraining(p, plan.TrainingOptions{Norms: true, Output: true})
	if err != nil {
		return nil, err
	}
	return cpu.New(program, plan.Optimizer{Kind: plan.SGD}, false, 2)
}}

var onTape = device{"gorgonia", func(p *perexample.PrivateNetwork) (accumulator, error) {
	return gorgonia.New(p, true, plan.Optimizer{Kind: plan.SGD}, false)
}}

var devices = []device{onCPU, onTape}

// adds is the squared length of the contribution of one record, times its factor, to the
// sum of the only parameter. It clears the sum.
func adds(t *testing.T, m accumulator, record int, factor float32) (square float64) {
	t.Helper()
	clear(m.ClipFactors(0))
	m.ClipFactors(0)[record] = factor
	if err := m.AddClippedSums(); err != nil {
		t.Fatal(err)
	}
	for _, v := range m.Sum(0) {
		square += float64(v) * float64(v)
	}
	empty(t, m, 1)
	return square
}

// empty clears the sums by a release that does not change the weights.
func empty(t *testing.T, m plan.Executable, vectors int) {
	t.Helper()
	still := plan.Release{
		Source: noise.NewSeeded(1), Sigma: make([]float64, vectors), Optimizer: plan.Optimizer{Kind: plan.SGD}, Step: 1,
	}
	if err := m.Release(&still); err != nil {
		t.Fatal(err)
	}
}

// lot is the result of a data set: squared norms of every record, and the sums over the
// records.
type lot struct {
	squared [][]float64 // [parameter][record]
	sums    [][]float64
}

// step runs a data set through a device in microbatches. The last is padded with invalid
// rows. Records are perRecord consecutive examples with the given weights.
func step(t *testing.T, m accumulator, p *perexample.PrivateNetwork, e dataset, perRecord int, weights, factors []float32, rubbish float32) lot {
	t.Helper()
	count := e.count / perRecord
	out := lot{squared: make([][]float64, len(p.Parameters))}
	for from := 0; from < count; from += p.Records {
		for k := range p.Inputs {
			in, n := m.Input(k), e.sizes[k]*perRecord
			for r := range p.Records {
				dst := in[r*n : (r+1)*n]
				if from+r < count {
					copy(dst, e.columns[k][(from+r)*n:])
					continue
				}
				for i := range dst {
					dst[i] = rubbish
				}
			}
		}
		for i := range len(m.MaskSeed()) / op.MaskSeedWidth {
			copy(m.MaskSeed()[i*op.MaskSeedWidth:], maskSeed(from*perRecord+i))
		}
		if perRecord > 1 {
			clear(m.ExampleWeights())
			copy(m.ExampleWeights(), weights[from*perRecord:])
		}
		if err := m.Forward(); err != nil {
			t.Fatal(err)
		}
		for v := range p.Parameters {
			f := m.ClipFactors(v)
			clear(f)
			copy(f, factors[from:min(from+p.Records, count)])
			for r := range min(p.Records, count-from) {
				out.squared[v] = append(out.squared[v], float64(m.SquaredNorms(v)[r]))
			}
		}
		if err := m.AddClippedSums(); err != nil {
			t.Fatal(err)
		}
	}
	for v := range p.Parameters {
		var wide []float64
		for _, x := range m.Sum(v) {
			wide = append(wide, float64(x))
		}
		out.sums = append(out.sums, wide)
	}
	return out
}

// reference computes the same with the oracle, one example at a time.
func (o oracle) reference(e dataset, perRecord int, weights, factors []float32) lot {
	var out lot
	for r := range e.count / perRecord {
		var record [][]float64
		for i := range perRecord {
			w := 1.0
			if perRecord > 1 {
				w = float64(weights[r*perRecord+i])
			}
			_, g := o.run(e, r*perRecord+i, nil, true)
			for v, x := range g {
				if i == 0 {
					record = append(record, make([]float64, len(x)))
				}
				for j, y := range x {
					record[v][j] += w * y
				}
			}
		}
		for v, g := range record {
			if r == 0 {
				out.squared = append(out.squared, nil)
				out.sums = append(out.sums, make([]float64, len(g)))
			}
			var s float64
			for j, y := range g {
				s += y * y
				out.sums[v][j] += float64(factors[r]) * y
			}
			out.squared[v] = append(out.squared[v], s)
		}
	}
	return out
}

// tolerance is the relative error allowed in float32.
const tolerance = 1e-5

func compare(t *testing.T, p *perexample.PrivateNetwork, got, want lot, factors []float32, tolerance float64) {
	t.Helper()
	// A gradient that almost vanishes, such as that of a shift before a normalization, is
	// a rounding error. It is compared relative to everything that is summed.
	var all float64
	for _, squared := range want.squared {
		for r, w := range squared {
			all += float64(factors[r]) * math.Sqrt(w)
		}
	}
	for v, vector := range p.Parameters {
		name := fmt.Sprintf("parameter %s (%s, %s)", vector.Node.Name(), vector.Kind, vector.Method)
		scale := 0.0
		for r, w := range want.squared[v] {
			most := w*(1+2*tolerance) + 1e-12
			if vector.Method == "gram" || vector.Kind == "mixed" {
				most *= 1 + 1.0/(1<<8) // the bound of the rounding error is added
			}
			if g := got.squared[v][r]; !(w*(1-2*tolerance)-1e-12 <= g && g <= most) {
				t.Errorf("%s: record %d has squared norm %g, the oracle has %g", name, r, g, w)
			}
			scale += float64(factors[r]) * math.Sqrt(w)
		}
		var off float64
		for i, w := range want.sums[v] {
			off += (got.sums[v][i] - w) * (got.sums[v][i] - w)
		}
		if !(math.Sqrt(off) <= tolerance*(scale+1e-2*all)+1e-12) {
			t.Errorf("%s: the sum is off by %g where %g is summed\n got %.6g\nwant %.6g", name, math.Sqrt(off), scale, head(got.sums[v]), head(want.sums[v]))
		}
	}
}

func head(x []float64) []float64 { return x[:min(len(x), 8)] }

// factorsFor draws a factor for each record, some of them zero.
func factorsFor(seed uint64, count int) []float32 {
	r := rand.New(rand.NewPCG(seed, 4))
	f := make([]float32, count)
	for i := range f {
		if f[i] = float32(r.Float64()); i%4 == 1 {
			f[i] = 0
		}
	}
	return f
}

// The cheapest method for norms is chosen.
func TestCompile_ChoosesMethod(t *testing.T) {
	const pulled = "in parts, pulled back"
	for _, c := range []struct {
		design    string
		perRecord int
		want      string
	}{
		{"MLP of own operations", 1, "product rank-one, shift kept, scale kept, shift kept, product rank-one, shift kept"},
		{"MLP of own operations", 3, "product kept, shift kept, scale kept, shift kept, product kept, shift kept"},
		{"own convolution, pooling and group norm", 1, "product kept, shift kept, scale kept, shift kept, product kept, shift kept, product rank-one, shift kept"},
		{"residual network with shared weights", 1, "product kept, shift kept"},
		{"scale and shift by broadcast", 1, "scale kept, shift kept, shift kept, scale kept, shift kept"},
		{"many rows and a small weight", 1, "product kept"},
		{"two rows", 1, "product gram"},
		{"two rows", 2, "product kept"},
		{"few rows and a large weight", 1, "product gram"},
		{"a large kernel on small pictures", 1, "product gram, shift kept"},
		{"a large kernel on small pictures", 3, "product kept, shift kept"},
		{"lookups in one table", 1, "gather group"},
		{"two gates sliced from one matrix", 1, "product rank-one, shift kept"},
		{"overlapping slices", 1, "mixed record by record"},
		{"a scale and a shift used twice", 1, "scale kept, shift kept"},
		{"a weight and its shift in one parameter", 1, "mixed rank-one, kept"},
		{"one element of a parameter", 1, "mixed kept"},
		{"scale and shift by one function", 1, "mixed kept, pulled back"},
		{"a weight used as matrix and as shift", 1, "mixed record by record"},
		{"an operation without a rule", 1, "whole one record at a time, whole one record at a time"},
		{"square of a weight", 1, "product " + pulled + ", shift kept"},
		{"standardised convolutions", 1, "product kept, pulled back, shift kept, product kept, pulled back, shift kept"},
		{"a large standardised kernel on small pictures", 1, "shift kept, product " + pulled},
	} {
		at := slices.IndexFunc(designs, func(d design) bool { return d.name == c.design })
		p, err := perexample.Compile(designs[at].build(1), 7, c.perRecord)
		if err != nil {
			t.Fatal(err)
		}
		if (p.ExampleWeights != nil) != (c.perRecord > 1) {
			t.Errorf("%s, records of %d: examples have weights: %t", c.design, c.perRecord, p.ExampleWeights != nil)
		}
		var got []string
		for _, v := range p.Parameters {
			got = append(got, v.Kind+" "+v.Method)
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s, records of %d: %s; want %s", c.design, c.perRecord, got, c.want)
		}
	}
}

func TestCompile_AgreesWithOracle(t *testing.T) {
	const count = 9
	for _, d := range designs {
		t.Run(d.name, func(t *testing.T) {
			for seed := range uint64(2) {
				e := draw(t, d, seed, count)
				o := oracle{d.build(seed)}
				o.slopes(t, e, seed)
				factors := factorsFor(seed, count)
				want := o.reference(e, 1, nil, factors)
				for _, records := range []int{1, 7, count} {
					p, err := perexample.Compile(d.build(seed), records, 1)
					if err != nil {
						t.Fatalf("microbatch of %d: %v", records, err)
					}
					if (p.Warning != "") != (d.loop && records > 1) {
						t.Fatalf("microbatch of %d: warning %q", records, p.Warning)
					}
					for _, dev := range devices {
						m, err := dev.open(p)
						if err != nil {
							t.Fatal(err)
						}
						t.Run(fmt.Sprintf("%s/%d", dev.name, records), func(t *testing.T) {
							compare(t, p, step(t, m, p, e, 1, nil, factors, float32(math.NaN())), want, factors, tolerance)
						})
						m.Close()
					}
				}
			}
		})
	}
}
