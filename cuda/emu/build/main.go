// Command build makes the emulated CUDA device: a libcuda.so.1 that runs the kernels of
// cuda/kernels on the CPU. From anywhere inside the repository:
//
//	go run ./cuda/emu/build [-k] [-o folder] [kernel.cu ...]
//
// It writes checked/libcuda.so.1, which looks at every access to shared memory, and
// fast/libcuda.so.1, which does not; the bits that kernels compute are the same. Files
// named on the command line take the place of all those in cuda/kernels. With -k a file
// that does not compile is left out of the library, as make -k would, and the command
// still fails. The compiler is $CXX, else g++; one for another processor may be given.
package main

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Flags of both builds. Kernels say by fmaf where they mean a contraction, and read the
// same memory as several types.
var common = []string{
	"-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti", "-pthread",
	"-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing",
	"-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Wno-attributes", "-Wno-unused-function", "-Wno-unused-parameter", "-Wno-unused-variable",
}

// A variant is one of the two builds.
type variant struct {
	name        string
	flags       []string
	kernelFlags []string
}

var variants = []variant{
	{"checked", []string{"-O1", "-g1", "-DCHECKED"}, []string{
		"-fsanitize=alignment,bounds,signed-integer-overflow,integer-divide-by-zero,shift", "-ftrivial-auto-var-init=pattern"}},
	{"fast", []string{"-O3", "-g1"}, nil},
}

