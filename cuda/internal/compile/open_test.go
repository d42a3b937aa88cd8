//go:build gpu

package compile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/driver"
	"github.com/dptrain/dptrain/cuda/internal/kernels"
	"github.com/dptrain/dptrain/cuda/internal/override"
)

// reopen makes open load kernels again for the test.
func reopen(t *testing.T) {
	t.Helper()
	device(t)
	before := opened.devices
	opened.devices = nil
	t.Cleanup(func() { opened.devices = before })
}

func kernelFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kernels")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DPTRAIN_KERNELS", path)
	return path
}

func TestOpen_LoadsKernelFile(t *testing.T) {
	reopen(t)
	list, err := driver.Devices()
	if err != nil {
		t.Fatal(err)
	}
	image, err := kernels.ImageFor(list[0].Arch)
	if err != nil {
		t.Fatal(err)
	}
	path := kernelFile(t, image)
	d, err := Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Kernel("unary"); err != nil {
		t.Error(err)
	}
	overrides, err := override.Describe()
	if err != nil || len(overrides) != 1 || !strings.Contains(overrides[0], path) {
		t.Errorf("the overrides are %q (%v)", overrides, err)
	}
	if file, err := override.Kernels(); err != nil || !strings.HasPrefix(file.Mark(), "-kernels-") {
		t.Errorf("the kernels are of %v (%v)", file, err)
	}
}

// The error names the file, and contains what the driver's compiler reported.
func TestOpen_RefusesKernelFile(t *testing.T) {
	reopen(t)
	path := kernelFile(t, []byte(".version 8.0\n.target of another\n"))
	_, err := Open(0)
	if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("PTX that does not compile: %v", err)
	}
	if list, _ := driver.Devices(); list[0].Emulated() && !strings.Contains(err.Error(), "(the emulated device cannot load the image)") {
		t.Errorf("the error lacks the driver's report: %v", err)
	}
	kernelFile(t, []byte("no kernels"))
	if _, err := NewDevice(Options{}); err == nil || !strings.Contains(err.Error(), "neither") {
		t.Errorf("a file of another kind: %v", err)
	}
}
