package tokenizer

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// manyMarks is a number of marks behind each other that a normal form of Go still keeps together: it inserts a character
// behind 30 of them, and a mark can be three after its decomposition.
const manyMarks = 8

// largestBasic is the last character of the basic plane. Go composes a mark with a character behind it as if that had the last
// 16 bits only: U+E0069 and U+0300 become ì.
const largestBasic = 0xffff

// isBeyondGo reports whether a text has more than manyMarks marks behind each other, or a mark behind a character that Go
// takes for another one. Then [longNormalForm] has its normal form.
func isBeyondGo(text string) bool {
	n, starter := 0, rune(0)
	for _, r := range text {
		if r < utf8.RuneSelf || classOf(r)&markClass == 0 {
			n, starter = 0, r
		} else if n++; n > manyMarks || starter > largestBasic {
			return true
		}
	}
	return false
}

// longNormalForm returns the normal form of a text with any number of marks, as UAX #15 defines it.
func longNormalForm(form norm.Form, text string) string {
	apart := norm.NFD
	if form == norm.NFKC || form == norm.NFKD {
		apart = norm.NFKD
	}
	type char struct {
		rune
		class uint8 // the canonical combining class
	}
	var chars []char
	for _, r := range text {
		for _, d := range apart.String(string(r)) {
			chars = append(chars, char{d, norm.NFD.PropertiesString(string(d)).CCC()})
		}
	}
	for from := 0; from < len(chars); { // orders the marks between two other characters
		to := from
		for to < len(chars) && chars[to].class != 0 {
			to++
		}
		slices.SortStableFunc(chars[from:to], func(a, b char) int { return int(a.class) - int(b.class) })
		from = to + 1
	}
	out := make([]rune, 0, len(chars))
	starter, last := -1, uint8(0) // the last character that is no mark, and the class of the last one
	for _, c := range chars {
		isNext := starter == len(out)-1
		if form != apart && starter >= 0 && (isNext || last != 0 && last < c.class) {
			if joined, ok := composed(out[starter], c.rune); ok {
				out[starter] = joined
				continue
			}
		}
		if c.class == 0 {
			starter = len(out)
		}
		last = c.class
		out = append(out, c.rune)
	}
	return string(out)
}

// composed returns the character that two characters compose, if there is one. All three are in the basic plane or behind it.
func composed(first, second rune) (rune, bool) {
	pair := norm.NFC.String(string([]rune{first, second}))
	r, size := utf8.DecodeRuneInString(pair)
	isBasic := r <= largestBasic
	return r, size == len(pair) && isBasic == (first <= largestBasic) && isBasic == (second <= largestBasic)
}
