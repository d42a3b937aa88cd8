// Package override reads the environment variables that replace parts of the CUDA device,
// so that a fault that only a GPU shows can be bypassed or mended without a new build:
//
//	DPTRAIN_KERNELS=FILE    loads kernels from a file in place of the embedded archive
//	DPTRAIN_GRAPH=chain     captures the launches of a CUDA graph in sequence
//	DPTRAIN_GRAPH=separate  captures each launch by itself: none does the work of several
//
// A value that is not understood is an error, never ignored.
package override

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"sync"

	"github.com/dptrain/dptrain/cuda/internal/kernels"
)

const (
	kernelsVariable = "DPTRAIN_KERNELS"
	graphVariable   = "DPTRAIN_GRAPH"
)

// KernelFile is the file that replaces the embedded kernels: an archive as kernels.zip, a
// cubin, or PTX.
type KernelFile struct {
	Path    string
	SHA256  string // of the content, in hexadecimal
	content []byte
}

// files are the files that were read. A process reads a file once, so that what it reports
// is what it loaded.
var files struct {
	sync.Mutex
	byPath map[string]*KernelFile
}

// Kernels returns the file that DPTRAIN_KERNELS names, and nil where the variable is not
// set.
func Kernels() (*KernelFile, error) {
	path := os.Getenv(kernelsVariable)
	if path == "" {
		return nil, nil
	}
	files.Lock()
	defer files.Unlock()
	if f := files.byPath[path]; f != nil {
		return f, nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w; name a file of kernels or unset the variable", kernelsVariable, err)
	}
	sum := sha256.Sum256(content)
	f := &KernelFile{path, hex.EncodeToString(sum[:]), content}
	if _, err := f.kind(); err != nil {
		return nil, err
	}
	if files.byPath == nil {
		files.byPath = map[string]*KernelFile{}
	}
	files.byPath[path] = f
	return f, nil
}

func (f *KernelFile) String() string {
	return fmt.Sprintf("%s (%s, SHA-256 %.12s)", f.Path, kernelsVariable, f.SHA256)
}

// Mark is what the version of a program that loads these kernels ends with, and "" for nil.
func (f *KernelFile) Mark() string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("-kernels-%.8s", f.SHA256)
}

type fileKind int

const (
	archive fileKind = iota
	cubin
	ptx
)

func (f *KernelFile) kind() (fileKind, error) {
	switch {
	case bytes.HasPrefix(f.content, []byte("PK\x03\x04")):
		return archive, nil
	case bytes.HasPrefix(f.content, []byte("\x7fELF")):
		return cubin, nil
	case bytes.Contains(f.content, []byte("\n.version ")) || bytes.HasPrefix(f.content, []byte(".version ")):
		return ptx, nil
	}
	return 0, fmt.Errorf("%s=%s is neither an archive of kernels (kernels.zip), a cubin nor PTX; name such a file or unset the variable", kernelsVariable, f.Path)
}

// Image returns the kernels for a GPU of this compute capability (90 for 9.0). Of an
// archive it is the newest image that runs on the GPU; the driver checks other files.
func (f *KernelFile) Image(arch int) ([]byte, error) {
	kind, err := f.kind()
	if err != nil || kind != archive {
		return f.content, err
	}
	image, err := kernels.NewestImage(f.content, arch)
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w", kernelsVariable, f.Path, err)
	}
	return image, nil
}

// Graph is how the launches of a CUDA graph are captured.
type Graph string

const (
	Parallel Graph = ""         // joined to fewer launches; those that do not depend on each other can run at the same time
	Chain    Graph = "chain"    // joined, one after the other
	Separate Graph = "separate" // not joined
)

// GraphCapture returns what DPTRAIN_GRAPH requests.
func GraphCapture() (Graph, error) {
	switch g := Graph(os.Getenv(graphVariable)); g {
	case Parallel, Chain, Separate:
		return g, nil
	default:
		return Parallel, fmt.Errorf("%s=%s is unknown: use chain or separate, or unset the variable", graphVariable, g)
	}
}

// Describe lists the overrides that are set, one line each, and reports a value that is not
// understood.
func Describe() (lines []string, err error) {
	f, err := Kernels()
	if err != nil {
		return nil, err
	}
	if f != nil {
		lines = append(lines, "kernels from "+f.String())
	}
	g, err := GraphCapture()
	switch g {
	case Chain:
		lines = append(lines, "launches of a CUDA graph in sequence ("+graphVariable+"=chain)")
	case Separate:
		lines = append(lines, "launches of a CUDA graph not joined ("+graphVariable+"=separate)")
	}
	return lines, err
}
