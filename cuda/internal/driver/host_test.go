//go:build gpu

package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dptrain/dptrain/cuda/internal/kernels"
)

// The library is opened once a process, so each kind of host is another process of
// this test, which then does one thing.
const task = "DPTRAIN_DRIVER_TASK"

func TestMain(m *testing.M) {
	switch os.Getenv(task) {
	case "":
		os.Exit(m.Run())
	case "count":
		fmt.Println(Count())
	case "open":
		_, err := Open(0)
		fmt.Println(err)
	case "launch":
		fmt.Println(launchTwice())
	}
}

// launchTwice is for a device that falls away after one launch.
func launchTwice() error {
	d, err := open()
	if err != nil {
		return err
	}
	k, p, err := square(d)
	if err != nil {
		return err
	}
	for range 2 {
		if err := d.Launch(k, Dim{1, 1, 1}, Dim{32, 1, 1}, Pack(p, p, int32(32), int32(9))); err != nil {
			return fmt.Errorf("launch: %w", err)
		}
	}
	err = d.Synchronize()
	if err != nil && !errors.Is(err, ErrDeviceLost) {
		return fmt.Errorf("not ErrDeviceLost: %w", err)
	}
	return err
}

// on runs a task as a process on another host, and returns what it printed.
func on(t *testing.T, what string, environment ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, self)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGQUIT) } // it prints its goroutines
	c.Env = append(append(os.Environ(), task+"="+what), environment...)
	output, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s on %v: %v\n%s", what, environment, err, output)
	}
	return strings.TrimSpace(string(output))
}

func expect(t *testing.T, got string, parts ...string) {
	t.Helper()
	if strings.Contains(got, "\n") {
		t.Errorf("more than a line: %q", got)
	}
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("%q does not contain %q", got, part)
		}
	}
}

func TestOpen_WithoutDriver(t *testing.T) {
	host := "DPTRAIN_LIBCUDA="
	if count := on(t, "count", host); count != "0 <nil>" {
		t.Skip("this host has a driver: ", count)
	}
	expect(t, on(t, "open", host), "cuda:0: no NVIDIA driver was found (", "libcuda.so.1")
}

// Else tests that name the emulated device would pass without it.
func TestOpen_MissingNamedDriver(t *testing.T) {
	host := "DPTRAIN_LIBCUDA=/nonexistent/libcuda.so.1"
	expect(t, on(t, "count", host), "0 DPTRAIN_LIBCUDA does not name a driver: /nonexistent/libcuda.so.1")
	expect(t, on(t, "open", host), "cuda:0: DPTRAIN_LIBCUDA does not name a driver: /nonexistent/libcuda.so.1")
}

func driver(t *testing.T, flags ...string) string {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler to make a driver with")
	}
	source := filepath.Join("testdata", "libcuda.c")
	if _, err := os.Stat(source); err != nil {
		t.Skip("the sources are not here")
	}
	file := filepath.Join(t.TempDir(), "libcuda.so.1")
	args := append(flags, "-shared", "-fPIC", "-o", file, source)
	if output, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return "DPTRAIN_LIBCUDA=" + file
}

// A command that needs no GPU does not wait for one.
func TestDriver_OpensOnFirstUse(t *testing.T) {
	host := driver(t, "-DSTARTED=0", "-DVERSION=12090")
	if output := on(t, "nothing", host); output != "" {
		t.Errorf("the driver is opened when the process starts: %q", output)
	}
	if output := on(t, "count", host); output != "opened\n1 <nil>" {
		t.Errorf("count prints %q", output)
	}
}

func TestOpen_OldOrBrokenDriver(t *testing.T) {
	for _, c := range []struct {
		flags    []string
		messages []string
	}{
		{[]string{"-DSTARTED=0", "-DVERSION=11080"}, []string{"too old (", "CUDA 11.8)", "needs CUDA 12.0", "525"}},
		{[]string{"-DSTARTED=0", "-DVERSION=12010", "-DLACKING"}, []string{"too old (", "CUDA 12.1, without cuGraphLaunch)"}},
		{[]string{"-DSTARTED=803", "-DVERSION=12090"}, []string{"the NVIDIA driver cannot be initialized: CUDA_ERROR_STARTED: it did not start"}},
		{[]string{"-DSTARTED=100", "-DVERSION=12090"}, []string{"no such device: the NVIDIA driver shows no GPU"}},
	} {
		output, ok := strings.CutPrefix(on(t, "open", driver(t, c.flags...)), "opened\n")
		if !ok {
			t.Errorf("%v: the driver was not opened", c.flags)
		}
		expect(t, output, append(c.messages, "cuda:0: ")...)
	}
}

func TestOpen_EmulatedHosts(t *testing.T) {
	if d := device(t); !d.Emulated() {
		t.Skip("only the emulated device can be made old, small or faulty")
	}
	expect(t, on(t, "open", "DPTRAIN_EMU_DRIVER=11040"), "cuda:0: the NVIDIA driver is too old (CUDA 11.4)")
	if _, err := kernels.ImageFor(130); err == nil { // a bundle has the kernels of one architecture
		expect(t, on(t, "launch", "DPTRAIN_EMU_DRIVER=12080", "DPTRAIN_EMU_ARCH=130"), "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "; install driver release 575 or newer")
	}
	expect(t, on(t, "launch", "DPTRAIN_EMU_DRIVER=12000"), "<nil>") // a cubin needs no newer driver
	expect(t, on(t, "open", "DPTRAIN_EMU_ARCH=70"), "the GPU is too old: its compute capability is 7.0, and dptrain needs 7.5 or newer")
	lines := strings.Split(on(t, "launch", "DPTRAIN_EMU_LOST=1"), "\n")
	expect(t, lines[len(lines)-1], "the device is lost to this process: another process owns it, or it was disconnected")
}
