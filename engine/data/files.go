package data

import (
	"archive/zip"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// openTree opens a folder, or a .zip file as if it were one.
func openTree(name string) (fs.FS, io.Closer, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read %s: %w", name, withoutPath(err))
	}
	if info.IsDir() {
		return os.DirFS(name), io.NopCloser(nil), nil
	}
	if isArchive(name) {
		z, err := zip.OpenReader(name)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot read %s: %w", name, withoutPath(err))
		}
		return z, z, nil
	}
	return nil, nil, fmt.Errorf("%s is neither a folder nor a .zip file", name)
}

func isArchive(name string) bool {
	return strings.HasSuffix(name, ".zip") || strings.HasSuffix(name, ".npz")
}

// withoutPath drops the operation and path that fs.PathError repeats.
func withoutPath(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// decompressed reads a file, through gzip if it begins like one.
type decompressed struct {
	io.Reader
	file io.Closer
}

func (u decompressed) Close() error { return u.file.Close() }

func openFile(tree fs.FS, name string) (io.ReadCloser, error) {
	f, err := tree.Open(name)
	if err != nil {
		return nil, withoutPath(err)
	}
	b := bufio.NewReaderSize(f, 1<<16)
	if head, _ := b.Peek(2); len(head) < 2 || head[0] != 0x1f || head[1] != 0x8b {
		return decompressed{b, f}, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		f.Close()
		return nil, err
	}
	return decompressed{z, f}, nil
}

// findFile returns the first of the names that the tree has in one of the folders.
func findFile(tree fs.FS, folders, names []string) (string, bool) {
	for _, folder := range folders {
		for _, name := range names {
			full := path.Join(folder, name)
			if info, err := fs.Stat(tree, full); err == nil && !info.IsDir() {
				return full, true
			}
		}
	}
	return "", false
}
