package data

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"testing"
)

// FuzzObject compares readObject with a reader of encoding/json's tokens.
func FuzzObject(f *testing.F) {
	for _, line := range []string{
		`{}`, ` { "a" : 1 , "b":[1, {"a":"}]"}] } `, `{"a":"\"\\","b":"\\"}`, `{"\u0061":1}`, `{"a":1,"\u0061":2}`, `{"a":"\ud800"}`,
		"{\"a\xff\":\"\xff\"}", `{"a":{"a":{}},"b":[]}`, `{"a":1}{}`, `{"a":1,}`, `{"a"}`, `[1]`, `null`, ``, `{"a":-1.5e3,"b":true}`, `{"c":1}`, `{"a":nul}`,
	} {
		f.Add([]byte(line))
	}
	known := map[string]int{"a": 0, "b": 1}
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, allowUnknown := range []bool{false, true} {
			values := make([]string, len(known))
			err := readObject(values, line, known, allowUnknown)
			want, ok := readObjectByTokens(line, known, allowUnknown)
			if ok != (err == nil) {
				t.Fatalf("%q: %v; accepted by encoding/json: %v", line, err, ok)
			}
			if ok && !slices.Equal(values, want) {
				t.Fatalf("%q: values %q, want %q", line, values, want)
			}
		}
	})
}

func readObjectByTokens(line []byte, known map[string]int, allowUnknown bool) (values []string, ok bool) {
	in := json.NewDecoder(bytes.NewReader(line))
	if begin, err := in.Token(); err != nil || begin != json.Delim('{') {
		return nil, false
	}
	values, ok = make([]string, len(known)), true
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return nil, false
		}
		var value json.RawMessage
		if in.Decode(&value) != nil {
			return nil, false
		}
		k, is := known[key.(string)]
		switch {
		case !is:
			ok = ok && allowUnknown
		case values[k] != "":
			ok = false
		default:
			values[k] = string(value)
		}
	}
	if _, err := in.Token(); err != nil {
		return nil, false
	}
	_, err := in.Token()
	return values, ok && err == io.EOF
}
