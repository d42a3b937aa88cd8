// Command asm writes all assembly of dptrain: zz_<name>_<architecture>.s, and its Go declarations in
// zz_<name>_<architecture>.go. Run it from the root of the repository:
//
//	go run -C internal/asm .
//
// It is a module of its own, so that the program does not depend on avo. The packages simd, lattice
// and random describe code for amd64, package neon all code for arm64.
package main

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/dptrain/dptrain/internal/asm/amd64"
	"github.com/dptrain/dptrain/internal/asm/lattice"
	"github.com/dptrain/dptrain/internal/asm/neon"
	"github.com/dptrain/dptrain/internal/asm/random"
	"github.com/dptrain/dptrain/internal/asm/simd"
)

// forAMD64 lists the files for amd64 by the folder of their package.
var forAMD64 = map[string][]amd64.File{
	"internal/device/simd":    simd.Files,
	"internal/device/lattice": lattice.Files,
	"internal/random":         random.Files,
}

func main() {
	// avo defines flags in the default flag set, so this command uses its own.
	flags := flag.NewFlagSet("asm", flag.ExitOnError)
	root := flags.String("root", filepath.Join("..", ".."), "root of the repository")
	_ = flags.Parse(os.Args[1:])
	err := generate(func(file string, text []byte) error {
		return os.WriteFile(filepath.Join(*root, file), text, 0o644)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "asm:", err)
		os.Exit(1)
	}
}

// generate calls visit with every generated file and its text.
func generate(visit func(file string, text []byte) error) error {
	both := func(file string, code, declarations []byte, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := visit(file+".s", code); err != nil {
			return err
		}
		return visit(file+".go", declarations)
	}
	for folder, files := range forAMD64 {
		for _, f := range files {
			code, declarations, err := f.Text(path.Base(folder))
			if err := both(path.Join(folder, "zz_"+f.Name+"_amd64"), code, declarations, err); err != nil {
				return err
			}
		}
	}
	for _, f := range neon.Files {
		code, declarations, err := f.Text()
		if err := both(path.Join(f.Folder, "zz_"+f.Name+"_arm64"), code, declarations, err); err != nil {
			return err
		}
	}
	return nil
}
