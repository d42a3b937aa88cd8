package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestGeneratedFiles_AreCurrent(t *testing.T) {
	files := 0
	err := generate(func(file string, want []byte) error {
		files++
		got, err := os.ReadFile(filepath.Join("..", "..", file))
		if err == nil && !bytes.Equal(got, want) {
			t.Errorf("%s differs from the generator's output; run: go run -C internal/asm .", file)
		}
		return err
	})
	if err != nil || files < 60 {
		t.Fatalf("%d files, %v", files, err)
	}
}
