package settings

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/models/pretrained"
	"github.com/spf13/pflag"
)

// DataFlags contains the values of the flags that describe how to read a data set.
type DataFlags struct {
	Data, DataDir, Test string
	Label, Classes      string
	Target, Bounds      string
	Vocabulary          []string
	Ignore, Only        []string
	Missing, Scale      string // by column
	Dates, DateFormat   string
	Separator, Decimal  string
	Text, TextPair      string
	Tokens              string
	Length              int
	NextToken, Pack     bool
	Masked              float64
	Schema              string // a file
	Standardize         bool
	Image               string // CxHxW
}

// Define adds the flags to a flag set, except --data, whose meaning depends on the command.
func (d *DataFlags) Define(f *pflag.FlagSet) {
	f.StringVar(&d.DataDir, "data-dir", "", "directory with the files of a named data set")
	f.StringVar(&d.Test, "test", "", "second file with rows to test on, which you declare public: results on them are printed, and a copy of training rows is not detected")
	f.StringVar(&d.Label, "label", "", "CSV, JSONL: the column with the classes")
	f.StringVar(&d.Classes, "classes", "", "CSV, JSONL, arrays: the number of classes, or their names separated by commas")
	f.StringVar(&d.Target, "target", "", "CSV, JSONL: the column with a number to predict, in place of --label and --classes, with limits in --bounds; arrays: y")
	f.StringVar(&d.Bounds, "bounds", "", "CSV, JSONL: public limits of numeric columns, COLUMN=LOW:HIGH,…")
	f.StringArrayVar(&d.Vocabulary, "vocabulary", nil, "CSV, JSONL: public words of a column, COLUMN=WORD|WORD|…; repeat the flag for each column")
	f.StringVar(&d.Dates, "dates", "", "CSV, JSONL: public limits of columns with dates, COLUMN=FIRST:LAST,… as in joined=2010-01-01:2026-12-31; a date becomes a number, its month and its day of the week")
	f.StringVar(&d.DateFormat, "date-format", "", "CSV, JSONL: how dates are written, such as DD.MM.YYYY (default: ISO 8601, as 2026-01-31)")
	f.StringVar(&d.Scale, "scale", "", "CSV, JSONL: numbers that are scaled by their logarithm, or by asinh, between their bounds, COLUMN=log|asinh,…")
	f.StringVar(&d.Missing, "missing", "", usage("missing"))
	f.StringVar(&d.Text, "text", "", "CSV, JSONL: the column with text or indices, in place of bounds and vocabulary; * with --next: each row as a text of its columns")
	f.StringVar(&d.TextPair, "text-pair", "", "CSV, JSONL: the column with a second text, such as a hypothesis behind a premise: the network of --model hf:DIR reads both, in the order of the checkpoint's tokenizer")
	f.StringVar(&d.Tokens, "tokens", "", usage("tokens"))
	f.IntVar(&d.Length, "length", 0, "number of indices of an example, which is public: longer texts are cut, shorter texts are padded (default: 512 for ngrams, 128 for a tokenizer)")
	f.BoolVar(&d.NextToken, "next", false, "train a language model: the label of each step is the next index")
	f.BoolVar(&d.Pack, "pack", false, "with --next and --record user:COLUMN: join the texts of a user or document in examples of --length ids, and divide long ones; no text sees another")
	f.Float64Var(&d.Masked, "masked", 0, "train an encoder of --model hf:DIR to find masked ids: the share of the ids of a text that are masked, such as 0.15; there is no label")
	f.StringSliceVar(&d.Ignore, "ignore", nil, "CSV, JSONL: columns that are not read; * is all that the other flags and the schema do not name")
	f.StringSliceVar(&d.Only, "only", nil, "CSV, JSONL: use only these of the columns that have bounds, dates or a vocabulary")
	f.StringVar(&d.Separator, "separator", "", "CSV: what stands between cells: comma, semicolon, tab or pipe (default: comma, in a .tsv file tab)")
	f.StringVar(&d.Decimal, "decimal", "", "CSV, JSONL: the decimal sign of numbers, a point or a comma (default: .)")
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
		schema.Bounds = merged(schema.Bounds, bounds)
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
	if err := d.addCells(&schema); err != nil {
		return schema, err
	}
	if d.Text != "" {
		schema.Text = d.Text
	}
	if d.TextPair != "" {
		schema.TextPair = d.TextPair
	}
	if d.Tokens != "" {
		if err = schema.SetTokens(d.Tokens); err != nil {
			return schema, fmt.Errorf("--tokens: %w", err)
		}
	}
	if d.Length != 0 {
		schema.Length = d.Length
	}
	schema.PredictNext, schema.Pack = schema.PredictNext || d.NextToken, schema.Pack || d.Pack
	if d.Masked != 0 {
		schema.Masked = d.Masked
	}
	schema.Ignore = append(schema.Ignore, d.Ignore...)
	if d.Only != nil {
		schema.Only = d.Only
	}
	return schema, nil
}

