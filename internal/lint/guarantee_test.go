package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test that docs/guarantee.md names exists.
func TestGuarantee_NamedTestsExist(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "guarantee.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	walkGo(t, func(path string, file *ast.File, _ *token.FileSet) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				tests[f.Name.Name] = true
			}
		}
	})
	named := regexp.MustCompile("`(Test[A-Za-z0-9_]+)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 10 {
		t.Errorf("the page names only %d tests", len(named))
	}
	for _, n := range named {
		if !tests[n[1]] {
			t.Errorf("docs/guarantee.md names %s, which does not exist", n[1])
		}
	}
}
