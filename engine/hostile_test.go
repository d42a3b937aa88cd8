package engine

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// drawn gives the records that it is told to.
type drawn struct {
	sample.Sampler
	records []int
	at      int
}

func (d *drawn) Start(uint64) error { d.at = 0; return nil }

func (d *drawn) Next(dst []int) (int, error) {
	n := copy(dst, d.records[d.at:])
	d.at += n
	return n, nil
}

// sumOf is a lot's sum of the given records, all vectors after each other.
func sumOf(t *testing.T, r *Run, records ...int) (sum []float64) {
	t.Helper()
	d, known := r.sampler.(*drawn)
	if !known {
		d = &drawn{Sampler: r.sampler}
		r.sampler = d
	}
	d.records = records
	if err := r.sum(); err != nil {
		t.Fatal(err)
	}
	m := r.machine.(interface{ Sum(v int) []float32 })
	for v := range r.program.Vectors {
		for _, x := range m.Sum(v) {
			sum = append(sum, float64(x))
		}
		clear(m.Sum(v))
	}
	return sum
}

// length is that of a − b.
func length(a, b []float64) float64 {
	var squares float64
	for i, v := range a {
		squares += (v - b[i]) * (v - b[i])
	}
	return math.Sqrt(squares)
}

// regression is Σ‖W·x − y‖² over rows of features, with a weight from 0 made by weight.
func regression(rows, in, out int, weight func(n *layer.Net) *G.Node) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		n := layer.New(batch, 1)
		x := n.Input("x", rows, in)
		x = n.Try(func() (*G.Node, error) { return G.Reshape(x, []int{batch * rows, in}) })
		w := weight(n)
		p := n.Try(func() (*G.Node, error) { return G.Mul(x, w) })
		p = n.Try(func() (*G.Node, error) { return G.Reshape(p, []int{batch, rows, out}) })
		n.SquaredError(p, n.Input("y", rows, out))
		return n.Network()
	}
}

