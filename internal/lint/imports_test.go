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
	{"internal/asm"},
	{"internal/asm/lattice", "internal/asm/random", "internal/asm/simd"},
	{"examples/calibrate", "examples/network", "examples/perlayer", "examples/privatemean", "examples/statistic", "examples/tasks/own-network", "examples/users"},
	{"cmd/dptrain", "bench/tables", "bench/compare", "bench/peers/accounting", "cuda/device-check", "cuda/internal/emu/build", "cuda/internal/toolchain"},
	{"cmd/dptrain/internal/learn/build", "cmd/dptrain/internal/learn/wasm/accounting", "cmd/dptrain/internal/learn/wasm/engine"},
	{
		"bench", "cmd/dptrain/internal/doctor", "cmd/dptrain/internal/export", "cmd/dptrain/internal/learn", "cmd/dptrain/internal/learn/training",
		"cmd/dptrain/internal/modelserver", "cmd/dptrain/internal/selection", "cmd/dptrain/internal/simulation",
		"cmd/dptrain/internal/sweep", "cmd/dptrain/internal/training",
	},
	{"cmd/dptrain/internal/prediction", "cmd/dptrain/internal/settings"},
	{"cmd/dptrain/internal/served"},
	{"cmd/dptrain/internal/budget", "cmd/dptrain/internal/defaults"},
	{"cmd/dptrain/internal/report"},
	{"cmd/dptrain/internal/rundir"},
	{"cmd/dptrain/internal/exitcode", "models/inference"},
	{"internal/modelfile"},
	{"engine/weights"},
	{"engine/drawdiscard/client", "engine/drawdiscard/server"},
	{"engine/drawdiscard"},
	{"engine", "internal/device/plan/plantest", "internal/device/plan/stepbits"},
	{"engine/internal/lot", "engine/internal/team"},
	{"engine/internal/forward"},
	{"engine/internal/account", "engine/internal/network", "engine/internal/projection", "engine/internal/release"},
	{"engine/internal/frozen", "engine/internal/load", "engine/internal/score", "engine/internal/state", "engine/data/columnar"},
	{"engine/choice", "engine/data", "engine/optim", "engine/sample", "models", "cuda", "internal/device/cpu", "internal/device/gorgonia"},
	{"cuda/internal/collective", "cuda/internal/compile", "models/pretrained"},
	{"models/layer", "internal/device/cpu/gram", "internal/device/plan", "internal/format/onnx", "internal/format/torch", "cuda/internal/timing", "cuda/internal/override"},
	{"perexample", "cuda/internal/driver", "cuda/internal/kernels"},
	{"cmd/dptrain/internal/learn/accounting"},
	{"accountant", "accountant/adversary", "cmd/dptrain/internal/projectbudget"},
	{"accountant/internal/pld"},
	{"accountant/internal/composition"},
	{"accountant/internal/rdp", "accountant/internal/gaussian"},
	{"accountant/internal/dpevent", "accountant/internal/numerics"},
	{"accountant/ledger"},
	{"internal/clipping"},
	{"clip", "noise", "internal/device/lattice", "internal/device/op", "internal/format/safetensors/safetensorstest"},
	{"internal/random"},
	{"internal/format/safetensors", "internal/device/simd", "cmd/dptrain/internal/drawing", "cmd/dptrain/internal/tensorboard", "internal/tokenizer"},
	{
		"engine/data/internal/ngrams", "engine/data/internal/synthetic", "engine/data/internal/wordvectors",
		"cmd/dptrain/internal/flags", "cmd/dptrain/internal/learn/operation", "cmd/dptrain/internal/number", "cmd/dptrain/internal/terminal", "cmd/dptrain/internal/training/metricstest",
		"internal/host/atomicfile", "internal/host/lock", "internal/host/loopback", "internal/host/memory",
		"internal/lint", "internal/nearest", "internal/quality", "internal/ranks", "internal/setting", "internal/format/gguf",
		"cuda/internal/batch", "cuda/internal/emu/calls", "cuda/internal/emu/faults", "internal/asm/amd64", "internal/asm/neon",
	},
	{"internal/half"},
}

// separate lists packages with a shorter list of imports than their layer allows. The accountants
// read only the ledger, and clipping, noise and accounting do not know each other.
var separate = map[string][]string{
	"accountant":           {"internal/setting", "accountant/ledger", "accountant/internal/composition", "accountant/internal/dpevent", "accountant/internal/gaussian", "accountant/internal/numerics", "accountant/internal/pld", "accountant/internal/rdp"},
	"accountant/ledger":    {"internal/host/atomicfile", "internal/host/lock"},
	"clip":                 {},
	"noise":                {"internal/random"},
	"perexample":           {"internal/device/op", "internal/half", "internal/host/memory"},
	"engine/data":          {"engine/data/internal/ngrams", "engine/data/internal/synthetic", "engine/data/internal/wordvectors", "internal/host/atomicfile", "internal/host/memory", "internal/nearest", "internal/ranks", "internal/setting", "internal/tokenizer"},
	"engine/choice":        {"accountant/ledger", "noise"},
	"engine/sample":        {"noise"},
	"cuda/internal/timing": {"internal/host/atomicfile"},

	"internal/device/plan":  {"internal/clipping", "internal/device/lattice", "internal/device/op", "internal/ranks", "noise", "perexample"},
	"internal/device/cpu":   {"internal/device/cpu/gram", "internal/device/lattice", "internal/device/op", "internal/device/plan", "internal/device/simd", "internal/half", "internal/host/memory", "internal/random", "noise", "perexample"},
	"cuda":                  {"internal/setting", "internal/ranks", "cuda/internal/collective", "cuda/internal/compile", "cuda/internal/driver", "cuda/internal/kernels", "cuda/internal/override", "internal/device/plan"},
	"cuda/internal/compile": {"internal/setting", "internal/ranks", "cuda/internal/batch", "cuda/internal/timing", "cuda/internal/driver", "cuda/internal/kernels", "cuda/internal/override", "internal/device/lattice", "internal/device/op", "internal/clipping", "internal/device/plan", "internal/half", "internal/random", "noise", "perexample"},

	// Bounds and noise follow from settings and releases: the package sees no device but through the interface
	// of executables, and no data set but through loaded examples.
	"engine/internal/release": {"accountant/ledger", "clip", "engine/internal/load", "engine/sample", "internal/clipping", "internal/device/plan", "internal/setting", "noise"},

	// What was spent follows from the ledger.
	"engine/internal/account": {"accountant", "accountant/ledger", "engine/sample", "internal/setting"},

	// Ranks compare settings and weights, and see no data.
	"engine/internal/team": {"engine/internal/state", "internal/device/simd", "internal/random", "internal/ranks", "noise"},

	// A checkpoint is public: the package sees neither data nor noise.
	"engine/internal/state": {"accountant/ledger", "internal/device/plan", "internal/host/atomicfile"},

	"internal/clipping": {"clip", "internal/nearest", "internal/setting"},
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
