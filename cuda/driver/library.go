//go:build gpu

package driver

// #include <stdlib.h>
// #include "library.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"unsafe"

	"gorgonia.org/cu"
)

// ErrNotFound means that no file of a library was found.
var ErrNotFound = errors.New("was not found")

// library is one of NVIDIA's libraries, opened at run time from where it is installed.
type library struct {
	device   *Device
	name     string
	variable string   // environment variable that names another file
	file     string   // name without the version
	versions []int    // in order of preference
	wheels   []string // folders in Python packages
	path     string
	status   func(C.int) string
}

// newestCUDA is the newest known CUDA major version whose libraries the driver supports.
func newestCUDA() int {
	if cu.Version() < 13000 {
		return 12
	}
	return 13
}

// find opens the file that the variable names, or the first file that exists.
func (l *library) find(open func(path *C.char, found *C.int, failure *C.char, bytes C.size_t) bool) error {
	if l.device.Emulated() && os.Getenv(l.variable) == "" {
		return fmt.Errorf("%s %w (the emulated device has none)", l.name, ErrNotFound)
	}
	var none error
	for _, path := range l.paths() {
		var failure [512]C.char
		var found C.int
		name := C.CString(path)
		opened := open(name, &found, &failure[0], C.size_t(len(failure)))
		C.free(unsafe.Pointer(name))
		if opened {
			l.path = path
			return nil
		}
		why := C.GoString(&failure[0])
		if found != 0 {
			return fmt.Errorf("%s cannot be used: %s", l.name, why)
		}
		if none == nil {
			none = fmt.Errorf("%s %w (%s)", l.name, ErrNotFound, why)
		}
	}
	return none
}

// paths lists where the library may be: the linker's default, NVIDIA's folders, and the
// folders of Python packages.
func (l *library) paths() []string {
	if path := os.Getenv(l.variable); path != "" {
		return []string{path}
	}
	var prefixes []string
	for _, prefix := range []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX"), filepath.Join(os.Getenv("HOME"), ".local"), "/usr/local", "/usr"} {
		if filepath.IsAbs(prefix) {
			prefixes = append(prefixes, prefix)
		}
	}
	var paths []string
	for _, version := range l.versions {
		file := l.file + strconv.Itoa(version)
		paths = append(paths, file)
		for _, folder := range []string{os.Getenv("CUDA_HOME"), "/usr/local/cuda", "/usr/local/cuda-13", "/usr/local/cuda-12", "/opt/cuda"} {
			if folder != "" {
				paths = append(paths, filepath.Join(folder, "lib64", file))
			}
		}
		for _, prefix := range prefixes {
			for _, folder := range []string{"lib/python3*/site-packages", "lib/python3*/dist-packages"} {
				for _, wheel := range l.wheels {
					found, _ := filepath.Glob(filepath.Join(prefix, folder, wheel, file)) // the pattern is well formed
					paths = append(paths, found...)
				}
			}
		}
	}
	return paths
}

// check converts a library's status to an error. A negative status is minus the driver's
// result.
func (l *library) check(failure string, status C.int) error {
	switch {
	case status == 0:
		return nil
	case status < 0:
		return l.device.failed(failure, C.CUresult(-status))
	}
	return fmt.Errorf("%v: %s: %s (%s)", l.device, failure, l.status(status), l.path)
}

// PreparedCall is a library call on fixed operands.
type PreparedCall struct {
	Algorithm string // identifies the algorithm among those of this version of the library; not text
	library   *library
	what      any
	workspace int
	run       func(workspace C.CUdeviceptr) C.int
	drop      func()
}

// Workspace is the number of bytes of scratch memory that Run needs.
func (m *PreparedCall) Workspace() int { return m.workspace }

// Run runs the call, asynchronously. It allocates nothing, and may be captured.
func (m *PreparedCall) Run(workspace Pointer) error {
	if status := m.run(C.CUdeviceptr(workspace)); status != 0 {
		return m.library.check(fmt.Sprintf("%s cannot compute %+v", m.library.name, m.what), status)
	}
	return nil
}

// Close releases the call. Graphs that captured it stay valid.
func (m *PreparedCall) Close() {
	if m != nil && m.drop != nil {
		m.drop()
		m.drop = nil
	}
}
