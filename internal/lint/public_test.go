package lint

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// A public package exists for users. One that only its parent imports belongs below internal.
func TestPublicPackages_HaveOtherUsersThanTheirParent(t *testing.T) {
	importers := map[string]map[string]bool{}
	commands := map[string]bool{}
	walkGo(t, func(path string, file *ast.File, _ *token.FileSet) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		from := folderOf(t, path)
		commands[from] = commands[from] || file.Name.Name == "main"
		if importers[from] == nil {
			importers[from] = map[string]bool{}
		}
		for _, spec := range file.Imports {
			if to, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module); ours {
				if importers[to] == nil {
					importers[to] = map[string]bool{}
				}
				importers[to][from] = true
			}
		}
	})
	checked := 0
	for name, from := range importers {
		parent := filepath.ToSlash(filepath.Dir(name))
		if commands[name] || strings.Contains("/"+name+"/", "/internal/") || parent == "." {
			continue
		}
		checked++
		if len(from) == 1 && from[parent] {
			t.Errorf("only %s imports %s: move it below %s/internal", parent, name, parent)
		}
	}
	if checked < 8 {
		t.Errorf("only %d packages were checked", checked)
	}
}

// folderOf returns the folder of a file, relative to the root of the repository.
func folderOf(t *testing.T, path string) string {
	t.Helper()
	relative, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(filepath.Dir(relative))
}
