package tokenizer

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

//go:generate python3 testdata/unicode.py

// pageSize is the number of characters of a page of classes.
const pageSize = 256

// classPages are the classes of all characters, by page. Equal pages are one.
var classPages = func() (pages [(utf8.MaxRune + 1) / pageSize]*[pageSize]uint8) {
	known := map[[pageSize]uint8]*[pageSize]uint8{}
	run := 0
	for i := range pages {
		var page [pageSize]uint8
		for j := range page {
			for run+1 < len(classRuns) && classRuns[run+1][0] <= rune(i*pageSize+j) {
				run++
			}
			page[j] = uint8(classRuns[run][1])
		}
		if known[page] == nil {
			known[page] = &page
		}
		pages[i] = known[page]
	}
	return pages
}()

// classOf returns the classes of a character.
func classOf(r rune) uint8 { return classPages[r/pageSize][r%pageSize] }

// lowerCase maps the characters that lower case changes.
var lowerCase = func() map[rune]rune {
	m := map[rune]rune{}
	from := rune(-1)
	for _, r := range lowered {
		if from < 0 {
			from = r
		} else {
			m[from], from = r, -1
		}
	}
	return m
}()

// appendLower appends a character in lower case.
func appendLower(b []byte, r rune) []byte {
	switch {
	case r < utf8.RuneSelf:
		if r >= 'A' && r <= 'Z' {
			r += 'a' - 'A'
		}
		return append(b, byte(r))
	case r == 'İ': // the only one that becomes two characters
		return append(b, "i\u0307"...)
	}
	if to, ok := lowerCase[r]; ok {
		r = to
	}
	return utf8.AppendRune(b, r)
}

// newer reports whether a normal form of Go changes or moves a character that it does not change in the
// Python package, whose tables are those of Unicode 12.
func newer(r rune) bool {
	switch {
	case r < 0x32ff:
		return r > 0x300 && newerMark(r)
	case r == 0x32ff, r >= 0xa7f2 && r <= 0xa7f4, r == 0xab69, r == 0x11938,
		r >= 0x10781 && r <= 0x10785, r >= 0x10787 && r <= 0x107b0, r >= 0x107b2 && r <= 0x107ba,
		r >= 0x1e030 && r <= 0x1e06d, r == 0x1f16c, r >= 0x1fbf0 && r <= 0x1fbf9:
		return true
	}
	return newerMark(r)
}

// newerMark reports whether a character has a place among marks in Go's tables only.
func newerMark(r rune) bool {
	var b [utf8.UTFMax]byte
	if norm.NFD.Properties(utf8.AppendRune(b[:0], r)).CCC() <= 1 {
		return false
	}
	low, high := 0, len(reordered)
	for low < high {
		middle := (low + high) / 2
		if reordered[middle][1] < r {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low == len(reordered) || reordered[low][0] > r
}

// normalForm returns a text in a normal form. A newer character is a boundary and stays as it is.
func normalForm(form norm.Form, text string) string {
	if isASCII(text) {
		return text
	}
	of := form.String
	if isBeyondGo(text) {
		of = func(text string) string { return longNormalForm(form, text) }
	}
	var b []byte
	from := 0
	for i, r := range text {
		if r >= utf8.RuneSelf && newer(r) {
			b = append(b, of(text[from:i])...)
			from = i + utf8.RuneLen(r)
			b = append(b, text[i:from]...)
		}
	}
	if from == 0 {
		return of(text)
	}
	return string(append(b, of(text[from:])...))
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
