package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// readObject gives the values of a JSON object's known keys, as they are written, to
// values[known[key]]. It may have others or not. Of a key that it has twice, nobody said
// which value counts.
func readObject(values []string, line []byte, known map[string]int, others bool) error {
	text := strings.TrimLeft(string(line), space)
	if text == "" || text[0] != '{' || !json.Valid(line) {
		return errors.New("is no JSON object")
	}
	// What is valid can be cut by its signs alone.
	rest := strings.TrimLeft(text[1:], space)
	for n := 1; rest[0] != '}'; n++ {
		end := valueEnd(rest)
		key := unquoted(rest[:end])
		rest = strings.TrimLeft(rest[end:], space)
		rest = strings.TrimLeft(rest[len(":"):], space)
		end = valueEnd(rest)
		value := rest[:end]
		rest = strings.TrimLeft(rest[end:], space)
		if rest[0] == ',' {
			rest = strings.TrimLeft(rest[1:], space)
		}

		k, is := known[key]
		if !is && others {
			continue
		} else if !is {
			return fmt.Errorf("has a key that nothing is known about, number %d of it; write --bounds, --vocabulary, --text or --ignore for that", n)
		}
		if values[k] != "" {
			return fmt.Errorf("has key %q twice", key)
		}
		values[k] = value
	}
	return nil
}

// space is what JSON allows between its signs.
const space = " \t\r\n"

// valueEnd is where the value ends that a valid text begins with.
func valueEnd(text string) int {
	depth := 0
	for i := 0; ; i++ {
		switch text[i] {
		case '"':
			i += stringEnd(text[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		default:
			if depth == 0 {
				return strings.IndexAny(text, ",}]"+space)
			}
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
}

// stringEnd is where the string ends that a valid text begins with.
func stringEnd(text string) int {
	for i := 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

// unquoted is what a valid string says.
func unquoted(text string) string {
	inside := text[1 : len(text)-1]
	if strings.IndexByte(inside, '\\') < 0 && utf8.ValidString(inside) {
		return inside
	}
	var said string
	json.Unmarshal([]byte(text), &said) // which cannot fail: the text is valid
	return said
}
