package data

import (
	"errors"
	"fmt"
	"io"
)

// openText reads a plain text, or another one to test with: a line is an example.
func openText(file string, o Options) (*Task, error) {
	if o.Schema.named() || len(o.Schema.Classes) > 0 {
		return nil, fmt.Errorf("%s is plain text, whose lines have no columns: leave out label, classes, target, text, bounds, vocabulary, ignore and user, or write a .csv or .jsonl file", file)
	}
	o.Schema.PredictNext = true
	return openLines(file, o, readText)
}

// readText makes each line that is not blank an example: a language model's.
func readText(r io.Reader, s Schema) (Set, []string, error) {
	t, err := s.tokenizer()
	if err != nil {
		return nil, nil, err
	}
	rows := exampleReader{rowLayout: lines(t)}
	if err := eachLine(r, func(number int, line []byte) error {
		if _, err := rows.add([]string{string(line)}); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		return nil
	}); err != nil {
		return nil, nil, err
	}
	if rows.count == 0 {
		return nil, nil, errors.New("has no line with text")
	}
	set, err := rows.set(s)
	return set, nil, err
}

// lines is the layout of plain text: a row is a text.
func lines(t *tokenizer) *rowLayout {
	return &rowLayout{order: []int{0}, label: -1, user: -1, tokens: t}
}
