//go:build unix

package data

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// within fails if f does not end.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan bool)
	go func() { f(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s did not end", what)
	}
}

// A picture that is not a regular file is blank: a pipe would block for ever, and a device has no end.
func TestOpenFolders_SpecialFiles(t *testing.T) {
	good := encodePNG(t, grayPicture(2, 2))
	makers := map[string]func(name string) error{
		"a pipe":   func(name string) error { return syscall.Mkfifo(name, 0o644) },
		"a device": func(name string) error { return os.Symlink("/dev/zero", name) },
		"a folder": func(name string) error { return os.Mkdir(name, 0o755) },
		"a socket": func(name string) error { _, err := net.Listen("unix", name); return err },
		"no file":  func(name string) error { return os.Symlink("nowhere", name) },
	}
	for what, makeFile := range makers {
		dir := writeFiles(t, map[string][]byte{"a/1.png": good, "b/3.png": good})
		if what == "a socket" { // its name has at most 108 bytes
			t.Chdir(dir)
			dir = "."
		}
		if err := makeFile(filepath.Join(dir, "a", "2.png")); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		within(t, what, func() {
			task, err := Open(dir, Options{Image: ImageShape{1, 2, 2}})
			if err != nil {
				t.Errorf("%s: %v", what, err)
			} else if blank := Blank(task.Train); !slices.Equal(blank, []bool{false, true, false}) {
				t.Errorf("%s: blank %v", what, blank)
			}
		})
	}
}

// Each other source is a regular file, too.
func TestOpen_SpecialFiles(t *testing.T) {
	for _, name := range []string{"a.csv", "a.jsonl", "a.txt", "a.zip", "a.npz"} {
		file := filepath.Join(t.TempDir(), name)
		if err := syscall.Mkfifo(file, 0o644); err != nil {
			t.Fatal(err)
		}
		o := Options{Schema: peopleSchema}
		switch filepath.Ext(name) {
		case ".txt":
			o.Schema = Schema{Tokens: "bytes", Length: 3}
		case ".zip", ".npz":
			o = Options{}
		}
		within(t, name, func() { checkOpenError(t, file, o, "not a regular file") })
	}
}
