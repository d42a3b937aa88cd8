package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// splitForGPT2 cuts a text as
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func splitForGPT2(text string, _ bool, word func(string)) {
	for text != "" {
		n := contraction(text, false)
		if n == 0 {
			from := 0
			if text[0] == ' ' {
				from = 1
			}
			switch kind, _ := kindOf(text[from:]); kind {
			case letter, number, other:
				n = from + run(text[from:], kind)
			default:
				n = spaces(text)
			}
		}
		word(text[:n])
		text = text[n:]
	}
}

// splitForLlama3 cuts a text as
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func splitForLlama3(text string, _ bool, word func(string)) { splitCased(text, 3, word) }

// splitForQwen cuts a text as splitForLlama3 does, and makes a word of each digit.
func splitForQwen(text string, _ bool, word func(string)) { splitCased(text, 1, word) }

func splitCased(text string, digits int, word func(string)) {
	for text != "" {
		n := contraction(text, true)
		if n == 0 {
			n = nextCased(text, digits)
		}
		word(text[:n])
		text = text[n:]
	}
}

// nextCased returns the length of the first word, which is no contraction.
func nextCased(text string, digits int) int {
	kind, size := kindOf(text)
	switch kind {
	case letter:
		return run(text, letter)
	case number:
		for n := 0; ; digits-- {
			kind, size := kindOf(text[n:])
			if kind != number || digits == 0 {
				return n
			}
			n += size
		}
	}
	next, _ := kindOf(text[size:])
	if next == letter && text[0] != '\r' && text[0] != '\n' {
		return size + run(text[size:], letter)
	}
	if kind == other || text[0] == ' ' && next == other {
		n := 0
		if kind != other {
			n = 1
		}
		n += run(text[n:], other)
		return n + len(text[n:]) - len(strings.TrimLeft(text[n:], "\r\n"))
	}
	if n := strings.LastIndexAny(text[:run(text, space)], "\r\n"); n >= 0 {
		return n + 1
	}
	return spaces(text)
}

// kind is what the patterns distinguish of a character.
type kind uint8

const (
	none kind = iota // the end of the text
	letter
	number
	space
	other
)

func kindOf(text string) (kind, int) {
	if text == "" {
		return none, 0
	}
	r, size := rune(text[0]), 1
	if r >= utf8.RuneSelf {
		r, size = utf8.DecodeRuneInString(text)
	}
	switch c := classOf(r); {
	case c&letterClass != 0:
		return letter, size
	case c&numberClass != 0:
		return number, size
	case c&spaceClass != 0:
		return space, size
	}
	return other, size
}

// run returns the length of the characters of one kind at the beginning.
func run(text string, of kind) (n int) {
	for {
		k, size := kindOf(text[n:])
		if k != of {
			return n
		}
		n += size
	}
}

// spaces returns the length of the white space at the beginning, without its last character if
// something follows and it is not the only one: \s+(?!\S)|\s+.
func spaces(text string) int {
	n := run(text, space)
	if n == len(text) {
		return n
	}
	_, last := utf8.DecodeLastRuneInString(text[:n])
	if last == n {
		return n
	}
	return n - last
}

// contraction returns the length of an English ending such as 's at the beginning; 0 if there is none.
func contraction(text string, anyCase bool) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	fold := func(b byte) byte {
		if anyCase && b >= 'A' && b <= 'Z' {
			b += 'a' - 'A'
		}
		return b
	}
	switch fold(text[1]) {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if len(text) > 2 && fold(text[2]) == 'e' {
			return 3
		}
	case 'l':
		if len(text) > 2 && fold(text[2]) == 'l' {
			return 3
		}
	}
	if anyCase && strings.HasPrefix(text[1:], "ſ") { // it becomes S in upper case
		return 1 + len("ſ")
	}
	return 0
}

// splitDigits makes each run of numbers a word, or each number with single.
func splitDigits(text string, single bool, word func(string)) {
	from, wasNumber := 0, false
	for i := 0; i < len(text); {
		k, size := kindOf(text[i:])
		if isNumber := k == number; i > from && (isNumber != wasNumber || isNumber && single) {
			word(text[from:i])
			from = i
		}
		wasNumber = k == number
		i += size
	}
	if from < len(text) {
		word(text[from:])
	}
}
