package plantest

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
	G "gorgonia.org/gorgonia"
)

// ExactExecutable is an exact program with what the tests of contributions read in addition.
type ExactExecutable interface {
	plan.Executable
	// SquaredNormTaken is what record r took of its budget in a group in the last microbatch.
	SquaredNormTaken(group, r int) (int64, error)
	// PartCounts are the parts that were rounded again and omitted since the last call.
	PartCounts() (reduced, omitted int, err error)
}

// contributionNetwork is a network with four records, which can take any slot of a
// microbatch.
type contributionNetwork struct {
	name  string
	build perexample.Build
	draw  func(r *rand.Rand, column, size int) []float32 // a record's numbers

	examples int // of a record; 0: one
}

const contributingRecords = 4

func modelNetwork(t *testing.T, spec string, data models.DataSpec) contributionNetwork {
	t.Helper()
	build, err := models.Parse(spec, data, 3)
	if err != nil {
		t.Fatal(err)
	}
	return contributionNetwork{name: spec, build: build, draw: func(r *rand.Rand, column, size int) []float32 {
		x := make([]float32, size)
		for i := range x {
			switch {
			case column == 0 && data.Vocabulary > 0:
				x[i] = float32(r.IntN(data.Vocabulary))
			case column == 0 || data.Targets > 0:
				x[i] = float32(r.NormFloat64())
			default:
				x[i] = float32(r.IntN(data.Classes))
			}
		}
		return x
	}}
}

func customNetwork(name string, data models.DataSpec, body func(b *layer.Builder, x *G.Node) *G.Node) contributionNetwork {
	n := contributionNetwork{name: name}
	n.build = func(batch int) (*perexample.Network, error) {
		b := layer.NewBuilder(batch, 3)
		logits := body(b, b.Input("features", data.Shape...))
		b.SetLoss(layer.CrossEntropy(b, logits, b.Input("label")), logits)
		return b.Network()
	}
	n.draw = func(r *rand.Rand, column, size int) []float32 {
		x := make([]float32, size)
		for i := range x {
			if x[i] = float32(r.NormFloat64()); column > 0 {
				x[i] = float32(r.IntN(data.Classes))
			}
		}
		return x
	}
	return n
}

func contributionNetworks(t *testing.T) []contributionNetwork {
	text := models.DataSpec{Shape: []int{6}, Vocabulary: 30, Classes: 3}
	tokens := models.DataSpec{Shape: []int{6}, Vocabulary: 30, Classes: 30, LabelShape: []int{6}}
	picture := models.DataSpec{Shape: []int{4, 7, 7}, Classes: 3}
	return []contributionNetwork{
		modelNetwork(t, "logistic", models.DataSpec{Shape: []int{13}, Classes: 4}),
		modelNetwork(t, "mlp:40,30", models.DataSpec{Shape: []int{50}, Classes: 3}),
		modelNetwork(t, "mlp:40,30,dropout=0.5", models.DataSpec{Shape: []int{20}, Classes: 3}),
		modelNetwork(t, "mlp:300", models.DataSpec{Shape: []int{200}, Classes: 10}),
		modelNetwork(t, "mlp:8,act=tanh", models.DataSpec{Shape: []int{5}, Targets: 1}),
		modelNetwork(t, "mnist-cnn", models.DataSpec{Shape: []int{1, 28, 28}, Classes: 10}),
		modelNetwork(t, "digits-cnn:norm=batch", models.DataSpec{Shape: []int{1, 12, 12}, Classes: 10}),
		modelNetwork(t, "cifar-tanh", models.DataSpec{Shape: []int{3, 8, 8}, Classes: 10}),
		modelNetwork(t, "cifar-abadi", models.DataSpec{Shape: []int{3, 8, 8}, Classes: 10}),
		modelNetwork(t, "wrn16-4", models.DataSpec{Shape: []int{3, 4, 4}, Classes: 10}),
		modelNetwork(t, "wrn16-4:standardized", models.DataSpec{Shape: []int{3, 4, 4}, Classes: 10}),
		modelNetwork(t, "bow", text),
		modelNetwork(t, "embbag", text),
		modelNetwork(t, "lstm:20", text),
		modelNetwork(t, "gru:20", text),
		modelNetwork(t, "transformer", tokens),
		modelNetwork(t, "transformer:tied", tokens),
		customNetwork("grouped, dilated and transposed convolutions", picture, func(b *layer.Builder, x *G.Node) *G.Node {
			x = layer.Conv2D(b, x, "conv1", 6, layer.Window{Size: 3, Stride: 2, Pad: 2, Dilation: 2, Groups: 2}, layer.SiLU)
			x = layer.ConvTranspose2D(b, layer.InstanceNorm(b, x, "norm"), "conv2", 4,
				layer.Window{Size: 3, Stride: 2, Pad: 1, Groups: 2}, layer.LeakyReLU)
			return layer.Dense(b, layer.Flatten(b, x), "fc", 3, layer.Identity)
		}),
		customNetwork("convolution with many windows", models.DataSpec{Shape: []int{3, 16, 16}, Classes: 3}, func(b *layer.Builder, x *G.Node) *G.Node {
			x = layer.Conv2D(b, x, "conv1", 24, layer.Window{Size: 5, Pad: 2}, layer.ReLU)
			x = layer.Conv2D(b, x, "conv2", 32, layer.Window{Size: 3, Stride: 2}, layer.ReLU)
			return layer.Dense(b, layer.Flatten(b, x), "fc", 3, layer.Identity)
		}),
	}
}

