package lint

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// changes are examples of what docs/development.md lists under "Files to change".
var changes = []struct {
	row   string // of the table
	patch string // in testdata
	check func(t *testing.T, overlay string)
}{
	{"flag", "flag.patch", checkPatchedFlag},
	{"clipping rule", "clipping_rule.patch", checkPatchedClipping},
	{"operation with kernels on both devices", "operation.patch", checkPatchedOperation},
}

// A patch that adds one of a kind touches as many files as the table in docs/development.md states, and
// what it adds works. A patch that no longer applies is written again: make the change, save git diff.
func TestFilesToChange_AreAsManyAsTheTableStates(t *testing.T) {
	table, err := os.ReadFile(filepath.Join(root, "docs", "development.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		t.Run(c.row, func(t *testing.T) {
			patch, err := os.ReadFile(filepath.Join("testdata", c.patch))
			if err != nil {
				t.Fatal(err)
			}
			touched := regexp.MustCompile(`(?m)^\+\+\+ b/(.+)$`).FindAllStringSubmatch(string(patch), -1)
			stated := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(c.row) + ` \|.*\| (\d+) \|$`).FindSubmatch(table)
			if stated == nil {
				t.Fatalf("the table has no row %q", c.row)
			}
			if n, _ := strconv.Atoi(string(stated[1])); n != len(touched) {
				t.Errorf("the table states %d files, and %s changes %d", n, c.patch, len(touched))
			}
			if os.Getenv("DPTRAIN_CHANGES") != "all" {
				t.Skip("compiles a program; .ci/full sets DPTRAIN_CHANGES=all")
			}
			var files []string
			for _, f := range touched {
				files = append(files, f[1])
			}
			c.check(t, overlayOf(t, c.patch, files))
		})
	}
}

// overlayOf applies a patch to copies of files, and returns the list that makes go use the copies. The
// files of the repository stay as they are.
func overlayOf(t *testing.T, patch string, files []string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git applies the patch, and is not installed")
	}
	copies := t.TempDir()
	module, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	overlay := map[string]map[string]string{"Replace": {}}
	for _, name := range files {
		target := filepath.Join(copies, filepath.FromSlash(name))
		overlay["Replace"][filepath.Join(module, filepath.FromSlash(name))] = target
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(module, filepath.FromSlash(name)))
		if os.IsNotExist(err) {
			continue // the patch adds it
		}
		if err == nil {
			err = os.WriteFile(target, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	absolute, err := filepath.Abs(filepath.Join("testdata", patch))
	if err != nil {
		t.Fatal(err)
	}
	runIn(t, copies, "git", "apply", absolute)
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(list, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return list
}

// runIn runs a program in a folder.
func runIn(t *testing.T, folder, name string, arguments ...string) {
	t.Helper()
	c := exec.Command(name, arguments...)
	c.Dir = folder
	c.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(folder))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, out)
	}
}

// checkPatchedFlag verifies that the flag of flag.patch is in the settings, in the summary and in the report.
func checkPatchedFlag(t *testing.T, overlay string) {
	folder, program := t.TempDir(), filepath.Join(t.TempDir(), "program")
	runIn(t, root, "go", "build", "-overlay", overlay, "-o", program, "./cmd/dptrain")
	runIn(t, folder, program, "train", "--data", "remarks", "--steps", "1", "--lot", "8", "--save-interval", "7", "--out", "run", "--quiet")
	for name, want := range map[string]string{"config.yaml": "save-interval: 7\n", "run.json": `"save_interval": 7`, "report.html": "seconds between checkpoints"} {
		text, err := os.ReadFile(filepath.Join(folder, "run", name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not contain %q", name, want)
		}
	}
}

// checkPatchedClipping verifies that a run clips by the rule of clipping_rule.patch.
func checkPatchedClipping(t *testing.T, overlay string) {
	folder, program := t.TempDir(), filepath.Join(t.TempDir(), "program")
	runIn(t, root, "go", "build", "-overlay", overlay, "-o", program, "./cmd/dptrain")
	runIn(t, folder, program, "train", "--data", "remarks", "--steps", "1", "--lot", "8", "--clipping", "gentle", "--out", "run", "--quiet")
	text, err := os.ReadFile(filepath.Join(folder, "run", "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"clipping": "gentle"`) {
		t.Errorf("run.json does not name the rule:\n%s", text)
	}
}

// checkPatchedOperation verifies that the CPU computes the operation of operation.patch as its reference
// does, and that the lowering for the GPU compiles. The emulated device reads the kernels of the
// repository, which lack the patch's.
func checkPatchedOperation(t *testing.T, overlay string) {
	runIn(t, root, "go", "test", "-overlay", overlay, "-run", "TestConformance_Operations", "./internal/device/cpu")
	runIn(t, root, "go", "build", "-tags", "gpu", "-overlay", overlay, "./cuda/internal/compile")
}
