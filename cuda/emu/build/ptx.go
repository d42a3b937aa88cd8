package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// What the GPU's compiler made of the kernels, as C++: a function for each entry, a line
// for each line, in which an instruction is a call of cuda/emu/instructions.h. So the
// tests run what cards run, down to the instruction: contracted products, the compiler's
// own expf, fragments of tensor cores.

// An entry is a kernel in PTX.
type entry struct {
	name    string
	line    int // its first one's number in the file
	head    []string
	body    []string
	threads int
}

// translation writes C++ for the entries of a module.
type translation struct {
	file    string          // its name, for messages
	globals map[string]bool // the module's variables, which all parts define for themselves
	defined []string
	shared  []string // declarations of arrays of which each entry that names one has its own
	entries []entry
}

// readPTX reads a module as nvrtc writes it, packed or not.
func readPTX(file string) (*translation, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t := &translation{file: strings.TrimSuffix(filepath.Base(file), ".gz"), globals: map[string]bool{}}
	module := io.Reader(f)
	if strings.HasSuffix(file, ".gz") {
		if module, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := t.read(module); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

var (
	globalWords = regexp.MustCompile(`^\.global \.align (\d+) \.[bu](8|32) (\w+)(\[\d+\])?(?: = (.*))?;$`)
	entryWords  = regexp.MustCompile(`^\.visible \.entry (\w+)\($`)
	boundWords  = regexp.MustCompile(`^\.maxntid (\d+), 1, 1$`)
)

func (t *translation) read(module io.Reader) error {
	lines := bufio.NewScanner(module)
	lines.Buffer(nil, 1<<20)
	var e *entry
	inside := false
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case inside:
			e.body = append(e.body, line)
			if lines.Text() == "}" {
				t.entries = append(t.entries, *e)
				e, inside = nil, false
			}
		case e != nil && line == "{":
			e.line, inside = number, true
			e.body = append(e.body, line)
		case e != nil:
			e.head = append(e.head, line)
			if m := boundWords.FindStringSubmatch(line); m != nil {
				fmt.Sscan(m[1], &e.threads)
			}
		case line == "", strings.HasPrefix(line, "//"), strings.HasPrefix(line, ".version"), strings.HasPrefix(line, ".target"), line == ".address_size 64":
		case globalWords.MatchString(line):
			m := globalWords.FindStringSubmatch(line)
			value := ""
			if m[5] != "" {
				value = " = " + m[5]
			}
			t.globals[m[3]] = true
			t.defined = append(t.defined, fmt.Sprintf("alignas(%s) static uint%s_t %s%s%s;\n", m[1], m[2], m[3], m[4], value))
		case arrayWords.MatchString(line):
			t.shared = append(t.shared, line)
		case entryWords.MatchString(line):
			e = &entry{name: entryWords.FindStringSubmatch(line)[1], threads: 1024}
		default:
			return fmt.Errorf("line %d: %q is not understood", number, line)
		}
	}
	return lines.Err()
}

// write makes the source of some entries.
func (t *translation) write(entries []entry) (string, error) {
	var s strings.Builder
	s.WriteString("#include \"../emu/instructions.h\"\n#include \"../emu/registry.h\"\nnamespace {\nusing namespace ptx;\n")
	for _, line := range t.defined {
		s.WriteString(line)
	}
	for _, e := range entries {
		if err := t.kernel(&s, e); err != nil {
			return "", fmt.Errorf("%s, %w", e.name, err)
		}
	}
	s.WriteString("}\n")
	return s.String(), nil
}

var (
	parameterWords = regexp.MustCompile(`^\.param (?:\.align (\d+) )?\.[busf](\d+) (\w+)(?:\[(\d+)\])?,?$`)
	arrayWords     = regexp.MustCompile(`^\.(shared|local) \.align (\d+) \.b8\s+(\w+)\[(\d+)\];$`)
	registerWords  = regexp.MustCompile(`^\.reg \.(\w+)\s+%(\w+)(?:<(\d+)>)?;$`)
	insnWords      = regexp.MustCompile(`^(?:@(!?)%(\w+) )?([a-z][a-z0-9_.]*)\s*(.*);$`)
	labelWords     = regexp.MustCompile(`^\$(\w+):$`)
)

var registerTypes = map[string]string{
	"pred": "bool", "b16": "uint16_t", "b32": "uint32_t", "b64": "uint64_t", "f32": "float", "f64": "double",
}

// names is what the words of an entry stand for.
type names struct {
	values map[string]string // symbols as numbers in C++
}

