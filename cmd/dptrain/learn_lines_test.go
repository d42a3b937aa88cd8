package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// shownLines are the lines that a chapter of the guide shows for some settings.
type shownLines struct{ Name, Command, Python, Go string }

// The lines that chapters show are right: the Go lines compile, and the program accepts the commands. The
// Python lines run in python/tests/test_guide.py, which reads the file that DPTRAIN_GUIDE_LINES names.
// It needs node, which evaluates the page's modules.
func TestLearn_ShownLines(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and trains")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed")
	}
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("internal/learn/page")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command(node, "testdata/learn/lines.mjs", folder).Output()
	if err != nil {
		t.Fatalf("node: %v", err)
	}
	if path := os.Getenv("DPTRAIN_GUIDE_LINES"); path != "" {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var all []shownLines
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < guideExperiments {
		t.Fatalf("%d experiments show lines, %d are wanted", len(all), guideExperiments)
	}
	t.Run("go", func(t *testing.T) { compileShownLines(t, all) })
	t.Run("commands", func(t *testing.T) { runShownCommands(t, all) })
}

// shownPackages are what the Go lines may import.
var shownPackages = map[string]string{
	"accountant": "accountant", "adversary": "accountant/adversary", "choice": "engine/choice", "clip": "clip", "data": "engine/data", "engine": "engine",
	"ledger": "accountant/ledger", "models": "models", "noise": "noise", "optim": "engine/optim", "sample": "engine/sample",
}

// compileShownLines compiles the Go lines of each experiment as a function. It declares what a chapter
// leaves to the reader: a configuration, a file, a source of noise, a ledger.
func compileShownLines(t *testing.T, all []shownLines) {
	var functions strings.Builder
	for i, l := range all {
		fmt.Fprintf(&functions, "func lines%d() {\n%s\n%s}\n\n", i, l.Go, usesOf(t, l.Go))
	}
	source := "package main\n\nimport (\n\t\"context\"\n\t\"io\"\n"
	declared := `
var (
	err    error
	file   io.Reader
	ctx    = context.Background()
	names  []string
	config engine.Config
	source *noise.Source
	writer *ledger.Writer
)

`
	for name, path := range shownPackages {
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(functions.String() + declared) {
			source += "\t\"github.com/dptrain/dptrain/" + path + "\"\n"
		}
	}
	source += ")\n" + declared + functions.String() + "func main() {}\n"
	folder := t.TempDir()
	program := filepath.Join(folder, "main.go")
	if err := os.WriteFile(program, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	place, err := filepath.Abs("internal/learn/shown/main.go")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{place: program}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-overlay", filepath.Join(folder, "overlay.json"), "-o", filepath.Join(folder, "program"), "./internal/learn/shown")
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, source)
	}
}

// usesOf uses the variables that lines define.
func usesOf(t *testing.T, lines string) (uses string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() {\n"+lines+"\n}", 0)
	if err != nil {
		t.Fatalf("%v in\n%s", err, lines)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if a, ok := n.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
			for _, left := range a.Lhs {
				uses += "\t_ = " + left.(*ast.Ident).Name + "\n"
			}
		}
		return true
	})
	return uses
}

// runShownCommands runs the commands, those that train with --dry-run, in a folder with the files that
// they name.
func runShownCommands(t *testing.T, all []shownLines) {
	t.Chdir(t.TempDir())
	random := rand.New(rand.NewPCG(1, 1))
	points, people := "x,y\n", "person,age,sick\n"
	for i := range 2000 {
		x := 2*random.Float64() - 1
		points += fmt.Sprintf("%.3f,%.3f\n", x, 0.9*x-0.5)
		people += fmt.Sprintf("p%d,%d,%s\n", i/2, random.IntN(90), []string{"no", "yes"}[random.IntN(2)])
	}
	for name, text := range map[string]string{"points.csv": points, "more.csv": points[:400], "people.csv": people} {
		if name == "more.csv" {
			text = text[:strings.LastIndex(text, "\n")+1]
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runJSON(t, "train --lot 2000 --steps 2 --out runs/first --model logistic --quiet")
	if err := os.WriteFile("ledger.jsonl", readFile(t, "runs/first/ledger.jsonl"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := map[string]bool{}
	for _, l := range all {
		for line := range strings.SplitSeq(strings.ReplaceAll(l.Command, "\\\n", " "), "\n") {
			line, _, _ = strings.Cut(line, "#")
			words := strings.Fields(line)
			if len(words) == 0 || done[line] {
				continue
			}
			done[line] = true
			if words[0] != "dptrain" {
				t.Errorf("%s: the command is of another program: %s", l.Name, line)
				continue
			}
			command := strings.Join(words[1:], " ")
			if words[1] == "train" && !strings.Contains(line, "--dry-run") {
				command += " --dry-run"
			}
			if _, stderr, code := dptrain(command); code != exitcode.Done {
				t.Errorf("%s: dptrain %s: exit %d, %s", l.Name, command, code, stderr)
			}
		}
	}
}
