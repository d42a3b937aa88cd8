package lint

import (
	"go/scanner"
	"go/token"
	"strings"
	"testing"
	"unicode/utf8"
)

// A line of code fits a window: it has at most 140 characters, without the content of its strings. A
// message is one string, which no one breaks into two lines. A tab counts as 4 characters.
func TestLines_FitAWindow(t *testing.T) {
	const limit = 140
	checked := 0
	for _, files := range packageFiles(t) {
		for _, f := range files {
			for i, n := range lineLengths(f.text) {
				checked++
				if n > limit {
					t.Errorf("%s:%d: the line has %d characters without its strings, more than %d", f.path, i+1, n, limit)
				}
			}
		}
	}
	if checked < 50_000 {
		t.Errorf("only %d lines were checked", checked)
	}
}

// lineLengths returns the length of each line of Go code, without the content of strings.
func lineLengths(text []byte) []int {
	var lengths []int
	for line := range strings.Lines(string(text)) {
		lengths = append(lengths, utf8.RuneCountInString(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")))
	}
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for {
		position, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			return lengths
		case token.STRING:
			at := file.Line(position) - 1
			for i, part := range strings.Split(strings.Trim(literal, "`\""), "\n") {
				lengths[at+i] -= utf8.RuneCountInString(strings.ReplaceAll(part, "\t", "    "))
			}
		}
	}
}

func TestLineLengths(t *testing.T) {
	text := "package p\n\nconst a, b = \"four\", `two\n\tlines`\n"
	got := lineLengths([]byte(text))
	want := []int{9, 0, len("const a, b = \"\", `"), len("`")}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d has the length %d, want %d", i+1, got[i], want[i])
		}
	}
}
