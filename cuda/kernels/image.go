//go:build gpu

// Package kernels holds the kernels, and what they were compiled to: users need no
// compiler. The folder bin is written by make cubins.
package kernels

import (
	"compress/gzip"
	"embed"
	"fmt"
	"io"
)

//go:embed bin/*.gz
var bin embed.FS

// cubins are the architectures compiled for, the newest first. A cubin runs on
// later cards of its own generation: sm_80's on 8.7, but not on 9.0.
var cubins = []int{120, 100, 90, 89, 86, 80, 75}

// The driver compiles PTX for the generations that came after.
const ptx = 90

// Image returns the kernels for a card of this compute capability (90 for 9.0): a
// cubin, or PTX.
func Image(arch int) ([]byte, error) {
	name, err := choose(arch)
	if err != nil {
		return nil, err
	}
	return unpack(name)
}

func choose(arch int) (string, error) {
	for _, cubin := range cubins {
		if cubin/10 == arch/10 && cubin <= arch {
			return fmt.Sprintf("sm_%d.cubin", cubin), nil
		}
	}
	if arch >= ptx {
		return fmt.Sprintf("compute_%d.ptx", ptx), nil
	}
	return "", fmt.Errorf("there are no kernels for compute capability %d.%d: %d.%d is the oldest served",
		arch/10, arch%10, cubins[len(cubins)-1]/10, cubins[len(cubins)-1]%10)
}

func unpack(name string) ([]byte, error) {
	f, err := bin.Open("bin/" + name + ".gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("kernels %s: %w", name, err)
	}
	image, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("kernels %s: %w", name, err)
	}
	return image, nil
}