// slots are the records in the slots of a microbatch; empty is a slot whose factor is 0 and
// whose examples are not numbers.
type slots []int

const empty = -1

// slotExecutable is an executable for some number of slots.
type slotExecutable struct {
	plan.Executable
	program *plan.Program
	network contributionNetwork
	before  [][]int64 // sums at the last call of add
	columns int
}

func (n contributionNetwork) compile(t *testing.T, compile Compile, slots, threads int, exact bool) *slotExecutable {
	t.Helper()
	return n.openWith(t, compile, slots, threads, plan.TrainingOptions{Norms: true, Exact: exact})
}

func (n contributionNetwork) openWith(t *testing.T, compile Compile, slots, threads int, options plan.TrainingOptions) *slotExecutable {
	t.Helper()
	p, err := perexample.Compile(n.build, slots, max(1, n.examples))
	if err != nil {
		t.Fatal(err)
	}
	program, err := plan.LowerTraining(p, options)
	if err != nil {
		t.Fatal(err)
	}
	m, err := compile(program, plan.Optimizer{Kind: plan.SGD}, false, threads)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.BatchNorms { // running statistics in the inputs behind the columns
		for c := range m.Input(len(p.Inputs) + 2*i) {
			m.Input(len(p.Inputs) + 2*i)[c], m.Input(len(p.Inputs) + 2*i + 1)[c] = float32(c%3)/4, 1+float32(c%2)
		}
	}
	return &slotExecutable{Executable: m, program: program.Stripped(), network: n, columns: len(p.Inputs),
		before: make([][]int64, len(program.Parameters))}
}

// open compiles the network and closes the executable when the test ends.
func (n contributionNetwork) open(t *testing.T, compile Compile, slots, threads int, exact bool) *slotExecutable {
	t.Helper()
	m := n.compile(t, compile, slots, threads, exact)
	t.Cleanup(func() { m.close(t) })
	return m
}

