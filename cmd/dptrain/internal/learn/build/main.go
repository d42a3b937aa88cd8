// Build compiles the modules of the guide and writes them to an archive, for `make learn`. The same
// sources and the same version of Go give the same bytes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/learn"
)

func main() {
	log.SetFlags(0)
	out := flag.String("out", "", "the archive to write")
	flag.Parse()
	if *out == "" {
		log.Fatal("build: give the archive to write: -out FILE")
	}
	if err := build(*out); err != nil {
		log.Fatal("build: ", err)
	}
}

func build(out string) error {
	folder, err := os.MkdirTemp("", "learn")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	for _, name := range []string{"accounting", "engine"} {
		c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", filepath.Join(folder, name+".wasm"),
			"github.com/dptrain/dptrain/cmd/dptrain/internal/learn/wasm/"+name)
		c.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=", "GOWASM=")
		c.Stdout, c.Stderr = os.Stderr, os.Stderr
		if err := c.Run(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	loader, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "wasm_exec.js"), loader, 0o600); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	return errors.Join(learn.WriteArchive(file, folder), file.Close())
}
