package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// readUnit returns one translation unit with every kernel: it includes every header, then
// every .cu file in a namespace of its own, so that files may use the same names.
func readUnit(folder string) (string, error) {
	var unit strings.Builder
	for _, pattern := range []string{"*.h", "*.cu"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return "", err
		}
		if len(files) == 0 {
			return "", fmt.Errorf("%s contains no %s", folder, pattern)
		}
		for _, file := range files {
			name := filepath.Base(file)
			if space, ok := strings.CutSuffix(name, ".cu"); ok {
				fmt.Fprintf(&unit, "namespace %s_file {\n#include \"%s\"\n}\n", space, name)
			} else {
				fmt.Fprintf(&unit, "#include \"%s\"\n", name)
			}
		}
	}
	return unit.String(), nil
}
