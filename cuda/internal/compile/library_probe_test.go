//go:build gpu

package compile

import (
	"math/rand/v2"
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"gorgonia.org/tensor"
)

// tallProduct has more results than the host has at a time during a test.
func tallProduct(r *rand.Rand) operation {
	const columns = 64
	return given(r, op.MatMul{}, tensor.Shape{readAtOnce/columns + 1001, 4}, tensor.Shape{4, columns})
}

// A fault in the last of many rows is found: the test computes all rows of the shape, with
// the launch that the program uses.
func TestLibraryProbe_CoversEveryRow(t *testing.T) {
	o := tallProduct(rand.New(rand.NewPCG(13, 6)))
	for fault, computes := range map[string]int{"": 1, "last": 0} {
		blasStandIn.use(t, fault)
		eager(t)
		if n := blasStandIn.computes(o.machine(t, Options{})); n != computes {
			t.Errorf("fault %q: the library computes %d products, want %d", fault, n, computes)
		}
	}
}

// A program that fits into the device's memory fits with a library as well: only the
// library's workspace is allocated for a test.
func TestLibraryProbe_NeedsOnlyWorkspace(t *testing.T) {
	blasStandIn.use(t, "")
	eager(t)
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Emulated() {
		t.Skip("another process may use a GPU's memory")
	}
	o := tallProduct(rand.New(rand.NewPCG(14, 6)))
	before := d.Allocated()
	needs := o.machine(t, Options{}).(*Executable).memory.device.Allocated() - before
	opened.libraries = nil // forgets the test
	free, _, err := d.MemoryInfo()
	if err != nil {
		t.Fatal(err)
	}
	const room = 1 << 16
	if needs < 8*room {
		t.Fatalf("the program needs %d bytes, too few for this test", needs)
	}
	ballast, err := d.Alloc(int(free - needs - room))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Free(ballast)
	blasStandIn.wanted(t, o.machine(t, Options{}))
}

// A process tests a shape once, and again if the library chooses another algorithm for it.
func TestLibraryProbe_Remembered(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 6))
	for _, each := range []struct {
		standIn
		operation
	}{
		{blasStandIn, given(r, op.MatMul{}, tensor.Shape{33, 290}, tensor.Shape{290, 70})}, {dnnStandIn, windowed(r)[0]},
	} {
		each.use(t, "")
		eager(t)
		each.wanted(t, each.machine(t, Options{}))
		if list, _ := driver.Devices(); !list[0].Emulated() {
			t.Skip("only the stand-in has faults")
		}
		t.Setenv("DPTRAIN_TWIN", "mixes")
		each.wanted(t, each.machine(t, Options{}))
		known := opened.libraries[0].isolates
		if len(known) != 1 {
			t.Fatalf("%s: %d choices are known, want 1", each.name, len(known))
		}
		for choice := range known {
			if choice.algorithm == "" {
				t.Errorf("%s: the algorithm has no identity", each.name)
			}
			delete(known, choice)
			choice.algorithm += "of another driver"
			known[choice] = true
		}
		if n := each.computes(each.machine(t, Options{})); n != 0 {
			t.Errorf("%s: an algorithm that was not tested is used", each.name)
		}
	}
}

// The test runs on the program's buffers, and they have their content afterwards.
func TestLibraryProbe_RestoresBuffers(t *testing.T) {
	blasStandIn.use(t, "")
	eager(t)
	r := rand.New(rand.NewPCG(16, 6))
	o := given(r, op.MatMul{}, tensor.Shape{33, 290}, tensor.Shape{290, 70})
	const input, weights, sum, output = 0, 1, 2, 3
	p := &plan.Program{Batch: 1, Records: 1, PerRecord: 1, Buffers: []plan.Buffer{
		{Name: "input", Shape: o.shapes[0], Role: plan.RoleInput, Base: input},
		{Name: "constant", Shape: o.shapes[1], Role: plan.RoleConstant, Value: o.in[1], Base: weights},
		{Name: "sum", Shape: tensor.Shape{5}, Role: plan.RoleClippedSum, Base: sum},
		{Name: "output", Shape: tensor.Shape{33, 70}, Role: plan.RoleOutput, Base: output},
	}, Front: []plan.Instruction{{Spec: o.spec, In: []int{input, weights}, Out: output}}}
	m, err := New(p, plan.Optimizer{Kind: plan.SGD}, false, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	blasStandIn.wanted(t, m)
	copy(m.Input(0), o.in[0])
	if err := m.Forward(); err != nil {
		t.Fatal(err)
	}
	o.compare(t, m.Output(), allowed[FP32].products)
}
