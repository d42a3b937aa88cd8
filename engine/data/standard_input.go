package data

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/dptrain/dptrain/internal/setting"
)

// StandardInput is the name of the table that Options.Input contains.
const StandardInput = "-"

const inputName = "standard input"

// readInput reads a whole Arrow or Parquet file into memory: its end has its table of contents. No copy
// of private rows reaches a disk.
func readInput(r io.Reader) (*columnarTable, error) {
	if r == nil {
		return nil, errors.New("nothing is piped in; pipe in an Arrow or a Parquet file")
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	format := columnarMagic(content)
	if format == "" {
		return nil, errors.New("the input is neither an Arrow file nor a Parquet file; write one of them, or give the path of a file")
	}
	return newColumnarTable(bytes.NewReader(content), format)
}

// openInput reads the table that is piped in.
func openInput(o Options) (*Task, error) {
	switch {
	case o.Dir != "":
		return nil, setting.Errorf("Options.Dir", "%s is a table, so %v is not used; leave out %[2]v", inputName, setting.Named("Options.Dir"))
	case o.Image != (ImageShape{}):
		return nil, refuseImage(inputName)
	case o.Standardize:
		return nil, setting.Errorf("Options.Standardize", "%s is a table and has no pixels; use %v", inputName, setting.With("Options.Standardize", false))
	}
	return openRowsFrom(inputName, o, func(s Schema, policy rowPolicy) (Set, []string, error) {
		t, err := readInput(o.Input)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", inputName, err)
		}
		set, inputs, err := t.examples(s, policy)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", inputName, err)
		}
		return set, inputs, nil
	})
}

// ReadUnlabeledTable reads an Arrow or a Parquet file for prediction, like OpenUnlabeled.
func ReadUnlabeledTable(r io.Reader, o Options, trained TrainedInput) (q Unlabeled, err error) {
	s := o.Schema.features(trained.Shape)
	if !s.named() {
		return q, fmt.Errorf("%s has columns, and the model was not trained on data with columns", inputName)
	}
	t, err := readInput(r)
	if err == nil {
		q.Set, _, err = t.examples(s, rowPolicy{})
	}
	if err != nil {
		return q, fmt.Errorf("%s: %w", inputName, err)
	}
	return q, q.checkInput(inputName, trained)
}

// IsColumnar reports whether the first 8 bytes of a file are those of an Arrow or a Parquet file.
func IsColumnar(head []byte) bool { return columnarMagic(head) != "" }
