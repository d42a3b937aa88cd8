package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/dptrain/dptrain/cuda/internal/kernels"
)

// compileSource is a program that runs NVRTC in its own process, at fixed addresses:
// NVRTC's output depends on addresses.
//
//go:embed nvrtc/compile.c
var compileSource string

type compiler struct {
	program, libraries, scratch string
	options                     []string // of NVRTC, in addition
}

// image is a compiled unit with the compiler's log.
type image struct {
	target kernels.Target
	code   []byte
	log    string
}

func newCompiler(libraries string, options []string) (*compiler, error) {
	libraries, err := filepath.Abs(libraries)
	if err != nil {
		return nil, err
	}
	scratch, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return nil, err
	}
	c := &compiler{program: filepath.Join(scratch, "compile"), libraries: libraries, scratch: scratch, options: options}
	cc := exec.Command("cc", "-O2", "-no-pie", "-rdynamic", "-x", "c", "-o", c.program, "-", "-ldl", "-lpthread")
	cc.Stdin = strings.NewReader(compileSource)
	if output, err := cc.CombinedOutput(); err != nil {
		c.close()
		return nil, fmt.Errorf("compile.c cannot be built: %w\n%s", err, output)
	}
	return c, nil
}

func (c *compiler) close() { os.RemoveAll(c.scratch) }

func (c *compiler) compile(s sources, t kernels.Target) (image, error) {
	args := []string{c.libraries, "cubin", "--gpu-architecture=" + t.Architecture, "--std=c++17"}
	if t.PTX() {
		args[1] = "ptx"
	} else {
		args = append(args, "--ptxas-options=--verbose")
	}
	args = append(args, c.options...)
	var code, log bytes.Buffer
	run := exec.Command(c.program, args...)
	run.Stdin, run.Stdout, run.Stderr = strings.NewReader(s.input()), &code, &log
	run.Env = []string{}
	if err := run.Run(); err != nil {
		return image{}, fmt.Errorf("%w\n%s", err, strings.TrimSpace(log.String()))
	}
	compiled := code.Bytes()
	if t.PTX() {
		compiled = bytes.TrimRight(compiled, "\x00")
	}
	return image{t, compiled, log.String()}, nil
}
