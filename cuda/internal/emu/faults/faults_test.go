//go:build gpu

// Package faults plants one fault in each of its kernels and shows that the emulated
// device finds it, and that it lets the same kernel without the fault pass.
package faults

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/dptrain/dptrain/cuda/internal/driver"
)

// kernelsVariable makes this program launch the kernels that it names and end: a fault
// leaves the device of its process unusable, as on a GPU.
const kernelsVariable = "DPTRAIN_FAULT_KERNELS"

// faultOfGo, among the kernels' names, stands for a nil pointer followed in Go.
const (
	faultOfGo = "fault_of_go"
	recovered = "recovered: runtime error: invalid memory address or nil pointer dereference"
)

// threads is how many run, two blocks of them.
const threads = 512

func TestMain(m *testing.M) {
	if kernels := os.Getenv(kernelsVariable); kernels != "" {
		d, err := driver.Open(0)
		if err == nil {
			err = d.LoadModule([]byte(".version 8.8\n.target sm_75 // kernels are in the library"))
		}
		for name := range strings.FieldsSeq(kernels) {
			if err == nil {
				err = launch(d, name)
			}
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// launch runs a kernel and prints what became of its output.
func launch(d *driver.Device, name string) error {
	n := threads
	if strings.HasPrefix(name, "write_into_slack") {
		n--
	}
	if name == faultOfGo {
		defer func() { fmt.Println("recovered:", recover()) }()
		var nowhere *int
		*nowhere = n
	}
	k, err := d.Kernel(name)
	if err != nil {
		return err
	}
	x := make([]float32, threads)
	for i := range x {
		x[i] = float32(i % 13)
	}
	y := make([]float32, n)
	var from, to driver.Pointer
	if from, err = d.Alloc(4 * threads); err != nil {
		return err
	}
	if to, err = d.Alloc(4 * n); err != nil {
		return err
	}
	if err := d.CopyIn(from, bytes(x)); err != nil {
		return err
	}
	if err := d.Launch(k, driver.Dim{2, 1, 1}, driver.Dim{256, 1, 1}, driver.Pack(to, from, int32(n))); err != nil {
		return err
	}
	if err := d.CopyOut(bytes(y), to); err != nil {
		return err
	}
	if err := d.Synchronize(); err != nil {
		return err
	}
	hash, what := fnv.New64(), "bits"
	hash.Write(bytes(y))
	for _, v := range y {
		if math.IsNaN(float64(v)) {
			what = "NaN"
		}
	}
	fmt.Printf("%s %s %x\n", name, what, hash.Sum64())
	return errors.Join(d.Free(from), d.Free(to))
}

func bytes(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

// library builds the emulated device with the kernels of this folder.
func library(t *testing.T) string {
	t.Helper()
	kernels, err := filepath.Glob("*.cu")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := filepath.Abs(filepath.Join("..", "..", "..", "..", ".cache", "cuda", "faults"))
	if err != nil {
		t.Fatal(err)
	}
	if out, err := build(append([]string{"-o", folder}, kernels...)...); err != nil {
		t.Skipf("the emulated device cannot be built here: %v\n%s", err, out)
	}
	return folder
}

func build(arguments ...string) (string, error) {
	build := exec.Command("go", append([]string{"run", "../build"}, arguments...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	return string(out), err
}

// run launches kernels in a process of its own and returns all it printed.
func run(t *testing.T, library, kernels string, variables ...string) string {
	t.Helper()
	program := exec.Command(os.Args[0])
	program.Env = append(os.Environ(), "DPTRAIN_LIBCUDA="+library, kernelsVariable+"="+kernels, "DPTRAIN_EMU_ORDER=forward")
	program.Env = append(program.Env, variables...)
	out, err := program.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return string(out)
}

var planted = []struct {
	kernel string
	found  string // printed by the checked build
	fast   string // printed by the fast build; empty where it sees nothing
}{
	{kernel: "missing_barrier", found: "missing_barrier: block (0,0,0) thread (40,0,0): writes tile[40], which thread (0,0,0) read without a barrier in between"},
	{kernel: "missing_second_barrier", found: "without a barrier in between"},
	{kernel: "divergent_barrier", found: "threads (0,0,0)...(199,0,0) wait at __syncthreads (barrier.cu:39); threads (200,0,0)...(255,0,0) returned", fast: "threads (200,0,0)...(255,0,0) returned"},
	{kernel: "separate_barriers", found: "waits at __syncthreads (barrier.cu:51) while thread (0,0,0) waits at __syncthreads (barrier.cu:49)", fast: "separate_barriers: block (0,0,0)"},
	{kernel: "missing_syncwarp", found: "tile[1], which thread (0,0,0) read"},
	{kernel: "shuffle_as_barrier", found: "reads tile[30], which thread (30,0,0) wrote without a barrier in between"},
	{kernel: "inactive_lane", found: "wait at __shfl_xor_sync (warp.cu:32)", fast: "wait at __shfl_xor_sync (warp.cu:32)"},
	{kernel: "unnamed_lane", found: "which does not contain its own lane 16", fast: "which does not contain its own lane 16"},
	{kernel: "read_past_end", found: "block (1,0,0) thread (255,0,0): reads 0 bytes past the end of allocation 1 of 2048 bytes (offset 2048) (memory.cu:6", fast: "past the end of allocation 1 of 2048 bytes (offset 2048) (memory.cu:6"},
	{kernel: "write_past_end", found: "block (1,0,0) thread (255,0,0): writes 0 bytes past the end of allocation 2 of 2048 bytes (offset 2048)", fast: "past the end of allocation 2 of 2048 bytes"},
	{kernel: "write_into_slack", found: "write_into_slack wrote just outside allocation 2 of 2044 bytes", fast: "wrote just outside allocation 2"},
	{kernel: "write_before_start", found: "write_before_start wrote just outside allocation 2", fast: "wrote just outside allocation 2"},
	{kernel: "unwritten_output", found: "NaN", fast: "NaN"},
	{kernel: "misaligned_vector", found: "which is not a multiple of 16 (memory.cu:"},
	{kernel: "misaligned_shared", found: "load4 (memory.cu:", fast: "load4 (memory.cu:"},
	{kernel: "shared_past_end", found: "block (0,0,0) thread (255,0,0): writes tile[256], which has 256 elements"},
	{kernel: "unwritten_shared", found: "NaN"},
	{kernel: "local_past_end", found: "indexes a local array beyond its end (memory.cu:"},
	{kernel: "deep_stack", found: "more than the 64 KiB stack", fast: "more than the 64 KiB stack"},
	{kernel: "index_overflow", found: "overflows a signed integer by a product (arithmetic.cu:"},
	{kernel: "integer_division_by_zero", found: "divides an integer by zero"},
	{kernel: "misplaced_16x8", found: "__trap at fragment.cu:", fast: "__trap at fragment.cu:"},
	{kernel: "misplaced_8x8", found: "__trap at fragment.cu:", fast: "__trap at fragment.cu:"},
	{kernel: "trapped", found: "__trap at arithmetic.cu:", fast: "__trap at arithmetic.cu:"},
}

func TestEmulator_FindsPlantedFaults(t *testing.T) {
	folder := library(t)
	checked, fast := filepath.Join(folder, "checked", "libcuda.so.1"), filepath.Join(folder, "fast", "libcuda.so.1")
	for _, p := range planted {
		t.Run(p.kernel, func(t *testing.T) {
			if out := run(t, checked, p.kernel); !strings.Contains(out, p.found) {
				t.Errorf("the checked build does not print %q but:\n%s", p.found, out)
			}
			if p.fast != "" {
				if out := run(t, fast, p.kernel); !strings.Contains(out, p.fast) {
					t.Errorf("the fast build does not print %q but:\n%s", p.fast, out)
				}
			}
			for _, order := range []string{"reverse", "7"} {
				if out := run(t, checked, p.kernel, "DPTRAIN_EMU_ORDER="+order); !strings.Contains(out, "emulated device: ") && !strings.Contains(out, "NaN") {
					t.Errorf("in the order %s the fault goes unseen:\n%s", order, out)
				}
			}
		})
	}
}

// Without its fault each kernel passes, with the same bits in both builds and in every
// order of threads.
func TestEmulator_AcceptsMendedKernels(t *testing.T) {
	folder := library(t)
	checked, fast := filepath.Join(folder, "checked", "libcuda.so.1"), filepath.Join(folder, "fast", "libcuda.so.1")
	var kernels string
	for _, p := range planted {
		kernels += p.kernel + "_mended "
	}
	want := run(t, fast, kernels)
	if strings.Count(want, "\n") != len(planted) || strings.Count(want, "_mended bits ") != len(planted) {
		t.Fatalf("a kernel without a fault fails:\n%s", want)
	}
	for _, order := range []string{"forward", "reverse", "7"} {
		if out := run(t, checked, kernels, "DPTRAIN_EMU_ORDER="+order); out != want {
			t.Errorf("in the order %s:\n%swant:\n%s", order, out, want)
		}
	}
}

// What depends on the order of threads gives other bits in another order.
func TestEmulator_OrderShowsArrival(t *testing.T) {
	checked := filepath.Join(library(t), "checked", "libcuda.so.1")
	bits := func(kernel, order string) string { return run(t, checked, kernel, "DPTRAIN_EMU_ORDER="+order) }
	forward, mended := bits("order_of_arrival", "forward"), bits("order_of_arrival_mended", "forward")
	if !strings.Contains(forward, "bits") || !strings.Contains(mended, "bits") {
		t.Fatalf("they fail:\n%s%s", forward, mended)
	}
	for _, order := range []string{"reverse", "1", "2"} {
		if bits("order_of_arrival", order) == forward {
			t.Errorf("the order %s changes nothing", order)
		}
		if out := bits("order_of_arrival_mended", order); out != mended {
			t.Errorf("mended, in the order %s: %swant %s", order, out, mended)
		}
	}
}

// A fault of Go's own is Go's to handle, though the library catches those of kernels.
func TestEmulator_LeavesFaultsToGo(t *testing.T) {
	checked := filepath.Join(library(t), "checked", "libcuda.so.1")
	want := "read_past_end_mended bits"
	if out := run(t, checked, "read_past_end_mended "+faultOfGo); !strings.HasPrefix(out, want) || !strings.HasSuffix(out, recovered+"\n") {
		t.Errorf("got %q", out)
	}
}

// Faults in what the GPU's compiler made of kernels are found as well.
func TestEmulator_FindsFaultsInPTX(t *testing.T) {
	library(t) // skips where no device can be built
	folder := t.TempDir()
	if out, err := build("-o", folder, "-ptx", "compiled.ptx"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	device := filepath.Join(folder, "ptx", "libcuda.so.1")
	for kernel, found := range map[string]string{
		"compiled_barrier":    "writes shared memory[128], which thread (127,0,0) read without a barrier in between",
		"compiled_past_end":   "thread (255,0,0): writes shared memory[256], which has 256 elements (compiled.ptx:",
		"compiled_misaligned": "accesses 8 bytes at offset 4 of allocation 1 of 2048 bytes, which is not aligned",
		"compiled_lanes":      "wait at shfl.sync (compiled.ptx:127)",
	} {
		if out := run(t, device, kernel); !strings.Contains(out, found) {
			t.Errorf("%s does not print %q but:\n%s", kernel, found, out)
		}
	}
	// Eight warps in each of two blocks: lanes that read every eighth number take a sector
	// each; eight lanes that read one bank take eight passes.
	table := filepath.Join(folder, "traffic")
	run(t, device, "compiled_strides", "DPTRAIN_EMU_TRAFFIC="+table)
	lines, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\tload\t16\t512\t64\n", "\tload shared\t16\t128\t16\n", "\tstore\t16\t64\t64\n"} {
		if !strings.Contains(string(lines), want) {
			t.Errorf("the traffic is not %q but\n%s", want, lines)
		}
	}
	// Both blocks read and write the same: 64 sectors and 32.
	run(t, device, "compiled_strides", "DPTRAIN_EMU_BYTES="+table)
	if lines, err = os.ReadFile(table); err != nil || !strings.HasSuffix(string(lines), "\ncompiled_strides\t1\t2048\t1024\n") {
		t.Errorf("the bytes are %v\n%s", err, lines)
	}
	if out := run(t, device, "compiled_barrier_mended"); !strings.HasPrefix(out, "compiled_barrier_mended bits ") {
		t.Errorf("a kernel without a fault fails:\n%s", out)
	}
}

// What is not understood is refused, and the line is named.
func TestEmulator_RefusesUnknownPTX(t *testing.T) {
	library(t)
	for text, message := range map[string]string{
		".extern .func (.param .b32 r) vprintf;":                                                  "line 1",
		".visible .entry k(\n)\n{\n\tcall.uni printf, (1);\n}":                                    "line 4",
		".visible .entry k(\n)\n{\n\t.reg .b32 \t%r<2>;\n\tdp4a.u32.u32 \t%r1, %r1, %r1, %r1;\n}": "unknown.ptx:5",
	} {
		folder := t.TempDir()
		file := filepath.Join(folder, "unknown.ptx")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := build("-o", folder, "-ptx", file); err == nil || !strings.Contains(out, message) {
			t.Errorf("%q: %v\n%s", text, err, out)
		}
	}
}
