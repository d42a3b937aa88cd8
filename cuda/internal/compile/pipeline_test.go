//go:build gpu

package compile

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/clipping"
	"github.com/dptrain/dptrain/internal/device/cpu"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models"
	"github.com/dptrain/dptrain/noise"
)

// lots are some lots of a network's microbatches, the last microbatch of each not full,
// and their data set.
type lots struct {
	network
	program *plan.Program
	set     [][]float32
	rows    [][][]int // of each lot's microbatches
	clipper *clipping.Clipper
}

func newLots(t testing.TB, n network) lots {
	t.Helper()
	return newLotsFor(t, n, false)
}

// newLotsFor is newLots for one of the arithmetics.
func newLotsFor(t testing.TB, n network, exact bool) lots {
	t.Helper()
	const examples = 40
	l := lots{network: n}
	l.program, l.clipper = n.compiledFor(t, exact)
	r := rand.New(rand.NewPCG(1, 7))
	for _, in := range l.program.Buffers {
		if in.Role != plan.RoleInput {
			continue
		}
		column := make([]float32, in.Size()/n.batch*examples)
		for i := range column {
			switch {
			case len(l.set) == 1:
				column[i] = float32(r.IntN(n.example.Classes))
			case n.example.Vocabulary > 0:
				column[i] = float32(r.IntN(n.example.Vocabulary))
			default:
				column[i] = float32(r.NormFloat64())
			}
		}
		l.set = append(l.set, column)
	}
	for range n.steps {
		var lot [][]int
		for at, all := 0, r.Perm(examples)[:4*n.batch+1]; at < len(all); at += n.batch {
			lot = append(lot, all[at:min(at+n.batch, len(all))])
		}
		l.rows = append(l.rows, lot)
	}
	return l
}

// read copies rows of the set, as the engine's data set does.
func (l lots) read(to [][]float32, rows []int) error {
	for k, column := range l.set {
		width := len(column) / 40
		for i, row := range rows {
			copy(to[k][i*width:(i+1)*width], column[row*width:])
		}
	}
	return nil
}

// put fills an executable's inputs with a microbatch: its mask seeds, and its examples
// followed by zeros, or, if the data set is on the device, its rows.
func (l lots) put(t testing.TB, m plan.Executable, rows []int, resident []int32, step int) {
	t.Helper()
	clear(m.MaskSeed())
	for i, row := range rows {
		if c := m.Contributions(); c != nil {
			c.Seeds[i] = uint64(row*100+step) * 0x9e3779b97f4a7c15
		}
		if len(m.MaskSeed()) > 0 {
			op.WriteMaskSeed(m.MaskSeed()[i*op.MaskSeedWidth:], uint64(row), step)
		}
		if resident != nil {
			resident[i] = int32(row)
		}
	}
	if resident != nil {
		return
	}
	var to [][]float32
	for k := range l.set {
		clear(m.Input(k))
		to = append(to, m.Input(k))
	}
	if err := l.read(to, rows); err != nil {
		t.Fatal(err)
	}
}

