//go:build gpu

package driver

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/kernels"
)

var shared = sync.OnceValues(func() (*Device, error) {
	// Read here too, so that a cached test result is not taken for another device's.
	os.Getenv("DPTRAIN_LIBCUDA")
	n, err := Count()
	if err != nil || n == 0 {
		return nil, err
	}
	return open()
})

func open() (*Device, error) {
	d, err := Open(0)
	if err != nil {
		return nil, err
	}
	image, err := kernels.ImageFor(d.Arch())
	if err != nil {
		return nil, err
	}
	return d, d.LoadModule(image)
}

func device(t testing.TB) *Device {
	t.Helper()
	d, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	if d == nil {
		t.Skip("no GPU here: make test-emu runs this on the emulated device")
	}
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// square is a kernel that squares 32 numbers in place with operation 9, and zeros
// for it.
func square(d *Device) (Kernel, Pointer, error) {
	k, err := d.Kernel("unary")
	if err != nil {
		return k, 0, err
	}
	p, err := d.Alloc(128)
	if err != nil {
		return k, 0, err
	}
	return k, p, d.Zero(p, 128)
}

func floats(values ...float32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func read(t *testing.T, d *Device, p Pointer, bytes int) []byte {
	t.Helper()
	b := make([]byte, bytes)
	must(t, d.CopyOut(b, p))
	must(t, d.Synchronize())
	return b
}

func TestDevice_Describes(t *testing.T) {
	d := device(t)
	if d.Name() == "" || d.Arch() < MinArch || d.Multiprocessors() < 1 {
		t.Errorf("name %q, arch %d, %d multiprocessors", d.Name(), d.Arch(), d.Multiprocessors())
	}
	free, total, err := d.MemoryInfo()
	must(t, err)
	if free <= 0 || total < free {
		t.Errorf("%d bytes free of %d", free, total)
	}
	if d.Emulated() != (strings.Contains(os.Getenv("DPTRAIN_LIBCUDA"), "emu") && os.Getenv("DPTRAIN_EMU_NAME") == "") {
		t.Errorf("Emulated is %v", d.Emulated())
	}
	n, err := Count()
	must(t, err)
	for _, ordinal := range []int{-1, n, n + 7} {
		if _, err := Open(ordinal); err == nil || !strings.Contains(err.Error(), "no such device: this host has ") {
			t.Errorf("Open(%d): %v", ordinal, err)
		}
	}
}

func TestDevice_Copies(t *testing.T) {
	d := device(t)
	const n = 1003
	a, err := d.Alloc(n)
	must(t, err)
	b, err := d.Alloc(n)
	must(t, err)
	src := make([]byte, n)
	for i := range src {
		src[i] = byte(i * 7)
	}
	pinned, err := d.AllocPinned(n)
	must(t, err)
	copy(pinned, src)
	for name, from := range map[string][]byte{"pageable": src, "pinned": pinned} {
		must(t, d.Zero(a, n))
		if got := read(t, d, a, n); string(got) != string(make([]byte, n)) {
			t.Fatalf("%s: not cleared", name)
		}
		must(t, d.CopyIn(a, from))
		must(t, d.Copy(b, a, n))
		must(t, d.Zero(a+8, 12))
		must(t, d.Zero(a+101, 3))
		if got := read(t, d, b, n); string(got) != string(src) {
			t.Errorf("%s: the copy differs", name)
		}
		want := append([]byte(nil), src...)
		clear(want[8:20])
		clear(want[101:104])
		out := pinned
		must(t, d.CopyOut(out, a))
		must(t, d.Synchronize())
		if string(out) != string(want) {
			t.Errorf("%s: parts are not cleared, or more than them", name)
		}
		copy(pinned, src)
	}
	must(t, d.CopyIn(a, nil))
	must(t, d.CopyOut(nil, a))
	must(t, d.Copy(a, b, 0))
	must(t, d.Zero(a, 0))
	must(t, d.FreePinned(pinned))
	must(t, d.FreePinned(nil))
	if err := d.FreePinned(src); err == nil {
		t.Error("memory that is not page-locked is given back")
	}
	must(t, d.Free(a))
	must(t, d.Free(b))
	must(t, d.Free(0))
	for _, bytes := range []int{0, -1} {
		if _, err := d.Alloc(bytes); err == nil {
			t.Errorf("Alloc(%d) succeeds", bytes)
		}
		if _, err := d.AllocPinned(bytes); err == nil {
			t.Errorf("Pinned(%d) succeeds", bytes)
		}
	}
}

func TestAlloc_OutOfMemory(t *testing.T) {
	d := device(t)
	_, total, err := d.MemoryInfo()
	must(t, err)
	_, err = d.Alloc(int(2 * total))
	if !errors.Is(err, ErrOutOfMemory) || !strings.Contains(err.Error(), formatBytes(2*total)+" requested, ") || !strings.Contains(err.Error(), " of "+formatBytes(total)+" free") {
		t.Errorf("an allocation of twice the memory: %v", err)
	}
	before := d.Allocated()
	p, err := d.Alloc(1000)
	must(t, err)
	if taken := d.Allocated() - before; taken != 1000 {
		t.Errorf("1000 bytes taken are %d", taken)
	}
	must(t, d.Free(p))
	if d.Allocated() != before {
		t.Error("what is given back is taken")
	}
}

// After an error that is contained to one process, every call of that process fails.
func TestDevice_ContainedErrorIsLoss(t *testing.T) {
	if err := new(Device).failed("it fails", 226); !errors.Is(err, ErrDeviceLost) || !strings.HasPrefix(err.Error(), "cuda:0: ") {
		t.Error(err)
	}
}

func TestDevice_Launch(t *testing.T) {
	d := device(t)
	k, p, err := square(d)
	must(t, err)
	defer d.Free(p)
	must(t, d.CopyIn(p, floats(1, -2, 3, 0.5)))
	must(t, d.Launch(k, Dim{1, 1, 1}, Dim{32, 1, 1}, Pack(p, p, int32(3), int32(9))))
	if got := read(t, d, p, 16); string(got) != string(floats(1, 4, 9, 0.5)) {
		t.Errorf("squares are %x", got)
	}
	replace, err := d.Kernel("replace")
	must(t, err)
	must(t, d.Launch(replace, Dim{1, 1, 1}, Dim{32, 1, 1}, Pack(p, p, int32(4), float32(4), float32(-7))))
	if got := read(t, d, p, 16); string(got) != string(floats(1, -7, 9, 0.5)) {
		t.Errorf("replaced is %x", got)
	}
	if _, err := d.Kernel("no_such"); err == nil || !strings.Contains(err.Error(), "no_such") {
		t.Errorf("a kernel that is not there: %v", err)
	}
	err = d.Launch(k, Dim{1, 1, 1}, Dim{4096, 1, 1}, Pack(p, p, int32(4), int32(9)))
	if err == nil || !strings.Contains(err.Error(), "kernel unary cannot be launched with grid [1 1 1], block [4096 1 1]") {
		t.Errorf("a block of 4096 threads: %v", err)
	}
	must(t, d.Synchronize())
}

func TestPack_Layout(t *testing.T) {
	type pair struct {
		A int32
		B float64
	}
	got := Pack(int32(1), Pointer(2), float32(0), pair{3, 0}, uint32(5), int64(6))
	want := []byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0}
	if string(got) != string(want) {
		t.Errorf("packed %v, want %v", got, want)
	}
	for _, bad := range []any{1, "x", nil, []int32{1}, struct{ P *int }{}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Pack takes a %T", bad)
				}
			}()
			Pack(bad)
		}()
	}
}

