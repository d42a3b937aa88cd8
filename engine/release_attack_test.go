package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/release"
	"github.com/dptrain/dptrain/engine/internal/state"
	"github.com/dptrain/dptrain/engine/optim"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"

	G "gorgonia.org/gorgonia"
)

// attackedNetwork is a network for which a record of zeros contributes exactly nothing.
type attackedNetwork struct {
	name  string
	input data.Column
	x     func(r *rand.Rand) float32 // a number of the attacked record's input; others have zero
	other float32                    // the input of the other records
	size  int                        // of the target
	build func(n *layer.Builder, x *G.Node) *G.Node
}

// attackedNetworks has every kind of use of a parameter.
func attackedNetworks() []attackedNetwork {
	normal := func(r *rand.Rand) float32 { return float32(r.NormFloat64()) }
	word := func(r *rand.Rand) float32 { return float32(r.IntN(8)) }
	words := data.Column{Name: "x", Kind: data.Index, Classes: 8, Shape: []int{4}}
	product := func(rows int) func(n *layer.Builder, x *G.Node) *G.Node {
		return func(n *layer.Builder, x *G.Node) *G.Node {
			w := n.Parameter("w", layer.Constant(0), 16, 16)
			x = layer.Reshape(n, x, rows, 16)
			return layer.Flatten(n, n.Try(func() (*G.Node, error) {
				flat, err := G.Reshape(x, []int{x.Shape()[0] * rows, 16})
				if err != nil {
					return nil, err
				}
				p, err := G.Mul(flat, w)
				if err != nil {
					return nil, err
				}
				return G.Reshape(p, []int{x.Shape()[0], rows, 16})
			}))
		}
	}
	elementwise := func(f func(x, y *G.Node, left, right []byte) (*G.Node, error)) func(n *layer.Builder, x *G.Node) *G.Node {
		return func(n *layer.Builder, x *G.Node) *G.Node {
			v := n.Parameter("v", layer.Constant(0), 1, 256)
			return n.Try(func() (*G.Node, error) { return f(x, v, nil, []byte{0}) })
		}
	}
	return []attackedNetwork{
		{"product of one row", data.Column{Name: "x", Shape: []int{16}}, normal, 0, 16, product(1)},
		{"product of several rows", data.Column{Name: "x", Shape: []int{48}}, normal, 0, 48, product(3)},
		{"product of many rows", data.Column{Name: "x", Shape: []int{192}}, normal, 0, 192, product(12)},
		{"shift", data.Column{Name: "x", Shape: []int{256}}, normal, 0, 256, elementwise(G.BroadcastAdd)},
		{"scale", data.Column{Name: "x", Shape: []int{256}}, normal, 0, 256, elementwise(G.BroadcastHadamardProd)},
		{"gather", words, word, data.Pad, 128, func(n *layer.Builder, x *G.Node) *G.Node {
			return layer.Flatten(n, layer.Lookup(n, n.Parameter("table", layer.Constant(0), 8, 32), x))
		}},
		{"several kinds", words, word, data.Pad, 32, func(n *layer.Builder, x *G.Node) *G.Node {
			table := n.Parameter("table", layer.Constant(0.125), 8, 32)
			return layer.Flatten(n, layer.TiedLogits(n, layer.Lookup(n, table, x), table))
		}},
		{"function of a parameter", data.Column{Name: "x", Shape: []int{16}}, normal, 0, 16, func(n *layer.Builder, x *G.Node) *G.Node {
			w := layer.StandardizeWeight(n, n.Parameter("w", layer.Normal(1), 16, 16))
			return n.Try(func() (*G.Node, error) { return G.Mul(x, w) })
		}},
		{"convolution", data.Column{Name: "x", Shape: []int{1, 8, 8}}, normal, 0, 16 * 16, func(n *layer.Builder, x *G.Node) *G.Node {
			n.UseBias(false)
			return layer.Flatten(n, layer.Conv2D(n, x, "conv", 16, layer.Window{Size: 5}, layer.Identity))
		}},
	}
}

// attackRecords is the number of records of an attacked run, a power of two, so that no rounding
// hides a sum.
const attackRecords = 4

// attackedRelease is what the attacker reads.
type attackedRelease string

const (
	attackedWeights    attackedRelease = "weights"
	attackedAverage    attackedRelease = "average"
	attackedCheckpoint attackedRelease = "checkpoint" // its file, with a momentum per weight
)

