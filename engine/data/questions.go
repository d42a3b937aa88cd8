package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Unlabeled are examples that a trained network is to answer. Nobody has labelled
// them, or the labels are not read.
type Unlabeled struct {
	Set
	// Files names the file that each example is, or is nil where one file has several.
	Files []string
}

// TrainedInput is what a network learnt from.
type TrainedInput struct {
	Name        string // of the data set, as Open had it
	Shape       []int  // of an example
	ElementType ElementType
}

// OpenUnlabeled reads examples for a network from what Open reads, or a single array or
// picture. The options are those by which what it learnt from was read: of the schema's
// columns the features alone are read, and no other needs to be there; pixels are
// standardized by that data set's constants. Of a named data set, the test examples are
// taken.
func OpenUnlabeled(name string, o Options, learnt TrainedInput) (Unlabeled, error) {
	q, err := openQuestions(name, o, learnt)
	if err != nil {
		return q, err
	}
	got := q.Columns()[0]
	if !slices.Equal(got.Shape, learnt.Shape) {
		return q, fmt.Errorf("%s: examples have shape %v, and the model was trained on examples of shape %v", name, got.Shape, learnt.Shape)
	}
	if err := got.ElementType.CheckCompatible(learnt.ElementType); err != nil {
		return q, fmt.Errorf("%s: %w", name, err)
	}
	return q, nil
}

func openQuestions(name string, o Options, learnt TrainedInput) (q Unlabeled, err error) {
	var tones []Standardization
	if o.Standardize {
		tones = publishedStandardization(learnt.Name)
	}
	if slices.Contains(knownNames, name) {
		q.Set, err = knownQuestions(name, o, tones)
		return q, err
	}
	folder, err := isFolder(name, o)
	if err != nil {
		return q, err
	}
	if err := o.Schema.validate(); err != nil {
		return q, fmt.Errorf("%s: %w", name, err)
	}
	s := o.Schema.features(learnt.Shape)
	tree, file, lines := os.DirFS(filepath.Dir(name)), filepath.Base(name), lineReaders[extension(name)]
	switch {
	case folder:
		return folderQuestions(name, s, learnt.Shape, tones)
	case lines != nil:
		q.Set, err = lineQuestions(name, s, lines)
	case extension(name) == ".npy":
		q.Set, err = arrayQuestions(tree, file, s, tones)
	case pictureName(name):
		return pictureQuestions(tree, []pictureFile{{name: file}}, s, learnt.Shape, tones)
	default:
		err = fmt.Errorf("%s: cannot tell what %q files hold; .csv, .jsonl and .txt, .gz or not, .npy, .npz, .zip, .png, .jpg and folders are read", name, filepath.Ext(name))
	}
	return q, err
}

// features is what the schema says of the features alone.
func (s Schema) features(shape []int) Schema {
	f := Schema{Bounds: s.withoutTarget().Bounds, Vocabulary: s.Vocabulary, Inputs: s.Inputs, Text: s.Text, Tokens: s.Tokens, Words: s.Words, Length: s.Length, unlabelled: true}
	if f.Tokens != "" && f.Length == 0 && len(shape) == 1 {
		f.Length = shape[0] // arrays say it by themselves
	}
	return f
}

// knownQuestions are the test examples of a named data set, or all where it has none.
func knownQuestions(name string, o Options, tones []Standardization) (Set, error) {
	plain := Options{Dir: o.Dir}
	if name == "remarks" {
		plain.Schema = Schema{Tokens: o.Schema.Tokens, Words: o.Schema.Words, Length: o.Schema.Length}
	}
	task, err := open(name, plain)
	if err != nil {
		return nil, err
	}
	set := task.Test
	if set == nil {
		set = task.Train
	}
	if p, is := set.(*Pictures); is {
		return newPictures(p.columns[:1], p.pixels, nil, tones)
	}
	return set, nil
}

