package lint

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

const (
	maxFiles   = 30 // non-test files of a package, without generated ones
	maxMethods = 30 // methods of a type
)

// Packages and types stay small enough to understand.
func TestSize_FilesAndMethods(t *testing.T) {
	files := map[string]int{}
	methods := map[string]int{}
	walkGo(t, func(path string, file *ast.File, _ *token.FileSet) {
		name := filepath.Base(path)
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "zz_") {
			return
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		files[dir]++
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			methods[dir+" "+receiver(f.Recv.List[0].Type)]++
		}
	})
	for dir, n := range files {
		if n > maxFiles {
			t.Errorf("%s has %d files, more than %d; split the package or merge small files", dir, n, maxFiles)
		}
	}
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("type %s has %d methods, more than %d; split its responsibilities", name, n, maxMethods)
		}
	}
	if len(files) < 20 || len(methods) < 100 {
		t.Errorf("only %d packages and %d types were checked; the search path is wrong", len(files), len(methods))
	}
}

func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}
