// Command toolchain compiles the kernels with NVRTC: one cubin an architecture and
// PTX for what comes after, all kernels in each, gzipped into cuda/kernels/bin, and
// a table of what they take in cuda/kernels/RESOURCES.md. The same sources and the
// same NVRTC give the same bytes: -check compiles again and compares. A kernel that
// spills registers and is not listed as one that may is an error.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// target is what an image is for.
type target struct {
	file, architecture string
	ptx                bool
}

// A cubin runs on its own architecture and on later ones of the same generation;
// the PTX is for generations to come.
var targets = []target{
	{"sm_75.cubin", "sm_75", false},
	{"sm_80.cubin", "sm_80", false},
	{"sm_86.cubin", "sm_86", false},
	{"sm_89.cubin", "sm_89", false},
	{"sm_90.cubin", "sm_90", false},
	{"sm_100.cubin", "sm_100", false},
	{"sm_120.cubin", "sm_120", false},
	{"compute_90.ptx", "compute_90", true},
}

func main() {
	libraries := flag.String("nvrtc", "", "the folder of NVRTC 12.9's libraries")
	folder := flag.String("kernels", "cuda/kernels", "the folder of the kernels")
	check := flag.Bool("check", false, "compare with what is there, and write nothing")
	flag.Parse()
	if err := run(*libraries, *folder, *check); err != nil {
		fmt.Fprintln(os.Stderr, "toolchain:", err)
		os.Exit(1)
	}
}

func run(libraries, folder string, check bool) error {
	c, err := newCompiler(libraries, folder)
	if err != nil {
		return err
	}
	defer c.close()
	unit, err := readUnit(folder)
	if err != nil {
		return err
	}
	images := make([]image, len(targets))
	failures := make([]error, len(targets))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.NumCPU(), len(targets)) {
		workers.Go(func() {
			for i := range next {
				images[i], failures[i] = c.compile(unit, targets[i])
			}
		})
	}
	for i := range targets {
		next <- i
	}
	close(next)
	workers.Wait()
	for i, err := range failures {
		if err != nil {
			return fmt.Errorf("%s: %w", targets[i].architecture, err)
		}
	}
	for line := range strings.Lines(images[0].log) {
		if strings.Contains(line, "): warning #") {
			fmt.Fprint(os.Stderr, line)
		}
	}
	table, spills, err := resources(images)
	if err != nil {
		return err
	}
	finish := write
	if check {
		finish = compare
	}
	if err := finish(folder, images, table); err != nil {
		return err
	}
	if len(spills) > 0 {
		return fmt.Errorf("registers are spilled by %s: give them fewer, or list the kernel in resources.go with the reason",
			strings.Join(spills, "; "))
	}
	return nil
}

func write(folder string, images []image, table []byte) error {
	for i, t := range targets {
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return err
		}
		if _, err := z.Write(images[i].code); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		if err := os.WriteFile(packedName(folder, t), packed.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(tableName(folder), table, 0o644)
}

func compare(folder string, images []image, table []byte) error {
	for i, t := range targets {
		there, err := unpack(packedName(folder, t))
		if err != nil {
			return err
		}
		if !bytes.Equal(there, images[i].code) {
			return fmt.Errorf("%s is not what the sources give: run make cubins", packedName(folder, t))
		}
	}
	there, err := os.ReadFile(tableName(folder))
	if err != nil {
		return err
	}
	if !bytes.Equal(there, table) {
		return fmt.Errorf("%s is not what the sources give: run make cubins", tableName(folder))
	}
	return nil
}

func packedName(folder string, t target) string { return filepath.Join(folder, "bin", t.file+".gz") }

func tableName(folder string) string { return filepath.Join(folder, "RESOURCES.md") }

func unpack(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	code, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return code, nil
}
