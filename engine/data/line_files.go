package data

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// lineReader reads a file with one example in each line. It returns the examples and the
// names of the columns that their features come from.
type lineReader func(r io.Reader, s Schema, policy rowPolicy) (Set, []string, error)

// lineReaders maps the extension of a file's name to its reader.
var lineReaders = map[string]lineReader{".csv": readCSV, ".tsv": readCSV, ".jsonl": readJSONL, ".txt": readText}

// openLines reads a file as the schema describes. If o.Test names a second file for
// testing, it needs the same columns, in any order.
func openLines(file string, o Options, read lineReader) (*Task, error) {
	var err error
	if o.Schema, err = o.Schema.resolved(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	task := &Task{ClassNames: o.Schema.Classes, Private: true, Schema: o.Schema}
	policy, err := o.OnBadRow.rowPolicy()
	if err != nil {
		return nil, err
	}
	train, inputs, err := readLines(file, o.Schema, policy, read)
	if err != nil {
		return nil, err
	}
	task.Train, task.Classes, task.Schema.Inputs = train, train.Columns()[1].Classes, inputs
	if o.Test == "" {
		return task, nil
	}
	task.Test, _, err = readLines(o.Test, task.Schema, rowPolicy{}, read)
	return task, err
}

// forFile returns the schema with the separator of a file.
func (s Schema) forFile(file string) Schema {
	if s.Separator == "" && extension(file) == ".tsv" {
		s.Separator = "tab"
	}
	return s
}

func readLines(file string, s Schema, policy rowPolicy, read lineReader) (Set, []string, error) {
	f, err := openDataFile(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close()
	set, inputs, err := read(f, s.forFile(file), policy)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	return set, inputs, nil
}

// maxLineLength limits a line, so that a file without line ends causes an error and does not
// fill the memory.
const maxLineLength = 64 << 20

// eachLine calls f for each line of a file that is not blank, or with a problem for a line that
// cannot be read. Lines are numbered from 1.
func eachLine(r io.Reader, f func(number int, line []byte, problem error) error) error {
	in := bufio.NewReaderSize(r, 1<<16)
	var line []byte
	for number := 1; ; number++ {
		long := false
		line = line[:0]
		var err error
		for {
			var part []byte
			part, err = in.ReadSlice('\n')
			if long = long || len(line)+len(part) > maxLineLength; !long {
				line = append(line, part...)
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
		if err != nil && err != io.EOF {
			return err
		}
		content := line
		var problem error
		if bom := string(line[:min(2, len(line))]); number == 1 && (bom == "\xff\xfe" || bom == "\xfe\xff") {
			problem = errors.New("the file is UTF-16; save the file as UTF-8")
		} else if number == 1 {
			content = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if long {
			problem = fmt.Errorf("line %d is longer than %d bytes", number, maxLineLength)
		}
		if content = bytes.TrimSpace(content); len(content) > 0 || problem != nil {
			if err := f(number, content, problem); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// openText reads plain text, in which each line is an example, and a second file for
// testing if there is one.
func openText(file string, o Options) (*Task, error) {
	if o.Schema.named() || len(o.Schema.Classes) > 0 {
		return nil, fmt.Errorf("%s is plain text and has no columns; leave out label, classes, target, text, bounds, vocabulary, ignore, user and weight, or use a .csv or .jsonl file", file)
	}
	o.Schema.PredictNext = true
	return openLines(file, o, readText)
}

// readText makes each line that is not blank an example for a language model.
func readText(r io.Reader, s Schema, policy rowPolicy) (Set, []string, error) {
	t, err := s.tokenizer()
	if err != nil {
		return nil, nil, err
	}
	rows := exampleReader{rowLayout: textLayout(t), policy: policy}
	if err := eachLine(r, func(number int, line []byte, problem error) error {
		if problem != nil {
			return rows.addBlank("", problem)
		}
		return rows.addOrBlank([]string{string(line)}, func(_ int, err error) error { return fmt.Errorf("line %d: %w", number, err) })
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
	return &rowLayout{order: []int{0}, label: -1, user: -1, target: -1, weight: -1, tokens: t}
}
