package main

import (
	"os"
	"path/filepath"

	"github.com/dptrain/dptrain/cuda/internal/kernels"
)

// cache keeps compiled images: a folder for each digest of the sources, with an image and the
// compiler's log for each target.
type cache struct{ folder string }

func (c cache) of(sources string) string { return filepath.Join(c.folder, sources[:16]) }

func (c cache) read(sources string, t kernels.Target) (i image, err error) {
	path := filepath.Join(c.of(sources), t.Image())
	if i.code, err = os.ReadFile(path); err != nil {
		return i, err
	}
	log, err := os.ReadFile(path + ".log")
	return image{t, i.code, string(log)}, err
}

func (c cache) keep(sources string, i image) error {
	folder := c.of(sources)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	// The image, whose presence is tested first, is complete once it has its name.
	path := filepath.Join(folder, i.target.Image())
	if err := os.WriteFile(path+".log", []byte(i.log), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", i.code, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
