package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// kernelPackages have functions with the arguments of assembly: numbers and addresses, which no struct
// may group, because a kernel reads them from registers and the stack.
var kernelPackages = []string{"internal/asm/neon", "internal/device/lattice", "internal/device/simd", "internal/random"}

// wideFunctions have more parameters, by name.
var wideFunctions = map[string]string{
	"bounded":     "a row of the table of presets",
	"moments":     "a row of the table of presets",
	"tutorial":    "a row of the table of presets",
	"NewPictures": "the axes of a picture, in the order of its name",
	"convolve":    "the axes of a convolution, in the order of a layer's name",
	"scoreModel":  "waits for the settings of cmd/dptrain",
}

// A function has at most 6 parameters: what belongs together is a struct with a name.
func TestParameters_AtMostSix(t *testing.T) {
	const limit = 6
	checked, wide := 0, map[string]bool{}
	walkGo(t, func(path string, file *ast.File, fset *token.FileSet) {
		if strings.HasSuffix(path, "_test.go") || slices.Contains(kernelPackages, folderOf(t, path)) {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncDecl)
			if !ok || f.Body == nil { // assembly has no body here
				return true
			}
			checked++
			if count := f.Type.Params.NumFields(); count > limit {
				wide[f.Name.Name] = true
				if wideFunctions[f.Name.Name] == "" {
					t.Errorf("%s: %s has %d parameters, more than %d: group what belongs together", fset.Position(f.Pos()), f.Name.Name, count, limit)
				}
			}
			return true
		})
	})
	for name, reason := range wideFunctions {
		if !wide[name] {
			t.Errorf("%s (%s) has at most %d parameters: remove it from wideFunctions", name, reason, limit)
		}
	}
	if checked < 4000 {
		t.Errorf("only %d functions were checked", checked)
	}
}
