//go:build gpu

package compile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/plan"
	"github.com/dptrain/dptrain/models"
)

// Of any two steps that conflict, the later depends on the earlier, directly or
// indirectly, and no dependency is implied by another.
func TestDependencies_CoverConflicts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	some := func() (spans []span) {
		for range r.IntN(3) {
			from := driver.Pointer(r.IntN(60))
			spans = append(spans, span{from, from + driver.Pointer(r.IntN(8))})
		}
		return spans
	}
	touches := func(list []span, at driver.Pointer) bool {
		for _, s := range list {
			if s.from <= at && at < s.to {
				return true
			}
		}
		return false
	}
	conflict := func(a, b *access) bool { // looked at byte by byte
		for at := range driver.Pointer(70) {
			wa, wb := touches(a.writes, at), touches(b.writes, at)
			if wa && (wb || touches(b.reads, at)) || wb && touches(a.reads, at) {
				return true
			}
		}
		return false
	}
	for range 300 {
		steps := make([]step, 1+r.IntN(30))
		for i := range steps {
			steps[i].access = &access{reads: some(), writes: some()}
		}
		waits := dependencies(steps)
		before := make([]map[int]bool, len(steps))
		for i := range steps {
			before[i] = map[int]bool{}
			for _, j := range waits[i] {
				if before[i][j] {
					t.Fatalf("step %d waits for %d, which another waits for", i, j)
				}
				before[i][j] = true
				for k := range before[j] {
					before[i][k] = true
				}
			}
			for j := range i {
				if conflict(steps[i].access, steps[j].access) && !before[i][j] {
					t.Fatalf("step %d does not wait for %d: %v and %v", i, j, steps[i].access, steps[j].access)
				}
			}
		}
	}
}

// The steps of a network give the same bits in every order that their dependencies allow.
// The emulated device varies the order; the test also does so with temporaries in a shared
// arena, as on a GPU, and with all scratch memory shared.
func TestDependencies_AnyOrderGivesSameBits(t *testing.T) {
	device(t)
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Emulated() {
		t.Skip("only the emulated device varies the order")
	}
	for _, n := range networks() {
		if n.steps == 1 || strings.HasPrefix(n.model, "cifar") { // long, and of no other layers
			continue
		}
		n.steps = 2
		anyOrder := func(t *testing.T, exact bool) {
			var chain, all int
			train := func(apart bool) [][]float32 {
				if !apart {
					defer func(most int) { guardBuffers, concurrentScratch = true, most }(concurrentScratch)
					guardBuffers, concurrentScratch = false, 0
				}
				return n.trainInspected(t, exact, func(e *Executable) error {
					chain, all = longest(e.front.steps, e.back.steps)
					return nil
				})
			}
			want := train(true)
			got := train(false)
			for v := range want {
				for i := range want[v] {
					if got[v][i] != want[v][i] {
						t.Fatalf("vector %d: weight %d is %v, and %v in other memory", v, i, got[v][i], want[v][i])
					}
				}
			}
			t.Logf("%d steps, %d of them one after the other", all, chain)
			most := 3 * all / 4
			if exact {
				most = 9 * all / 10 // a group's parameters take from the records' budgets one after the other
			}
			if all > 24 && chain > most { // a short network is a chain
				t.Errorf("of %d steps %d wait for each other", all, chain)
			}
		}
		name := fmt.Sprint(n.model, " ", n.batch)
		t.Run(name, func(t *testing.T) { anyOrder(t, false) })
		t.Run(name+" exact", func(t *testing.T) { anyOrder(t, true) })
	}
}

// trainInspected is trainWith on the GPU. inspect gets the executable before the first step.
func (n network) trainInspected(t *testing.T, exact bool, inspect func(*Executable) error) [][]float32 {
	t.Helper()
	return n.trainWith(t, exact, func(p *plan.Program, o plan.Optimizer) (plan.Executable, error) {
		m, err := New(p, o, false, Options{})
		if err == nil {
			err = inspect(m.(*Executable))
		}
		return m, err
	})
}

// graphSizes returns the nodes and the edges of each graph of an executable.
func graphSizes(e *Executable) (sizes [][2]int) {
	for _, s := range append(slices.Clone(e.front.segments), e.back.segments...) {
		if s.graph != nil {
			sizes = append(sizes, [2]int{s.graph.Nodes, s.graph.Edges})
		}
	}
	return sizes
}

// With DPTRAIN_GRAPH=chain, graphs have the same nodes, each after the node before it, and
// compute the same bits.
func TestCapture_ChainGivesSameBits(t *testing.T) {
	device(t)
	for _, n := range networks() {
		if n.model != "mnist-cnn" && n.model != "transformer" {
			continue
		}
		n.steps = 2
		t.Run(n.model, func(t *testing.T) {
			train := func() (weights [][]float32, sizes [][2]int) {
				weights = n.trainInspected(t, false, func(e *Executable) error {
					sizes = graphSizes(e)
					return nil
				})
				return weights, sizes
			}
			want, parallel := train()
			t.Setenv("DPTRAIN_GRAPH", "chain")
			got, chain := train()
			for v := range want {
				same(t, "in sequence", got[v], want[v])
			}
			if len(parallel) != len(chain) || len(chain) == 0 {
				t.Fatalf("%d graphs, and %d in sequence", len(parallel), len(chain))
			}
			differ := false
			for i := range chain {
				if chain[i][0] != parallel[i][0] || chain[i][1] != chain[i][0]-1 {
					t.Errorf("graph %d has %d nodes; in sequence it has %d nodes and %d edges", i, parallel[i][0], chain[i][0], chain[i][1])
				}
				differ = differ || parallel[i][1] != chain[i][1]
			}
			if !differ {
				t.Error("the graphs have as many edges without the override")
			}
		})
	}
}

