//go:build gpu

package compile

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/cuda/internal/timing"
	"github.com/dptrain/dptrain/internal/device/op"
	"github.com/dptrain/dptrain/internal/device/plan"
	"gorgonia.org/tensor"
)

// stopwatch is a timer whose times the test chooses.
type stopwatch struct {
	timed   [][]string // the names of the steps of each measurement
	seconds func(steps []string) float64
}

func (w *stopwatch) time(d *driver.Device, options [][]step) (seconds []float64, err error) {
	for _, steps := range options {
		var names []string
		for _, s := range steps {
			names = append(names, s.name)
		}
		w.timed = append(w.timed, names)
		seconds = append(seconds, w.seconds(names))
	}
	return seconds, nil
}

// measured makes the emulated device choose by measurements, with an empty table.
func measured(t *testing.T, path string, with func(*driver.Device, [][]step) ([]float64, error)) {
	t.Helper()
	device(t)
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if d.HasTimings() {
		t.Skip("a GPU has choices of its own")
	}
	before, clock := opened.choices, timer
	t.Cleanup(func() { opened.choices, timer = before, clock })
	opened.choices = map[int]*timing.Table{0: timing.Load(path, timing.Identity{Card: d.Name()})}
	timer = with
}

func anyContains(list []string, part string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, part) })
}

func stepNames(m plan.Executable) (names []string) {
	for _, s := range m.(*Executable).front.steps {
		names = append(names, s.name)
	}
	return names
}

// The emulated device measures nothing, and writes no file, under any name.
func TestChoices_EmulatedDeviceMeasuresNothing(t *testing.T) {
	device(t)
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if d.HasTimings() {
		t.Skip("for the emulated device")
	}
	if choices(0) != nil {
		t.Error("choices are measured")
	}
	if os.Getenv("DPTRAIN_EMU_NAME") == "" {
		onCard(t, "^TestChoices_EmulatedDeviceMeasuresNothing$", "DPTRAIN_EMU_NAME=a GPU")
	}
}

