package data

import (
	"encoding/json"
	"errors"
	"fmt"
	"github.com/dptrain/dptrain/internal/setting"
	"strings"
	"unicode/utf8"
)

// readObject stores the values of a JSON object's known keys, in their JSON notation, in
// values[known[key]]. Unknown keys are an error unless allowUnknown is true. A key that
// occurs twice is an error.
func readObject(values []string, line []byte, known map[string]int, allowUnknown bool) error {
	return eachMember(line, func(n int, key, value string) error {
		k, ok := known[key]
		if !ok && allowUnknown {
			return nil
		} else if !ok {
			return setting.Errorf("bounds", "has a key that the schema does not know, key number %d of the line; describe it with %v, %v, %v or %v", n,
				setting.Named("bounds"), setting.Named("vocabulary"), setting.Named("text"), setting.Named("ignore"))
		}
		if values[k] != "" {
			return fmt.Errorf("has the key %q twice", key)
		}
		values[k] = value
		return nil
	})
}

// eachMember calls f for each member of a JSON object, with its number from 1, its key and its
// value in JSON notation.
func eachMember(line []byte, f func(n int, key, value string) error) error {
	text := strings.TrimLeft(string(line), space)
	if text == "" || text[0] != '{' || !json.Valid(line) {
		return errors.New("is not a JSON object")
	}
	// The object is valid JSON, so its punctuation determines its parts.
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
		if err := f(n, key, value); err != nil {
			return err
		}
	}
	return nil
}

// space is the white space that JSON allows between its tokens.
const space = " \t\r\n"

// valueEnd returns the end of the value at the beginning of a valid text.
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

// stringEnd returns the end of the string at the beginning of a valid text.
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

// unquoted returns the content of a valid JSON string.
func unquoted(text string) string {
	inside := text[1 : len(text)-1]
	if strings.IndexByte(inside, '\\') < 0 && utf8.ValidString(inside) {
		return inside
	}
	var content string
	json.Unmarshal([]byte(text), &content) // cannot fail: the text is valid
	return content
}
