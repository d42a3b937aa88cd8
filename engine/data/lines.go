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

// lineReader turns a file of one row a line into examples, and names the columns
// that their features come from.
type lineReader func(r io.Reader, s Schema) (Set, []string, error)

// lineReaders are those of files by how their names end.
var lineReaders = map[string]lineReader{".csv": readCSV, ".jsonl": readJSONL, ".txt": readText}

// openLines reads a file as the schema says, and another one of the same columns,
// in any order, to test with if there is one.
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

// longestLine bounds a line, so that a file without line ends is an error and
// not all of the memory.
const longestLine = 64 << 20

// eachLine calls f with the lines of a file that are not blank, and their
// numbers.
func eachLine(r io.Reader, f func(number int, line []byte) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 1<<16), longestLine)
	number := 0
	for in.Scan() {
		number++
		line := in.Bytes()
		if number == 1 {
			if mark := string(line[:min(2, len(line))]); mark == "\xff\xfe" || mark == "\xfe\xff" {
				return errors.New("is UTF-16; write it as UTF-8")
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
		return fmt.Errorf("line %d is longer than %d bytes", number+1, longestLine)
	}
	return in.Err()
}