// run trains, with work as the way to run a microbatch, and returns the weights.
func (l lots) run(t *testing.T, m plan.Executable, work func(step int, rows []int)) [][]float32 {
	t.Helper()
	release := plan.Release{Source: noise.NewSeeded(1), Scale: 1 / float64(4*l.batch), Optimizer: plan.Optimizer{Kind: plan.SGD}, Rate: 0.5}
	for v := range l.program.Parameters {
		release.Sigma = append(release.Sigma, 0.1)
		if c := m.Contributions(); c != nil { // for a bound of 1
			c.Steps[v], release.Sigma[v] = plan.Bound, 0.1*plan.Bound
			release.Unit = append(release.Unit, 1.0/plan.Bound)
		}
	}
	for step, lot := range l.rows {
		if err := l.clipper.BeginLot(step); err != nil {
			t.Fatal(err)
		}
		for _, rows := range lot {
			work(step, rows)
		}
		if p, ok := m.(*Executable); ok {
			counts := plan.LotCounts{Within: make([]int, p.pipeline.groups)}
			if err := p.FinishLot(&counts); err != nil {
				t.Fatal(err)
			}
		}
		release.Step, release.Lot = step+1, uint64(step)
		if err := m.Release(&release); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.SyncState(); err != nil {
		t.Fatal(err)
	}
	return m.State().Weights
}

// onCPU trains on the CPU with clip factors computed by the host.
func (l lots) onCPU(t *testing.T) [][]float32 {
	m, err := cpu.New(l.program, plan.Optimizer{Kind: plan.SGD}, false, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	var squared, factors [][]float32
	for v := range l.program.Parameters {
		squared, factors = append(squared, m.SquaredNorms(v)), append(factors, m.ClipFactors(v))
	}
	return l.run(t, m, func(step int, rows []int) {
		l.put(t, m, rows, nil, step)
		if err := m.Forward(); err != nil {
			t.Fatal(err)
		}
		if err := l.clipper.ComputeFactors(factors[:1], squared, len(rows)); err != nil {
			t.Fatal(err)
		}
		for _, f := range factors[1:] {
			copy(f, factors[0])
		}
		if err := m.AddClippedSums(); err != nil {
			t.Fatal(err)
		}
	})
}

// push is a way to queue the microbatch in the current slot.
type push func(m *Executable, records int, bounds []float64) error

// onDevice trains with the data set on the device, or with copies of each microbatch
// during the work on the previous one.
func (l lots) onDevice(t *testing.T, resident bool, push push) [][]float32 {
	t.Helper()
	defer func(share float64) { maxDataSetShare = share }(maxDataSetShare)
	if !resident {
		maxDataSetShare = 0
	}
	made, err := New(l.program, plan.Optimizer{Kind: plan.SGD}, false, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := made.Close(); err != nil {
			t.Error(err)
		}
	})
	m := made.(*Executable)
	if err := l.clipper.BeginLot(0); err != nil {
		t.Fatal(err)
	}
	formula, ok := l.clipper.Formula()
	if !ok {
		t.Fatal("the clipper has no formula")
	}
	if err := m.Configure(formula, 40, l.read); err != nil {
		t.Fatal(err)
	}
	if (m.Rows() != nil) != resident {
		t.Fatalf("rows are taken: %v", m.Rows() != nil)
	}
	return l.run(t, m, func(step int, rows []int) {
		l.put(t, m, rows, m.Rows(), step)
		if err := push(m, len(rows), l.clipper.Sensitivities()); err != nil {
			t.Fatal(err)
		}
	})
}

func streamed() []network {
	return []network{
		{"mlp:50,dropout=0.5", models.DataSpec{Shape: []int{30}, Classes: 10}, 6, 3},
		{"lstm", models.DataSpec{Shape: []int{5}, Vocabulary: 50, Classes: 2}, 3, 2},
	}
}

// A data set that does not stay on the device gives the same bits as one that does, and
// the CPU's weights.
func TestPipeline_CopiesDuringWork(t *testing.T) {
	device(t)
	for _, n := range streamed() {
		for _, exact := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/exact=%v", n.model, exact), func(t *testing.T) {
				l, limit := newLotsFor(t, n, exact), allowedWeights(t)
				if exact {
					limit = max(limit, 2e-3) // the CPU rounds the rows of a product, this device the gradient
				}
				want := l.onCPU(t)
				resident := l.onDevice(t, true, (*Executable).Push)
				copied := l.onDevice(t, false, (*Executable).Push)
				for v := range want {
					same(t, l.program.Parameters[v].Name, copied[v], resident[v])
					if d := apart(copied[v], want[v]); !(d <= limit) {
						t.Errorf("vector %d: weights differ from the CPU's by %.2g of the largest", v, d)
					}
				}
			})
		}
	}
}