func main() {
	out := flag.String("o", "", "folder for the libraries (default: build/emu in the repository)")
	keep := flag.Bool("k", false, "leave out kernels that do not compile")
	flag.Parse()
	if err := run(*out, *keep, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(out string, keep bool, kernels []string) error {
	root, err := repository()
	if err != nil {
		return err
	}
	if out == "" {
		out = filepath.Join(root, "build", "emu")
	}
	if len(kernels) == 0 {
		if kernels, err = filepath.Glob(filepath.Join(root, "cuda", "kernels", "*.cu")); err != nil {
			return err
		}
	}
	if len(kernels) == 0 {
		return errors.New("no kernels: name some .cu files or put them into cuda/kernels")
	}
	device, err := filepath.Glob(filepath.Join(root, "cuda", "emu", "*.cc"))
	if err != nil {
		return err
	}
	cxx := os.Getenv("CXX")
	if cxx == "" {
		cxx = "g++"
	}
	machine, err := exec.Command(cxx, "-dumpmachine").Output()
	if err != nil {
		return fmt.Errorf("no compiler %s (%w): install g++ or set CXX", cxx, err)
	}
	if strings.HasPrefix(string(machine), map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]) {
		common = append(common, "-march=native")
	}
	common = append(common, "-I"+filepath.Join(root, "cuda", "kernels"))

	var failed error
	for _, v := range variants {
		b := builder{variant: v, cxx: cxx, folder: filepath.Join(out, v.name), keep: keep}
		err := b.build(device, kernels)
		if err != nil && !keep {
			return err
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// repository is the folder of go.mod, at or above the working directory.
func repository() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, e := os.Stat(filepath.Join(dir, "go.mod")); e == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("run inside the repository")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// A builder makes one variant.
type builder struct {
	variant
	cxx, folder string
	keep        bool
}

func (b *builder) build(device, kernels []string) error {
	if err := os.MkdirAll(b.folder, 0o755); err != nil {
		return err
	}
	objects := make([]string, len(device)+len(kernels))
	failures := make([]error, len(objects))
	var wait sync.WaitGroup
	free := make(chan struct{}, runtime.NumCPU())
	for i := range objects {
		wait.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			if i < len(device) {
				objects[i], failures[i] = b.compile(device[i], b.flags, nil)
			} else {
				objects[i], failures[i] = b.kernels(kernels[i-len(device)])
			}
		})
	}
	wait.Wait()
	failed := errors.Join(failures...)
	if failed != nil && (!b.keep || errors.Join(failures[:len(device)]...) != nil) {
		return failed
	}
	made := slices.DeleteFunc(objects, func(o string) bool { return o == "" })
	if err := namesDiffer(made[len(device):]); err != nil {
		return err
	}
	link := append(slices.Concat(common, made), "-shared", "-Wl,-soname,libcuda.so.1", "-Wl,-z,nodelete")
	return errors.Join(failed, b.make(filepath.Join(b.folder, "libcuda.so.1"), link))
}

// kernels compiles a .cu file as C++, with a registration behind each of its kernels.
func (b *builder) kernels(file string) (object string, err error) {
	if file, err = filepath.Abs(file); err != nil {
		return "", err
	}
	wrapper := fmt.Sprintf("#include \"device.h\"\n#include \"../emu/registry.h\"\nnamespace {\n#include %q\n", file)
	source := filepath.Join(b.folder, strings.TrimSuffix(filepath.Base(file), ".cu")+".cu.cc")
	return b.compile(source, slices.Concat(b.flags, b.kernelFlags), func() error {
		if err := os.WriteFile(source, []byte(wrapper+"}\n"), 0o644); err != nil {
			return err
		}
		preprocess := exec.Command(b.cxx, append(slices.Concat(common, b.flags), "-E", source)...)
		preprocess.Stderr = os.Stderr
		text, err := preprocess.Output()
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		complete := wrapper
		for _, k := range kernelWords.FindAllStringSubmatch(string(text), -1) {
			bounds, name := cmp.Or(k[1], "1024"), k[2]
			complete += fmt.Sprintf("emu::Registration<&%s> %s_registration(%q, %q, %s);\n", name, name, name, filepath.Base(file), bounds)
		}
		return os.WriteFile(source, []byte(complete+"}\n"), 0o644)
	})
}

// kernelWords finds the kernels of preprocessed text, where KERNEL and LAUNCH_BOUNDS are
// what cuda/emu/vectors.h makes of them; so kernels that a macro makes are found too.
var kernelWords = regexp.MustCompile(`\bemu_kernel\s+(?:\[\[emu::launch_bounds\((.*?)\)\]\]\s*)?(\w+)\s*\(`)

// namesDiffer says that no two kernels, of whatever file, have one name.
func namesDiffer(objects []string) error {
	registration := regexp.MustCompile(`Registration<&(\w+)>`)
	in := map[string]string{}
	for _, o := range objects {
		source := strings.TrimSuffix(o, ".o")
		text, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		for _, k := range registration.FindAllStringSubmatch(string(text), -1) {
			if other, ok := in[k[1]]; ok {
				return fmt.Errorf("two kernels are called %s: in %s and %s", k[1], filepath.Base(other), filepath.Base(source))
			}
			in[k[1]] = source
		}
	}
	return nil
}

// compile makes the object of a source, which prepare may write, unless there is one
// that is newer than all it was made from and was made by the same command.
func (b *builder) compile(source string, flags []string, prepare func() error) (string, error) {
	object := filepath.Join(b.folder, filepath.Base(source)+".o")
	dependencies := object + ".d"
	arguments := append(slices.Concat(common, flags), "-c", source, "-MMD", "-MF", dependencies, "-MT", "object")
	command := []byte(b.cxx + " " + strings.Join(arguments, " "))
	if last, err := os.ReadFile(object + ".command"); err == nil && bytes.Equal(last, command) && newer(object, dependencies) {
		return object, nil
	}
	if prepare != nil {
		if err := prepare(); err != nil {
			return "", err
		}
	}
	if err := b.make(object, arguments); err != nil {
		return "", fmt.Errorf("%s: %w", source, err)
	}
	return object, os.WriteFile(object+".command", command, 0o644)
}

// newer says whether a file is newer than all that its list of dependencies names.
func newer(file, dependencies string) bool {
	made, err := os.Stat(file)
	if err != nil {
		return false
	}
	list, err := os.ReadFile(dependencies)
	if err != nil {
		return false
	}
	_, names, _ := strings.Cut(strings.ReplaceAll(string(list), "\\\n", " "), ":")
	for _, name := range strings.Fields(names) {
		if source, err := os.Stat(name); err != nil || source.ModTime().After(made.ModTime()) {
			return false
		}
	}
	return true
}

// make runs the compiler and puts its output in place only when it is whole: others may
// be using what is there.
func (b *builder) make(file string, arguments []string) error {
	whole := fmt.Sprintf("%s.%d", file, os.Getpid())
	compiler := exec.Command(b.cxx, append(slices.Clone(arguments), "-o", whole)...)
	compiler.Stdout, compiler.Stderr = os.Stderr, os.Stderr
	if err := compiler.Run(); err != nil {
		os.Remove(whole)
		return err
	}
	return os.Rename(whole, file)
}