// Batches have fewer nodes, use the same memory, and compute the same bits as separate launches.
func TestCapture_BatchesGiveSameBits(t *testing.T) {
	device(t)
	for _, n := range networks() {
		if n.model != "mnist-cnn" && n.model != "transformer" {
			continue
		}
		n.steps = 1
		batchesAgree := func(t *testing.T, exact bool) {
			train := func(joins bool) (weights [][]float32, nodes int, bytes int64) {
				t.Setenv("DPTRAIN_GRAPH", map[bool]string{false: "separate"}[joins])
				weights = n.trainInspected(t, exact, func(e *Executable) error {
					for _, s := range graphSizes(e) {
						nodes += s[0]
					}
					bytes = e.device.Allocated()
					return nil
				})
				return weights, nodes, bytes
			}
			want, separate, bytesSeparate := train(false)
			got, joined, bytesJoined := train(true)
			for v := range want {
				same(t, "in batches", got[v], want[v])
			}
			if joined >= separate {
				t.Errorf("%d nodes, and %d without batches", joined, separate)
			}
			if bytesJoined != bytesSeparate {
				t.Errorf("%d bytes are allocated, and %d without batches", bytesJoined, bytesSeparate)
			}
		}
		t.Run(n.model, func(t *testing.T) { batchesAgree(t, false) })
		t.Run(n.model+" exact", func(t *testing.T) { batchesAgree(t, true) })
	}
}

func TestCapture_RefusesUnknownOverride(t *testing.T) {
	device(t)
	t.Setenv("DPTRAIN_GRAPH", "chains")
	program, _ := networks()[0].compiled(t)
	_, err := New(program, plan.Optimizer{Kind: plan.SGD}, false, Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "DPTRAIN_GRAPH=chains is unknown: ") {
		t.Errorf("an unknown value: %v", err)
	}
}

// longest returns the length of the longest chain of dependent steps, and the number of
// steps.
func longest(parts ...[]step) (chain, all int) {
	for _, steps := range parts {
		ends := make([]int, len(steps))
		last := 0
		for i, waits := range dependencies(steps) {
			for _, j := range waits {
				ends[i] = max(ends[i], ends[j])
			}
			ends[i]++
			last = max(last, ends[i])
		}
		chain, all = chain+last, all+len(steps)
	}
	return chain, all
}

// A microbatch is one graph, and each of its nodes costs a launch on a GPU. A change that
// fuses launches lowers the numbers here; one that raises them needs a reason. The emulated
// device has as many multiprocessors as an H100, which affects how many launches a sum takes, and
// temporaries share an arena, as on a GPU, which affects what can join a batch.
func TestPipeline_CountsNodesOnH100(t *testing.T) {
	device(t)
	onCard(t, "^TestPipeline_CountsNodes$", "DPTRAIN_EMU_MULTIPROCESSORS=132")
}

func TestPipeline_CountsNodes(t *testing.T) {
	device(t)
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Emulated() || d.Multiprocessors() != 132 {
		t.Skip("TestPipeline_CountsNodesOnH100 runs this")
	}
	defer func() { guardBuffers = true }()
	guardBuffers = false
	for _, c := range []struct {
		network
		float, exact int // nodes
	}{
		{network{"wrn16-4", models.DataSpec{Shape: []int{3, 32, 32}, Classes: 10}, 16, 1}, 132, 136},
		{network{"transformer", models.DataSpec{Shape: []int{64}, Vocabulary: 5000, Classes: 5000, LabelShape: []int{64}}, 32, 1}, 73, 87},
	} {
		count := func(t *testing.T, exact bool, want int) {
			program, clipper := c.compiledFor(t, exact)
			m, err := New(program, plan.Optimizer{Kind: plan.SGD}, false, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if err := clipper.BeginLot(0); err != nil {
				t.Fatal(err)
			}
			formula, _ := clipper.Formula()
			e := m.(*Executable)
			if err := e.Configure(formula, c.batch, func([][]float32, []int) error { return nil }); err != nil {
				t.Fatal(err)
			}
			for _, s := range e.pipeline.slots {
				if s.graph.Nodes != want {
					t.Errorf("the graph has %d nodes, want %d", s.graph.Nodes, want)
				}
			}
		}
		t.Run(c.model+" float", func(t *testing.T) { count(t, false, c.float) })
		t.Run(c.model+" exact", func(t *testing.T) { count(t, true, c.exact) })
	}
}
