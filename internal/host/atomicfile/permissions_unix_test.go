//go:build unix

package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A new file gets the permissions that the umask allows, or those of the file that it replaces:
// predictions depend on private examples, and settings may contain a seed.
func TestWrite_PreservesPermissions(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		umask        int
		before, want fs.FileMode
	}{
		{umask: 0o022, want: 0o644},
		{umask: 0o077, want: 0o600},
		{umask: 0o022, before: 0o600, want: 0o600},
		{umask: 0o077, before: 0o664, want: 0o664},
	} {
		path := filepath.Join(dir, "file")
		os.Remove(path)
		if c.before != 0 {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.before); err != nil {
				t.Fatal(err)
			}
		}
		usual := syscall.Umask(c.umask)
		err := Write(path, []byte("text"))
		syscall.Umask(usual)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != c.want || string(content) != "text" {
			t.Errorf("umask %03o over a file of %03o: %03o, want %03o", c.umask, c.before, got, c.want)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 || entries[0].Name() != "file" {
		t.Errorf("the folder contains %v, want only the file", entries)
	}
}
