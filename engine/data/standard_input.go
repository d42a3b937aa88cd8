package data

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/dptrain/dptrain/internal/setting"
)

// StandardInput is the name of the data that Options.Input contains.
const StandardInput = "-"

const inputName = "standard input"

// readInput reads a whole file into memory: its end has its table of contents. No copy of private rows
// reaches a disk.
func readInput(r io.Reader) ([]byte, error) {
	if r == nil {
		return nil, errors.New("nothing is piped in; pipe in an Arrow file, a Parquet file, or arrays as .npz")
	}
	return io.ReadAll(r)
}

// tableOf returns the table in an Arrow or a Parquet file.
func tableOf(content []byte) (*columnarTable, error) {
	format := columnarMagic(content)
	if format == "" {
		return nil, errors.New("the input is neither an Arrow file nor a Parquet file, and no .npz of arrays; write one of them, or give the path of a file")
	}
	return newColumnarTable(bytes.NewReader(content), format)
}

// openInput reads the table, or the arrays, that are piped in.
func openInput(o Options) (*Task, error) {
	content, err := readInput(o.Input)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", inputName, err)
	}
	switch {
	case o.Dir != "":
		return nil, setting.Errorf("Options.Dir", "%s has the data, so %v is not used; leave out %[2]v", inputName, setting.Named("Options.Dir"))
	case o.Image != (ImageShape{}):
		return nil, refuseImage(inputName)
	case o.Standardize:
		return nil, setting.Errorf("Options.Standardize", "no mean and deviation are published for %s; use %v", inputName, setting.With("Options.Standardize", false))
	case bytes.HasPrefix(content, []byte("PK\x03\x04")):
		tree, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", inputName, err)
		}
		return openNamedArrays(tree, inputName, o)
	}
	return openRowsFrom(inputName, o, func(s Schema, policy rowPolicy) (Set, []string, error) {
		t, err := tableOf(content)
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
	content, err := readInput(r)
	if err != nil {
		return q, fmt.Errorf("%s: %w", inputName, err)
	}
	t, err := tableOf(content)
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
