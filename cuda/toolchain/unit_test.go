package main

import (
	"os"
	"path/filepath"
	"testing"
)

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
