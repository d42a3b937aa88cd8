package data

import (
	"archive/zip"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unsafe"

	"github.com/dptrain/dptrain/internal/host/memory"
)

// openTree opens a folder, or a .zip file as if it were a folder.
func openTree(name string) (fs.FS, io.Closer, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read %s: %w", name, withoutPath(err))
	}
	if info.IsDir() {
		return hostTree(name), io.NopCloser(nil), nil
	}
	if isArchive(name) {
		if !info.Mode().IsRegular() {
			return nil, nil, fmt.Errorf("cannot read %s: %w", name, errNotRegular)
		}
		z, err := zip.OpenReader(name)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot read %s: %w", name, withoutPath(err))
		}
		return z, z, nil
	}
	return nil, nil, fmt.Errorf("%s is neither a folder nor a .zip file", name)
}

// hostTree is a folder of the host. It opens folders and regular files only, and never waits for one:
// a pipe or a device in the place of a picture could end neither its opening nor its content.
type hostTree string

var errNotRegular = errors.New("it is not a regular file, but a pipe, a socket or a device; copy its content to a file")

// Open opens a file of the folder. It follows symbolic links.
func (t hostTree) Open(name string) (fs.File, error) {
	local, err := filepath.Localize(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	f, err := os.OpenFile(filepath.Join(string(t), local), os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func isArchive(name string) bool {
	return strings.HasSuffix(name, ".zip") || strings.HasSuffix(name, ".npz")
}

// withoutPath removes the operation and the path of an fs.PathError, which the
// caller's message already contains.
func withoutPath(err error) error {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

// decompressed reads a file's content and closes the file.
type decompressed struct {
	io.Reader
	file io.Closer
}

func (d decompressed) Close() error { return d.file.Close() }

// openFile opens a file. It decompresses a file that begins like a gzip file.
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

// openDataFile is openFile for a path of the host.
func openDataFile(path string) (io.ReadCloser, error) {
	return openFile(hostTree(filepath.Dir(path)), filepath.Base(path))
}

// findFile returns the path of the first file that exists, over all folders and the
// names in each.
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

// maxBytes limits the size that a file's header may announce, so that a damaged
// header causes an error and not a crash.
const maxBytes = min(1<<36, math.MaxInt)

// readExactly reads the remaining n bytes of a file. It allocates as grow does.
func readExactly(r io.Reader, n int) ([]byte, error) {
	var content []byte
	for len(content) < n {
		var err error
		if content, err = grow(content, n); err != nil {
			return nil, err
		}
		got, err := io.ReadFull(r, content[len(content):cap(content)])
		content = content[:len(content)+got]
		if err != nil {
			return nil, fmt.Errorf("ends after %d of the %d bytes that its header announces: %w", len(content), n, unexpectedEOF(err))
		}
	}
	return content, checkEnd(r)
}

// grow returns values with more capacity. The final capacity is n. If a header announces
// too large an n, the capacity is at most 16 times the content that was read. At most
// a 16th of the content is held in memory twice. An allocation larger than the available
// memory is an error.
func grow[T any](values []T, n int) ([]T, error) {
	const minCapacity = 1 << 12
	capacity := n
	for capacity/16 > max(len(values), minCapacity) {
		capacity = capacity/16 + 1
	}
	if available := memory.Available(); !available.Fits(int64(capacity) * int64(unsafe.Sizeof(values[0]))) {
		return nil, fmt.Errorf("needs more memory than %s has; use a part of the file", available.LimitedBy)
	}
	return append(make([]T, 0, capacity), values...), nil
}

// checkEnd returns an error if the file continues, or if a checksum at its end is
// wrong.
func checkEnd(r io.Reader) error {
	var next [1]byte
	switch n, err := io.ReadFull(r, next[:]); {
	case n > 0:
		return errors.New("is longer than its header announces")
	case err != io.EOF:
		return fmt.Errorf("is damaged: %w", err)
	}
	return nil
}

// unexpectedEOF replaces io.EOF by io.ErrUnexpectedEOF.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
