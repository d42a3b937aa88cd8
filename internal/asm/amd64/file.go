// Package amd64 writes files of assembly for amd64 with avo.
package amd64

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// A File is one generated file of a package: zz_<Name>_amd64.s, and its Go declarations in
// zz_<Name>_amd64.go.
type File struct {
	Name string
	Fill func(*build.Context)

	// Arrange, if not nil, changes the order of a function's instructions.
	Arrange func([]ir.Node) []ir.Node
}

// Text returns the assembly and the declarations of a file of the named package.
func (f File) Text(name string) (code, declarations []byte, err error) {
	c := build.NewContext()
	c.ConstraintExpr("!noasm")
	f.Fill(c)
	file, err := c.Result()
	if err != nil {
		return nil, nil, err
	}
	if f.Arrange != nil {
		for _, function := range file.Functions() {
			function.Nodes = f.Arrange(function.Nodes)
		}
	}
	if err := pass.Compile.Execute(file); err != nil {
		return nil, nil, err
	}
	if err := onlyAVX2(file); err != nil {
		return nil, nil, err
	}
	cfg := printer.Config{Argv: []string{"go", "run", "-C", "internal/asm", "."}, Pkg: name}
	if code, err = printer.NewGoAsm(cfg).Print(file); err != nil {
		return nil, nil, err
	}
	declarations, err = printer.NewStubs(cfg).Print(file)
	return code, declarations, err
}

// onlyAVX2 returns an error if a function named for AVX2 uses one of the vector registers from
// 16 on, which only AVX-512 has.
func onlyAVX2(file *ir.File) error {
	for _, f := range file.Functions() {
		if !strings.HasSuffix(f.Name, "AVX2") {
			continue
		}
		for _, i := range f.Instructions() {
			for _, r := range append(i.InputRegisters(), i.OutputRegisters()...) {
				if p, ok := r.(reg.Physical); ok && r.Kind() == reg.KindVector && p.PhysicalIndex() >= 16 {
					return fmt.Errorf("%s needs more than the 16 vector registers of AVX2", f.Name)
				}
			}
		}
	}
	return nil
}
