//go:build gpu

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// unit is one translation unit that holds every kernel. The sources are handed to
// the compiler by name, so that no path of this host gets into what it makes.
type unit struct {
	source string
	names  []string
	texts  []string
}

// readUnit includes every header, then every .cu file in a namespace of its own,
// so that two files may use one name for two things.
func readUnit(folder string) (unit, error) {
	var u unit
	var source strings.Builder
	for _, pattern := range []string{"*.h", "*.cu"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return unit{}, err
		}
		if len(files) == 0 {
			return unit{}, fmt.Errorf("%s holds no %s", folder, pattern)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return unit{}, err
			}
			name := filepath.Base(file)
			u.names = append(u.names, name)
			u.texts = append(u.texts, string(text))
			if space, ok := strings.CutSuffix(name, ".cu"); ok {
				fmt.Fprintf(&source, "namespace %s_file {\n#include \"%s\"\n}\n", space, name)
			} else {
				fmt.Fprintf(&source, "#include \"%s\"\n", name)
			}
		}
	}
	u.source = source.String()
	return u, nil
}
