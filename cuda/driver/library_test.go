//go:build gpu

package driver

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// opened is a library where there is a GPU that has it, and on the emulated device its
// plain twin.
func opened[L fmt.Stringer](t *testing.T, d *Device, variable, file string, open func(*Device) (L, error)) L {
	t.Helper()
	if d.Emulated() {
		t.Setenv(variable, twin(t, file))
	}
	l, err := open(d)
	if err != nil && d.Emulated() { // where the twin stands in
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	t.Log(l)
	return l
}

// twin builds the plain twin of a library.
func twin(t *testing.T, library string) string {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("the twin of a library is built with cc")
	}
	file := filepath.Join(t.TempDir(), library+".so")
	if output, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-Wall", "-o", file, filepath.Join("testdata", library+".c"), "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return file
}

// cannotServe sees that a library was not opened, for the reason given; none: because
// there is none.
func cannotServe(t *testing.T, err error, message string, none bool) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), message) || errors.Is(err, ErrNotFound) != none {
		t.Errorf("%v, want %q, and ErrNotFound: %v", err, message, none)
	}
}
