package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/terminal"
	"github.com/spf13/pflag"
)

// Every command has a page with all of its flags, and groff, where it is installed,
// has nothing to say against any.
func TestManPages(t *testing.T) {
	t.Chdir(t.TempDir())
	files := answer(t, "man --out man1")["files"].([]any)
	root := newRoot(&terminal.Terminal{})
	all := family(root)
	if len(files) != len(all) || len(all) < 15 {
		t.Errorf("%d pages of %d commands", len(files), len(all))
	}
	groff, _ := exec.LookPath("groff")
	for _, c := range all {
		path := filepath.Join("man1", pageName(c)+".1")
		page, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
			continue
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(string(page), `\fB`+roff("--"+f.Name)+`\fR`) {
				t.Errorf("%s lacks --%s", path, f.Name)
			}
		})
		if groff == "" {
			continue
		}
		var complaints strings.Builder
		render := exec.Command(groff, "-man", "-ww", "-Tutf8", path)
		render.Stderr = &complaints
		text, err := render.Output()
		if err != nil || complaints.Len() > 0 || !strings.Contains(string(text), c.Name()) {
			t.Errorf("%s: %v %s", path, err, complaints.String())
		}
	}
	if _, stderr, code := dptrain("man --out man1/dptrain.1"); code != exitcode.Usage || !strings.Contains(stderr, "--out") {
		t.Errorf("into a file: exit %d, %s", code, stderr)
	}
}

func TestRoff(t *testing.T) {
	if got, want := roff(".a -b\\n\n'c' \"ε\" ^~`"), `\&.a \-b\en`+"\n"+`\&\(aqc\(aq \(dq\[u03B5]\(dq \(ha\(ti\(ga`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
