// Package rooms holds no code: its test keeps the imports between the rooms of
// the house running one way.
package rooms

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/dptrain/dptrain/"

// mayImport lists, for each room, which other rooms its non-test code may see.
// A room not listed here may not exist: a new one is a decision, not a habit.
var mayImport = map[string][]string{
	"accountant":           {"accountant/ledger", "internal/composition", "internal/dpevent", "internal/pld", "internal/rdp", "internal/solve"},
	"accountant/ledger":    {"internal/lock", "internal/atomicfile"},
	"clip":                 {"internal/nearest"},
	"noise":                {},
	"internal/dpevent":     {"accountant/ledger"},
	"internal/gaussian":    {"internal/quadrature"},
	"internal/quadrature":  {},
	"internal/solve":       {},
	"internal/rdp":         {"internal/dpevent", "internal/quadrature"},
	"internal/composition": {"internal/dpevent", "internal/gaussian", "internal/rdp"},
	"internal/pld":         {"internal/composition", "internal/dpevent", "internal/gaussian", "internal/quadrature", "internal/rdp", "internal/solve"},
	"internal/lock":        {},
	"internal/atomicfile":  {},
	"internal/memory":      {},
	"internal/nearest":     {},
	"internal/op":          {},
	"perexample":           {"internal/op"},
	"models":               {"perexample", "internal/op", "internal/nearest"},
	"engine/data":          {"internal/nearest", "internal/memory"},
	"engine/sample":        {"noise"},
	"engine/optim":         {"internal/nearest", "internal/plan"},
	"internal/simd":        {},
	"internal/plan":        {"internal/op", "perexample", "clip", "noise"},
	"internal/cpu":         {"internal/plan", "internal/op", "internal/simd", "internal/memory", "noise"},
	"internal/gorgonia":    {"internal/plan", "internal/op", "perexample", "noise"},
	"internal/rooms":       {},
	"internal/safetensors": {"internal/memory"},
	"internal/onnx":        {"internal/op", "perexample"},
	"internal/tensorboard": {},
	"internal/torch":       {"internal/op", "internal/safetensors", "perexample"},
	"internal/report":      {"accountant", "accountant/ledger", "internal/number"},
	"internal/number":      {},
	"internal/terminal":    {},
	"internal/budget":      {"accountant", "accountant/ledger", "engine", "internal/exitcode", "internal/number", "internal/report"},
	"internal/flags":       {},
	"internal/doctor":      {"cuda", "engine", "internal/memory", "internal/simd", "noise"},
	"internal/prediction":  {"engine/data", "internal/rundir"},
	"internal/export":      {"engine/data", "internal/onnx", "internal/rundir", "internal/safetensors", "internal/torch", "perexample"},
	"internal/exitcode":    {"accountant", "accountant/ledger", "engine", "internal/nearest"},
	"internal/rundir":      {"accountant/ledger", "engine", "engine/data", "engine/weights", "internal/atomicfile", "internal/exitcode", "internal/lock", "internal/number", "internal/safetensors", "models", "perexample"},
	"internal/runspec":     {"accountant", "accountant/ledger", "clip", "engine", "engine/data", "engine/optim", "engine/sample", "engine/weights", "internal/atomicfile", "internal/budget", "internal/exitcode", "internal/flags", "internal/nearest", "internal/rundir", "models", "perexample"},
	"internal/selection":   {"accountant", "accountant/ledger", "engine", "engine/data", "internal/atomicfile", "internal/exitcode", "internal/rundir", "internal/runspec"},
	"cuda":                 {"cuda/driver", "cuda/kernels", "internal/plan", "internal/op", "clip", "noise"},
	"cuda/driver":          {},
	"cuda/kernels":         {},
	"cuda/toolchain":       {},
	"engine":               {"*"},
	"engine/weights":       {"engine", "perexample", "internal/nearest", "internal/op", "internal/safetensors", "internal/torch"},
	"bench":                {"*"},
	"cmd/dptrain":          {"*"},
}

// room is the longest listed prefix of a folder.
func room(dir string) (string, bool) {
	for d := dir; d != "."; d = path.Dir(d) {
		if _, ok := mayImport[d]; ok {
			return d, true
		}
	}
	return "", false
}

func TestImportsRunOneWay(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "avo") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		from, ok := room(path.Dir(rel))
		if !ok {
			t.Errorf("%s: its folder is no room of the house; list it in mayImport", rel)
			return nil
		}
		src, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range src.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			within, ours := strings.CutPrefix(name, module)
			if !ours {
				continue
			}
			seen++
			to, ok := room(within)
			allowed := mayImport[from]
			if !ok || to != from && !slices.Contains(allowed, to) && !slices.Contains(allowed, "*") {
				t.Errorf("%s imports %s, which %s may not see", rel, within, from)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Fatal("no import between rooms was found: the walk looks in the wrong place")
	}
}