// Missing waits between copies, work and the host are detected: the emulated device runs
// everything as late as possible.
func TestPipeline_DetectsMissingWaits(t *testing.T) {
	device(t)
	list, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	if !list[0].Emulated() {
		t.Skip("a GPU does not show it each time")
	}
	l := newLots(t, streamed()[0])
	want := l.onDevice(t, false, (*Executable).Push)
	for name, fault := range map[string]push{
		"the work does not wait for the copies": func(m *Executable, records int, bounds []float64) error {
			p := m.pipeline
			s := &p.slots[p.current]
			err := cmp.Or(p.writeHeader(s, records, bounds), p.copyInputs(s))
			err = cmp.Or(err, p.launch(s))
			p.current = 1 - p.current
			return cmp.Or(err, p.slots[p.current].done.Synchronize())
		},
		"the host does not wait for the other slot": func(m *Executable, records int, bounds []float64) error {
			p := m.pipeline
			s := &p.slots[p.current]
			err := cmp.Or(p.writeHeader(s, records, bounds), p.copyInputs(s))
			err = cmp.Or(err, m.device.WaitEvent(s.copied))
			p.current = 1 - p.current
			return cmp.Or(err, p.launch(s))
		},
	} {
		got := l.onDevice(t, false, fault)
		differ := 0
		for v := range want {
			for i := range want[v] {
				if math.Float32bits(got[v][i]) != math.Float32bits(want[v][i]) {
					differ++
				}
			}
		}
		if differ == 0 {
			t.Errorf("%s, and nothing shows it", name)
		}
	}
}

// pipelineOf is a network's executable with a pipeline and the data set on the device.
func (l lots) pipelineOf(t *testing.T, o plan.Optimizer) *Executable {
	t.Helper()
	m := machineOf(t, l.program, o).(*Executable)
	if err := l.clipper.BeginLot(0); err != nil {
		t.Fatal(err)
	}
	formula, ok := l.clipper.Formula()
	if !ok {
		t.Fatal("the clipper has no formula")
	}
	if err := m.Configure(formula, 40, l.read); err != nil {
		t.Fatal(err)
	}
	return m
}

// releaseOf is a release of a lot with noise.
func (l lots) releaseOf(m *Executable, o plan.Optimizer) *plan.Release {
	release := &plan.Release{Source: noise.NewSeeded(1), Scale: 1 / float64(4*l.batch), Optimizer: o, Rate: 0.5}
	for v := range l.program.Parameters {
		release.Sigma = append(release.Sigma, 0.1)
		if c := m.Contributions(); c != nil { // for a bound of 1
			c.Steps[v], release.Sigma[v] = plan.Bound, 0.1*plan.Bound
			release.Unit = append(release.Unit, 1.0/plan.Bound)
		}
	}
	return release
}

// A lot of one microbatch makes these calls. An exact release launches two kernels in place of one, and
// copies nothing: the host waits for it after the next microbatch is queued.
func TestPipeline_CountsCalls(t *testing.T) {
	device(t)
	for exact, want := range map[bool]driver.Calls{
		false: {Launches: 1, Graphs: 1, Copies: 1, Fills: 1, Waits: 1, EventWaits: 1},
		true:  {Launches: 2, Graphs: 1, Copies: 1, Fills: 1, Waits: 1, EventWaits: 2},
	} {
		t.Run(fmt.Sprintf("exact=%v", exact), func(t *testing.T) {
			l := newLotsFor(t, streamed()[0], exact)
			sgd := plan.Optimizer{Kind: plan.SGD}
			m := l.pipelineOf(t, sgd)
			release := l.releaseOf(m, sgd)
			var calls []driver.Calls
			for lot := range 3 {
				before := m.device.Calls()
				rows := l.rows[0][0]
				l.put(t, m, rows, m.Rows(), lot)
				counts := plan.LotCounts{Within: make([]int, m.pipeline.groups)}
				release.Step, release.Lot = lot+1, uint64(lot)
				for _, f := range []func() error{
					func() error { return m.Push(len(rows), l.clipper.Sensitivities()) },
					func() error { return m.FinishLot(&counts) },
					func() error { return m.Release(release) },
				} {
					if err := f(); err != nil {
						t.Fatal(err)
					}
				}
				after := m.device.Calls()
				calls = append(calls, driver.Calls{
					Launches: after.Launches - before.Launches, Graphs: after.Graphs - before.Graphs, Copies: after.Copies - before.Copies,
					Fills: after.Fills - before.Fills, Waits: after.Waits - before.Waits, EventWaits: after.EventWaits - before.EventWaits,
				})
			}
			if calls[1] != want || calls[2] != want { // the first lot uploads standard deviations
				t.Errorf("the lots make the calls %+v, want %+v", calls[1:], want)
			}
		})
	}
}

