package engine

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/engine/sample"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"

	G "gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// fixedSampler returns given records.
type fixedSampler struct {
	sample.Sampler
	records  []int
	position int
}

func (d *fixedSampler) StartLot(uint64) error { d.position = 0; return nil }

func (d *fixedSampler) Next(dst []int) (int, error) {
	n := copy(dst, d.records[d.position:])
	d.position += n
	return n, nil
}

// lotSum returns a lot's sum of the given records, all parameters one after the other, in its
// own run.
func lotSum(t *testing.T, c Config, lot int, records ...int) (sum []float64) {
	t.Helper()
	c.Files.Ledger = filepath.Join(t.TempDir(), "ledger.jsonl")
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.sampler = &fixedSampler{Sampler: r.sampler, records: records}
	if err := r.lot.Mechanism.SetLot(lot); err != nil {
		t.Fatal(err)
	}
	if err := r.sumLot(); err != nil {
		t.Fatal(err)
	}
	for _, vector := range accumulatedSums(r) {
		for _, x := range vector {
			sum = append(sum, float64(x))
		}
	}
	return sum
}

// onEveryDevice runs a test on every device.
func onEveryDevice(t *testing.T, test func(t *testing.T, c Config)) {
	for _, device := range deviceNames() {
		t.Run(device, func(t *testing.T) {
			c := testConfig(t)
			c.Device.Name = device
			test(t, c)
		})
	}
}

// euclideanDistance returns the norm of a − b.
func euclideanDistance(a, b []float64) float64 {
	var squares float64
	for i, v := range a {
		squares += (v - b[i]) * (v - b[i])
	}
	return math.Sqrt(squares)
}

// squaredErrorNetwork has the loss Σ‖W·x − y‖² over rows of features; weight builds W.
func squaredErrorNetwork(rows, in, out int, weight func(n *layer.Builder) *G.Node) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		x := n.Input("x", rows, in)
		x = n.Try(func() (*G.Node, error) { return G.Reshape(x, []int{batch * rows, in}) })
		w := weight(n)
		p := n.Try(func() (*G.Node, error) { return G.Mul(x, w) })
		p = n.Try(func() (*G.Node, error) { return G.Reshape(p, []int{batch, rows, out}) })
		n.SetLoss(layer.SquaredError(n, p, n.Input("y", rows, out)), p)
		return n.Network()
	}
}

