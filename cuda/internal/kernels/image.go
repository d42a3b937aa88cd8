//go:build gpu

package kernels

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

// built has kernels.zip in programs that make builds. The archive is no file of the repository.
//
//go:embed built
var built embed.FS

// archive returns the program's archive of kernels.
func archive() ([]byte, error) {
	content, err := built.ReadFile("built/kernels.zip")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("this program was built without kernels: build it with make gpu")
	}
	return content, err
}

// Digest returns the SHA-256 of the program's archive of kernels in hexadecimal digits, and "" without
// an archive.
func Digest() string {
	content, err := archive()
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(content))
}

// ImageFor returns the kernels for a GPU of this compute capability (90 for 9.0): a
// cubin, or PTX.
func ImageFor(capability int) ([]byte, error) {
	t, err := TargetFor(capability)
	if err != nil {
		return nil, err
	}
	content, err := archive()
	if err != nil {
		return nil, err
	}
	image, err := NewestImage(content, capability)
	if errors.Is(err, errNoImage) {
		return nil, fmt.Errorf("this program was built without kernels for compute capability %d.%d: build it with make gpu TARGETS=%s, or TARGETS=all",
			capability/10, capability%10, t)
	}
	return image, err
}
