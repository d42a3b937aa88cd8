package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/spf13/pflag"
)

// Every command has a page with all of its flags. groff, if it is installed, formats every page
// without a warning.
func TestMan(t *testing.T) {
	t.Chdir(t.TempDir())
	files := runJSON(t, "man --out man1")["files"].([]any)
	commands := documentedCommands(newRoot(&terminal.Terminal{}))
	written, err := os.ReadDir("man1")
	if err != nil || len(files) != len(commands) || len(written) != len(commands) || len(commands) < 15 {
		t.Errorf("%d pages listed and %d written for %d commands: %v", len(files), len(written), len(commands), err)
	}
	groff, _ := exec.LookPath("groff")
	for _, c := range commands {
		path := filepath.Join("man1", strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		page, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(string(page), `\fB--`+f.Name+`\fP`) {
				t.Errorf("%s lacks --%s", path, f.Name)
			}
		})
		if groff == "" {
			continue
		}
		var warnings strings.Builder
		format := exec.Command(groff, "-man", "-ww", "-Kutf8", "-Tutf8", path)
		format.Stderr = &warnings
		text, err := format.Output()
		if err != nil || warnings.Len() > 0 || !strings.Contains(string(text), c.Name()) {
			t.Errorf("%s: %v %s", path, err, warnings.String())
		}
	}
	if _, stderr, code := dptrain("man --out man1/dptrain.1"); code != exitcode.Usage || !strings.Contains(stderr, "--out") {
		t.Errorf("into a file: exit %d, %s", code, stderr)
	}
}

// The guide lists every command.
func TestGuide_ListsCommands(t *testing.T) {
	guide, err := os.ReadFile("../../docs/guide.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(guide), "## All commands")
	for _, c := range documentedCommands(newRoot(&terminal.Terminal{})) {
		if name := strings.TrimPrefix(c.CommandPath(), "dptrain "); !c.HasAvailableSubCommands() && !strings.Contains(list, "`"+name+"`") {
			t.Errorf("docs/guide.md does not list %s", name)
		}
	}
}
