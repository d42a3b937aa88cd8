package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// names maps an entry's symbols to C++ expressions for their values.
type names map[string]string

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

// parameters lays out an entry's parameters like a C struct.
func (n names) parameters(head []string) (descriptions []string, bytes int, err error) {
	for _, line := range head {
		if !strings.HasPrefix(line, ".param") {
			continue
		}
		m := parameterWords.FindStringSubmatch(line)
		if m == nil {
			return nil, 0, fmt.Errorf("%q is not understood", line)
		}
		size := number(m[2]) / 8
		align := size
		if m[1] != "" {
			align = number(m[1])
		}
		if m[4] != "" {
			size *= number(m[4])
		}
		bytes = (bytes + align - 1) / align * align
		descriptions = append(descriptions, fmt.Sprintf("{%d, %d, false},", bytes, size))
		n[m[3]] = fmt.Sprintf("uint64_t(arguments + %d)", bytes)
		bytes += size
	}
	return descriptions, bytes, nil
}

// arrays assigns the shared arrays in use to offsets in a block's memory and returns their
// size. A local array becomes a variable.
func (n names) arrays(lines []string) (bytes int) {
	body := strings.Join(lines, "\n")
	for _, line := range lines {
		m := arrayWords.FindStringSubmatch(line)
		if m == nil || strings.Count(body, m[3]) == 1 {
			continue
		}
		if m[1] == "local" {
			n[m[3]] = "uint64_t(" + m[3] + ")"
			continue
		}
		align := number(m[2])
		bytes = (bytes + align - 1) / align * align
		n[m[3]] = fmt.Sprintf("uint64_t(%d)", bytes)
		bytes += number(m[4])
	}
	return bytes
}

// number converts digits that a regular expression matched.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}

// translate translates a line of a body to C++.
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
	var all []string
	for i := range number(count) {
		all = append(all, fmt.Sprintf("%s%d_", name, i))
	}
	return c + " " + strings.Join(all, ",") + ";", nil
}

// withoutDestination matches the instructions that have no destination.
var withoutDestination = regexp.MustCompile(`^(st|bar|red|membar|fence)\b`)

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
	if !withoutDestination.MatchString(name) {
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

// If all operands of an instruction have one kind, registers of that kind are passed without
// In, which halves the compile time.
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

// split splits operands at the commas outside braces.
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

// value is the expression of an operand that an instruction on registers of a kind reads.
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
		value, ok := n[base]
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
	value, ok := n[word]
	if !ok {
		return "", fmt.Errorf("%q is not known", word)
	}
	return "in(" + value + ")", nil
}