// The fastest schedule is used. It is measured once: neither another program nor another
// process of the same table measures again.
func TestChoices_FastestScheduleIsUsed(t *testing.T) {
	o := given(rand.New(rand.NewPCG(17, 6)), op.MatMul{}, tensor.Shape{36, 292}, tensor.Shape{292, 132})
	path := filepath.Join(t.TempDir(), "choices.json")
	want := o.run(t, Options{})
	for _, best := range []string{"_128)", "_64)", "_32)"} {
		for _, separate := range []bool{false, true} {
			watch := stopwatch{seconds: func(steps []string) float64 {
				if anyContains(steps, best) && anyContains(steps, "add_slices") == separate {
					return 1
				}
				return 2
			}}
			measured(t, path, watch.time)
			for run := range 3 {
				if run == 2 {
					opened.choices[0] = timing.Load(path, timing.Identity{Card: "emulated device"})
				}
				m := o.machine(t, Options{})
				if names := stepNames(m); !anyContains(names, best) || anyContains(names, "add_slices") != separate {
					t.Errorf("%s separate %v, run %d: used %q", best, separate, run, names)
				}
				if len(watch.timed) != 6 { // three tiles, slices together and apart
					t.Errorf("%s separate %v, run %d: measured %q", best, separate, run, watch.timed)
				}
				if err := m.Forward(); err != nil {
					t.Fatal(err)
				}
				same(t, best, m.Output(), want)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// An option that needs more scratch memory than measurements may take is not timed, and the
// program takes no memory for it.
func TestChoices_LittleScratchMemory(t *testing.T) {
	o := given(rand.New(rand.NewPCG(19, 6)), op.MatMul{}, tensor.Shape{400, 600}, tensor.Shape{600, 132})
	defer func(bytes int) { concurrentScratch = bytes }(concurrentScratch)
	for _, room := range []int{concurrentScratch, 1 << 10} {
		concurrentScratch = room
		watch := stopwatch{seconds: func(steps []string) float64 {
			if anyContains(steps, "add_slices") {
				return 1
			}
			return 2
		}}
		measured(t, "", watch.time)
		m := o.machine(t, Options{}).(*Executable)
		apart, timed := anyContains(stepNames(m), "add_slices"), slices.ContainsFunc(watch.timed, func(steps []string) bool { return anyContains(steps, "add_slices") })
		if fits := room > 1<<10; apart != fits || timed != fits || (m.WorkspaceBytes() > 0) != fits || len(watch.timed) < 3 {
			t.Errorf("with %d bytes: slices apart %v, timed %v, %d bytes of scratch memory", room, apart, timed, m.WorkspaceBytes())
		}
	}
}

// The library computes a shape if it is faster, with the steps that finish the result. The
// choice is the shape's: it does not depend on what finishes the result, so that equal
// products of a program have equal bits.
func TestChoices_FasterLibraryIsUsed(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 6))
	x, w := tensor.Shape{33, 290}, tensor.Shape{290, 70}
	plain, biased := given(r, op.MatMul{}, x, w), given(r, op.Linear{Act: op.Tanh}, x, w, tensor.Shape{70})
	for _, faster := range []bool{false, true} {
		blasStandIn.use(t, "")
		watch := stopwatch{seconds: func(steps []string) float64 {
			if anyContains(steps, "cuBLASLt") == faster {
				return 1
			}
			return 2
		}}
		measured(t, "", watch.time)
		m := biased.machine(t, Options{})
		if (blasStandIn.computes(m) > 0) != faster {
			t.Errorf("library faster %v: it is used: %v", faster, !faster)
		}
		if !slices.ContainsFunc(watch.timed, func(steps []string) bool {
			return anyContains(steps, "cuBLASLt") && anyContains(steps, "add_slices")
		}) {
			t.Errorf("the library was timed without bias and activation: %q", watch.timed)
		}
		watch.seconds = func(steps []string) float64 { // another result, if it were measured again
			if anyContains(steps, "cuBLASLt") != faster {
				return 1
			}
			return 2
		}
		if (blasStandIn.computes(plain.machine(t, Options{})) > 0) != faster {
			t.Error("two products of a shape are computed in two ways")
		}
	}
}

// Measurements run on the program's memory. They change no bit of what is trained, and
// access no memory outside what an instruction has, which the emulated device checks.
func TestChoices_MeasuringChangesNoBits(t *testing.T) {
	for _, n := range networks() {
		if n.model != "digits-cnn" && n.model != "mlp:50,dropout=0.5" {
			continue
		}
		n.steps = 2
		t.Run(n.model, func(t *testing.T) {
			device(t)
			train := func() [][]float32 {
				return n.train(t, func(p *plan.Program, o plan.Optimizer) (plan.Executable, error) { return New(p, o, false, Options{}) })
			}
			want := train()
			timings := 0
			measured(t, "", func(d *driver.Device, options [][]step) ([]float64, error) {
				timings++
				return timeInTurn(d, options)
			})
			got := train()
			if timings == 0 {
				t.Error("nothing was measured")
			}
			for v := range want {
				same(t, "measured", got[v], want[v])
			}
		})
	}
}

// The clip factors are 1 in measurements: with 0, kernels skip the records.
func TestChoices_MeasuredWithClipFactorsOne(t *testing.T) {
	device(t)
	n := networks()[0]
	program, _ := n.compiled(t)
	timings := 0
	var e *Executable
	measured(t, "", func(d *driver.Device, options [][]step) ([]float64, error) {
		timings++
		for i, b := range program.Buffers {
			if b.Role != plan.RoleClipFactors || b.Base != i {
				continue
			}
			factors := make([]float32, b.Size())
			if err := readFloats(d, factors, e.host.factors[b.Index].device); err != nil {
				return nil, err
			}
			same(t, "clip factors", factors, slices.Repeat([]float32{1}, len(factors)))
		}
		return make([]float64, len(options)), nil
	})
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	e = &Executable{program: program, device: d, memory: &deviceMemory{device: d}}
	defer e.Close()
	if err := e.prepare(plan.Optimizer{Kind: plan.SGD}, false, Options{}); err != nil || timings == 0 {
		t.Errorf("%d measurements, error %v", timings, err)
	}
}

// Options run in turn, and the fastest run counts. On a cold GPU, work precedes the runs that
// count, and takes at least the time in which clocks rise.
func TestFastestRuns_InTurnAfterWork(t *testing.T) {
	for _, cold := range []bool{false, true} {
		var order []int
		start := time.Now()
		var runs []func() (float64, error)
		for i, seconds := range []float64{3, 5} {
			runs = append(runs, func() (float64, error) {
				order = append(order, i)
				if cold && time.Since(start) < warmUp {
					time.Sleep(time.Millisecond)
					return seconds / 1000, nil // does not count
				}
				return seconds + float64(len(order)%3), nil
			})
		}
		got, err := fastestRuns(runs, cold)
		if err != nil || got[0] < 3 || got[0] >= 6 || got[1] < 5 || got[1] >= 8 {
			t.Errorf("cold %v: the runs take %v (%v)", cold, got, err)
		}
		if !cold && !slices.Equal(order, []int{0, 1, 0, 1, 0, 1}) || cold && time.Since(start) < warmUp {
			t.Errorf("cold %v: the order is %v", cold, order)
		}
	}
}
