//go:build unix

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What is written is for those whom the umask lets read it, or who could read the file that
// was there: answers tell of the examples asked about, and settings may hold a seed.
func TestFilesAreReadByNobodyElse(t *testing.T) {
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
		err := replaceFile(path, []byte("text"))
		syscall.Umask(usual)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != c.want || string(contents(t, path)) != "text" {
			t.Errorf("umask %03o over a file of %03o: %03o, want %03o", c.umask, c.before, got, c.want)
		}
	}
	if got := files(t, dir); got != "file" {
		t.Errorf("left is %s", got)
	}
}
