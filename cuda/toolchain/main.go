// Command toolchain compiles the kernels with NVRTC: one cubin per architecture, and PTX
// for later architectures. It writes them to the archive cuda/kernels/kernels.zip, and a
// table of the kernels' resource usage to cuda/kernels/RESOURCES.md. The same sources and
// the same NVRTC give the same bytes: -check compiles again and compares. The archive
// contains a digest of the sources, which a test compares in no time. A kernel that spills
// registers is an error unless resources.go lists it.
//
// -variant FILE compiles the kernels with VARIED_BOUNDS (cuda/kernels/device.h) for more blocks
// on a multiprocessor, and writes this second archive and its table. DPTRAIN_KERNELS loads it.
// It has fewer images: a card uses the newest that it can run. Its kernels may spill registers.
// The cost of spills must be measured on a card.
//
// -target ARCHITECTURE (sm_90) limits -variant to one image. -extract FILE writes an archive of that
// image of kernels.zip and compiles nothing: a bundle for one card needs no others.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/dptrain/dptrain/cuda/kernels"
)

// target is an architecture to compile for.
type target struct {
	file, architecture string
	ptx                bool
	base               string // the cubin from which this one's differences are stored
}

// A cubin runs on its own architecture and on later ones of the same major version; the
// PTX is for later major versions.
var targets = []target{
	{file: "sm_75.cubin", architecture: "sm_75"},
	{file: "sm_80.cubin", architecture: "sm_80"},
	{file: "sm_86.cubin", architecture: "sm_86", base: "sm_80.cubin"},
	{file: "sm_89.cubin", architecture: "sm_89", base: "sm_86.cubin"},
	{file: "sm_90.cubin", architecture: "sm_90"},
	{file: "sm_100.cubin", architecture: "sm_100"},
	{file: "sm_120.cubin", architecture: "sm_120"},
	{file: "compute_90.ptx", architecture: "compute_90", ptx: true},
}

var variantTargets = []target{
	{file: "sm_80.cubin", architecture: "sm_80"},
	{file: "sm_90.cubin", architecture: "sm_90"},
	{file: "compute_90.ptx", architecture: "compute_90", ptx: true},
}

func main() {
	libraries := flag.String("nvrtc", "", "folder of NVRTC 12.9's libraries")
	folder := flag.String("kernels", "cuda/kernels", "folder of the kernels")
	check := flag.Bool("check", false, "compare with the stored files, write nothing")
	variant := flag.String("variant", "", "archive (FILE.zip) of kernels with more blocks on a multiprocessor, to write instead")
	only := flag.String("target", "", "the only architecture of -variant or -extract, for example sm_90")
	extracted := flag.String("extract", "", "archive (FILE.zip) of the stored image of -target, to write without compiling")
	flag.Parse()
	var err error
	if *extracted != "" {
		err = extract(archiveName(*folder), *only, *extracted)
	} else {
		err = run(*libraries, *folder, *variant, *only, *check)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "toolchain:", err)
		os.Exit(1)
	}
}

// extract writes an archive with one image of another archive.
func extract(from, architecture, to string) error {
	stored, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	name := architecture + ".cubin"
	code, err := kernels.ReadImage(stored, name)
	if err != nil {
		return fmt.Errorf("-target %s: %w", architecture, err)
	}
	sources, err := kernels.Sources(stored)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := kernels.WriteArchive(&archive, []kernels.Image{{Name: name, Code: code}}, sources); err != nil {
		return err
	}
	return os.WriteFile(to, archive.Bytes(), 0o644)
}

func run(libraries, folder, variant, only string, check bool) error {
	c, err := newCompiler(libraries)
	if err != nil {
		return err
	}
	defer c.close()
	targets := targets
	if only != "" && variant == "" {
		return errors.New("-target needs -variant or -extract")
	}
	if variant != "" {
		targets = slices.DeleteFunc(slices.Clone(variantTargets), func(t target) bool { return only != "" && t.architecture != only })
		if len(targets) == 0 {
			return fmt.Errorf("-target %s: -variant has no such image", only)
		}
		c.options = append(c.options, "-DMORE_BLOCKS")
	}
	texts, err := readSources(folder)
	if err != nil {
		return err
	}
	digest := texts.digest(targets, c.options)
	images := make([]image, len(targets))
	failures := make([]error, len(targets))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.NumCPU(), len(targets)) {
		workers.Go(func() {
			for i := range next {
				images[i], failures[i] = c.compile(texts, targets[i])
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
	switch {
	case variant != "":
		return write(variant, strings.TrimSuffix(variant, ".zip")+".md", images, digest, table)
	case check:
		err = compare(folder, images, digest, table)
	default:
		err = write(archiveName(folder), tableName(folder), images, digest, table)
	}
	if err != nil {
		return err
	}
	if len(spills) > 0 {
		return fmt.Errorf("kernels spill registers: %s; give them fewer registers, or list them in resources.go with the reason",
			strings.Join(spills, "; "))
	}
	return nil
}

func write(archivePath, tablePath string, images []image, sources string, table []byte) error {
	var list []kernels.Image
	for _, i := range images {
		list = append(list, kernels.Image{Name: i.target.file, PTX: i.target.ptx, Base: i.target.base, Code: i.code})
	}
	var archive bytes.Buffer
	if err := kernels.WriteArchive(&archive, list, sources); err != nil {
		return err
	}
	if err := os.WriteFile(archivePath, archive.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(tablePath, table, 0o644)
}

func compare(folder string, images []image, sources string, table []byte) error {
	archive, err := os.ReadFile(archiveName(folder))
	if err != nil {
		return err
	}
	if err := compareSources(archive, sources); err != nil {
		return err
	}
	for _, i := range images {
		stored, err := kernels.ReadImage(archive, i.target.file)
		if err != nil {
			return err
		}
		if !bytes.Equal(stored, i.code) {
			return fmt.Errorf("%s of %s differs from the compiled sources: run make cubins", i.target.file, archiveName(folder))
		}
	}
	stored, err := os.ReadFile(tableName(folder))
	if err != nil {
		return err
	}
	if !bytes.Equal(stored, table) {
		return fmt.Errorf("%s differs from the compiled sources: run make cubins", tableName(folder))
	}
	return nil
}

func compareSources(archive []byte, sources string) error {
	compiled, err := kernels.Sources(archive)
	if err == nil && compiled != sources {
		err = fmt.Errorf("the archive of kernels was compiled from other sources: run make cubins")
	}
	return err
}

func archiveName(folder string) string { return filepath.Join(folder, "kernels.zip") }

func tableName(folder string) string { return filepath.Join(folder, "RESOURCES.md") }
