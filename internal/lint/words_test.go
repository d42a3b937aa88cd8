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

// The documentation and the sources in C, C++, CUDA and assembly contain no avoided words.
func TestWords_InDocumentationAndKernels(t *testing.T) {
	files := map[string]int{}
	walkText(t, func(path, text string) {
		switch filepath.Ext(path) {
		case ".md", ".txt", ".cu", ".cc", ".c", ".h", ".S":
		default:
			return
		}
		files[filepath.Ext(path)]++
		for i, line := range strings.Split(text, "\n") {
			if word := avoided.FindString(line); word != "" {
				t.Errorf("%s:%d: the text contains %q; use a plainer word", path, i+1, word)
			}
		}
	})
	if files[".md"] < 10 || files[".cu"] < 20 || files[".cc"] < 10 {
		t.Errorf("only %v were checked; the search path is wrong", files)
	}
}

// Comments and names in Go contain few avoided words. The limit leaves room for quotations.
func TestWords_InGoFiles(t *testing.T) {
	const limit = 50
	count := 0
	walkText(t, func(path, text string) {
		if filepath.Ext(path) == ".go" && !strings.HasPrefix(path, filepath.Join(root, "internal", "lint")) {
			count += len(avoided.FindAllString(text, -1))
		}
	})
	if count > limit {
		t.Errorf("the Go files contain %d avoided words, more than %d; search for %s", count, limit, avoided)
	}
}

// A file of kernels opens with what the kernels read and what they write.
func TestKernels_StateInputsAndOutputs(t *testing.T) {
	checked := 0
	walkText(t, func(path, text string) {
		if filepath.Ext(path) != ".cu" || filepath.Dir(path) != filepath.Join(root, "cuda", "internal", "kernels") {
			return
		}
		checked++
		var opening strings.Builder
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "//") {
				break
			}
			opening.WriteString(line)
		}
		for _, word := range []string{"read", "write"} {
			if !regexp.MustCompile(`(?i)\b` + word + `s?\b`).MatchString(opening.String()) {
				t.Errorf("%s: the opening comment does not state what the kernels %s", path, word)
			}
		}
	})
	if checked < 20 {
		t.Errorf("only %d files were checked; the search path is wrong", checked)
	}
}

// walkText calls visit for every file of the repository that is not skipped.
func walkText(t *testing.T, visit func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(d.Name(), path):
			return filepath.SkipDir
		case !d.Type().IsRegular() || !texts[filepath.Ext(path)]:
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil {
			visit(path, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// texts are the extensions of the files that walkText visits.
var texts = map[string]bool{".go": true, ".md": true, ".cu": true, ".cc": true, ".c": true, ".h": true, ".S": true}

// parseFile parses a file with its comments.
func parseFile(fset *token.FileSet, path string) (*ast.File, error) {
	return parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
}
