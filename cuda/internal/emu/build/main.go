// Command build makes the emulated CUDA device: a libcuda.so.1 that runs the kernels of
// cuda/internal/kernels on the CPU. From anywhere inside the repository:
//
//	go run ./cuda/internal/emu/build [-k] [-only checked|fast] [-o folder] [kernel.cu ...]
//	go run ./cuda/internal/emu/build -ptx module.ptx|kernels.zip [-o folder]
//
// It writes kernels.zip, which programs embed that run on the device; checked/libcuda.so.1, which checks every access to shared memory, and
// fast/libcuda.so.1, which does not, or only one of them; kernels compute the same bits in
// both. Files on the command line replace those in cuda/internal/kernels. With -k, the library omits
// files that do not compile, as make -k would, and the command still fails. With -ptx it writes
// ptx/libcuda.so.1 from PTX instead. The compiler is $CXX, by default g++; it may be a cross-compiler.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Kernels call fmaf where a product and a sum are rounded once, read the same memory as
// several types, and expect a signed char.
var flags = []string{
	"-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-pthread", "-g1",
	"-ffp-contract=off", "-fstack-clash-protection", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing", "-fsigned-char",
	"-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Wno-attributes", "-Wno-unused-function", "-Wno-unused-parameter", "-Wno-unused-variable",
}

type variant struct {
	name  string
	flags []string
}

// variants are the builds of the kernels; all use the same device.
var variants = []variant{
	{"checked", []string{"-O1", "-DCHECKED", "-ftrivial-auto-var-init=pattern",
		"-fsanitize=alignment,bounds,signed-integer-overflow,integer-divide-by-zero,shift"}},
	{"fast", []string{"-O3"}},
}

func main() {
	out := flag.String("o", "", "folder for the libraries (default .cache/cuda/emu in the repository)")
	keep := flag.Bool("k", false, "leave out kernels that do not compile")
	only := flag.String("only", "", "library to write: checked or fast (default both)")
	ptx := flag.String("ptx", "", "PTX module, or archive of kernels, to run instead of the kernels' sources")
	flag.Parse()
	if err := run(*out, *keep, *only, *ptx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(out string, keep bool, only, ptx string, kernels []string) error {
	wanted := slices.Clone(variants)
	if only != "" {
		wanted = slices.DeleteFunc(wanted, func(v variant) bool { return v.name != only })
	}
	if len(wanted) == 0 {
		return fmt.Errorf("-only %s: checked or fast", only)
	}
	root, err := repository()
	if err != nil {
		return err
	}
	cache := filepath.Join(root, ".cache", "cuda", "emu")
	out = cmp.Or(out, cache)
	if len(kernels) == 0 {
		kernels, _ = filepath.Glob(filepath.Join(root, "cuda", "internal", "kernels", "*.cu"))
	}
	if len(kernels) == 0 {
		return errors.New("no kernels: name some .cu files or put them into cuda/internal/kernels")
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if err := writeImages(out); err != nil {
		return err
	}
	device, _ := filepath.Glob(filepath.Join(root, "cuda", "internal", "emu", "*.cc"))
	c, err := newCompiler(root)
	if err != nil {
		return err
	}

	var made library
	for _, file := range device {
		made.add(func() (string, error) {
			return c.compile(file, filepath.Join(cache, "device"), []string{"-O2"}, nil)
		})
	}
	if ptx != "" {
		return c.ptx(ptx, filepath.Join(out, "ptx"), &made)
	}
	kernelsOf := make([]library, len(wanted))
	for i, v := range wanted {
		for _, file := range kernels {
			kernelsOf[i].add(func() (string, error) { return c.kernels(file, filepath.Join(out, v.name), v.flags) })
		}
	}
	if err := made.wait(); err != nil {
		return err
	}
	var failed error
	for i, v := range wanted {
		err := kernelsOf[i].wait()
		if failed = errors.Join(failed, err); err != nil && !keep {
			continue
		}
		if err := namesDiffer(kernelsOf[i].objects); err != nil {
			return err
		}
		if err := c.link(filepath.Join(out, v.name), made.objects, kernelsOf[i].objects); err != nil {
			return err
		}
	}
	return failed
}

func (c *compiler) link(folder string, device, kernels []string) error {
	return c.make(filepath.Join(folder, "libcuda.so.1"), slices.Concat(device, kernels, []string{"-shared", "-Wl,-soname,libcuda.so.1", "-Wl,-z,nodelete"}))
}

// ptx builds the library of a PTX module.
func (c *compiler) ptx(module, folder string, device *library) error {
	t, err := readPTX(module)
	if err != nil {
		return err
	}
	files, err := t.sources(folder)
	if err != nil {
		return err
	}
	var kernels library
	for _, file := range files {
		kernels.add(func() (string, error) {
			return c.compile(file, folder, []string{"-Og", "-Wno-unused-label", "-Wno-maybe-uninitialized", "-Wno-unused-but-set-variable", "-Werror=float-conversion"}, nil)
		})
	}
	if err := errors.Join(device.wait(), kernels.wait()); err != nil {
		return err
	}
	return c.link(folder, device.objects, kernels.objects)
}

// repository is the folder of go.mod, at or above the working directory.
func repository() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, e := os.Stat(filepath.Join(dir, "go.mod")); e == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("run inside the repository")
		}
	}
	return "", err
}

// newCompiler checks the compiler, and lets it use this processor's instructions if it
// compiles for this kind of processor.
func newCompiler(root string) (*compiler, error) {
	c := &compiler{cxx: cmp.Or(os.Getenv("CXX"), "g++")}
	machine, err := exec.Command(c.cxx, "-dumpmachine").Output()
	if err != nil {
		return nil, fmt.Errorf("no compiler %s (%w): install g++ or set CXX", c.cxx, err)
	}
	c.flags = append(flags, "-I"+filepath.Join(root, "cuda", "internal", "kernels"))
	if here := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]; strings.HasPrefix(string(machine), here) {
		c.flags = append(c.flags, "-march=native")
	}
	return c, nil
}

// A library is a set of objects, compiled concurrently, that are then linked.
type library struct {
	objects []string
	failed  error
	running sync.WaitGroup
	mu      sync.Mutex
}

// processors limits the number of concurrent compilers.
var processors = make(chan struct{}, runtime.NumCPU())

func (l *library) add(compile func() (string, error)) {
	l.running.Go(func() {
		processors <- struct{}{}
		object, err := compile()
		<-processors
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.failed = errors.Join(l.failed, err); err == nil {
			l.objects = append(l.objects, object)
		}
	})
}

func (l *library) wait() error {
	l.running.Wait()
	slices.Sort(l.objects)
	return l.failed
}