// addCells adds the flags that say how cells are read.
func (d *DataFlags) addCells(s *data.Schema) error {
	dates, err := data.ParseDates(d.Dates)
	if err != nil {
		return fmt.Errorf("--dates: %w", err)
	}
	scales, err := data.ParsePairs[data.Scale](d.Scale)
	if err != nil {
		return fmt.Errorf("--scale %w", err)
	}
	missing, err := data.ParsePairs[data.Missing](d.Missing)
	if err != nil {
		return fmt.Errorf("--missing %w", err)
	}
	s.Dates, s.Scale, s.Missing = merged(s.Dates, dates), merged(s.Scale, scales), merged(s.Missing, missing)
	s.DateFormat, s.Separator, s.Decimal = cmp.Or(d.DateFormat, s.DateFormat),
		cmp.Or(d.Separator, s.Separator), cmp.Or(d.Decimal, s.Decimal)
	return nil
}

// merged returns the entries of both maps; those of more replace others.
func merged[V any](known, more map[string]V) map[string]V {
	if len(more) == 0 {
		return known
	}
	all := maps.Clone(more)
	for name, v := range known {
		if _, replaced := more[name]; !replaced {
			all[name] = v
		}
	}
	return all
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
	if s.Standardize && strings.HasPrefix(s.Model, checkpointPrefix) {
		return data.Options{}, exitcode.Usagef("--standardize and --model %s exclude each other: the checkpoint has its own mean and deviation of pixels; drop --standardize", s.Model)
	}
	if text, is := strings.CutPrefix(s.Model, checkpointPrefix); is && schema.Text != "" && schema.Tokens == "" {
		if pictures, err := pretrained.Pictures(text); err == nil && pictures != nil {
			return data.Options{}, exitcode.Usagef("--model %s reads pictures, and --text %s is a column of texts; give a checkpoint of texts, or a folder of pictures", s.Model, schema.Text)
		}
		if err := schema.SetTokens("tokenizer:" + pretrained.TokenizerFile(text)); err != nil {
			return data.Options{}, exitcode.Usagef("--model %s: %w", s.Model, err)
		}
		if schema.PredictNext {
			end, err := pretrained.EndOfText(text)
			if err != nil {
				return data.Options{}, exitcode.Usagef("--model %s: %w", s.Model, err)
			}
			schema.Tokenizer.End = &end
		}
	}
	if column, byUser := strings.CutPrefix(s.Record, "user:"); byUser {
		schema.User = column
	}
	if s.Weight != "" {
		schema.Weight = s.Weight
	}
	if s.Test != "" && SameFile(s.Data, s.Test) {
		return data.Options{}, exitcode.Usagef("--test %s is the file of the training data: results on test data are printed as public and would reveal training records; give another file, and no copy, which dptrain does not detect", s.Test)
	}
	var crop data.CropSize
	if s.given["crop"] {
		if crop, err = data.ParseCropSize(s.Crop); err != nil {
			return data.Options{}, exitcode.Usagef("--crop: %w", err)
		}
	}
	shard := s.shard()
	if schema.Pack { // a text is no example
		shard = data.Shard{}
	}
	options := data.Options{Dir: s.DataDir, Test: s.Test, Standardize: s.Standardize, Schema: schema, Crop: crop,
		OnBadRow: data.BadRowPolicy(s.OnBadRow), CellStates: s.ReleasesSchema() || s.given["split"], Shard: shard}
	if options.Image, err = s.ImageShape(); err == nil && !s.given["crop"] {
		err = s.resampleForCheckpoint(&options)
	}
	return options, err
}

// resampleForCheckpoint converts pictures as the preprocessor of a checkpoint does.
func (s *Flags) resampleForCheckpoint(o *data.Options) error {
	text, is := strings.CutPrefix(s.Model, checkpointPrefix)
	if !is {
		return nil
	}
	p, err := pretrained.Pictures(text)
	if err != nil {
		return exitcode.Usagef("--model %s: %w", s.Model, err)
	}
	if p == nil {
		return nil
	}
	shape := data.ImageShape{Channels: p.Channels, Height: p.Height, Width: p.Width}
	by := &data.Resampling{Filter: data.Filter(p.Filter), Height: p.ResizedHeight, Width: p.ResizedWidth}
	if by.Check(shape) == nil { // otherwise pictures must have the network's size
		o.TrainedImage, o.Resampling = shape, by
	}
	return nil
}

// shard returns the part of the data that this process reads: the records that its rank computes. It reads all where
// the records are divided in other ways before, or counted.
func (s *Flags) shard() data.Shard {
	records, err := ParseRecord(s.Record, s.UserExamples)
	if err != nil || s.Ranks < 2 || s.ValidationSplit > 0 || s.given["split"] || s.given["crop"] || s.ShowPrivate {
		return data.Shard{}
	}
	return data.Shard{Rank: s.Rank, Size: s.Ranks, Examples: records.Examples, Users: records.Users}
}

// ReleasesSchema reports whether --metric schema is given.
func (s *Flags) ReleasesSchema() bool {
	return slices.ContainsFunc(s.Metrics, func(text string) bool {
		name, _, _ := strings.Cut(text, ":")
		return name == SchemaMetric
	})
}

// SameFile reports whether two paths name the same existing file, which a link also does. It
// compares no content: for a private file the answer would reveal whether a guess of it is right.
func SameFile(a, b string) bool {
	first, errFirst := os.Stat(a)
	second, errSecond := os.Stat(b)
	return errors.Join(errFirst, errSecond) == nil && os.SameFile(first, second)
}
