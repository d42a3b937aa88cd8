package neon

import (
	"fmt"
	"go/ast"
	"go/parser"
	"math"
	"slices"
)

// reg is a virtual register. Its number is chosen when the function is complete.
type reg struct {
	vector bool
	number int
	// The first and the last instruction that need it; a loop extends the range.
	first, last int
}

// lane is one of the four words of a vector.
type lane struct {
	of *reg
	i  int
}

// instruction is a line of assembly with %d for the number of each register.
type instruction struct {
	format  string
	regs    []*reg
	encoded bool   // the code is base and the registers' fields; the format is a comment
	base    uint32 // see encode.go
	label   string // the label that this line defines, if any
	jump    string // the label that it may jump to, if any
}

// function builds a leaf function. Its methods manage code, registers and constants; the
// functions of this package that take one add instructions.
type function struct {
	name      string
	signature *ast.FuncType
	code      []instruction
	labels    int
	frame     int // bytes on the stack
	constants []*constant
	table     *reg            // their address
	vectors   map[uint32]*reg // constant vectors of equal words
	lanes     map[uint32]lane // constants that share a vector
	packed    *constant       // the vector to which lanes are added
	free      int             // its free lanes
}

// newFunction starts a function of a Go type such as "func(x *float32, n int) float64".
func newFunction(name, signature string) *function {
	expr, err := parser.ParseExpr(signature)
	if err != nil {
		panic(err)
	}
	return &function{name: name, signature: expr.(*ast.FuncType), table: &reg{}, vectors: map[uint32]*reg{}, lanes: map[uint32]lane{}}
}

// vec and gp return a new vector register and a new general register.
func (f *function) vec() *reg { return &reg{vector: true} }
func (f *function) gp() *reg  { return &reg{} }

// op adds an instruction in the syntax of Go's assembler.
func (f *function) op(format string, regs ...*reg) {
	f.code = append(f.code, instruction{format: format, regs: regs})
}

// branch adds a jump; the label is appended to the format.
func (f *function) branch(format, label string, regs ...*reg) {
	f.code = append(f.code, instruction{format: format + " " + label, regs: regs, jump: label})
}

// label returns a unique label.
func (f *function) label(stem string) string {
	f.labels++
	return fmt.Sprintf("%s_%d", stem, f.labels)
}

// at defines a label at the next instruction.
func (f *function) at(label string) {
	f.code = append(f.code, instruction{format: label + ":", label: label})
}

func (f *function) ret() { f.op("RET") }

// parameter returns the place of a parameter in the frame and its size; "ret" is the result.
func (f *function) parameter(name string) (place string, size int) {
	at := 0
	for _, field := range f.signature.Params.List {
		for _, n := range field.Names {
			size := sizeOf(field.Type)
			at = (at + size - 1) &^ (size - 1)
			if n.Name == name {
				return fmt.Sprintf("%s+%d(FP)", name, at), size
			}
			at += size
		}
	}
	if name == "ret" && f.signature.Results != nil {
		return fmt.Sprintf("ret+%d(FP)", (at+7)&^7), sizeOf(f.signature.Results.List[0].Type)
	}
	panic(f.name + " has no parameter " + name)
}

// sizeOf returns the bytes of a parameter.
func sizeOf(t ast.Expr) int {
	if id, ok := t.(*ast.Ident); ok && (id.Name == "float32" || id.Name == "uint32") {
		return 4
	}
	return 8
}

// load reads an integer or a pointer from the arguments.
func (f *function) load(name string) *reg {
	place, size := f.parameter(name)
	r := f.gp()
	f.op(map[int]string{4: "MOVWU ", 8: "MOVD "}[size]+place+", R%d", r)
	return r
}

// loads reads several integers or pointers.
func (f *function) loads(names ...string) (r []*reg) {
	for _, name := range names {
		r = append(r, f.load(name))
	}
	return r
}

// locals returns the address of memory on the stack. A function may call it once.
func (f *function) locals(bytes int) *reg {
	f.frame = bytes
	r := f.gp()
	f.op(fmt.Sprintf("MOVD $locals-%d(SP), R%%d", bytes), r)
	return r
}

// scalar reads a float32 into lane 0.
func (f *function) scalar(name string) lane {
	place, _ := f.parameter(name)
	v := f.vec()
	f.op("FMOVS "+place+", F%d", v)
	return lane{v, 0}
}

// result stores lane 0 as the function's result.
func (f *function) result(v *reg) {
	place, size := f.parameter("ret")
	f.op(map[int]string{4: "FMOVS", 8: "FMOVD"}[size]+" F%d, "+place, v)
}

// interleave adds independent pieces of code, one instruction of each in turn, so that fewer
// instructions wait for operands. Pieces with branches are added one after the other.
func (f *function) interleave(write ...func()) {
	previous := f.code
	var all []instruction
	pieces, length := make([][]instruction, len(write)), 0
	for i, w := range write {
		f.code = nil
		w()
		pieces[i] = f.code
		length = max(length, len(f.code))
		all = append(all, f.code...)
	}
	f.code = previous
	if slices.ContainsFunc(all, func(in instruction) bool { return in.label != "" }) {
		f.code = append(f.code, all...)
		return
	}
	for at := range length {
		for _, p := range pieces {
			if at < len(p) {
				f.code = append(f.code, p[at])
			}
		}
	}
}

// constant is four words. They stay in a register throughout the function or, if reg is nil,
// are loaded where they are needed.
type constant struct {
	*reg
	words [4]uint32
}

// wordVector returns a constant vector of four words.
func (f *function) wordVector(words [4]uint32) *constant {
	c := &constant{f.vec(), words}
	f.constants = append(f.constants, c)
	return c
}

// bits returns a constant vector of four equal words, num one of four equal floats.
func (f *function) bits(b uint32) *reg {
	if f.vectors[b] == nil {
		f.vectors[b] = f.wordVector([4]uint32{b, b, b, b}).reg
	}
	return f.vectors[b]
}

func (f *function) num(x float64) *reg { return f.bits(math.Float32bits(float32(x))) }

// loadBits and loadNum are bits and num without a permanent register: they load the vector here.
func (f *function) loadBits(b uint32) *reg {
	words := [4]uint32{b, b, b, b}
	i := slices.IndexFunc(f.constants, func(c *constant) bool { return c.reg == nil && c.words == words })
	if i < 0 {
		i = len(f.constants)
		f.constants = append(f.constants, &constant{nil, words})
	}
	return loadVector(f, f.table, 16*i)
}

func (f *function) loadNum(x float64) *reg { return f.loadBits(math.Float32bits(float32(x))) }

// numLane returns a constant float that shares its register with three others.
func (f *function) numLane(x float64) lane {
	b := math.Float32bits(float32(x))
	if l, ok := f.lanes[b]; ok {
		return l
	}
	if f.free == 0 {
		f.packed, f.free = f.wordVector([4]uint32{}), 4
	}
	l := lane{f.packed.reg, 4 - f.free}
	f.packed.words[l.i] = b
	f.free--
	f.lanes[b] = l
	return l
}

// usable are the registers that a function may use, general (false) and vector (true). The
// linker uses R16 and R17, some systems reserve R18, and Go reserves R26 and above.
var usable = map[bool][]int{
	false: {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 19, 20, 21, 22, 23, 24, 25},
	true:  {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31},
}
