// Package examples has six small programs, one a folder: go run ./examples/network. The first comment
// of each states what it shows and what it prints.
package examples

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Every program runs and prints what its first comment states, and is short enough to read at once.
func TestPrograms_PrintWhatTheyState(t *testing.T) {
	sources, err := filepath.Glob("*/main.go")
	if err != nil || len(sources) < 6 {
		t.Fatalf("%d programs, want 6 or more (%v)", len(sources), err)
	}
	binaries := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", binaries+string(filepath.Separator), "./...").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, source := range sources {
		name := filepath.Dir(source)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := statedOutput(t, source)
			got, err := exec.Command(filepath.Join(binaries, name)).CombinedOutput()
			if err != nil || string(got) != want {
				t.Errorf("printed (%v)\n%s\nwant\n%s", err, got, want)
			}
		})
	}
}

// statedOutput returns the indented lines after "It prints:" of a program's first comment. It checks
// that the comment begins with the program's name, and the length of the program.
func statedOutput(t *testing.T, source string) string {
	t.Helper()
	const maxLines = 90
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n > maxLines {
		t.Errorf("%s has %d lines, more than %d", source, n, maxLines)
	}
	file, err := parser.ParseFile(token.NewFileSet(), source, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comment := file.Doc.Text()
	if name := filepath.Dir(source); !strings.HasPrefix(strings.ToLower(comment), name+" ") {
		t.Errorf("the first comment of %s does not begin with %q", source, name)
	}
	_, output, found := strings.Cut(comment, "It prints:\n")
	if !found {
		t.Fatalf("the first comment of %s does not state what it prints", source)
	}
	return strings.ReplaceAll(strings.TrimPrefix(output, "\n"), "\t", "")
}
