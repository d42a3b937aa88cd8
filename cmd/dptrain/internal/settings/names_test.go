package settings

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/setting"
	"github.com/spf13/pflag"
)

// Every setting that a message of a library names is a flag: of train or, for --public, of schema.
func TestFlagOf_KnowsEverySettingOfTheLibraries(t *testing.T) {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&Flags{}).Define(set)
	set.Bool("public", false, "of dptrain schema")
	named := map[string]bool{}
	for _, folder := range []string{"engine", "accountant", "clip", "cuda", "internal/clipping", "models", "noise"} {
		settingsNamedIn(t, filepath.Join("..", "..", "..", "..", folder), named)
	}
	for name := range named {
		flag, _, _ := strings.Cut(FlagOf(name), " ")
		if set.Lookup(flag) == nil {
			t.Errorf("a message names the setting %s, and there is no flag --%s: add the flag's name to flagOf", name, flag)
		}
	}
	for name := range flagOf {
		if !named[name] {
			t.Errorf("flagOf has %s, which no message names", name)
		}
	}
	if len(named) < 30 {
		t.Errorf("only %d settings were found", len(named))
	}
}

// settingsNamedIn adds the first arguments of the calls of package setting.
func settingsNamedIn(t *testing.T, folder string, named map[string]bool) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			function, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := function.X.(*ast.Ident); !ok || x.Name != "setting" || function.Sel.Name == "Textf" {
				return true
			}
			if literal, ok := call.Args[0].(*ast.BasicLit); ok {
				name, err := strconv.Unquote(literal.Value)
				named[name] = true
				return err == nil
			}
			t.Errorf("%s: the name of a setting is not a constant", path)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAsFlag(t *testing.T) {
	for want, r := range map[string]setting.Ref{
		"--bounds y=LOW:HIGH":  setting.With("bounds", "y=LOW:HIGH"),
		"--arithmetic float":   setting.With("Mechanism.Arithmetic", "float"),
		"--non-private":        setting.Named("Mechanism.NonPrivate"),
		"--record user:COLUMN": setting.Named("Records.Users"),
		"--standardize=false":  setting.With("Options.Standardize", false),
	} {
		if got := AsFlag(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
