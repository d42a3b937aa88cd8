package lint

import (
	"go/ast"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/dptrain/dptrain/"

// layers lists all packages from the top to the bottom. A package imports only packages of lower
// layers; packages of one layer do not import each other. This keeps what is trained (models,
// perexample), how influence is bounded and hidden (clip, noise), what it cost (accountant) and the
// loop (engine) apart.
var layers = [][]string{
	{"examples/calibrate", "examples/network", "examples/perlayer", "examples/privatemean", "examples/statistic", "examples/users"},
	{"cmd/dptrain", "bench/compare", "bench/peers/accounting", "bench/tables", "cuda/device-check", "cuda/emu/build", "cuda/toolchain"},
	{"bench", "internal/doctor", "internal/export", "internal/prediction", "internal/selection", "internal/simulation", "internal/sweep", "internal/training"},
	{"internal/runspec"},
	{"internal/served"},
	{"internal/budget", "internal/defaults", "internal/rundir"},
	{"internal/report", "internal/exitcode", "engine/weights"},
	{"engine/drawdiscard/client", "engine/drawdiscard/server"},
	{"engine/drawdiscard"},
	{"engine", "internal/plan/plantest"},
	{"engine/internal/frozen", "engine/internal/load", "engine/internal/state", "engine/data/columnar"},
	{"engine/choice", "engine/data", "engine/optim", "engine/sample", "models", "cuda", "internal/cpu", "internal/gorgonia"},
	{"models/layer", "internal/cpu/gram", "internal/plan", "internal/onnx", "internal/torch", "cuda/timing", "cuda/override"},
	{"perexample", "cuda/driver", "cuda/kernels"},
	{"accountant", "internal/projectbudget"},
	{"internal/pld"},
	{"internal/adversary", "internal/composition"},
	{"internal/rdp", "internal/gaussian"},
	{"internal/dpevent", "internal/quadrature", "internal/solve"},
	{"accountant/ledger"},
	{"clip", "noise", "internal/lattice", "internal/op"},
	{"internal/safetensors", "internal/simd", "internal/tensorboard"},
	{
		"internal/atomicfile", "internal/flags", "internal/lint", "internal/lock", "internal/loopback", "internal/memory", "internal/nearest",
		"internal/ngrams", "internal/number", "internal/quality", "internal/synthetic", "internal/terminal", "internal/training/metricstest", "internal/wordvectors", "cuda/batch", "cuda/emu/calls", "cuda/emu/faults", "internal/simd/neon",
	},
}

// separate lists packages with a shorter list of imports than their layer allows. The accountants
// read only the ledger, and clipping, noise and accounting do not know each other.
var separate = map[string][]string{
	"accountant":        {"accountant/ledger", "internal/composition", "internal/dpevent", "internal/gaussian", "internal/pld", "internal/quadrature", "internal/rdp", "internal/solve"},
	"accountant/ledger": {"internal/atomicfile", "internal/lock"},
	"clip":              {"internal/nearest"},
	"noise":             {},
	"perexample":        {"internal/op"},
	"engine/data":       {"internal/atomicfile", "internal/memory", "internal/nearest", "internal/ngrams", "internal/synthetic", "internal/wordvectors"},
	"engine/choice":     {"accountant/ledger", "noise"},
	"engine/sample":     {"noise"},
	// A checkpoint is public: the package sees neither data nor noise.
	"engine/internal/state": {"accountant/ledger", "internal/atomicfile", "internal/plan"},
	"cuda/timing":           {"internal/atomicfile"},
	"internal/plan":         {"clip", "internal/lattice", "internal/op", "noise", "perexample"},
	"internal/cpu":          {"clip", "internal/cpu/gram", "internal/lattice", "internal/memory", "internal/op", "internal/plan", "internal/simd", "noise", "perexample"},
	"cuda":                  {"clip", "cuda/batch", "cuda/timing", "cuda/driver", "cuda/kernels", "cuda/override", "internal/lattice", "internal/op", "internal/plan", "noise", "perexample"},
}

// Imports run downwards.
func TestImports_RunDownwards(t *testing.T) {
	layer := map[string]int{}
	for i, packages := range layers {
		for _, p := range packages {
			layer[p] = i
		}
	}
	checked := 0
	walkGo(t, func(file string, source *ast.File, _ *token.FileSet) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		relative, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		from := path.Dir(filepath.ToSlash(relative))
		if _, ok := layer[from]; !ok {
			t.Errorf("package %s is in no layer; add it to layers", from)
			return
		}
		for _, spec := range source.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			to, ours := strings.CutPrefix(name, module)
			if !ours {
				continue
			}
			checked++
			allowed, restricted := separate[from]
			switch l, ok := layer[to]; {
			case !ok:
				t.Errorf("%s imports %s, which is in no layer; add it to layers", relative, to)
			case l <= layer[from]:
				t.Errorf("%s imports %s, which is not in a lower layer", relative, to)
			case restricted && !slices.Contains(allowed, to):
				t.Errorf("%s imports %s; %s imports only %s", relative, to, from, strings.Join(allowed, ", "))
			}
		}
	})
	if checked < 100 {
		t.Errorf("only %d imports were checked; the search path is wrong", checked)
	}
}
