package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cuda/internal/kernels"
)

// cached is a build whose images are in the cache, so that no compiler runs.
func cached(t *testing.T, targets string) *build {
	t.Helper()
	b := &build{kernels: t.TempDir(), cache: cache{t.TempDir()}}
	for _, name := range []string{"a.h", "b.cu"} {
		if err := os.WriteFile(filepath.Join(b.kernels, name), []byte("//"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if b.targets, err = kernels.ParseTargets(targets); err != nil {
		t.Fatal(err)
	}
	sources := sourcesOf(t, b.kernels)
	for _, target := range b.targets {
		if err := b.cache.keep(sources, image{target, []byte("code for " + target.String()), output}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.compile("no such folder"); err != nil {
		t.Fatal(err)
	}
	return b
}

// An archive has the images of its targets, also that of a target whose base it lacks.
func TestBuild_Archive(t *testing.T) {
	b := cached(t, "sm_86,ptx")
	file := filepath.Join(t.TempDir(), "kernels.zip")
	if err := b.writeArchive(file); err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for capability, want := range map[int]string{86: "code for sm_86", 89: "code for sm_86", 90: "code for ptx"} {
		if got, err := kernels.NewestImage(archive, capability); err != nil || !bytes.Equal(got, []byte(want)) {
			t.Errorf("compute capability %d: %q (%v), want %q", capability, got, err, want)
		}
	}
	if _, err := kernels.NewestImage(archive, 80); err == nil || !strings.Contains(err.Error(), "8.0") {
		t.Errorf("compute capability 8.0 has an image: %v", err)
	}
}

// What -update writes, -check accepts, until an image, a resource or the sources change.
func TestBuild_CheckComparesWithUpdate(t *testing.T) {
	b := cached(t, "all")
	delete(spilling, "sums")
	if err := b.update(); err == nil || !strings.Contains(err.Error(), "sums on sm_75") {
		t.Errorf("a spill is accepted: %v", err)
	}
	spilling["sums"] = "a test"
	defer delete(spilling, "sums")
	for _, f := range []func() error{b.update, b.check, b.verify} {
		if err := f(); err != nil {
			t.Fatal(err)
		}
	}
	b.images[2].code = []byte("another")
	if err := b.verify(); err == nil || !strings.Contains(err.Error(), "sm_86.cubin has another SHA-256") {
		t.Errorf("another image: %v", err)
	}
	if err := b.check(); err == nil || !strings.Contains(err.Error(), "DIGESTS differs") {
		t.Errorf("another image: %v", err)
	}
	b.images[2].code = []byte("code for sm_86")
	b.images[3].log = strings.Replace(output, "Used 8 registers", "Used 9 registers", 1)
	if err := b.check(); err == nil || !strings.Contains(err.Error(), "RESOURCES.md differs") {
		t.Errorf("another resource: %v", err)
	}
}
