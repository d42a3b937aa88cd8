package main

import (
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

// replaceBy is replaceFile for what is not in memory as a whole.
func replaceBy(path string, write func(io.Writer) error) (err error) {
	defer func() {
		if p := (*fs.PathError)(nil); errors.As(err, &p) {
			err = fmt.Errorf("%s %s: %w", p.Op, path, p.Err) // nobody knows the other name
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(path), unfinished+"*")
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
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}
