package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

type compiler struct {
	cxx   string
	flags []string
}

// kernels compiles a .cu file as C++, and adds a registration for each of its kernels.
func (c *compiler) kernels(file, folder string, flags []string) (object string, err error) {
	if file, err = filepath.Abs(file); err != nil {
		return "", err
	}
	wrapper := fmt.Sprintf("#include \"device.h\"\n#include \"../emu/registry.h\"\nnamespace {\n#include %q\n", file)
	source := filepath.Join(folder, filepath.Base(file)+".cc")
	return c.compile(source, folder, flags, func() error {
		if err := os.WriteFile(source, []byte(wrapper+"}\n"), 0o644); err != nil {
			return err
		}
		preprocess := exec.Command(c.cxx, append(slices.Concat(c.flags, flags), "-E", source)...)
		preprocess.Stderr = os.Stderr
		text, err := preprocess.Output()
		if err != nil {
			return err
		}
		complete := wrapper
		for _, k := range kernelWords.FindAllStringSubmatch(string(text), -1) {
			bounds, name := cmp.Or(k[1], "1024"), k[2]
			complete += fmt.Sprintf("emu::Registration<&%s> %s_registration(%q, %s);\n", name, name, name, bounds)
		}
		return os.WriteFile(source, []byte(complete+"}\n"), 0o644)
	})
}

// kernelWords finds the kernels in preprocessed text, in which cuda/internal/emu/vectors.h has replaced
// KERNEL and LAUNCH_BOUNDS; kernels that a macro defines are therefore found, too.
var kernelWords = regexp.MustCompile(`\bemu_kernel\s+(?:\[\[emu::launch_bounds\((.*?)\)\]\]\s*)?(\w+)\s*\(`)

// namesDiffer checks that no two kernels of any files have the same name.
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
				return fmt.Errorf("two kernels are called %s: in %s and in %s", k[1], filepath.Base(other), filepath.Base(source))
			}
			in[k[1]] = source
		}
	}
	return nil
}

// compile compiles a source, which prepare may write, unless its object was made by the same
// command and is newer than all files that it depends on.
func (c *compiler) compile(source, folder string, flags []string, prepare func() error) (string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	object := filepath.Join(folder, filepath.Base(source)+".o")
	dependencies := object + ".d"
	arguments := append(slices.Clone(flags), "-c", source)
	command := []byte(c.cxx + " " + strings.Join(slices.Concat(c.flags, arguments), " "))
	if last, err := os.ReadFile(object + ".command"); err == nil && bytes.Equal(last, command) && newer(object, dependencies) {
		return object, nil
	}
	if prepare != nil {
		if err := prepare(); err != nil {
			return "", fmt.Errorf("%s: %w", source, err)
		}
	}
	begun := time.Now()
	written := fmt.Sprintf("%s.%d", dependencies, os.Getpid())
	if err := c.make(object, append(arguments, "-MMD", "-MF", written, "-MT", "object")); err != nil {
		return "", fmt.Errorf("%s: %w", source, err)
	}
	if err := os.Rename(written, dependencies); err != nil {
		return "", err
	}
	// The object is as old as the start of the compiler, so that it is outdated if a source
	// changed meanwhile.
	if err := os.Chtimes(object, begun, begun); err != nil {
		return "", err
	}
	return object, os.WriteFile(object+".command", command, 0o644)
}

// newer reports whether a file is newer than all its dependencies.
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

// make runs the compiler and renames its output into place when it is complete, because
// other processes may use the old file.
func (c *compiler) make(file string, arguments []string) error {
	complete := fmt.Sprintf("%s.%d", file, os.Getpid())
	compiler := exec.Command(c.cxx, append(slices.Concat(c.flags, arguments), "-o", complete)...)
	compiler.Stdout, compiler.Stderr = os.Stderr, os.Stderr
	if err := compiler.Run(); err != nil {
		os.Remove(complete)
		return err
	}
	return os.Rename(complete, file)
}
