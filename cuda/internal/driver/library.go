//go:build gpu

package driver

// #include <stdlib.h>
// #include "library.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	variable string // environment variable that names another file
	file     string // name without the version
	versions []int  // in order of preference
	path     string
	status   func(C.int) string
	title    func() string // name and version
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

// requireLibrary opens another library, so that this one, which opens it by its name, finds it: in
// the folders of this one's installation, or where dptrain searches.
func (l *library) requireLibrary(name, file string, version int) error {
	other := library{file: file, versions: []int{version}}
	var paths []string
	if folder := filepath.Dir(l.path); filepath.IsAbs(l.path) {
		full := file + strconv.Itoa(version)
		siblings, _ := filepath.Glob(filepath.Join(folder, "..", "..", "*", "lib", full)) // the pattern is well formed
		paths = append([]string{filepath.Join(folder, full)}, siblings...)
	}
	var none error
	for _, path := range append(paths, other.paths()...) {
		var failure [512]C.char
		c := C.CString(path)
		opened := C.driver_load_library(c, &failure[0], C.size_t(len(failure)))
		C.free(unsafe.Pointer(c))
		if opened != 0 {
			return nil
		}
		if none == nil {
			none = fmt.Errorf("%v cannot be used: it needs %s %d, which was not found (%s)", l.title(), name, version, C.GoString(&failure[0]))
		}
	}
	return none
}

// paths lists where the library may be: the linker's default, NVIDIA's folders, and the
// folders of Python packages, in which pip installs NVIDIA's wheels (PyTorch's copy among
// them).
func (l *library) paths() []string {
	if path := os.Getenv(l.variable); path != "" {
		return []string{path}
	}
	packages := pythonPackages()
	var paths []string
	for _, version := range l.versions {
		file := l.file + strconv.Itoa(version)
		paths = append(paths, file)
		for _, folder := range []string{os.Getenv("CUDA_HOME"), "/usr/local/cuda", "/usr/local/cuda-13", "/usr/local/cuda-12", "/opt/cuda"} {
			if folder != "" {
				paths = append(paths, filepath.Join(folder, "lib64", file))
			}
		}
		for _, folder := range packages {
			found, _ := filepath.Glob(filepath.Join(folder, "nvidia", "*", "lib", file)) // the pattern is well formed
			paths = append(paths, found...)
		}
	}
	return paths
}

// pythonPackages lists patterns of folders of Python packages, without those of the working
// folder, whose owner may be another user: of the active environment, of the Python in
// PATH, of the host, and of environments in their usual places, which need not be active.
func pythonPackages() (patterns []string) {
	prefixes := []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX")}
	for _, name := range []string{"python3", "python"} {
		if python, err := exec.LookPath(name); err == nil {
			prefixes = append(prefixes, filepath.Dir(filepath.Dir(python)))
			if resolved, err := filepath.EvalSymlinks(python); err == nil {
				prefixes = append(prefixes, filepath.Dir(filepath.Dir(resolved)))
			}
		}
	}
	home := os.Getenv("HOME")
	for _, folder := range []string{".local", "venv", ".venv", ".pyenv/versions/*"} {
		prefixes = append(prefixes, filepath.Join(home, folder))
	}
	prefixes = append(prefixes, "/usr/local", "/usr", "/opt/venv", "/venv")
	for _, conda := range []string{"/opt/conda", filepath.Join(home, "miniconda3"), filepath.Join(home, "anaconda3"), filepath.Join(home, "miniforge3")} {
		prefixes = append(prefixes, conda, filepath.Join(conda, "envs", "*"))
	}
	patterns = filepath.SplitList(os.Getenv("PYTHONPATH"))
	for _, prefix := range prefixes {
		patterns = append(patterns, filepath.Join(prefix, "lib", "python3*", "site-packages"), filepath.Join(prefix, "lib", "python3*", "dist-packages"))
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(patterns, func(p string) bool {
		drop := !filepath.IsAbs(p) || seen[p]
		seen[p] = true
		return drop
	})
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

// String names the library and its version.
func (m *PreparedCall) String() string { return m.library.title() }

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
