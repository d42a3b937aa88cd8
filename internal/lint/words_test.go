package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// avoided are words that made earlier texts hard to read: they stand for a more exact verb
// ("reports", "returns", "contains") or a simpler construction ("next to", "each", "no one").
var avoided = regexp.MustCompile(`(?i)\b(says|told|tells|beside|whatever|whoever|nobody|anew|so many)\b`)

// Strings that a user can read contain no avoided words. Strings of Go code without a space
// are keys and names, not prose.
func TestWords_InUserVisibleStrings(t *testing.T) {
	checked := 0
	walkGo(t, func(path string, file *ast.File, fset *token.FileSet) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING || !strings.Contains(literal.Value, " ") {
				return true
			}
			checked++
			if word := avoided.FindString(literal.Value); word != "" {
				t.Errorf("%s: the string contains %q; use a plainer word", fset.Position(literal.Pos()), word)
			}
			return true
		})
	})
	if checked < 1000 {
		t.Errorf("only %d strings were checked; the search path is wrong", checked)
	}
}

// The documentation contains no avoided words.
func TestWords_InDocumentation(t *testing.T) {
	pages := 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(d.Name(), path):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pages++
		for i, line := range strings.Split(string(text), "\n") {
			if word := avoided.FindString(line); word != "" {
				t.Errorf("%s:%d: the page contains %q; use a plainer word", path, i+1, word)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 10 {
		t.Errorf("only %d pages were checked; the search path is wrong", pages)
	}
}

// Comments and names contain few avoided words. The limit leaves room for quotations.
func TestWords_InGoFiles(t *testing.T) {
	const limit = 50
	count := 0
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(d.Name(), path):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasPrefix(path, filepath.Join(root, "internal", "lint")):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		count += len(avoided.FindAll(text, -1))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count > limit {
		t.Errorf("the Go files contain %d avoided words, more than %d; search for %s", count, limit, avoided)
	}
}

// parseFile parses a file with its comments.
func parseFile(fset *token.FileSet, path string) (*ast.File, error) {
	return parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
}
