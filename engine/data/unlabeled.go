package data

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Unlabeled is a set of examples for prediction. The examples have no labels, or their
// labels are not read.
type Unlabeled struct {
	Set
	// Files has the name of each example's file. It is nil if one file contains several
	// examples.
	Files []string
}

// TrainedInput describes the examples that a network was trained on.
type TrainedInput struct {
	Name        string // of the data set, as given to Open
	Shape       []int  // of one example, before Options.Crop
	ElementType ElementType
}

// OpenUnlabeled reads examples for prediction by a trained network. It accepts the sources
// of Open, and also a single array or picture. The options are those that the training data
// were read with: only the feature columns of the schema are read, and no others need to
// exist; pixels are standardized by the constants of the training data set. From a named
// data set it takes the test examples.
func OpenUnlabeled(name string, o Options, trained TrainedInput) (Unlabeled, error) {
	q, err := openUnlabeled(name, o, trained)
	if err != nil {
		return q, err
	}
	if err := q.checkInput(name, trained); err != nil {
		return q, err
	}
	q.Set, err = o.crop(q.Set)
	return q, err
}

// ReadUnlabeled reads examples for prediction from JSON objects, one a line, like OpenUnlabeled
// from a .jsonl file. Errors begin with the name.
func ReadUnlabeled(r io.Reader, name string, o Options, trained TrainedInput) (q Unlabeled, err error) {
	s := o.Schema.features(trained.Shape)
	if !s.named() {
		return q, fmt.Errorf("%s has columns, and the model was not trained on data with columns", name)
	}
	if q.Set, _, err = readJSONL(r, s, rowPolicy{}); err != nil {
		return q, fmt.Errorf("%s: %w", name, err)
	}
	return q, q.checkInput(name, trained)
}

