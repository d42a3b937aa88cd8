package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cuda/kernels"
)

// An extracted archive has one image of the whole archive, and its digest of the sources.
func TestExtract_OneImage(t *testing.T) {
	whole, err := os.ReadFile(archiveName("../kernels"))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "one.zip")
	if err := extract(archiveName("../kernels"), "sm_86", file); err != nil { // stored as a difference
		t.Fatal(err)
	}
	one, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := kernels.ReadImage(whole, "sm_86.cubin")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := kernels.ReadImage(one, "sm_86.cubin"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes (%v), want %d", len(got), err, len(want))
	}
	if _, err := kernels.ReadImage(one, "sm_80.cubin"); err == nil {
		t.Error("it has another image")
	}
	for _, of := range [][]byte{whole, one} {
		if sources, err := kernels.Sources(of); err != nil || !strings.HasPrefix(sources, "sources ") {
			t.Errorf("sources %q (%v)", sources, err)
		}
	}
	if err := extract(archiveName("../kernels"), "sm_70", file); err == nil || !strings.HasPrefix(err.Error(), "-target sm_70: ") {
		t.Error(err)
	}
}

func digestOf(t *testing.T, folder string, targets []target, options ...string) string {
	t.Helper()
	s, err := readSources(folder)
	if err != nil {
		t.Fatal(err)
	}
	return s.digest(targets, options)
}

func TestDigest_IsOfTheArchive(t *testing.T) {
	const folder = "../kernels"
	archive, err := os.ReadFile(archiveName(folder))
	if err != nil {
		t.Fatal(err)
	}
	if err := compareSources(archive, digestOf(t, folder, targets)); err != nil {
		t.Error(err)
	}
}

func TestDigest_DependsOnSourcesTargetsAndOptions(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	add := func(targets []target, options ...string) {
		sources := digestOf(t, folder, targets, options...)
		if seen[sources] {
			t.Errorf("targets %v with options %q have a digest that was seen before", targets, options)
		}
		seen[sources] = true
	}
	file("a.h", "1")
	file("b.cu", "2")
	add(targets)
	add(targets[1:])
	add(targets, "-DMORE_BLOCKS")
	file("a.h", "3")
	add(targets)
	file("b.cu", "4")
	add(targets)
	file("c.cu", "")
	add(targets)
}
