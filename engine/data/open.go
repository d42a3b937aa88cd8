package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Options says what a reader needs besides the data set's name. One that the
// data set has no use for is an error, so that nothing is ignored in silence.
type Options struct {
	// Dir is the folder (or .zip file) where a named data set's files lie.
	Dir string
	// Test is a second file, of the same columns, to test with.
	Test string
	// Standardize shifts and scales pixels by the mean and deviation published
	// for the data set; otherwise they lie in [0, 1].
	Standardize bool
	// Schema says what a table's columns mean; for arrays and plain text, only what
	// needs no column's name.
	Schema Schema
}

// Description says what a data set is and what Open reads it from.
type Description struct {
	Name    string // to give to Open; in capitals, what stands for a path
	Summary string
	Source  string // where and for what Open looks, and what it must be told
}

// Supported lists what Open can read.
func Supported() []Description {
	return []Description{
		{"digits", fmt.Sprintf("%d + %d handwritten digits, 28×28 grey, 10 classes, drawn by the program; public", digitsTrain, digitsTest), "nowhere: nothing is read"},
		{"remarks", fmt.Sprintf("%d + %d short remarks, kind or unkind, put together by the program; public", remarksTrain, remarksTest), "nowhere: nothing is read; --next makes a language model of them"},
		{"mnist", "60000 + 10000 handwritten digits, 28×28 grey, 10 classes", "in --data-dir, its mnist or MNIST/raw, for train-images-idx3-ubyte and its three fellows, .gz or not"},
		{"fashion-mnist", "60000 + 10000 pieces of clothing, 28×28 grey, 10 classes", "in --data-dir, its fashion-mnist or FashionMNIST/raw, for the same names as mnist"},
		{"cifar10", "50000 + 10000 photographs, 32×32 colour, 10 classes", "in --data-dir, its cifar-10-batches-bin or cifar10, for data_batch_1.bin …, or for folders train/CLASS and test/CLASS of pictures"},
		{"FILE.csv", "a table with a header line", "in that file, .gz or not; needs --label and --classes, or --target for a number to predict, and --bounds or --vocabulary for every column that is not ignored, or --text, --tokens and --length for one of text or indices"},
		{"FILE.jsonl", "a table of JSON objects, one a line", "in that file, .gz or not; needs the same, keys being columns"},
		{"FILE.txt", "plain text; a line is an example, of a language model", "in that file, .gz or not; needs --tokens and --length"},
		{"FILE.npz or FOLDER", "NumPy arrays", "for x_train.npy, y_train.npy and, to test, x_test.npy, y_test.npy; needs --classes, or --target y and --bounds y=LOW:HIGH; pictures are [examples, channels, height, width]; x of uint8 is scaled to [0, 1], any other taken as it is, and a model is asked about its own kind alone; on which scale the others are no file tells: keep to one; with --tokens COUNT x holds indices, padded at the end with -1, and y may have a label for each step or, with --next, be missing"},
		{"FOLDER or FILE.zip", "pictures, .png or .jpg, all of one size", "for folders train/CLASS and test/CLASS, or CLASS alone"},
	}
}

// Open reads a data set by its name, or from the path of a file or folder.
func Open(name string, o Options) (*Task, error) {
	task, err := open(name, o)
	if err != nil {
		return nil, err
	}
	task.Name = name
	return task, nil
}

var knownNames = []string{"digits", "remarks", "mnist", "fashion-mnist", "cifar10"}

func open(name string, o Options) (*Task, error) {
	switch name {
	case "":
		return nil, errors.New("no data set was named; write --data with one of " + strings.Join(knownNames, ", ") + ", or a path")
	case "digits", "remarks":
		return openSynthetic(name, o)
	case "mnist", "fashion-mnist", "cifar10":
		if o.Dir == "" {
			return nil, fmt.Errorf("where the files of %s lie was not given; write --data-dir FOLDER", name)
		}
		if err := refuseTableOptions(o, name); err != nil {
			return nil, err
		}
		tree, closer, err := openTree(o.Dir)
		if err != nil {
			return nil, err
		}
		defer closer.Close()
		if name == "cifar10" {
			return openCIFAR(tree, o)
		}
		return openMNIST(tree, name, o)
	}
	folder, err := isFolder(name, o)
	if err != nil {
		return nil, err
	}
	if o.Standardize {
		return nil, fmt.Errorf("no mean and deviation are published for %s; leave out --standardize, or name the data set that the model was trained on with it", name)
	}
	if folder {
		return openPath(name, o)
	}
	switch read := lineReaders[extension(name)]; {
	case extension(name) == ".txt":
		return openText(name, o)
	case read != nil:
		return openLines(name, o, read)
	}
	return nil, fmt.Errorf("%s: cannot tell what %q files hold; .csv, .jsonl and .txt, .gz or not, .npz, .zip and folders are read", name, filepath.Ext(name))
}

// isFolder finds whether a path is a folder, or an archive.
func isFolder(name string, o Options) (folder bool, err error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("%q is neither a known data set (%s) nor a path%s", name, strings.Join(knownNames, ", "), suggestion(name, knownNames))
	case err != nil:
		return false, fmt.Errorf("cannot read %s: %w", name, withoutPath(err))
	case o.Dir != "":
		return false, fmt.Errorf("%s is a path of its own; leave out --data-dir", name)
	}
	return info.IsDir() || isArchive(name), nil
}

// extension is how a file's name ends, but for the .gz of a packed one.
func extension(name string) string {
	return filepath.Ext(strings.TrimSuffix(strings.ToLower(name), ".gz"))
}

// openSynthetic draws a data set that comes with the program.
func openSynthetic(name string, o Options) (*Task, error) {
	if o.Dir != "" {
		return nil, fmt.Errorf("%s are drawn by the program; leave out --data-dir, or name the data set that lies there with --data", name)
	}
	if o.Standardize {
		return nil, fmt.Errorf("no mean and deviation are published for %s; leave out --standardize", name)
	}
	if name == "remarks" {
		if o.Schema.named() || len(o.Schema.Classes) > 0 || o.Test != "" {
			return nil, errors.New("remarks bring their own labels and test examples; only tokens, length and next can be chosen")
		}
		return Remarks(o.Schema)
	}
	if err := refuseTableOptions(o, name); err != nil {
		return nil, err
	}
	return Digits(), nil
}

// openPath reads a folder or archive, by what is in it.
func openPath(name string, o Options) (*Task, error) {
	tree, closer, err := openTree(name)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	if _, found := findFile(tree, []string{"."}, []string{arrayTrainX, arrayTrainY, arrayTestX, arrayTestY}); found || strings.HasSuffix(name, ".npz") {
		s := o.Schema
		if s.Target == arrayTarget {
			s = s.withoutTarget()
		}
		if s.named() || o.Test != "" {
			return nil, fmt.Errorf("%s holds arrays, which have no named columns and bring their own test examples; of the schema, only classes, tokens, next and the target y with its bounds can be given", name)
		}
		return openArrays(tree, name, o.Schema)
	}
	if err := refuseTableOptions(o, name); err != nil {
		return nil, err
	}
	return openFolders(tree, ".", name, nil)
}

// refuseTableOptions refuses what only a table has a use for.
func refuseTableOptions(o Options, name string) error {
	if !o.Schema.empty() {
		return fmt.Errorf("%s has no named columns; label, classes, target, bounds, vocabulary, text and user are for CSV and JSONL files", name)
	}
	if o.Test != "" {
		return fmt.Errorf("%s brings its own test examples; --test is for files of rows", name)
	}
	return nil
}