func (m *slotExecutable) close(t *testing.T) {
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// sum is the accumulator of parameter v of a program that adds floating-point numbers.
func (m *slotExecutable) sum(t *testing.T, v int) []float32 {
	t.Helper()
	switch e := m.Executable.(type) {
	case interface{ Sum(v int) []float32 }:
		return append([]float32(nil), e.Sum(v)...)
	case interface {
		Sum(v int) ([]float32, error)
	}:
		sum, err := e.Sum(v)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	t.Fatal("the executable has no accumulators to read")
	return nil
}

// integerSum is the accumulator of parameter v of an exact program.
func integerSum(t *testing.T, m plan.Executable, v int) []int64 {
	t.Helper()
	switch e := m.(type) {
	case interface{ IntegerSum(v int) []int64 }:
		return append([]int64(nil), e.IntegerSum(v)...)
	case interface {
		IntegerSum(v int) ([]int64, error)
	}:
		sum, err := e.IntegerSum(v)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	t.Fatal("the executable has no integer accumulators to read")
	return nil
}

func (m *slotExecutable) squaredNormTaken(t *testing.T, group, r int) int64 {
	t.Helper()
	taken, err := m.Executable.(ExactExecutable).SquaredNormTaken(group, r)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

func (m *slotExecutable) partCounts(t *testing.T) (reduced, omitted int) {
	t.Helper()
	reduced, omitted, err := m.Executable.(ExactExecutable).PartCounts()
	if err != nil {
		t.Fatal(err)
	}
	return reduced, omitted
}

// load writes the examples of records and their factors.
func (m *slotExecutable) load(t *testing.T, s slots, factors []float32) {
	t.Helper()
	for slot, record := range s {
		for _, b := range m.program.Buffers {
			if b.Role != plan.RoleInput || b.Index >= m.columns {
				continue
			}
			size := b.Size() / len(s)
			to := m.Input(b.Index)[slot*size : (slot+1)*size]
			if record == empty {
				for i := range to {
					to[i] = float32(math.NaN())
				}
				continue
			}
			r := rand.New(rand.NewPCG(uint64(record), uint64(b.Index)))
			copy(to, m.network.draw(r, b.Index, size))
		}
		for i := range m.ExampleWeights() {
			m.ExampleWeights()[i] = 1 / float32(m.network.examples)
		}
		if seeds := m.MaskSeed(); seeds != nil {
			op.WriteMaskSeed(seeds[slot*op.MaskSeedWidth:], uint64(record+1), 3)
		}
		if c := m.Contributions(); c != nil && record != empty {
			c.Seeds[slot] = uint64(record)*0x9E3779B97F4A7C15 + 7
		}
		for v := range m.program.Parameters {
			factor := float32(0)
			if record != empty {
				factor = factors[record]
			}
			m.ClipFactors(v)[slot] = factor
		}
	}
}

// add adds the contributions of a microbatch and returns the sums since the last call.
func (m *slotExecutable) add(t *testing.T, s slots, factors []float32) (sums [][]int64) {
	t.Helper()
	m.load(t, s, factors)
	return m.run(t)
}

// run adds the contributions of the loaded microbatch and returns the sums since the last call.
func (m *slotExecutable) run(t *testing.T) (sums [][]int64) {
	t.Helper()
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	if err := m.AddClippedSums(); err != nil {
		t.Fatal(err)
	}
	for v := range m.program.Parameters {
		after := integerSum(t, m.Executable, v)
		added := append([]int64(nil), after...)
		for i, x := range m.before[v] {
			added[i] -= x
		}
		m.before[v] = after
		sums = append(sums, added)
	}
	return sums
}

// squaredNorms returns the squared gradient norms of each parameter for the record in a slot.
func (m *slotExecutable) squaredNorms(slot int) (norms []float32) {
	for v := range m.program.Parameters {
		norms = append(norms, m.SquaredNorms(v)[slot])
	}
	return norms
}

// gradients returns a record's gradient of every parameter, from a program that adds
// floating-point numbers.
func (n contributionNetwork) gradients(t *testing.T, compile Compile, record int) (all [][]float32, norm float64) {
	t.Helper()
	m := n.compile(t, compile, 1, 1, false)
	defer m.close(t) // a device may lack memory for the programs of all records
	factors := make([]float32, contributingRecords)
	factors[record] = 1
	m.load(t, slots{record}, factors)
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	if err := m.AddClippedSums(); err != nil {
		t.Fatal(err)
	}
	for v := range m.program.Parameters {
		sum := m.sum(t, v)
		all = append(all, sum)
		for _, x := range sum {
			norm += float64(x) * float64(x)
		}
	}
	return all, math.Sqrt(norm)
}

// squaredNorm is the squared norm of integers, in arbitrary precision.
func squaredNorm(sums [][]int64) *big.Int {
	norm := new(big.Int)
	for _, sum := range sums {
		for _, x := range sum {
			norm.Add(norm, new(big.Int).Mul(big.NewInt(x), big.NewInt(x)))
		}
	}
	return norm
}

// ContributionBounds checks that a factor that is too large, or numbers that are not finite, do
// not make a contribution longer than the bound. A gradient of rows that cancel is added as any
// other gradient.
func ContributionBounds(t *testing.T, compile Compile, threads int) {
	cancelling := customNetwork("cancelling rows", models.DataSpec{Shape: []int{2, 40}, Classes: 3}, func(b *layer.Builder, x *G.Node) *G.Node {
		h := layer.Dense(b, x, "fc", 30, layer.Identity)
		row := func(i int) *G.Node {
			return b.Try(func() (*G.Node, error) { return G.Slice(h, nil, G.S(i)) })
		}
		difference := b.Try(func() (*G.Node, error) { return G.Sub(row(0), row(1)) })
		return layer.Dense(b, difference, "last", 3, layer.Identity)
	})
	draw := cancelling.draw
	cancelling.draw = func(r *rand.Rand, column, size int) []float32 {
		x := draw(r, column, size)
		for i := range size / 2 {
			x[size/2+i] = x[i] + 1e-4*x[size/2+i]
		}
		return x
	}
	for _, n := range append(contributionNetworks(t), cancelling) {
		t.Run(n.name, func(t *testing.T) {
			if threads > 1 {
				t.Parallel()
			}
			exact, length := n.gradients(t, compile, 2)
			m := n.open(t, compile, 2, threads, true)
			for v := range m.program.Parameters {
				m.Contributions().Steps[v] = plan.Bound
			}
			for _, times := range []float64{0.9, 1.5, 40, 1e5, 1e20, math.Inf(1), math.NaN()} {
				factors := []float32{2: float32(times / length)}
				m.partCounts(t)
				sums := m.add(t, slots{2, empty}, factors)
				norm := squaredNorm(sums)
				if taken := m.squaredNormTaken(t, 0, 0); norm.Cmp(big.NewInt(taken)) != 0 || taken > plan.Bound*plan.Bound {
					t.Errorf("%g times the bound: squared norm %v, and %d was taken of %d", times, norm, taken, int64(plan.Bound*plan.Bound))
				}
				switch reduced, omitted := m.partCounts(t); {
				case times < 1 && (reduced+omitted > 0 || norm.Cmp(big.NewInt(plan.Bound*plan.Bound/2)) < 0):
					t.Errorf("%g times the bound: %d parts were reduced, %d omitted, squared norm %v", times, reduced, omitted, norm)
				case times > 1 && !math.IsInf(times, 1) && reduced+omitted == 0:
					t.Errorf("%g times the bound: no part was reduced", times)
				}
				if times == 1.5 { // a part that is reduced keeps its direction
					for v, sum := range sums {
						if c, long := cosine(sum, exact[v]); long && c < 0.95 {
							t.Errorf("%g times the bound: the cosine of parameter %d's contribution and its gradient is %.3f", times, v, c)
						}
					}
				}
			}
			for _, x := range []float32{float32(math.Inf(1)), float32(math.NaN()), math.MaxFloat32, 1e-38} {
				m.load(t, slots{2, empty}, []float32{2: float32(1 / length)})
				for i := range m.Input(0) {
					m.Input(0)[i] = x
				}
				sums := m.run(t)
				if taken := m.squaredNormTaken(t, 0, 0); squaredNorm(sums).Cmp(big.NewInt(taken)) != 0 || taken > plan.Bound*plan.Bound {
					t.Errorf("inputs %v: squared norm %v, and %d was taken", x, squaredNorm(sums), taken)
				}
			}
		})
	}
}

// cosine returns the cosine of the angle between integers and numbers, and whether the integers are
// so long that their roundings do not matter.
func cosine(x []int64, y []float32) (c float64, long bool) {
	var xx, xy, yy float64
	for i, v := range x {
		a, b := float64(v), float64(y[i])
		xx, xy, yy = xx+a*a, xy+a*b, yy+b*b
	}
	return xy / math.Sqrt(xx*yy), xx > 0x1p32+4*float64(len(x))
}

func equalSums(a, b [][]int64) error {
	for v := range a {
		for i := range a[v] {
			if a[v][i] != b[v][i] {
				return fmt.Errorf("parameter %d, element %d: %d and %d", v, i, a[v][i], b[v][i])
			}
		}
	}
	return nil
}

// Contributions checks the integers that a record adds. They are bounded by Bound in norm, and
// their squared norm is the one that was taken from its budget, in arbitrary precision. They are
// the record's clipped gradient up to the rounding to the lattice. They do not depend on the other
// records, on the slot, on the number of slots or on the number of threads, and neither do the squared norms that
// clip factors are computed from; and a microbatch adds the sum of what its records add. It skips the
// networks of these names. Where rows are longer than their sum, Losses compares
// integers with gradients.
func Contributions(t *testing.T, compile Compile, threads int, skip ...string) {
	networks := contributionNetworks(t)
	for i, n := range append(networks, lossNetworks(100)...) {
		if slices.Contains(skip, n.name) {
			continue
		}
		t.Run(n.name, func(t *testing.T) {
			if threads > 1 {
				t.Parallel()
			}
			var factors []float32
			var exact [][][]float32
			var lengths []float64
			for record := range contributingRecords {
				gradient, norm := n.gradients(t, compile, record)
				exact, lengths, factors = append(exact, gradient), append(lengths, norm), append(factors, factorOf(record, norm))
			}
			n.checkContributions(t, compile, threads, factors, func(record int, sums [][]int64) {
				length := float64(factors[record]) * lengths[record] * plan.Bound
				deviation, elements := deviationOf(sums, exact[record], float64(factors[record]))
				limit := 0.02*length + 2*math.Sqrt(float64(elements)) + 2*math.Sqrt(length*math.Sqrt(float64(elements)))
				if i < len(networks) && !(deviation < limit) {
					t.Errorf("record %d: the contribution is off by %.0f of %.0f steps", record, deviation, length)
				}
			})
		})
	}
}

// factorOf is the clip factor of a record. Record 1 is far below the bound of 1, the others are at it.
func factorOf(record int, norm float64) float32 {
	if record == 1 {
		norm *= 1e4
	}
	return float32((1 - 1.0/256) / norm)
}

// deviationOf is the distance of integers from a gradient times its factor, in lattice steps.
func deviationOf(sums [][]int64, gradient [][]float32, factor float64) (deviation float64, elements int) {
	for v, sum := range sums {
		for i, x := range sum {
			d := float64(x) - factor*float64(gradient[v][i])*plan.Bound
			deviation += d * d
		}
		elements += len(sum)
	}
	return math.Sqrt(deviation), elements
}

// checkContributions checks what each record adds alone, also by a function, and that records together
// add the sum of it.
func (n contributionNetwork) checkContributions(t *testing.T, compile Compile, threads int,
	factors []float32, check func(record int, sums [][]int64)) {
	m := n.open(t, compile, contributingRecords, threads, true)
	prepare := func(m *slotExecutable) {
		for v := range m.program.Parameters {
			m.Contributions().Steps[v] = plan.Bound
		}
	}
	prepare(m)
	want := make([][]int64, len(m.program.Parameters))
	var alone [][][]int64
	var norms [][]float32 // [record][parameter]
	for record := range contributingRecords {
		s := slots{empty, empty, empty, empty}
		s[record] = record
		sums := m.add(t, s, factors)
		alone, norms = append(alone, sums), append(norms, m.squaredNorms(record))
		for v, sum := range sums {
			want[v] = append(want[v], make([]int64, len(sum)-len(want[v]))...)
			for i, x := range sum {
				want[v][i] += x
			}
		}
		norm := squaredNorm(sums)
		if norm.Cmp(big.NewInt(plan.Bound*plan.Bound)) > 0 {
			t.Errorf("record %d: squared norm %v exceeds the bound", record, norm)
		}
		if taken := m.squaredNormTaken(t, 0, record); norm.Cmp(big.NewInt(taken)) != 0 {
			t.Errorf("record %d: squared norm %v, and %d was taken from the budget", record, norm, taken)
		}
		check(record, sums)
	}
	if reduced, omitted := m.partCounts(t); reduced+omitted > 0 {
		t.Errorf("%d parts reduced, %d omitted", reduced, omitted)
	}
	if err := equalSums(m.add(t, slots{0, 1, 2, 3}, factors), want); err != nil {
		t.Errorf("all records together: %v", err)
	}
	if err := equalSums(m.add(t, slots{2, 3, 1, 0}, factors), want); err != nil {
		t.Errorf("records in other slots: %v", err)
	}
	if err := equalSums(m.add(t, slots{empty, 3, empty, empty}, factors), alone[3]); err != nil {
		t.Errorf("one record in another slot: %v", err)
	}
	one, three := n.open(t, compile, 9, 1, true), n.open(t, compile, 9, threads+1, true)
	prepare(one)
	prepare(three)
	want = one.add(t, slots{3, empty, 1, empty, 2, empty, 0, empty, empty}, factors)
	for slot, record := range map[int]int{0: 3, 2: 1, 4: 2, 6: 0} {
		if got := one.squaredNorms(slot); !slices.Equal(got, norms[record]) {
			t.Errorf("record %d among nine slots has the squared norms %v, and among %d %v", record, got, contributingRecords, norms[record])
		}
	}
	if err := equalSums(three.add(t, slots{empty, empty, empty, 0, 1, 2, 3, empty, empty}, factors), want); err != nil {
		t.Errorf("nine slots, other threads: %v", err)
	}
}
