//go:build gpu

package driver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// opened is a library where there is a GPU that has it, and on the emulated device the file that
// the environment names, or a stand-in.
func opened[L fmt.Stringer](t *testing.T, d *Device, variable, file string, open func(*Device) (L, error)) L {
	t.Helper()
	if named := os.Getenv(variable); d.Emulated() && (named == "" || named == "none") {
		t.Setenv(variable, standIn(t, file))
	}
	l, err := open(d)
	if err != nil && d.Emulated() { // where the stand-in is used
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	t.Log(l)
	return l
}

// Libraries are found where pip installs NVIDIA's wheels, although no environment is
// active, but not in the working folder.
func TestLibrary_FoundInPythonPackages(t *testing.T) {
	home, work := t.TempDir(), t.TempDir()
	t.Chdir(work)
	t.Setenv("HOME", home)
	t.Setenv("VIRTUAL_ENV", "")
	t.Setenv("CONDA_PREFIX", "relative")
	t.Setenv("PATH", filepath.Join(home, "tools", "bin"))
	t.Setenv("PYTHONPATH", filepath.Join(home, "target")+string(filepath.ListSeparator)+"modules")
	const packages = "lib/python3.11/site-packages"
	var want []string
	for _, folder := range []string{
		"target", "tools/" + packages, "base/" + packages, ".local/" + packages, ".venv/" + packages, ".pyenv/versions/3.12/" + packages, "miniconda3/" + packages, "miniconda3/envs/torch/" + packages,
	} {
		want = append(want, filepath.Join(home, folder, "nvidia", "cudnn", "lib", "libcudnn.so.9"))
	}
	python := filepath.Join(home, "base", "bin", "python3.11")
	for _, file := range append([]string{python, filepath.Join(work, "modules/nvidia/cudnn/lib/libcudnn.so.9"), filepath.Join(work, "relative", packages, "nvidia/cudnn/lib/libcudnn.so.9")}, want...) {
		must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		must(t, os.WriteFile(file, nil, 0o755))
	}
	must(t, os.Mkdir(filepath.Join(home, "tools", "bin"), 0o755))
	must(t, os.Symlink(python, filepath.Join(home, "tools", "bin", "python3")))
	l := library{file: "libcudnn.so.", versions: []int{9, 8}}
	var got []string
	for _, path := range l.paths() {
		if strings.HasPrefix(path, home) || !filepath.IsAbs(path) && strings.Contains(path, "/") {
			got = append(got, path)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if paths := l.paths(); paths[0] != "libcudnn.so.9" {
		t.Errorf("the linker's default is not first: %q", paths[0])
	}
}

// standIn builds the stand-in of a library, from a source that only the repository has.
func standIn(t *testing.T, library string) string {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("the stand-in of a library is built with cc")
	}
	source := filepath.Join("testdata", library+".c")
	if _, err := os.Stat(source); err != nil {
		t.Skip("the source of the library's stand-in is not here")
	}
	file := filepath.Join(t.TempDir(), library+".so")
	build(t, file, source)
	if library == "libcudnn" {
		build(t, filepath.Join(filepath.Dir(file), "libcublasLt.so.12"), filepath.Join("testdata", "libcublasLt.c"))
	}
	return file
}

func build(t *testing.T, file, source string) {
	t.Helper()
	c := exec.Command("cc", "-O2", "-shared", "-fPIC", "-Wall", "-Wl,-soname,"+filepath.Base(file), "-o", file, source, "-ldl")
	if output, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
}

// A library that another one opens by its name is found beside that one, and in the folders of
// NVIDIA's wheels next to it. The stand-in of cuDNN ends the process if cuBLASLt is not found.
func TestLibrary_RequiresAnother(t *testing.T) {
	root := t.TempDir()
	l := library{path: filepath.Join(root, "nvidia", "cudnn", "lib", "libcudnn.so.9"), title: func() string { return "cuDNN 9" }}
	err := l.requireLibrary("cuBLASLt", "libdptrain_absent.so.", 12)
	if err == nil || !strings.HasPrefix(err.Error(), "cuDNN 9 cannot be used: it needs cuBLASLt 12, which was not found (") {
		t.Error(err)
	}
	made := standIn(t, "libcublasLt")
	for _, file := range []string{"nvidia/cudnn/lib/libdptrain_beside.so.12", "nvidia/cu13/lib/libdptrain_wheel.so.12"} {
		path := filepath.Join(root, file)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.Link(made, path))
		name, _, _ := strings.Cut(filepath.Base(path), "12")
		if err := l.requireLibrary("cuBLASLt", name, 12); err != nil {
			t.Error(err)
		}
	}
}

// cannotServe sees that a library was not opened, for the reason given; none: because
// there is none.
func cannotServe(t *testing.T, err error, message string, none bool) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), message) || errors.Is(err, ErrNotFound) != none {
		t.Errorf("%v, want %q, and ErrNotFound: %v", err, message, none)
	}
}
