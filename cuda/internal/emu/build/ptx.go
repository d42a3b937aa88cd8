package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/cuda/internal/kernels"
)

// This file translates the kernels' PTX to C++: one function per entry and one line per line.
// Each instruction becomes a call of a function of cuda/internal/emu/instructions.h. Tests then run
// what NVRTC compiled: contracted products, its own expf, the fragments of tensor cores.

// entry is a kernel in PTX.
type entry struct {
	name    string
	line    int // number of its first line in the file
	head    []string
	body    []string
	threads int
}

// module is a PTX module.
type module struct {
	file    string          // its name, for messages
	globals map[string]bool // the module's variables, which every part defines
	defined []string
	shared  []string // declarations of shared arrays; each entry that uses one has its own
	entries []entry
}

// readPTX reads a module that NVRTC compiled: a file of PTX, or the PTX of an archive of
// kernels.
func readPTX(file string) (*module, error) {
	text, err := os.ReadFile(file)
	name := filepath.Base(file)
	if err == nil && filepath.Ext(file) == ".zip" {
		name = "compute_90.ptx"
		text, err = kernels.ReadImage(text, name)
	}
	if err != nil {
		return nil, err
	}
	m := &module{file: name, globals: map[string]bool{}}
	if err := m.read(bytes.NewReader(text)); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return m, nil
}

var (
	globalWords = regexp.MustCompile(`^\.global \.align (\d+) \.[bu](8|32|64) (\w+)(\[\d+\])?(?: = (.*))?;$`)
	entryWords  = regexp.MustCompile(`^\.visible \.entry (\w+)\($`)
	boundWords  = regexp.MustCompile(`^\.maxntid (\d+), 1, 1$`)
)

func (m *module) read(text io.Reader) error {
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	var e *entry
	inside := false
	for at := 1; lines.Scan(); at++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case inside:
			e.body = append(e.body, line)
			if lines.Text() == "}" {
				m.entries = append(m.entries, *e)
				e, inside = nil, false
			}
		case e != nil && line == "{":
			e.line, inside = at, true
			e.body = append(e.body, line)
		case e != nil:
			e.head = append(e.head, line)
			if word := boundWords.FindStringSubmatch(line); word != nil {
				e.threads = number(word[1])
			}
		case line == "", strings.HasPrefix(line, "//"), strings.HasPrefix(line, ".version"), strings.HasPrefix(line, ".target"), line == ".address_size 64":
		case globalWords.MatchString(line):
			word := globalWords.FindStringSubmatch(line)
			value := ""
			if word[5] != "" {
				value = " = " + word[5]
			}
			m.globals[word[3]] = true
			m.defined = append(m.defined, fmt.Sprintf("alignas(%s) static uint%s_t %s%s%s;\n", word[1], word[2], word[3], word[4], value))
		case arrayWords.MatchString(line):
			m.shared = append(m.shared, line)
		case entryWords.MatchString(line):
			e = &entry{name: entryWords.FindStringSubmatch(line)[1], threads: 1024}
		default:
			return fmt.Errorf("line %d: %q is not understood", at, line)
		}
	}
	return lines.Err()
}

// write returns the source of some entries.
func (m *module) write(entries []entry) (string, error) {
	var s strings.Builder
	s.WriteString("#include \"../emu/instructions.h\"\n#include \"../emu/registry.h\"\nnamespace {\nusing namespace ptx;\n")
	for _, line := range m.defined {
		s.WriteString(line)
	}
	for _, e := range entries {
		if err := m.kernel(&s, e); err != nil {
			return "", fmt.Errorf("%s, %w", e.name, err)
		}
	}
	s.WriteString("}\n")
	return s.String(), nil
}

func (m *module) kernel(s *strings.Builder, e entry) error {
	n := names{}
	for g := range m.globals {
		n[g] = "uint64_t(&" + g + ")"
	}
	parameters, bytes, err := n.parameters(e.head)
	if err != nil {
		return err
	}
	words := (n.arrays(slices.Concat(m.shared, e.body)) + 3) / 4
	fmt.Fprintf(s, "const emu::Parameter %s_parameters[] = {%s {}};\n", e.name, strings.Join(parameters, " "))
	fmt.Fprintf(s, "const emu::Declaration %s_shared{\"shared memory\", emu::Site{%q, %d}, 4, %d, true};\n", e.name, m.file, e.line, words)
	fmt.Fprintf(s, "void %s(const unsigned char *arguments)\n#line %d %q\n", e.name, e.line, m.file)
	for i, line := range e.body {
		text, err := n.translate(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", e.line+i, err)
		}
		if i == 0 && words > 0 {
			text += fmt.Sprintf(" emu::Array *const shared = emu::array_of(%s_shared);", e.name)
		}
		s.WriteString(text + "\n")
	}
	fmt.Fprintf(s, "struct %[1]s_registration {\n\temu::Kernel kernel{%[1]q, %[2]d, %[1]s, %[1]s_parameters, %[3]d, %[4]d, emu::kernels};\n\t%[1]s_registration() { emu::kernels = &kernel; }\n} %[1]s_registered;\n",
		e.name, e.threads, len(parameters), bytes)
	return nil
}

// part is the approximate number of lines of PTX in a source: it compiles in some seconds.
const part = 30000

// sources writes the module's sources that have changed and returns the names of all.
func (m *module) sources(folder string) ([]string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	var files []string
	for rest := m.entries; len(rest) > 0; {
		n, lines := 0, 0
		for ; n < len(rest) && lines < part; n++ {
			lines += len(rest[n].body)
		}
		text, err := m.write(rest[:n])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.file, err)
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
