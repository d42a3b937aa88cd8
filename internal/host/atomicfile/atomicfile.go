// Package atomicfile writes files that are complete under their name or absent: a file is
// written under a temporary name in the same folder, synced, and renamed.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// TemporaryPrefix begins the temporary names that Write and WriteFunc use. A crash can leave
// such files behind.
const TemporaryPrefix = ".new-"

// Write replaces the file at path by one with the given content.
func Write(path string, content []byte) error {
	return WriteFunc(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// WriteFunc is Write for content that write produces. The new file has the permissions of
// the file that it replaces, or 0644 less the umask where there is none.
func WriteFunc(path string, write func(io.Writer) error) (err error) {
	defer func() {
		if p := (*fs.PathError)(nil); errors.As(err, &p) {
			err = fmt.Errorf("%s %s: %w", p.Op, path, p.Err) // the user does not know the temporary name
		}
	}()
	mode := fs.FileMode(0o644)
	before, err := os.Stat(path)
	if err == nil {
		mode = before.Mode().Perm()
	}
	file, err := os.OpenFile(filepath.Join(filepath.Dir(path), TemporaryPrefix+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	err = write(file)
	if err == nil && before != nil {
		err = os.Chmod(file.Name(), mode) // the umask does not apply to a file that existed
	}
	if err != nil {
		file.Close()
		return err
	}
	return Commit(file, path)
}

// Commit syncs and closes a file that is completely written, and renames it to path. It
// removes the file if a step fails. SyncFolder makes the rename durable.
func Commit(file *os.File, path string) error {
	err := errors.Join(file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// SyncFolder makes created and renamed files in a folder survive a power failure. It does
// nothing on Windows, which cannot open a folder and journals names.
func SyncFolder(folder string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