func TestCapture_Replays(t *testing.T) {
	d := device(t)
	k, p, err := square(d)
	must(t, err)
	defer d.Free(p)
	pinned, err := d.AllocPinned(16)
	must(t, err)
	defer d.FreePinned(pinned)
	copy(pinned, floats(2, 3, -1, 0))
	must(t, d.CopyIn(p, floats(9, 9, 9, 9)))
	var other Pointer
	g, err := d.Capture(func() error {
		// Another goroutine's work runs at once and is not recorded.
		done := make(chan error)
		go func() { done <- d.Zero(p+16, 16) }()
		if err := <-done; err != nil {
			return err
		}
		var err error
		if other, err = d.Alloc(64); err != nil {
			return err
		}
		if err := d.CopyIn(p, pinned[:8]); err != nil {
			return err
		}
		if err := d.Launch(k, Dim{1, 1, 1}, Dim{32, 1, 1}, Pack(p, p, int32(4), int32(9))); err != nil {
			return err
		}
		return d.CopyOut(pinned[8:], p)
	})
	must(t, err)
	defer d.Free(other)
	if got := read(t, d, p, 32); string(got) != string(append(floats(9, 9, 9, 9), make([]byte, 16)...)) {
		t.Fatalf("a recording ran: %x", got)
	}
	must(t, d.LaunchGraph(g))
	must(t, d.Synchronize())
	if string(pinned) != string(floats(2, 3, 4, 9)) {
		t.Errorf("after one run: %x", pinned)
	}
	copy(pinned, floats(-5))
	must(t, d.LaunchGraph(g))
	must(t, d.LaunchGraph(g))
	if got := read(t, d, p, 16); string(got) != string(floats(25, 9, 81*81*81*81, 81*81*81*81)) {
		t.Errorf("after three runs: %x", got)
	}
	must(t, g.Close())
	must(t, g.Close())

	empty, err := d.Capture(func() error { return nil })
	must(t, err)
	must(t, d.LaunchGraph(empty))
	must(t, empty.Close())
}

