// Command toolchain compiles the kernels with NVRTC: one cubin per architecture, and PTX
// for later architectures. It keeps each image in a cache, because compiling one takes minutes.
//
//	toolchain -nvrtc DIR -cache DIR -update                     after a change of the kernels
//	toolchain -nvrtc DIR -cache DIR -check
//	toolchain -nvrtc DIR -cache DIR -targets sm_86,ptx -archive FILE.zip
//
// The same sources and the same NVRTC give the same bytes. -update compiles all targets, and writes
// the SHA-256 of each image to cuda/internal/kernels/DIGESTS and a table of the kernels' resource usage to
// cuda/internal/kernels/RESOURCES.md. -check compiles them and compares. -archive writes the images of some
// targets for programs to embed, and refuses an image that DIGESTS does not have. A kernel that
// spills registers is an error of -update and -check unless resources.go lists it.
//
// -more-blocks with -archive compiles the kernels with VARIED_BOUNDS (cuda/internal/kernels/device.h) for
// more blocks on a multiprocessor, and writes a table of their usage next to the archive.
// DPTRAIN_KERNELS loads it. These kernels may spill registers. The cost of spills must be measured on
// a card.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"github.com/dptrain/dptrain/cuda/internal/kernels"
)

func main() {
	var b build
	libraries := flag.String("nvrtc", "", "folder of NVRTC 12.9's libraries")
	flag.StringVar(&b.kernels, "kernels", "cuda/internal/kernels", "folder of the kernels")
	flag.StringVar(&b.cache.folder, "cache", "", "folder of compiled images")
	targets := flag.String("targets", "all", "what to compile for: all, or architectures and ptx, such as sm_86,sm_90,ptx")
	update := flag.Bool("update", false, "write DIGESTS and RESOURCES.md")
	check := flag.Bool("check", false, "compare with DIGESTS and RESOURCES.md")
	archive := flag.String("archive", "", "write an archive (FILE.zip) of the images")
	moreBlocks := flag.Bool("more-blocks", false, "compile for more blocks on a multiprocessor")
	flag.Parse()
	err := func() (err error) {
		if b.targets, err = kernels.ParseTargets(*targets); err != nil {
			return err
		}
		if (*update || *check) && (*targets != "all" || *moreBlocks) {
			return errors.New("-update and -check are for all targets")
		}
		if *moreBlocks {
			b.options = []string{"-DMORE_BLOCKS"}
		}
		if err := b.compile(*libraries); err != nil {
			return err
		}
		switch {
		case *update:
			return b.update()
		case *check:
			return b.check()
		case *archive != "" && *moreBlocks:
			return errors.Join(b.writeTable(strings.TrimSuffix(*archive, ".zip")+".md"), b.writeArchive(*archive))
		case *archive != "":
			return errors.Join(b.verify(), b.writeArchive(*archive))
		}
		return errors.New("give -update, -check or -archive FILE.zip")
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "toolchain:", err)
		os.Exit(1)
	}
}

// build is the images of some targets, from one state of the sources.
type build struct {
	kernels string // folder
	cache   cache
	targets []kernels.Target
	options []string // of NVRTC, in addition
	sources string   // digest
	images  []image  // of targets
}

// compile takes the images from the cache, and compiles those that it lacks, as many at once as there
// are processors.
func (b *build) compile(libraries string) error {
	texts, err := readSources(b.kernels)
	if err != nil {
		return err
	}
	b.sources = texts.digest(b.options)
	b.images = make([]image, len(b.targets))
	var missing []int
	var names []string
	for i, t := range b.targets {
		if b.images[i], err = b.cache.read(b.sources, t); err != nil {
			missing, names = append(missing, i), append(names, t.String())
		}
	}
	if len(missing) == 0 {
		return nil
	}
	c, err := newCompiler(libraries, b.options)
	if err != nil {
		return err
	}
	defer c.close()
	fmt.Fprintf(os.Stderr, "compiling the kernels for %s: about two minutes each on a processor\n", strings.Join(names, ", "))
	failures := make([]error, len(missing))
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(runtime.NumCPU(), len(missing)) {
		workers.Go(func() {
			for at := range next {
				i := missing[at]
				if b.images[i], failures[at] = c.compile(texts, b.targets[i]); failures[at] == nil {
					failures[at] = b.cache.keep(b.sources, b.images[i])
				}
			}
		})
	}
	for at := range missing {
		next <- at
	}
	close(next)
	workers.Wait()
	for at, err := range failures {
		if err != nil {
			return fmt.Errorf("%s: %w", names[at], err)
		}
	}
	for line := range strings.Lines(b.images[missing[0]].log) {
		if strings.Contains(line, "): warning #") {
			fmt.Fprint(os.Stderr, line)
		}
	}
	return nil
}

func (b *build) update() error {
	table, spills, err := resources(b.images)
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.tableName(), table, 0o644); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(b.digestsName(), b.digests().text(), 0o644), spills)
}

func (b *build) check() error {
	table, spills, err := resources(b.images)
	if err != nil {
		return err
	}
	for file, want := range map[string][]byte{b.tableName(): table, b.digestsName(): b.digests().text()} {
		stored, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !bytes.Equal(stored, want) {
			return fmt.Errorf("%s differs from the compiled sources: run make cubins", file)
		}
	}
	return spills
}

func (b *build) writeTable(file string) error {
	table, _, err := resources(b.images)
	if err != nil {
		return err
	}
	return os.WriteFile(file, table, 0o644)
}

// verify compares the images with DIGESTS. Sources that were changed since have other images.
func (b *build) verify() error {
	recorded, err := readDigests(b.digestsName())
	if err != nil {
		return err
	}
	if recorded.sources != b.sources {
		fmt.Fprintf(os.Stderr, "the kernels differ from those of %s: run make cubins before you commit them\n", b.digestsName())
		return nil
	}
	for _, i := range b.images {
		if recorded.images[i.target.Image()] != digestOf(i.code) {
			return fmt.Errorf("%s has another SHA-256 than in %s: delete the folder %s and compile again", i.target.Image(), b.digestsName(), b.cache.of(b.sources))
		}
	}
	return nil
}

func (b *build) writeArchive(file string) error {
	var list []kernels.Image
	for _, i := range b.images {
		list = append(list, kernels.Image{Name: i.target.Image(), Base: i.target.Base, Code: i.code})
	}
	var archive bytes.Buffer
	if err := kernels.WriteArchive(&archive, list); err != nil {
		return err
	}
	return os.WriteFile(file, archive.Bytes(), 0o644)
}

func (b *build) digestsName() string { return filepath.Join(b.kernels, "DIGESTS") }

func (b *build) tableName() string { return filepath.Join(b.kernels, "RESOURCES.md") }
