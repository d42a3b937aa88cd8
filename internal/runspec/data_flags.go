package runspec

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/spf13/pflag"
)

// DataFlags contains the values of the flags that describe how to read a data set.
type DataFlags struct {
	Data, DataDir, Test string
	Label, Classes      string
	Target, Bounds      string
	Vocabulary, Ignore  []string
	Text, Tokens        string
	Length              int
	NextToken           bool
	Schema              string // a file
	Standardize         bool
	Image               string // CxHxW
}

// Define adds the flags to a flag set, except --data, whose meaning depends on the command.
func (d *DataFlags) Define(f *pflag.FlagSet) {
	f.StringVar(&d.DataDir, "data-dir", "", "directory with the files of a named data set")
	f.StringVar(&d.Test, "test", "", "second file with rows to test on; dptrain treats it as public")
	f.StringVar(&d.Label, "label", "", "CSV, JSONL: the column with the classes")
	f.StringVar(&d.Classes, "classes", "", "CSV, JSONL, arrays: the number of classes, or their names separated by commas")
	f.StringVar(&d.Target, "target", "", "CSV, JSONL: the column with a number to predict, in place of --label and --classes, with limits in --bounds; arrays: y")
	f.StringVar(&d.Bounds, "bounds", "", "CSV, JSONL: public limits of numeric columns, COLUMN=LOW:HIGH,…")
	f.StringArrayVar(&d.Vocabulary, "vocabulary", nil, "CSV, JSONL: public words of a column, COLUMN=WORD|WORD|…; repeat the flag for each column")
	f.StringVar(&d.Text, "text", "", "CSV, JSONL: the column with text or indices, in place of bounds and vocabulary")
	f.StringVar(&d.Tokens, "tokens", "", "how text becomes indices: bytes, words:FILE (a public vocabulary, one word a line), or a number, if the data are already indices")
	f.IntVar(&d.Length, "length", 0, "number of indices of an example, which is public: longer texts are cut, shorter texts are padded")
	f.BoolVar(&d.NextToken, "next", false, "train a language model: the label of each step is the next index")
	f.StringSliceVar(&d.Ignore, "ignore", nil, "CSV, JSONL: columns that are not read")
	f.StringVar(&d.Schema, "schema", "", "YAML file with these settings, as in "+data.SchemaExample+"; dptrain schema writes one")
	f.StringVar(&d.Image, "image", "", "CxHxW, as in 3x32x32: folders of pictures: channels (1 or 3), height and width of the network's input, which is public; dptrain converts every picture to it (default: that of the test pictures)")
	f.BoolVar(&d.Standardize, "standardize", false, "images: shift and scale pixels by the published mean and deviation")
}

// ReadSchema merges the flags and the schema file into a schema that is already known, such
// as the schema of a trained model.
func (d *DataFlags) ReadSchema(schema data.Schema) (data.Schema, error) {
	var err error
	if d.Schema != "" {
		if schema, err = data.ReadSchema(d.Schema); err != nil {
			return schema, err
		}
	}
	if d.Label != "" {
		schema.Label = d.Label
	}
	if d.Classes != "" {
		if schema.Classes, err = data.ParseClasses(d.Classes); err != nil {
			return schema, fmt.Errorf("--classes: %w", err)
		}
	}
	if d.Target != "" {
		schema.Target = d.Target
	}
	if d.Bounds != "" {
		bounds, err := data.ParseBounds(d.Bounds)
		if err != nil {
			return schema, fmt.Errorf("--bounds: %w", err)
		}
		if schema.Bounds == nil {
			schema.Bounds = map[string]data.Bounds{}
		}
		maps.Copy(schema.Bounds, bounds)
	}
	for _, text := range d.Vocabulary {
		column, words, err := data.ParseVocabulary(text)
		if err != nil {
			return schema, fmt.Errorf("--vocabulary: %w", err)
		}
		if schema.Vocabulary == nil {
			schema.Vocabulary = map[string][]string{}
		}
		schema.Vocabulary[column] = words
	}
	if d.Text != "" {
		schema.Text = d.Text
	}
	if d.Tokens != "" {
		if schema.Tokens, schema.Words, err = data.ParseTokens(d.Tokens); err != nil {
			return schema, fmt.Errorf("--tokens: %w", err)
		}
	}
	if d.Length != 0 {
		schema.Length = d.Length
	}
	schema.PredictNext = schema.PredictNext || d.NextToken
	schema.Ignore = append(schema.Ignore, d.Ignore...)
	return schema, nil
}

// ImageShape parses --image; the zero value stands for no flag.
func (d *DataFlags) ImageShape() (shape data.ImageShape, err error) {
	if d.Image == "" {
		return shape, nil
	}
	if shape, err = data.ParseImageShape(d.Image); err != nil {
		return shape, exitcode.Usagef("--image: %w", err)
	}
	return shape, nil
}

// DataOptions returns how to read the training data.
func (s *Flags) DataOptions() (data.Options, error) {
	schema, err := s.ReadSchema(data.Schema{})
	if err != nil {
		return data.Options{}, err
	}
	if column, byUser := strings.CutPrefix(s.Record, "user:"); byUser {
		schema.User = column
	}
	if s.Weight != "" {
		schema.Weight = s.Weight
	}
	if s.Test != "" && (SameFile(s.Data, s.Test) || data.SameContent(s.Data, s.Test)) {
		return data.Options{}, exitcode.Usagef("--test %s is the training data, or a copy of it: results on test data are printed as public and would reveal training records; give another file", s.Test)
	}
	image, err := s.ImageShape()
	return data.Options{Dir: s.DataDir, Test: s.Test, Standardize: s.Standardize, Schema: schema, Image: image, OnBadRow: data.BadRowPolicy(s.OnBadRow)}, err
}

// SameFile reports whether two paths name the same existing file.
func SameFile(a, b string) bool {
	first, errFirst := os.Stat(a)
	second, errSecond := os.Stat(b)
	return errors.Join(errFirst, errSecond) == nil && os.SameFile(first, second)
}
