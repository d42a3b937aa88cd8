package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// A test that starts itself as a child process names the tests of the child in a pattern such as
// ^TestRun_Child$. Every such name exists: Go reports success if a pattern matches no test.
func TestChildProcesses_NameExistingTests(t *testing.T) {
	pattern := regexp.MustCompile(`\^(Test[A-Za-z0-9_]+)`)
	tests := map[string]bool{}
	named := map[string]token.Position{}
	walkGo(t, func(path string, file *ast.File, fset *token.FileSet) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				tests[n.Name.Name] = true
			case *ast.BasicLit:
				for _, m := range pattern.FindAllStringSubmatch(n.Value, -1) {
					named[m[1]] = fset.Position(n.Pos())
				}
			}
			return true
		})
	})
	exists := func(name string) bool {
		for test := range tests {
			if strings.HasPrefix(test, name) {
				return true
			}
		}
		return false
	}
	for name, position := range named {
		if !exists(name) {
			t.Errorf("%s: no test is named %s", position, name)
		}
	}
	if len(named) < 5 {
		t.Errorf("only %d names were found", len(named))
	}
}
