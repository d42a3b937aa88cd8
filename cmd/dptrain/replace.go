package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// unfinished begins the names of files that are being written.
const unfinished = ".new-"

// replaceFile writes a file so that it is there whole or not at all.
func replaceFile(path string, content []byte) error {
	return replaceBy(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// replaceBy is replaceFile for what is not in memory as a whole. Nobody may read the file
// who could not read the one before or, where there was none, who is not to read new files.
func replaceBy(path string, write func(io.Writer) error) (err error) {
	defer func() {
		if p := (*fs.PathError)(nil); errors.As(err, &p) {
			err = fmt.Errorf("%s %s: %w", p.Op, path, p.Err) // nobody knows the other name
		}
	}()
	mode := fs.FileMode(0o644)
	before, err := os.Stat(path)
	if err == nil {
		mode = before.Mode().Perm()
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), unfinished+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil && before != nil {
		err = os.Chmod(f.Name(), mode)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
