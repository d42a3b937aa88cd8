package neon

import (
	"fmt"
	"go/ast"
	"strings"
)

// finish adds the loads of constants at the start and chooses registers.
func (f *function) finish() {
	body := f.code
	f.code = nil
	if len(f.constants) > 0 {
		f.op("MOVD $"+f.name+"Constants<>(SB), R%d", f.table)
		for i, c := range f.constants {
			if c.reg != nil {
				f.op(fmt.Sprintf("FMOVQ %d(R%%d), F%%d", 16*i), f.table, c.reg)
			}
		}
	}
	f.code = append(f.code, body...)
	f.allocate()
}

// allocate chooses registers by a linear scan. A register is in use from the first line that
// names it to the last one. If it is set before a loop that names it, it is in use to the end
// of the loop.
func (f *function) allocate() {
	places := map[string]int{}
	var all []*reg
	for i, in := range f.code {
		if in.label != "" {
			places[in.label] = i
		}
		for _, r := range in.regs {
			if r.last == 0 {
				r.first = i
				all = append(all, r)
			}
			r.last = i + 1
		}
	}
	for changed := true; changed; {
		changed = false
		for end, in := range f.code {
			start, ok := places[in.jump]
			if in.jump != "" && !ok {
				panic(f.name + ": no label " + in.jump)
			}
			if in.jump == "" || start > end {
				continue
			}
			for _, r := range all {
				if r.first < start && r.last > start && r.last <= end {
					r.last = end + 1
					changed = true
				}
			}
		}
	}
	busy := map[bool]map[int]*reg{false: {}, true: {}}
	for _, r := range all { // in the order of their first lines
		chosen := -1
		for _, n := range usable[r.vector] {
			if b := busy[r.vector][n]; b == nil || b.last <= r.first {
				chosen = n
				break
			}
		}
		if chosen < 0 {
			panic(fmt.Sprintf("%s: no register is free at line %d (%s)", f.name, r.first, f.code[r.first].format))
		}
		r.number = chosen
		busy[r.vector][chosen] = r
	}
}

// assembly returns the text of the function.
func (f *function) assembly() string {
	var s strings.Builder
	size := 0
	for _, field := range f.signature.Params.List {
		for range field.Names {
			n := sizeOf(field.Type)
			size = (size+n-1)&^(n-1) + n
		}
	}
	if f.signature.Results != nil {
		size = (size+7)&^7 + sizeOf(f.signature.Results.List[0].Type)
	}
	for i, c := range f.constants {
		for j, w := range c.words {
			fmt.Fprintf(&s, "DATA %sConstants<>+%d(SB)/4, $0x%08x\n", f.name, 16*i+4*j, w)
		}
	}
	if n := len(f.constants); n > 0 {
		fmt.Fprintf(&s, "GLOBL %sConstants<>(SB), RODATA|NOPTR, $%d\n\n", f.name, 16*n)
	}
	flags := "NOSPLIT"
	if f.frame > 0 {
		flags = "0" // the prologue must check the size of the stack
	}
	fmt.Fprintf(&s, "TEXT ·%s(SB), %s, $%d-%d\n", f.name, flags, f.frame, size)
	for _, in := range f.code {
		numbers := make([]any, len(in.regs))
		for i, r := range in.regs {
			numbers[i] = r.number
		}
		text := fmt.Sprintf(in.format, numbers...)
		switch {
		case in.label != "":
			fmt.Fprintf(&s, "\n%s\n", text)
		case in.encoded:
			fmt.Fprintf(&s, "\tWORD $0x%08x // %s\n", in.word(), text)
		default:
			fmt.Fprintf(&s, "\t%s\n", text)
		}
	}
	return s.String()
}

// declaration returns the function's declaration in Go.
func (f *function) declaration() string {
	var fields []string
	for _, field := range f.signature.Params.List {
		var names []string
		for _, n := range field.Names {
			names = append(names, n.Name)
		}
		fields = append(fields, strings.Join(names, ", ")+" "+typeName(field.Type))
	}
	result := ""
	if f.signature.Results != nil {
		result = " " + typeName(f.signature.Results.List[0].Type)
	}
	return fmt.Sprintf("//go:noescape\nfunc %s(%s)%s\n", f.name, strings.Join(fields, ", "), result)
}

func typeName(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return "*" + typeName(t.X)
	case *ast.ArrayType:
		return "[" + t.Len.(*ast.BasicLit).Value + "]" + typeName(t.Elt)
	}
	return t.(*ast.Ident).Name
}
