package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sourceFiles returns the paths of the kernels' sources: every header, then every .cu file.
func sourceFiles(folder string) ([]string, error) {
	var all []string
	for _, pattern := range []string{"*.h", "*.cu"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s contains no %s", folder, pattern)
		}
		all = append(all, files...)
	}
	return all, nil
}

// readUnit returns one translation unit with every kernel: it includes every header, then
// every .cu file in a namespace of its own, so that files may use the same names.
func readUnit(folder string) (string, error) {
	files, err := sourceFiles(folder)
	if err != nil {
		return "", err
	}
	var unit strings.Builder
	for _, file := range files {
		name := filepath.Base(file)
		if space, ok := strings.CutSuffix(name, ".cu"); ok {
			fmt.Fprintf(&unit, "namespace %s_file {\n#include \"%s\"\n}\n", space, name)
		} else {
			fmt.Fprintf(&unit, "#include \"%s\"\n", name)
		}
	}
	return unit.String(), nil
}

// digest returns a hash of everything that the images of an archive are made from, except
// NVRTC: the kernels' sources, the targets, the options, and the program that runs NVRTC.
func digest(folder, unit string, targets []target, options []string) (string, error) {
	files, err := sourceFiles(folder)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q %+v %q %q\n", compileSource, targets, options, unit)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q %q\n", filepath.Base(file), text)
	}
	return fmt.Sprintf("sources %x", h.Sum(nil)), nil
}
