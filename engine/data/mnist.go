package data

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// mnistFormat is a published data set in MNIST's format.
type mnistFormat struct {
	folders []string // where its files may lie below the given folder
	classes []string
	tone    Standardization
}

// mnistLike holds the data sets that come in MNIST's four IDX files. The tones
// are the constants in common use for them (MNIST's are those of PyTorch's
// MNIST example); being published, they are public.
var mnistLike = map[string]mnistFormat{
	"mnist": {
		folders: []string{".", "mnist", "MNIST/raw"},
		classes: tenDigits(),
		tone:    Standardization{Mean: 0.1307, Deviation: 0.3081},
	},
	"fashion-mnist": {
		folders: []string{".", "fashion-mnist", "FashionMNIST/raw"},
		classes: []string{"t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"},
		tone:    Standardization{Mean: 0.2860, Deviation: 0.3530},
	},
}

// openMNIST reads the four IDX files, plain or gzipped, in either spelling.
func openMNIST(tree fs.FS, name string, o Options) (*Task, error) {
	kind := mnistLike[name]
	var tones []Standardization
	if o.Standardize {
		tones = publishedStandardization(name)
	}
	read := func(prefix string) (*Pictures, error) {
		shape, pixels, err := findIDX(tree, o.Dir, kind.folders, prefix+"-images", 3)
		if err != nil {
			return nil, err
		}
		counted, labels, err := findIDX(tree, o.Dir, kind.folders, prefix+"-labels", 1)
		if err != nil {
			return nil, err
		}
		if shape[0] != counted[0] {
			return nil, fmt.Errorf("%s: %s has %d pictures but %d labels", o.Dir, prefix, shape[0], counted[0])
		}
		wide := make([]int32, len(labels))
		for i, l := range labels {
			wide[i] = int32(l)
		}
		p, err := NewPictures(1, shape[1], shape[2], pixels, wide, len(kind.classes), tones)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", o.Dir, prefix, err)
		}
		return p, nil
	}
	train, err := read("train")
	if err != nil {
		return nil, err
	}
	test, err := read("t10k")
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(train.Columns(), test.Columns(), Column.equal) {
		return nil, fmt.Errorf("%s: the t10k pictures have another size than the train ones", o.Dir)
	}
	return &Task{Train: train, Test: test, Classes: len(kind.classes), ClassNames: kind.classes, Private: true}, nil
}

// findIDX reads one of MNIST's files, found under any of its spellings.
func findIDX(tree fs.FS, where string, folders []string, stem string, axes int) ([]int, []byte, error) {
	spellings := []string{
		fmt.Sprintf("%s-idx%d-ubyte", stem, axes),
		fmt.Sprintf("%s.idx%d-ubyte", stem, axes),
	}
	names := append([]string{}, spellings...)
	for _, s := range spellings {
		names = append(names, s+".gz")
	}
	name, ok := findFile(tree, folders, names)
	if !ok {
		return nil, nil, fmt.Errorf("%s has no %s (looked in %s for %s); name the folder with --data-dir", where, spellings[0], strings.Join(folders, ", "), strings.Join(names, ", "))
	}
	f, err := openFile(tree, name)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s: %w", where, name, err)
	}
	defer f.Close()
	shape, bytes, err := readIDX(f, axes)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s: %w", where, name, err)
	}
	return shape, bytes, nil
}