// pairs makes a table for regression, from numbers in order.
func pairs(t *testing.T, count, rows, in, out int, x, y []float32) data.Set {
	t.Helper()
	set, err := data.NewTable([]data.Column{
		{Name: "x", Shape: []int{rows, in}}, {Name: "y", Kind: data.Target, Shape: []int{rows, out}},
	}, [][]float32{append(x, make([]float32, count*rows*in-len(x))...), append(y, make([]float32, count*rows*out-len(y))...)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestSignalsOfNoGradient: a record of rows of zeros has a gradient of zeros, however
// large what comes back to them is, and a rule that lengthens gradients makes nothing of
// it that is no number.
func TestSignalsOfNoGradient(t *testing.T) {
	for _, rows := range []int{1, 3} {
		for name, weight := range map[string]func(n *layer.Net) *G.Node{
			"product": func(n *layer.Net) *G.Node { return n.Param("w", layer.Constant(0), 16, 16) },
			"repeated": func(n *layer.Net) *G.Node {
				w := n.Param("w", layer.Constant(0), 8, 16)
				return n.Try(func() (*G.Node, error) { return G.Concat(0, w, w) })
			},
		} {
			c := ordinary(t)
			c.Network, c.Lot, c.Rate = regression(rows, 16, 16, weight), 0, 1
			c.Train = pairs(t, 2, rows, 16, 16, nil, []float32{math.MaxFloat32 / 100})
			c.Clipping = clip.Flat(clip.Constant(1), clip.Normalized{Gamma: 1e-6})
			if sum := sumOf(t, start(t, c), 0); !(length(sum, make([]float64, len(sum))) <= 1) {
				t.Errorf("%s of %d rows: a sum of %v", name, rows, sum)
			}
		}
	}
}

// TestOneWordOverAndOver: what float32 makes of a row that is added up thousands of times
// is within the bound, too.
func TestOneWordOverAndOver(t *testing.T) {
	const words = 3000
	c := ordinary(t)
	c.Network = func(batch int) (*perexample.Network, error) {
		n := layer.New(batch, 1)
		n.SquaredError(n.EmbeddingBag(n.Input("words", words), "table", 4, 1), n.Input("y", 1))
		return n.Network()
	}
	index := make([]float32, 2*words)
	for i := range words {
		index[words+i] = data.Pad
	}
	var err error
	if c.Train, err = data.NewTable([]data.Column{
		{Name: "words", Kind: data.Index, Classes: 4, Shape: []int{words}}, {Name: "y", Kind: data.Target, Shape: []int{1}},
	}, [][]float32{index, {1e6, 0}}, nil); err != nil {
		t.Fatal(err)
	}
	c.Lot, c.Rate, c.Steps = 0, 1, 60
	bound := func(lot int) float64 { return 1 + float64(lot)/60 }
	c.Clipping = clip.Flat(clip.Schedule(bound), nil)
	r := start(t, c)
	for lot := range c.Steps {
		if err := r.prepare(lot); err != nil {
			t.Fatal(err)
		}
		sum := sumOf(t, r, 0, 1)
		if got := length(sum, make([]float64, len(sum))); !(got <= bound(lot) && got >= 0.99*bound(lot)) {
			t.Errorf("a record adds %v, and the bound is %v", got, bound(lot))
		}
	}
}

// TestPlacesTakeEachOtherBack: where a parameter is met in several places whose gradients
// cancel, what float32 leaves of them is within the bound.
func TestPlacesTakeEachOtherBack(t *testing.T) {
	c := ordinary(t)
	c.Network = regression(1, 3, 2, func(n *layer.Net) *G.Node {
		w := n.Param("w", layer.Constant(0), 1, 2)
		return n.Try(func() (*G.Node, error) { return G.Concat(0, w, w, w) })
	})
	var x, y []float32
	const records = 20
	for i := range records {
		a, b := float32(3e7+1e6*float32(i)), float32(-7.6543216e7)
		x, y = append(x, a, b, -(a+b)), append(y, 1777.7*float32(i+1), 0.1)
	}
	c.Train, c.Lot, c.Rate = pairs(t, records, 1, 3, 2, x, y), 0, 1
	r := start(t, c)
	for i := range records {
		sum := sumOf(t, r, i)
		if got := length(sum, make([]float64, len(sum))); !(got <= 1) {
			t.Errorf("record %d adds %v, and the bound is 1", i, got)
		}
	}
}

// TestRowsInTwoChains: a product over all records adds up chains of 256 rows. A record
// whose rows take each other back, but lie in two of them, does not drown the others.
func TestRowsInTwoChains(t *testing.T) {
	const rows, width, records = 3, 16, 200
	x, y := make([]float32, records*rows*width), make([]float32, records*rows*width)
	for i := range records * rows {
		x[i*width], y[i*width] = 1, -1e6
	}
	y[0], y[width], y[2*width] = 1e12, -0.5e12, -0.5e12
	c := ordinary(t)
	c.Network = regression(rows, width, width, func(n *layer.Net) *G.Node { return n.Param("w", layer.Constant(0), width, width) })
	c.Train, c.Lot, c.Rate, c.Microbatch = pairs(t, records, rows, width, width, x, y), 0, 1, records
	r := start(t, c)
	if m := r.program.Vectors[0].Method; m != "gram" {
		t.Fatalf("norms by %s: the test shows nothing", m)
	}
	others := make([]int, records-1)
	for i := range others {
		others[i] = i + 1
	}
	without := sumOf(t, r, others...)
	for _, at := range []int{0, 84, 85, 86, 170, 199} {
		with := sumOf(t, r, append(append(append([]int{}, others[:at]...), 0), others[at:]...)...)
		if got := length(with, without); !(got <= 1) {
			t.Errorf("in place %d the record moves the sum by %v, and the bound is 1", at, got)
		}
	}
}

// TestStatisticBelowFloats: a sensitivity so small that a longer vector's squares may be
// lost, so that it would not be clipped, is refused.
func TestStatisticBelowFloats(t *testing.T) {
	s := Statistic{Name: "s", Size: 1, Sensitivity: 1e-200, Noise: 1e-200, Of: func(dst []float64, _ []Example) { dst[0] = 1e-170 }}
	sum := func() float64 {
		a := newTally(s, 0)
		if err := a.add(nil); err != nil {
			t.Fatal(err)
		}
		return a.sum[0]
	}
	if s.check() == nil && !(sum() <= s.Sensitivity) {
		t.Errorf("a record adds %v, and the sensitivity is %v", sum(), s.Sensitivity)
	}
	if s.Sensitivity = leastSensitivity; s.check() != nil || !(sum() <= s.Sensitivity) {
		t.Errorf("%v: a record adds %v to sensitivity %v", s.check(), sum(), s.Sensitivity)
	}
}