func (t *translation) kernel(s *strings.Builder, e entry) error {
	n := names{values: map[string]string{}}
	for g := range t.globals {
		n.values[g] = "uint64_t(&" + g + ")"
	}

	bytes, count := 0, 0
	fmt.Fprintf(s, "const emu::Parameter %s_parameters[] = {", e.name)
	for _, line := range e.head {
		m := parameterWords.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		var align, size, elements int
		fmt.Sscan(m[2], &size)
		size /= 8
		if align = size; m[1] != "" {
			fmt.Sscan(m[1], &align)
		}
		if m[4] != "" {
			fmt.Sscan(m[4], &elements)
			size *= elements
		}
		bytes = (bytes + align - 1) / align * align
		fmt.Fprintf(s, "{%d, %d, false}, ", bytes, size)
		n.values[m[3]] = fmt.Sprintf("uint64_t(arguments + %d)", bytes)
		bytes += size
		count++
	}
	s.WriteString("{}};\n")

	shared, body := 0, strings.Join(e.body, "\n")
	for _, line := range append(t.shared, e.body...) {
		m := arrayWords.FindStringSubmatch(line)
		if m == nil || !strings.Contains(body, m[3]) {
			continue
		}
		var align, size int
		fmt.Sscan(m[2], &align)
		fmt.Sscan(m[4], &size)
		if m[1] == "local" {
			n.values[m[3]] = "uint64_t(" + m[3] + ")"
			continue
		}
		shared = (shared + align - 1) / align * align
		n.values[m[3]] = fmt.Sprintf("uint64_t(%d)", shared)
		shared += size
	}
	fmt.Fprintf(s, "const emu::Declaration %s_shared{\"shared memory\", emu::Site{%q, %d}, 4, %d, true};\n", e.name, t.file, e.line, (shared+3)/4)
	fmt.Fprintf(s, "void %s(const unsigned char *arguments)\n#line %d %q\n", e.name, e.line, t.file)
	for i, line := range e.body {
		text, err := n.translate(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", e.line+i, err)
		}
		if i == 0 && shared > 0 {
			text += fmt.Sprintf(" emu::Array *const shared = emu::array_of(%s_shared);", e.name)
		}
		s.WriteString(text + "\n")
	}
	fmt.Fprintf(s, "struct %s_registration {\n\temu::Kernel kernel{%q, %d, %s, %s_parameters, %d, %d, emu::kernels};\n\t%s_registration() { emu::kernels = &kernel; }\n} %s_registered;\n",
		e.name, e.name, e.threads, e.name, e.name, count, bytes, e.name, e.name)
	return nil
}

// translate makes a line of a body C++.
func (n names) translate(line string) (string, error) {
	line, _, _ = strings.Cut(line, "//")
	line = strings.TrimSpace(line)
	if m := labelWords.FindStringSubmatch(line); m != nil {
		return m[1] + ":;", nil
	}
	if m := registerWords.FindStringSubmatch(line); m != nil {
		return registers(m[1], m[2], m[3])
	}
	if m := arrayWords.FindStringSubmatch(line); m != nil {
		if m[1] == "local" {
			return fmt.Sprintf("alignas(%s) unsigned char %s[%s];", m[2], m[3], m[4]), nil
		}
		return "", nil
	}
	if line == "" || line == "{" || line == "}" || strings.HasPrefix(line, ".pragma") {
		return strings.TrimFunc(line, func(c rune) bool { return c != '{' && c != '}' }), nil
	}
	m := insnWords.FindStringSubmatch(line)
	if m == nil {
		return "", fmt.Errorf("%q is not understood", line)
	}
	text, err := n.instruction(m[3], m[4])
	if m[2] != "" {
		text = fmt.Sprintf("if (%s%s_) %s", m[1], m[2], text)
	}
	return text, err
}

func registers(kind, name, count string) (string, error) {
	c, ok := registerTypes[kind]
	if !ok {
		return "", fmt.Errorf("registers of type %s are not understood", kind)
	}
	if count == "" {
		return c + " " + name + "_;", nil
	}
	n := 0
	fmt.Sscan(count, &n)
	var s strings.Builder
	s.WriteString(c)
	for i := range n {
		separator := ","
		if i == 0 {
			separator = " "
		}
		fmt.Fprintf(&s, "%s%s%d_", separator, name, i)
	}
	return s.String() + ";", nil
}

// without are the instructions that have no destination.
var without = regexp.MustCompile(`^(st|bar|red|membar|fence)\b`)

