package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// lineReader reads a file with one example in each line. It returns the examples and the
// names of the columns that their features come from.
type lineReader func(r io.Reader, s Schema) (Set, []string, error)

// lineReaders maps the extension of a file's name to its reader.
var lineReaders = map[string]lineReader{".csv": readCSV, ".jsonl": readJSONL, ".txt": readText}

// openLines reads a file as the schema describes. If o.Test names a second file for
// testing, it needs the same columns, in any order.
func openLines(file string, o Options, read lineReader) (*Task, error) {
	if err := o.Schema.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	task := &Task{ClassNames: o.Schema.Classes, Private: true, Schema: o.Schema}
	train, inputs, err := readLines(file, o.Schema, read)
	if err != nil {
		return nil, err
	}
	task.Train, task.Classes, task.Schema.Inputs = train, train.Columns()[1].Classes, inputs
	if o.Test == "" {
		return task, nil
	}
	task.Test, _, err = readLines(o.Test, task.Schema, read)
	return task, err
}

func readLines(file string, s Schema, read lineReader) (Set, []string, error) {
	f, err := openFile(os.DirFS(filepath.Dir(file)), filepath.Base(file))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close()
	set, inputs, err := read(f, s)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return set, inputs, nil
}

// maxLineLength limits a line, so that a file without line ends causes an error and does not
// fill the memory.
const maxLineLength = 64 << 20

// eachLine calls f for each line of a file that is not blank. Lines are numbered from
// 1.
func eachLine(r io.Reader, f func(number int, line []byte) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 1<<16), maxLineLength)
	number := 0
	for in.Scan() {
		number++
		line := in.Bytes()
		if number == 1 {
			if bom := string(line[:min(2, len(line))]); bom == "\xff\xfe" || bom == "\xfe\xff" {
				return errors.New("the file is UTF-16; save the file as UTF-8")
			}
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := f(number, line); err != nil {
			return err
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %d bytes", number+1, maxLineLength)
	}
	return in.Err()
}

// openText reads plain text, in which each line is an example, and a second file for
// testing if there is one.
func openText(file string, o Options) (*Task, error) {
	if o.Schema.named() || len(o.Schema.Classes) > 0 {
		return nil, fmt.Errorf("%s is plain text and has no columns; leave out label, classes, target, text, bounds, vocabulary, ignore and user, or use a .csv or .jsonl file", file)
	}
	o.Schema.PredictNext = true
	return openLines(file, o, readText)
}

// readText makes each line that is not blank an example for a language model.
func readText(r io.Reader, s Schema) (Set, []string, error) {
	t, err := s.tokenizer()
	if err != nil {
		return nil, nil, err
	}
	rows := exampleReader{rowLayout: textLayout(t)}
	if err := eachLine(r, func(number int, line []byte) error {
		if _, err := rows.add([]string{string(line)}); err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		return nil
	}); err != nil {
		return nil, nil, err
	}
	if rows.count == 0 {
		return nil, nil, errors.New("the file has no line with text")
	}
	set, err := rows.set(s)
	return set, nil, err
}

// textLayout is the layout of plain text: the whole line is the text.
func textLayout(t *tokenizer) *rowLayout {
	return &rowLayout{order: []int{0}, label: -1, user: -1, tokens: t}
}