// A graph runs in the order of its dependencies. Here the work captured last may run
// before the work that reads the first result, and the emulated device runs it first.
func TestCapture_Dependencies(t *testing.T) {
	d := device(t)
	k, p, err := square(d)
	must(t, err)
	defer d.Free(p)
	must(t, d.CopyIn(p, floats(3, 0, 0, 0)))
	squared := func(to, from int) error {
		return d.Launch(k, Dim{1, 1, 1}, Dim{32, 1, 1}, Pack(p+Pointer(4*to), p+Pointer(4*from), int32(1), int32(9)))
	}
	g, err := d.Capture(func() error {
		must(t, squared(1, 0))
		fork, err := d.CapturePoint()
		must(t, err)
		must(t, squared(2, 1))
		left, err := d.CapturePoint()
		must(t, err)
		must(t, d.SetCaptureDependencies(fork))
		must(t, squared(3, 1))
		right, err := d.CapturePoint()
		must(t, err)
		must(t, d.SetCaptureDependencies(left, right, left)) // a point can be given twice
		return squared(0, 3)
	})
	must(t, err)
	defer g.Close()
	must(t, d.LaunchGraph(g))
	if got := read(t, d, p, 16); string(got) != string(floats(6561, 9, 81, 81)) {
		t.Errorf("%x", got)
	}
	if d.Emulated() {
		g, err := d.Capture(func() error {
			must(t, squared(1, 0))
			must(t, d.SetCaptureDependencies())
			return squared(2, 1)
		})
		must(t, err)
		defer g.Close()
		must(t, d.CopyIn(p, floats(2, 7)))
		must(t, d.LaunchGraph(g))
		if got := read(t, d, p, 12); string(got) != string(floats(2, 4, 49)) {
			t.Errorf("what does not wait came later: %x", got)
		}
	}
	if g.Nodes != 4 || g.Edges != 4 {
		t.Errorf("the graph has %d nodes and %d edges", g.Nodes, g.Edges)
	}
	t.Setenv("DPTRAIN_EMU_LOSSY_EDGES", "1")
	uncounted, err := d.Capture(func() error { return squared(1, 0) })
	must(t, err)
	defer uncounted.Close()
	if d.Emulated() && (uncounted.Nodes != 1 || uncounted.Edges != 0) {
		t.Errorf("%d nodes and %d edges, which the driver does not count", uncounted.Nodes, uncounted.Edges)
	}
	if _, err := d.CapturePoint(); err == nil {
		t.Error("a place in no recording")
	}
	if err := d.SetCaptureDependencies(); err == nil {
		t.Error("an order of no recording")
	}
}

func TestCapture_Refuses(t *testing.T) {
	d := device(t)
	p, err := d.Alloc(16)
	must(t, err)
	defer d.Free(p)
	e, err := d.NewEvent()
	must(t, err)
	defer e.Close()
	asked := errors.New("asked")
	for name, record := range map[string]func() error{
		"wait":          d.Synchronize,
		"pageable copy": func() error { return d.CopyIn(p, make([]byte, 16)) },
		"pageable read": func() error { return d.CopyOut(make([]byte, 16), p) },
		"mark":          func() error { return d.RecordEvent(e) },
		"follow":        func() error { return d.WaitEvent(e) },
		"its own error": func() error { return asked },
	} {
		g, err := d.Capture(record)
		if err == nil || g != nil {
			t.Errorf("%s can be recorded", name)
		}
		if name == "its own error" && err != asked {
			t.Errorf("the function's error becomes %v", err)
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a panic in a recording is swallowed")
			}
		}()
		d.Capture(func() error { panic("in a recording") })
	}()
	must(t, d.CopyIn(p, make([]byte, 16)))
	must(t, d.Synchronize())
}

func TestStream_CopiesConcurrently(t *testing.T) {
	d := device(t)
	k, p, err := square(d)
	must(t, err)
	defer d.Free(p)
	lane, err := d.NewStream()
	must(t, err)
	copied, err := d.NewEvent()
	must(t, err)
	read2, err := d.NewEvent()
	must(t, err)
	pinned, err := d.AllocPinned(8)
	must(t, err)
	defer d.FreePinned(pinned)
	out, err := d.AllocPinned(8)
	must(t, err)
	defer d.FreePinned(out)
	for i := range 20 {
		must(t, read2.Synchronize())
		copy(pinned, floats(float32(i), 1))
		must(t, lane.CopyIn(p, pinned))
		must(t, lane.RecordEvent(copied))
		must(t, d.WaitEvent(copied))
		must(t, d.Launch(k, Dim{1, 1, 1}, Dim{32, 1, 1}, Pack(p, p, int32(2), int32(9))))
		must(t, d.CopyOut(out, p))
		must(t, d.RecordEvent(read2))
		must(t, read2.Synchronize())
		if string(out) != string(floats(float32(i*i), 1)) {
			t.Fatalf("round %d: %x", i, out)
		}
	}
	must(t, lane.CopyIn(p, nil))
	for range 2 {
		must(t, copied.Close())
		must(t, read2.Close())
		must(t, lane.Close())
	}
}