func lineQuestions(name string, s Schema, read lineReader) (Set, error) {
	text := extension(name) == ".txt"
	switch {
	case text && s.Tokens == "":
		return nil, fmt.Errorf("%s is plain text, and the model was trained on none", name)
	case !text && !s.named():
		return nil, fmt.Errorf("%s has columns, and the model was trained on data that had none", name)
	}
	set, _, err := readLines(name, s, read)
	return set, err
}

// folderQuestions reads a folder or archive, by what is in it.
func folderQuestions(name string, s Schema, shape []int, tones []Standardization) (q Unlabeled, err error) {
	tree, closer, err := openTree(name)
	if err != nil {
		return q, err
	}
	defer closer.Close()
	if file, found := findFile(tree, []string{"."}, []string{"x.npy", arrayTestX, arrayTrainX}); found {
		q.Set, err = arrayQuestions(tree, file, s, tones)
	} else if strings.HasSuffix(name, ".npz") {
		err = errors.New("has no array x, x_test or x_train")
	} else {
		var files []pictureFile
		if files, err = allPictures(tree); err == nil {
			q, err = pictureQuestions(tree, files, s, shape, tones)
		}
	}
	if err != nil {
		return q, fmt.Errorf("%s: %w", name, err)
	}
	return q, nil
}

// arrayQuestions reads an array that has no labels beside it.
func arrayQuestions(tree fs.FS, name string, s Schema, tones []Standardization) (Set, error) {
	indices, err := 0, error(nil)
	if s.Tokens != "" {
		indices, err = strconv.Atoi(s.Tokens)
	}
	if err != nil || len(s.Bounds) > 0 || len(s.Vocabulary) > 0 {
		return nil, fmt.Errorf("%s is an array, and the model was trained on columns or text that something else turned into numbers", name)
	}
	x, features, err := readExamples(tree, name, indices)
	if err != nil {
		return nil, err
	}
	if x.greys != nil {
		return newPictures([]Column{features}, x.greys, nil, tones)
	}
	return NewTable([]Column{features}, [][]float32{x.values}, nil)
}

// allPictures lists the pictures in a folder and those in it, by their names.
func allPictures(tree fs.FS) ([]pictureFile, error) {
	var files []pictureFile
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", name, withoutPath(err))
		case name == ".":
		case isHidden(e.Name()) && e.IsDir():
			return fs.SkipDir
		case isHidden(e.Name()) || e.IsDir():
		case !pictureName(name):
			return fmt.Errorf("%s is neither .png nor .jpg; only those pictures are read", name)
		default:
			files = append(files, pictureFile{name: name})
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = errors.New("has no pictures")
	}
	return files, err
}

// pictureQuestions reads pictures of the shape that the network was trained on.
func pictureQuestions(tree fs.FS, files []pictureFile, s Schema, shape []int, tones []Standardization) (q Unlabeled, err error) {
	if s.named() || s.Tokens != "" || len(shape) != 3 || shape[0] != 1 && shape[0] != 3 {
		return q, fmt.Errorf("%s is a picture, and the model was trained on none", files[0].name)
	}
	want := pictureShape{shape[0], shape[1], shape[2]}
	got, err := frameOf(tree, files[0].name)
	switch {
	case err != nil:
	case got.width != want.width || got.height != want.height:
		err = fmt.Errorf("has another size than the %d×%d pixels of those that the model was trained on", want.width, want.height)
	case got.channels > want.channels:
		err = errors.New("is coloured, and those that the model was trained on were grey")
	}
	if err != nil {
		return q, fmt.Errorf("%s: %w", files[0].name, err)
	}
	pixels, err := decodePixels(tree, files, want)
	if err != nil {
		return q, err
	}
	for _, f := range files {
		q.Files = append(q.Files, path.Clean(f.name))
	}
	q.Set, err = newPictures([]Column{{Name: "picture", Kind: Feature, Shape: shape}}, pixels, nil, tones)
	return q, err
}