func (n names) instruction(name, text string) (string, error) {
	switch {
	case name == "ret":
		return "return;", nil
	case name == "bra" || name == "bra.uni":
		return "goto " + strings.TrimPrefix(text, "$") + ";", nil
	}
	function := strings.ReplaceAll(name, ".", "_")
	operands, kind := split(text), ""
	if m := kindWords.FindStringSubmatch(name); m != nil {
		kind = strings.Replace(m[1], "s", "u", 1)
	}
	var arguments, to []string
	if strings.Contains(name, ".shared") {
		arguments = append(arguments, "shared")
	}
	if !without.MatchString(name) {
		for _, register := range split(strings.Trim(strings.ReplaceAll(operands[0], "|", ","), "{}")) {
			to = append(to, strings.TrimPrefix(register, "%")+"_")
		}
		operands = operands[1:]
	}
	if len(to) > 1 {
		arguments = append(arguments, to...)
	}
	for _, o := range operands {
		for _, one := range split(strings.Trim(o, "{}")) {
			value, err := n.value(one, kind)
			if err != nil {
				return "", err
			}
			arguments = append(arguments, value)
		}
	}
	call := function + "(" + strings.Join(arguments, ", ") + ")"
	switch {
	case len(to) == 1 && kindOf("%"+to[0]) == kind:
		call = to[0] + " = " + call
	case len(to) == 1:
		call = "set(" + to[0] + ", " + call + ")"
	}
	return call + ";", nil
}

// Where all of an instruction's operands are of one kind, registers of that kind need no
// In around them, which compiles in half the time.
var kindWords = regexp.MustCompile(`^(?:add|sub|mul|mad|div|rem|min|max|neg|abs|fma|rcp|sqrt|ex2|setp|selp|mov|ld|st|shl|shr)\b.*\.([fsu])\d+$`)

func kindOf(register string) string {
	switch {
	case strings.HasPrefix(register, "%f"):
		return "f"
	case strings.HasPrefix(register, "%r"):
		return "u"
	}
	return "none"
}

// split parts operands at the commas outside of braces.
func split(text string) []string {
	var parts []string
	depth, begin := 0, 0
	for i, c := range text + "," {
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case c == ',' && depth == 0:
			if part := strings.TrimSpace(text[begin:i]); part != "" {
				parts = append(parts, part)
			}
			begin = i + 1
		}
	}
	return parts
}

var (
	specials    = strings.NewReplacer("%tid", "threadIdx", "%ntid", "blockDim", "%ctaid", "blockIdx", "%nctaid", "gridDim")
	numberWords = regexp.MustCompile(`^-?\d+$|^0x[0-9a-fA-F]+$`)
)

// value is an operand that is read by an instruction on registers of a kind.
func (n names) value(word, kind string) (string, error) {
	switch {
	case strings.HasPrefix(word, "["):
		base, offset, _ := strings.Cut(strings.Trim(word, "[]"), "+")
		if offset == "" {
			offset = "0"
		}
		if strings.HasPrefix(base, "%") {
			return fmt.Sprintf("uint64_t(%s_) + (%s)", base[1:], offset), nil
		}
		value, ok := n.values[base]
		if !ok {
			return "", fmt.Errorf("%q is not known", base)
		}
		return value + " + (" + offset + ")", nil
	case strings.HasPrefix(word, "%") && strings.Contains(word, "."):
		return "in(uint32_t(" + specials.Replace(word) + "))", nil
	case kindOf(word) == kind:
		return word[1:] + "_", nil
	case strings.HasPrefix(word, "%"):
		return "in(" + word[1:] + "_)", nil
	case strings.HasPrefix(word, "0f"):
		return "f32(0x" + word[2:] + "u)", nil
	case strings.HasPrefix(word, "0d"):
		return "f64(0x" + word[2:] + "ull)", nil
	case numberWords.MatchString(word):
		return "Number{(long long)" + word + "ull}", nil
	}
	value, ok := n.values[word]
	if !ok {
		return "", fmt.Errorf("%q is not known", word)
	}
	return "in(" + value + ")", nil
}

// part is how many lines of PTX make a source, about: some seconds of compiling.
const part = 30000

// sources writes what changed of the module's sources and names all.
func (t *translation) sources(folder string) ([]string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	var files []string
	for rest := t.entries; len(rest) > 0; {
		n, lines := 0, 0
		for ; n < len(rest) && lines < part; n++ {
			lines += len(rest[n].body)
		}
		text, err := t.write(rest[:n])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.file, err)
		}
		rest = rest[n:]
		file := filepath.Join(folder, fmt.Sprintf("part%02d.cc", len(files)))
		files = append(files, file)
		if old, err := os.ReadFile(file); err == nil && string(old) == text {
			continue
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return files, nil
}
