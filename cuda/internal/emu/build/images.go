package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/cuda/internal/kernels"
)

// writeImages writes the archive of kernels of programs that run on the emulated device. The device
// has the kernels itself and reads only what an image was made for.
func writeImages(folder string) error {
	var images []kernels.Image
	for _, t := range kernels.Targets {
		code := []byte(".version 8.8\n.target sm_90\n\x00")
		if !t.PTX() {
			code = make([]byte, 64)
			copy(code, "\x7fELF")
			code[48] = byte(t.Capability())
		}
		images = append(images, kernels.Image{Name: t.Image(), Code: code})
	}
	var archive bytes.Buffer
	if err := kernels.WriteArchive(&archive, images); err != nil {
		return fmt.Errorf("images for the emulated device: %w", err)
	}
	return os.WriteFile(filepath.Join(folder, "kernels.zip"), archive.Bytes(), 0o644)
}
