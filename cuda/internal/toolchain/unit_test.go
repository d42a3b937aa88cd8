package main

import (
	"os"
	"path/filepath"
	"testing"
)

func sourcesOf(t *testing.T, folder string, options ...string) string {
	t.Helper()
	s, err := readSources(folder)
	if err != nil {
		t.Fatal(err)
	}
	return s.digest(options)
}

// DIGESTS is of the kernels as they are: make cubins ran after their last change.
func TestDigests_AreOfTheSources(t *testing.T) {
	const folder = "../kernels"
	d, err := readDigests(filepath.Join(folder, "DIGESTS"))
	if err != nil {
		t.Fatal(err)
	}
	if d.sources != sourcesOf(t, folder) {
		t.Error("the kernels changed: run make cubins")
	}
}

func TestDigest_DependsOnSourcesAndOptions(t *testing.T) {
	folder := t.TempDir()
	file := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	add := func(options ...string) {
		sources := sourcesOf(t, folder, options...)
		if seen[sources] {
			t.Errorf("the digest with options %q was seen before", options)
		}
		seen[sources] = true
	}
	file("a.h", "1")
	file("b.cu", "2")
	add()
	add("-DMORE_BLOCKS")
	file("a.h", "3")
	add()
	file("b.cu", "4")
	add()
	file("c.cu", "")
	add()
}
