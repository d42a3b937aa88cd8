package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// sources are the texts of the kernels: every header, then every .cu file.
type sources []source

type source struct{ name, text string }

func readSources(folder string) (s sources, err error) {
	for _, pattern := range []string{"*.h", "*.cu"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s contains no %s", folder, pattern)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			s = append(s, source{filepath.Base(file), string(text)})
		}
	}
	return s, nil
}

// unit returns one translation unit with every kernel: it includes every header, then
// every .cu file in a namespace of its own, so that files may use the same names.
func (s sources) unit() string {
	var unit strings.Builder
	for _, f := range s {
		if space, ok := strings.CutSuffix(f.name, ".cu"); ok {
			fmt.Fprintf(&unit, "namespace %s_file {\n#include \"%s\"\n}\n", space, f.name)
		} else {
			fmt.Fprintf(&unit, "#include \"%s\"\n", f.name)
		}
	}
	return unit.String()
}

// input is the standard input of nvrtc/compile.c.
func (s sources) input() string {
	var input strings.Builder
	input.WriteString(s.unit() + "\x00")
	for _, f := range s {
		input.WriteString(f.name + "\x00" + f.text + "\x00")
	}
	return input.String()
}

// digest returns a hash of everything that images are made from, except their targets and NVRTC: the
// kernels' sources, the options, and the program that runs NVRTC.
func (s sources) digest(options []string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q\n", compileSource, options, s.unit())
	for _, f := range s {
		fmt.Fprintf(h, "%q %q\n", f.name, f.text)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
