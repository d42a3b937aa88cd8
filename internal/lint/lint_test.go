// Package lint contains only tests. They check the repository: the directions of imports, and the
// words in messages and documentation.
package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the root of the repository.
var root = filepath.Join("..", "..")

// skipped reports whether a folder contains no source of the main module.
func skipped(name, path string) bool {
	return path != root && (strings.HasPrefix(name, ".") || name == "testdata")
}

// walkGo calls visit for every Go file of the module.
func walkGo(t *testing.T, visit func(path string, file *ast.File, fset *token.FileSet)) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(d.Name(), path):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		file, err := parseFile(fset, path)
		if err != nil {
			return err
		}
		visit(path, file, fset)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