// newRegressionTable returns a table for squaredErrorNetwork.
func newRegressionTable(t *testing.T, count, rows, in, out int, x, y []float32) data.Set {
	t.Helper()
	set, err := data.NewTable([]data.Column{
		{Name: "x", Shape: []int{rows, in}}, {Name: "y", Kind: data.Target, Shape: []int{rows, out}},
	}, [][]float32{append(x, make([]float32, count*rows*in-len(x))...), append(y, make([]float32, count*rows*out-len(y))...)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A record of zero rows has a zero gradient, even if the backpropagated signals are large; a
// rule that lengthens gradients does not make it NaN.
func TestSensitivity_ZeroRows(t *testing.T) {
	onEveryDevice(t, func(t *testing.T, c Config) {
		for _, rows := range []int{1, 3} {
			for name, weight := range map[string]func(n *layer.Builder) *G.Node{
				"product": func(n *layer.Builder) *G.Node { return n.Parameter("w", layer.Constant(0), 16, 16) },
				"repeated": func(n *layer.Builder) *G.Node {
					w := n.Parameter("w", layer.Constant(0), 8, 16)
					return n.Try(func() (*G.Node, error) { return G.Concat(0, w, w) })
				},
				"added": func(n *layer.Builder) *G.Node {
					w := n.Parameter("w", layer.Constant(0), 8, 16)
					twice := n.Try(func() (*G.Node, error) { return G.Concat(0, w, n.Parameter("v", layer.Constant(0), 8, 16)) })
					again := n.Try(func() (*G.Node, error) { return G.Concat(0, n.Parameter("u", layer.Constant(0), 8, 16), w) })
					return n.Try(func() (*G.Node, error) { return G.Add(twice, again) })
				},
			} {
				c := c
				c.Network, c.Sampling.Lot, c.Sampling.Rate = squaredErrorNetwork(rows, 16, 16, weight), 0, 1
				c.Train = newRegressionTable(t, 2, rows, 16, 16, nil, []float32{math.MaxFloat32 / 100})
				c.Mechanism.Clipping = clip.Flat(clip.Constant(1), clip.Normalized{Gamma: 1e-6})
				if sum := lotSum(t, c, 0, 0); !(euclideanDistance(sum, make([]float64, len(sum))) <= 1) {
					t.Errorf("%s of %d rows: a sum of %v", name, rows, sum)
				}
			}
		}
	})
}

// The float32 sum of thousands of equal rows is within the bound, too.
func TestSensitivity_RepeatedRow(t *testing.T) {
	const words = 3000
	network := func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		prediction := layer.EmbeddingBag(n, n.Input("words", words), "table", 4, 1)
		n.SetLoss(layer.SquaredError(n, prediction, n.Input("y", 1)), prediction)
		return n.Network()
	}
	index := make([]float32, 2*words)
	for i := range words {
		index[words+i] = data.Pad
	}
	set, err := data.NewTable([]data.Column{
		{Name: "words", Kind: data.Index, Classes: 4, Shape: []int{words}}, {Name: "y", Kind: data.Target, Shape: []int{1}},
	}, [][]float32{index, {1e6, 0}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	bound := func(lot int) float64 { return 1 + float64(lot)/60 }
	onEveryDevice(t, func(t *testing.T, c Config) {
		c.Network, c.Train, c.Sampling.Lot, c.Sampling.Rate, c.Steps = network, set, 0, 1, 60
		c.Mechanism.Clipping = clip.Flat(clip.Schedule(bound), nil)
		for lot := 0; lot < c.Steps; lot += 4 {
			sum := lotSum(t, c, lot, 0, 1)
			if got := euclideanDistance(sum, make([]float64, len(sum))); !(got <= bound(lot) && got >= 0.99*bound(lot)) {
				t.Errorf("a record adds %v, and the bound is %v", got, bound(lot))
			}
		}
	})
}

// Where the gradients of a parameter's uses cancel, the float32 remainder is within the bound.
func TestSensitivity_CancellingUses(t *testing.T) {
	network := squaredErrorNetwork(1, 3, 2, func(n *layer.Builder) *G.Node {
		w := n.Parameter("w", layer.Constant(0), 1, 2)
		return n.Try(func() (*G.Node, error) { return G.Concat(0, w, w, w) })
	})
	var x, y []float32
	const records = 20
	for i := range records {
		a, b := float32(3e7+1e6*float32(i)), float32(-7.6543216e7)
		x, y = append(x, a, b, -(a+b)), append(y, 1777.7*float32(i+1), 0.1)
	}
	onEveryDevice(t, func(t *testing.T, c Config) {
		c.Network, c.Train, c.Sampling.Lot, c.Sampling.Rate = network, newRegressionTable(t, records, 1, 3, 2, x, y), 0, 1
		for i := range records {
			sum := lotSum(t, c, 0, i)
			if got := euclideanDistance(sum, make([]float64, len(sum))); !(got <= 1) {
				t.Errorf("record %d adds %v, and the bound is 1", i, got)
			}
		}
	})
}

// A product over all records sums chains of 256 rows. A record whose cancelling rows lie in two
// chains does not absorb the contributions of others.
func TestSensitivity_CancellationAcrossChains(t *testing.T) {
	const rows, width, records = 3, 16, 200
	x, y := make([]float32, records*rows*width), make([]float32, records*rows*width)
	for i := range records * rows {
		x[i*width], y[i*width] = 1, -1e6
	}
	y[0], y[width], y[2*width] = 1e12, -0.5e12, -0.5e12
	others := make([]int, records-1)
	for i := range others {
		others[i] = i + 1
	}
	onEveryDevice(t, func(t *testing.T, c Config) {
		c.Network = squaredErrorNetwork(rows, width, width, func(n *layer.Builder) *G.Node { return n.Parameter("w", layer.Constant(0), width, width) })
		c.Train, c.Sampling.Lot, c.Sampling.Rate, c.Microbatch = newRegressionTable(t, records, rows, width, width, x, y), 0, 1, records
		if m := newRun(t, c).network.Program.Parameters[0].Method; m != "gram" {
			t.Fatalf("norms by %s: the test has no power", m)
		}
		without := lotSum(t, c, 0, others...)
		for _, at := range []int{0, 84, 85, 86, 170, 199} {
			with := lotSum(t, c, 0, slices.Insert(slices.Clone(others), at, 0)...)
			if got := euclideanDistance(with, without); !(got <= 1) {
				t.Errorf("in place %d the record moves the sum by %v, and the bound is 1", at, got)
			}
		}
	})
}

// A sensitivity is refused if the squares of a longer vector may underflow, so that the vector
// would not be clipped.
func TestStatistic_RefusesTinySensitivity(t *testing.T) {
	s := Statistic{Name: "s", Size: 1, Sensitivity: 1e-200, Noise: 1e-200, Of: func(dst []float64, _ []load.Example) { dst[0] = 1e-170 }}
	sum := func() float64 {
		a := accumulatorOf(Config{}, s, 1)
		if err := a.AddRecord(nil); err != nil {
			t.Fatal(err)
		}
		return a.Floats[0]
	}
	if s.check() == nil && !(sum() <= s.Sensitivity) {
		t.Errorf("a record adds %v, and the sensitivity is %v", sum(), s.Sensitivity)
	}
	if s.Sensitivity = minSensitivity; s.check() != nil || !(sum() <= s.Sensitivity) {
		t.Errorf("%v: a record adds %v to sensitivity %v", s.check(), sum(), s.Sensitivity)
	}
}

// Two uses of a table cancel in a record. Between its two additions, little of what others look
// up is lost.
func TestSensitivity_CancellingLookups(t *testing.T) {
	const lookups, records = 64, 257
	network := func(width int, use func(n *layer.Builder, x, table *G.Node) *G.Node) perexample.Build {
		return func(batch int) (*perexample.Network, error) {
			n := layer.NewBuilder(batch, 1)
			table := n.Parameter("table", layer.Constant(0), 2, width)
			x := n.Input("x", width)
			scores := use(n, x, table)
			looked := layer.Reshape(n, layer.Lookup(n, table, n.Input("ids", lookups)), lookups*width)
			both := n.Try(func() (*G.Node, error) { return G.Concat(1, scores, looked) })
			n.SetLoss(layer.SquaredError(n, both, n.Input("y", 2+lookups*width)), both)
			return n.Network()
		}
	}
	// The norms of a table that is a factor of a product, transposed or not, are computed without
	// its gradient, unless it has a third use.
	straight := layer.TiedLogits
	turned := func(n *layer.Builder, x, table *G.Node) *G.Node {
		return n.Try(func() (*G.Node, error) { return G.Mul(x, G.Must(G.Transpose(table, 1, 0))) })
	}
	threeUses := func(n *layer.Builder, x, table *G.Node) *G.Node {
		return n.Try(func() (*G.Node, error) {
			row := G.Must(G.Reshape(table, tensor.Shape{1, 2}))
			nothing := G.Must(G.BroadcastHadamardProd(G.Must(G.Sub(x, x)), row, []byte{1}, []byte{0}))
			return G.Add(straight(n, x, table), nothing)
		})
	}
	others := make([]int, records-1)
	for i := range others {
		others[i] = i + 1
	}
	onEveryDevice(t, func(t *testing.T, c Config) {
		for _, of := range []struct {
			each  float64
			width int
			use   func(n *layer.Builder, x, table *G.Node) *G.Node
		}{
			{1.0 / 4096, 1, straight}, {1.0 / 1024, 1, straight}, {1.0 / 1024, 2, straight}, {1.0 / 1024, 2, turned},
			{1.0 / 4096, 1, threeUses},
		} {
			width, labels := of.width, 2+lookups*of.width
			x, ids, y := make([]float32, records*width), make([]float32, records*lookups), make([]float32, records*labels)
			x[0], y[0], y[2] = 1<<20, 1<<20, -1<<40
			for i := 1; i < lookups; i++ {
				ids[i] = data.Pad
			}
			for r := 1; r < records; r++ {
				for i := range lookups {
					y[r*labels+2+i*width] = float32(of.each / 2)
				}
			}
			var err error
			if c.Train, err = data.NewTable([]data.Column{
				{Name: "x", Shape: []int{width}}, {Name: "ids", Kind: data.Index, Classes: 2, Shape: []int{lookups}},
				{Name: "y", Kind: data.Target, Shape: []int{labels}},
			}, [][]float32{x, ids, y}, nil); err != nil {
				t.Fatal(err)
			}
			c.Network, c.Sampling.Lot, c.Sampling.Rate, c.Microbatch = network(width, of.use), 0, 1, records
			without := lotSum(t, c, 0, others...)
			for _, at := range []int{0, 256} {
				with := lotSum(t, c, 0, slices.Insert(slices.Clone(others), at, 0)...)
				if got := euclideanDistance(with, without); !(got <= 1) {
					t.Errorf("in place %d the record moves the sum by %v, and the bound is 1", at, got)
				}
			}
		}
	})
}
