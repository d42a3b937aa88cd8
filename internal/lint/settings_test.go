package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// isFlag finds a flag of a command line.
var isFlag = regexp.MustCompile(`(^|[^-\w])--[a-z][a-z-]+`)

// programs are folders of commands, which have flags or give them to other programs.
var programs = []string{"cmd/", "bench", "examples/", "cuda/internal/emu/", "cuda/internal/toolchain", "cuda/device-check", "internal/asm", "internal/lint"}

// A message of a library names no flag: its user may be a program. It refers to a setting, which the
// command line writes as a flag: see package setting.
func TestStrings_OfLibrariesNameNoFlags(t *testing.T) {
	checked := 0
	walkGo(t, func(path string, file *ast.File, fset *token.FileSet) {
		folder := folderOf(t, path)
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, p := range programs {
			if strings.HasPrefix(folder+"/", p) {
				return
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			checked++
			if flag := isFlag.FindString(literal.Value); flag != "" {
				t.Errorf("%s: the string names the flag %q; refer to the setting with package internal/setting", fset.Position(literal.Pos()), strings.TrimSpace(flag))
			}
			return true
		})
	})
	if checked < 3000 {
		t.Errorf("only %d strings were checked", checked)
	}
}

func TestIsFlag(t *testing.T) {
	for text, want := range map[string]bool{"use --device cpu": true, "(--noise)": true, "a -- b": false, "-----BEGIN": false, "x--y": false} {
		if isFlag.MatchString(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}