// checkInput returns an error unless a trained network can read the examples.
func (q Unlabeled) checkInput(name string, trained TrainedInput) error {
	got := q.Columns()[0]
	if !slices.Equal(got.Shape, trained.Shape) {
		return fmt.Errorf("%s: the examples have shape %v, and the model was trained on examples of shape %v", name, got.Shape, trained.Shape)
	}
	if err := got.ElementType.CheckCompatible(trained.ElementType); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func openUnlabeled(name string, o Options, trained TrainedInput) (q Unlabeled, err error) {
	var standardization []Standardization
	if o.Standardize {
		standardization = PublishedStandardization(trained.Name)
	}
	if slices.Contains(namedSets, name) {
		q.Set, err = namedExamples(name, o, standardization)
		return q, err
	}
	folder, err := isFolder(name, o)
	if err != nil {
		return q, err
	}
	if err := o.Schema.validate(); err != nil {
		return q, fmt.Errorf("%s: %w", name, err)
	}
	s := o.Schema.features(trained.Shape)
	tree, file := hostTree(filepath.Dir(name)), filepath.Base(name)
	switch {
	case folder:
		return folderExamples(name, s, trained.Shape, o.Resampling, standardization)
	case isRowFile(name):
		q.Set, err = rowExamples(name, s)
	case extension(name) == ".npy":
		q.Set, err = arrayExamples(tree, file, s, standardization)
	case isPictureName(name):
		return pictureExamples(tree, []pictureFile{{name: file}}, s, trained.Shape, o.Resampling, standardization)
	default:
		err = fmt.Errorf("%s: %w", name, unsupportedFormat(name, ", .npy, .npz, .zip, .png, .jpg or a folder"))
	}
	return q, err
}

// features returns the part of the schema that describes features.
func (s Schema) features(shape []int) Schema {
	f := s.withoutTarget()
	f.Label, f.Classes, f.User, f.Weight, f.Ignore, f.PredictNext, f.featuresOnly = "", nil, "", "", nil, false, true
	f.Pack, f.Masked = false, 0
	if f.Tokens != "" && f.Length == 0 && len(shape) == 1 {
		f.Length = shape[0] // the schema of arrays has no length
	}
	return f
}

// namedExamples returns the test examples of a named data set, or the training examples if
// it has none.
func namedExamples(name string, o Options, standardization []Standardization) (Set, error) {
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
	if p, ok := set.(*Pictures); ok {
		return newPictures(p.columns[:1], p.pixels, nil, standardization)
	}
	return set, nil
}

func rowExamples(name string, s Schema) (Set, error) {
	text := columnarFormat(name) == "" && extension(name) == ".txt"
	switch {
	case text && s.Tokens == "":
		return nil, fmt.Errorf("%s is plain text, and the model was not trained on text", name)
	case text && s.TextPair != "":
		return nil, fmt.Errorf("%s is plain text, and the model reads pairs of texts; give a .csv or .jsonl file with the columns %q and %q", name, s.Text, s.TextPair)
	case !text && !s.named():
		return nil, fmt.Errorf("%s has columns, and the model was not trained on data with columns", name)
	}
	set, _, err := readRows(name, s, rowPolicy{})
	return set, err
}

// folderExamples reads a folder or archive. Its content determines how.
func folderExamples(name string, s Schema, shape []int, by *Resampling, standardization []Standardization) (q Unlabeled, err error) {
	tree, closer, err := openTree(name)
	if err != nil {
		return q, err
	}
	defer closer.Close()
	if file, found := findFile(tree, []string{"."}, []string{"x.npy", arrayTestX, arrayTrainX}); found {
		q.Set, err = arrayExamples(tree, file, s, standardization)
	} else if strings.HasSuffix(name, ".npz") {
		err = errors.New("the archive has no array x, x_test or x_train")
	} else {
		var files []pictureFile
		if files, err = allPictures(tree); err == nil {
			q, err = pictureExamples(tree, files, s, shape, by, standardization)
		}
	}
	if err != nil {
		return q, fmt.Errorf("%s: %w", name, err)
	}
	return q, nil
}

// arrayExamples reads an array without labels.
func arrayExamples(tree fs.FS, name string, s Schema, standardization []Standardization) (Set, error) {
	indices, err := 0, error(nil)
	if s.Tokens != "" {
		indices, err = strconv.Atoi(s.Tokens)
	}
	if err != nil || len(s.Bounds) > 0 || len(s.Vocabulary) > 0 {
		return nil, fmt.Errorf("%s is an array, and the model was trained on columns or text", name)
	}
	x, features, err := readExamples(tree, name, indices)
	if err != nil {
		return nil, err
	}
	if x.bytes != nil {
		return newPictures([]Column{features}, x.bytes, nil, standardization)
	}
	return NewTable([]Column{features}, [][]float32{x.values}, nil)
}

// allPictures lists the pictures in a folder and its subfolders, sorted by name.
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
		case !isPictureName(name):
			return fmt.Errorf("%s is neither a .png nor a .jpg file; other files are not supported", name)
		default:
			files = append(files, pictureFile{name: name})
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = errors.New("the folder has no pictures")
	}
	return files, err
}

// pictureExamples reads pictures and converts them to the shape of the training pictures, as
// those were converted.
func pictureExamples(tree fs.FS, files []pictureFile, s Schema, shape []int, by *Resampling,
	standardization []Standardization) (q Unlabeled, err error) {
	image := ImageShapeOf(shape)
	if s.named() || s.Tokens != "" || image == (ImageShape{}) {
		return q, fmt.Errorf("%s is a picture, and the model was not trained on pictures", files[0].name)
	}
	pixels, _, err := decodePixels(tree, files, newPictureDecoder(image, by), rowPolicy{})
	if err != nil {
		return q, err
	}
	for _, f := range files {
		q.Files = append(q.Files, path.Clean(f.name))
	}
	q.Set, err = newPictures([]Column{{Name: "picture", Kind: Feature, Shape: shape}}, pixels, nil, standardization)
	return q, err
}