func TestDevice_ServesGoroutines(t *testing.T) {
	d := device(t)
	k, err := d.Kernel("unary")
	must(t, err)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			p, err := d.Alloc(128)
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Free(p)
			b := floats(float32(i), 2)
			var g *Graph
			for _, step := range []func() error{
				func() error { return d.CopyIn(p, b) },
				func() (err error) {
					g, err = d.Capture(func() error {
						return d.Launch(k, Dim{1, 1, 1}, Dim{32, 1, 1}, Pack(p, p, int32(2), int32(9)))
					})
					return err
				},
				func() error { return d.LaunchGraph(g) },
				func() error { return d.LaunchGraph(g) },
				func() error { return d.CopyOut(b, p) },
				d.Synchronize,
				func() error { return g.Close() },
			} {
				if err := step(); err != nil {
					t.Error(err)
					return
				}
			}
			if want := floats(float32(i*i*i*i), 16); string(b) != string(want) {
				t.Errorf("goroutine %d: %x, want %x", i, b, want)
			}
		})
	}
	all.Wait()
}

func TestDevice_AllocatesNothing(t *testing.T) {
	d := device(t)
	k, p, err := square(d)
	must(t, err)
	defer d.Free(p)
	pinned, err := d.AllocPinned(16)
	must(t, err)
	defer d.FreePinned(pinned)
	args := Pack(p, p, int32(4), int32(9))
	pageable := make([]byte, 16)
	g, err := d.Capture(func() error { return d.Launch(k, Dim{1, 1, 1}, Dim{32, 1, 1}, args) })
	must(t, err)
	defer g.Close()
	lane, err := d.NewStream()
	must(t, err)
	defer lane.Close()
	e, err := d.NewEvent()
	must(t, err)
	defer e.Close()
	for name, call := range map[string]func() error{
		"Launch":        func() error { return d.Launch(k, Dim{1, 1, 1}, Dim{32, 1, 1}, args) },
		"Run":           func() error { return d.LaunchGraph(g) },
		"CopyIn":        func() error { return d.CopyIn(p, pinned) },
		"CopyOut":       func() error { return d.CopyOut(pinned, p) },
		"pageable":      func() error { return d.CopyIn(p, pageable) },
		"Copy":          func() error { return d.Copy(p, p+64, 16) },
		"Zero":          func() error { return d.Zero(p, 16) },
		"Wait":          d.Synchronize,
		"Stream.CopyIn": func() error { return lane.CopyIn(p, pinned) },
		"Mark":          func() error { return d.RecordEvent(e) },
		"Follow":        func() error { return d.WaitEvent(e) },
		"Event.Wait":    e.Synchronize,
	} {
		var failed error
		if n := testing.AllocsPerRun(50, func() {
			if err := call(); err != nil {
				failed = err
			}
		}); n != 0 || failed != nil {
			t.Errorf("%s: %v allocations, %v", name, n, failed)
		}
	}
	must(t, d.Synchronize())
}

// A driver may copy from and to a program's memory after the call, as it lies. A stack
// moves, so nothing that is copied is on one.
func TestCopy_MemoryDoesNotMove(t *testing.T) {
	d := device(t)
	p, err := d.Alloc(16)
	must(t, err)
	defer d.Free(p)
	must(t, d.Zero(p, 16))
	var failed error
	for name, call := range map[string]func(){
		"CopyIn": func() {
			var b [16]byte
			failed = d.CopyIn(p, b[:])
			d.Synchronize()
		},
		"CopyOut": func() {
			var b [16]byte
			failed = d.CopyOut(b[:], p)
			d.Synchronize()
		},
	} {
		if n := testing.AllocsPerRun(5, call); n != 1 || failed != nil {
			t.Errorf("%s: %v allocations, %v", name, n, failed)
		}
	}
}

func BenchmarkLaunch(b *testing.B) {
	d := device(b)
	k, p, err := square(d)
	must(b, err)
	args := Pack(p, p, int32(4), int32(9))
	for i := 0; b.Loop(); i++ {
		must(b, d.Launch(k, Dim{1, 1, 1}, Dim{32, 1, 1}, args))
		if i%1000 == 999 {
			must(b, d.Synchronize())
		}
	}
	must(b, d.Synchronize())
}