func (a attackedNetwork) config(t *testing.T, device string, present bool, arithmetic Arithmetic, release attackedRelease) Config {
	columns := []data.Column{a.input, {Name: "y", Kind: data.Target, Shape: []int{a.size}}}
	width := a.input.Size()
	x, y := make([]float32, attackRecords*width), make([]float32, attackRecords*a.size)
	for i := range x {
		x[i] = a.other
	}
	if present {
		r := rand.New(rand.NewPCG(3, 4))
		for i := range width {
			x[i] = a.x(r)
		}
		for i := range a.size {
			y[i] = float32(r.NormFloat64())
		}
	}
	table, err := data.NewTable(columns, [][]float32{x, y}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := testConfig(t)
	c.Seed, c.Device.Name = nil, device
	c.Network = func(batch int) (*perexample.Network, error) {
		n := layer.NewBuilder(batch, 1)
		p := a.build(n, n.Input("x", a.input.Shape...))
		n.SetLoss(layer.SquaredError(n, p, n.Input("y", a.size)), p)
		return n.Network()
	}
	c.Train, c.Sampling, c.Steps = table, Sampling{Rate: 1}, 1
	c.Mechanism = Mechanism{Clipping: clip.Flat(clip.Constant(1), nil), NoiseMultiplier: attackNoise, Arithmetic: arithmetic}
	c.Optimization = Optimization{Schedule: optim.Schedule{Base: attackRecords}} // the weights change by the noised sum
	switch release {
	case attackedAverage:
		c.Optimization.Average = optim.Average{Decay: 0.5}
	case attackedCheckpoint:
		c.Optimization.Optimizer = optim.Optimizer{Kind: optim.KindMomentum, Momentum: 0.5}
		c.Files.CheckpointFolder, c.Files.CheckpointInterval = filepath.Join(t.TempDir(), "checkpoint"), time.Hour
	}
	return c
}

// read returns what one lot released, and what it would be had the noised sum been 0. The
// momentum of a checkpoint is the first lot's gradient.
func (release attackedRelease) read(t *testing.T, r *Run, before []float32) (from, after []float32) {
	if release != attackedCheckpoint {
		return before, flatWeights(t, r)
	}
	r.step++ // gives the file a name of its own
	if err := r.checkpoints.Save(r.step); err != nil {
		t.Fatal(err)
	}
	names, err := state.List(r.config.Files.CheckpointFolder)
	if err != nil {
		t.Fatal(err)
	}
	c, err := openState(names[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, slots := range c.Memory.Slots {
		for _, momentum := range slots[0] {
			after = append(after, -attackRecords*momentum)
		}
	}
	return make([]float32, len(after)), after
}

// attackNoise gives ε ≤ 0.005 for one lot at δ = 10⁻⁶.
const attackNoise = 900

// unreachable counts the weights that no float32 normal number turns into the released weight.
func unreachable(before, after []float32) (n int) {
	sigma := float32(attackNoise)
	for i, w := range after {
		normal := float32((float64(before[i]) - float64(w)) / float64(sigma))
		found := false
		for candidate, steps := math.Nextafter32(math.Nextafter32(normal, -100), -100), 0; steps < 5 && !found; steps++ {
			sum := float32(float64(sigma) * float64(candidate)) // one rounding: the product is exact in float64
			found = float32(float64(before[i])-float64(sum)) == w
			candidate = math.Nextafter32(candidate, 100)
		}
		if !found {
			n++
		}
	}
	return n
}

// correlated reports whether the change of the weights has a positive product with the change that
// the attacked record's contribution makes: the test of the highest power against Gaussian noise.
func correlated(before, after, contribution []float32) bool {
	product, length := 0.0, 0.0
	for i, w := range after {
		product += (float64(before[i]) - float64(w)) * float64(contribution[i])
		length += float64(contribution[i]) * float64(contribution[i])
	}
	return product > length/2
}

// One lot at ε ≤ 0.005. The other records contribute exactly 0, so in floating point noise alone
// reaches only some weights, and a weight that it does not reach proves that the record was there
// (Mironov 2012). With exact arithmetic neither this attack nor the most powerful test against
// Gaussian noise is better than chance, from weights, averages or the momentum in checkpoints: each of the tests below
// fails with probability 10⁻⁶ where every attack is right half of the time, as ε allows up to a
// quarter of a percent. The sums of vectors of the caller and of changes of weights in local steps are
// attacked in float64: the released weights are roundings of these sums.
func TestAttack_UnreachableWeights(t *testing.T) {
	for name, open := range attackedSums() {
		for _, arithmetic := range []Arithmetic{FloatArithmetic, ExactArithmetic} {
			t.Run(fmt.Sprintf("%s/%s", name, arithmetic), func(t *testing.T) {
				t.Parallel()
				attackSum(t, open, arithmetic)
			})
		}
	}
	for _, device := range deviceNames() {
		for _, a := range attackedNetworks() {
			for _, arithmetic := range []Arithmetic{FloatArithmetic, ExactArithmetic} {
				for _, release := range []attackedRelease{attackedWeights, attackedAverage, attackedCheckpoint} {
					if release == attackedAverage && arithmetic == FloatArithmetic {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%s/%s", device, a.name, arithmetic, release), func(t *testing.T) {
						t.Parallel()
						a.attack(t, device, arithmetic, release)
					})
				}
			}
		}
	}
}

func (a attackedNetwork) attack(t *testing.T, device string, arithmetic Arithmetic, release attackedRelease) {
	lots := 64
	if arithmetic == FloatArithmetic {
		lots = 12
	}
	contribution := a.contribution(t, device, arithmetic)
	unreached, likely := 0, 0
	for _, present := range []bool{true, false} {
		c := a.config(t, device, present, arithmetic, release)
		c.Steps = lots
		r := newRun(t, c)
		before := flatWeights(t, r)
		for range lots { // each lot is the first: it begins with the same weights
			state := r.network.Executable.State()
			for v, from := 0, 0; v < len(state.Weights); v++ {
				from += copy(state.Weights[v], before[from:])
			}
			for _, average := range state.Average {
				clear(average)
			}
			for _, slots := range state.Slots {
				for _, slot := range slots {
					clear(slot)
				}
			}
			if err := r.network.Executable.LoadState(); err != nil {
				t.Fatal(err)
			}
			if err := r.runLot(); err != nil {
				t.Fatal(err)
			}
			from, after := release.read(t, r, before)
			if present == (unreachable(from, after) > 0) {
				unreached++
			}
			if present == correlated(from, after, contribution) {
				likely++
			}
		}
		r.Close()
		requireSmallEpsilon(t, c.Files.Ledger)
	}
	if arithmetic == FloatArithmetic {
		if unreached < 2*lots {
			t.Errorf("floating point: the attack was right %d of %d times; it has no power here", unreached, 2*lots)
		}
		return
	}
	requireChance(t, lots, map[string]int{"unreachable weights": unreached, "correlation": likely})
}

// requireChance checks that attacks on 2·lots lots, half of them with the record, are no better than
// chance.
func requireChance(t *testing.T, lots int, attacks map[string]int) {
	t.Helper()
	margin := 4.9 * math.Sqrt(float64(2*lots)) / 2 // 10⁻⁶ of the binomial distribution
	for name, right := range attacks {
		if math.Abs(float64(right-lots)) > margin {
			t.Errorf("%s: right %d of %d times", name, right, 2*lots)
		}
	}
}

// contribution returns what the attacked record adds to the sums.
func (a attackedNetwork) contribution(t *testing.T, device string, arithmetic Arithmetic) (all []float32) {
	r := newRun(t, a.config(t, device, true, arithmetic, attackedWeights))
	if err := r.sumLot(); err != nil {
		t.Fatal(err)
	}
	for _, sum := range accumulatedSums(r) {
		all = append(all, sum...)
	}
	if d := euclideanNorm(all); d < 0.9 {
		t.Fatalf("the record's contribution has norm %v: the attack has no power", d)
	}
	return all
}

// attackedSum is a sum of vectors of attackRecords records, which the host adds. Records other than
// the attacked one add exactly 0.
type attackedSum struct {
	add    func() error // adds the records of a lot
	lot    func() error // adds and releases a lot
	sums   *release.Vectors
	ledger string
	close  func() error
}

type openAttackedSum func(t *testing.T, present bool, arithmetic Arithmetic) attackedSum

func attackedSums() map[string]openAttackedSum {
	all := map[string]openAttackedSum{"vector sum": openAttackedVectors}
	for _, a := range attackedNetworks() {
		all["local steps/"+a.name] = a.openLocalSteps
	}
	return all
}

func openAttackedVectors(t *testing.T, present bool, arithmetic Arithmetic) attackedSum {
	c := vectorSumConfig(t)
	c.Vectors, c.Records, c.Sampling, c.Lots, c.Seed = []Vector{{Name: "attacked", Size: 256}}, attackRecords, Sampling{Rate: 1}, 64, nil
	c.Mechanism = Mechanism{Clipping: clip.Flat(clip.Constant(1), nil), NoiseMultiplier: attackNoise, Arithmetic: arithmetic}
	s := newVectorSum(t, c)
	vectors := make([][]float64, attackRecords)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range vectors {
		vectors[i] = make([]float64, 256)
		for j := range vectors[i] {
			if i == 0 && present {
				vectors[i][j] = r.NormFloat64()
			}
		}
	}
	add := func() error {
		for _, record := range startLot(t, s) {
			addVectors(t, s, record, 1, vectors[record:record+1])
		}
		return nil
	}
	return attackedSum{add: add, sums: s.lot.Mechanism.Vectors, ledger: c.Ledger, close: s.Close, lot: func() error {
		if err := add(); err != nil {
			return err
		}
		_, err := s.Release()
		return err
	}}
}

// openLocalSteps opens a run of one local step of four users. Each lot begins with the same weights.
func (a attackedNetwork) openLocalSteps(t *testing.T, present bool, arithmetic Arithmetic) attackedSum {
	c := a.config(t, "cpu", present, arithmetic, attackedWeights)
	columns := c.Train.Columns()
	numbers := make([][]float32, len(columns))
	for k := range columns {
		numbers[k] = make([]float32, attackRecords*columns[k].Size())
	}
	if err := c.Train.Read(numbers, sequence(attackRecords)); err != nil {
		t.Fatal(err)
	}
	owned, err := data.NewTable(columns, numbers, []int32{0, 1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	c.Train, c.Records, c.LocalTraining, c.Steps = owned, Records{Users: true, Examples: 1}, LocalTraining{Steps: 1, Rate: 8}, 64
	r := newRun(t, c)
	before := flatWeights(t, r)
	return attackedSum{add: r.sumLot, sums: r.lot.Mechanism.Vectors, ledger: c.Files.Ledger, close: r.Close, lot: func() error {
		state := r.network.Executable.State()
		for v, from := 0, 0; v < len(state.Weights); v++ {
			from += copy(state.Weights[v], before[from:])
		}
		return r.runLot()
	}}
}

func attackSum(t *testing.T, open openAttackedSum, arithmetic Arithmetic) {
	const lots = 64
	victim := open(t, true, arithmetic)
	if err := victim.add(); err != nil {
		t.Fatal(err)
	}
	sum := victim.sums.Sums[0]
	contribution := append([]float64{}, sum.Floats...)
	for _, x := range sum.Integers {
		contribution = append(contribution, float64(x)*sum.Length/float64(sum.Bound))
	}
	length := 0.0
	for _, x := range contribution {
		length += x * x
	}
	if length < 0.81 {
		t.Fatalf("the squared norm of the record's contribution is %v: the attack has no power", length)
	}
	unreached, likely := 0, 0
	for _, present := range []bool{true, false} {
		s := open(t, present, arithmetic)
		for range lots {
			if err := s.lot(); err != nil {
				t.Fatal(err)
			}
			product, unreachable := 0.0, false
			at := 0
			for _, mean := range s.sums.Means {
				for _, x := range mean {
					x *= attackRecords // exact
					product += x * contribution[at]
					unreachable = unreachable || !isReachable(x, attackNoise)
					at++
				}
			}
			if present == unreachable {
				unreached++
			}
			if present == (product > length/2) {
				likely++
			}
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		requireSmallEpsilon(t, s.ledger)
	}
	if arithmetic == FloatArithmetic {
		if unreached < 2*lots {
			t.Errorf("floating point: the attack was right %d of %d times; it has no power here", unreached, 2*lots)
		}
		return
	}
	requireChance(t, lots, map[string]int{"unreachable sums": unreached, "correlation": likely})
}

// requireSmallEpsilon checks that one lot of a ledger costs at most ε = 0.005.
func requireSmallEpsilon(t *testing.T, ledger string) {
	t.Helper()
	lot := readLedger(t, ledger)
	lot.Lots[0].Count = 1
	g, err := accountant.Epsilon(lot, 1e-6, "pld")
	if err != nil || g.Epsilon > 0.005 {
		t.Fatalf("ε of a lot is %v, error %v", g.Epsilon, err)
	}
}

func euclideanNorm(x []float32) float64 {
	var squares float64
	for _, v := range x {
		squares += float64(v) * float64(v)
	}
	return math.Sqrt(squares)
}