// A release whose last values the host decides, while the next microbatch runs, gives the bits of one that
// the host completes first: weights, sums, counts and losses.
func TestPipeline_RepeatsMicrobatchAfterLateDecisions(t *testing.T) {
	device(t)
	l := newLotsFor(t, streamed()[0], true)
	adam := plan.Optimizer{Kind: plan.Adam, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-3}
	type result struct {
		weights []float32
		sums    []int64
		counts  plan.LotCounts
		parts   [2]int
		graphs  int64
	}
	run := func(complete bool) (r result) {
		m := l.pipelineOf(t, adam)
		release := l.releaseOf(m, adam)
		gaussian := noise.RoundedGaussian{Sigma: 0x1.6p59} // the host decides sums next to the boundary of a cell
		for v := range release.Sigma {
			release.Sigma[v], release.Unit[v] = gaussian.Sigma, 0x1p-59
		}
		push := func(lot int, rows []int) {
			l.put(t, m, rows, m.Rows(), lot)
			if err := m.Push(len(rows), l.clipper.Sensitivities()); err != nil {
				t.Fatal(err)
			}
		}
		const hard = 20
		for lot, microbatches := range l.rows[:3] {
			before := m.device.Calls().Graphs
			for _, rows := range microbatches {
				push(lot, rows)
			}
			r.graphs = m.device.Calls().Graphs - before
			r.counts = plan.LotCounts{Within: make([]int, m.pipeline.groups)}
			if err := m.FinishLot(&r.counts); err != nil {
				t.Fatal(err)
			}
			r.parts[0], r.parts[1] = m.Contributions().Reduced, m.Contributions().Omitted
			release.Step, release.Lot = lot+1, uint64(lot)
			if lot == 2 {
				break
			}
			for v := range 2 {
				low, _ := boundaries(t, gaussian, release.Source, release.Stream(v), hard)
				if err := m.memory.upload(m.state.parameters[v].sum, bytesOf(low)); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.Release(release); err != nil {
				t.Fatal(err)
			}
			release.Sigma[0] = math.NaN() // a release does not read its arguments later
			if complete {
				if err := cmp.Or(m.device.Synchronize(), m.completeRelease()); err != nil {
					t.Fatal(err)
				}
			}
			release.Sigma[0] = gaussian.Sigma
		}
		for v := range l.program.Parameters {
			sum, err := m.IntegerSum(v)
			if err != nil {
				t.Fatal(err)
			}
			r.sums = append(r.sums, sum...)
		}
		if err := m.SyncState(); err != nil {
			t.Fatal(err)
		}
		for _, w := range m.State().Weights {
			r.weights = append(r.weights, w...)
		}
		if _, remaining := m.release.rounding.count(0); remaining < hard/2 {
			t.Errorf("the host decides %d values", remaining)
		}
		return r
	}
	want, got := run(true), run(false)
	same(t, "weights", got.weights, want.weights)
	if !slices.Equal(got.sums, want.sums) || !slices.ContainsFunc(got.sums, func(x int64) bool { return x != 0 }) {
		t.Error("the sums of the next lot differ")
	}
	if !reflect.DeepEqual(got.counts, want.counts) || got.parts != want.parts || want.counts.Loss == 0 {
		t.Errorf("the next lot counts %+v and %v, want %+v and %v", got.counts, got.parts, want.counts, want.parts)
	}
	if got.graphs != want.graphs+1 {
		t.Errorf("the last lot launches %d graphs, want %d and one again", got.graphs, want.graphs)
	}
}
