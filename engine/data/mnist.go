package data

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/dptrain/dptrain/internal/setting"
)

// mnistFormat describes a published data set in MNIST's format.
type mnistFormat struct {
	folders         []string // possible locations of its files below the given folder
	classes         []string
	standardization Standardization
}

// mnistFormats are the data sets that consist of four IDX files like MNIST. The
// standardization constants are in common use (MNIST's are those of PyTorch's MNIST
// example). They are published, so they are public.
var mnistFormats = map[string]mnistFormat{
	"mnist": {
		folders:         []string{".", "mnist", "MNIST/raw"},
		classes:         tenDigits(),
		standardization: Standardization{Mean: 0.1307, Deviation: 0.3081},
	},
	"fashion-mnist": {
		folders:         []string{".", "fashion-mnist", "FashionMNIST/raw"},
		classes:         []string{"t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"},
		standardization: Standardization{Mean: 0.2860, Deviation: 0.3530},
	},
}

// openMNIST reads the four IDX files, compressed with gzip or not, in either spelling of
// their names.
func openMNIST(tree fs.FS, name string, o Options) (*Task, error) {
	format := mnistFormats[name]
	var standardization []Standardization
	if o.Standardize {
		standardization = PublishedStandardization(name)
	}
	private, err := o.privatePolicy()
	if err != nil {
		return nil, err
	}
	read := func(prefix string, policy rowPolicy) (Set, error) {
		shape, pixels, err := findIDX(tree, o.Dir, format.folders, prefix+"-images", 3)
		if err != nil {
			return nil, err
		}
		labelShape, labels, err := findIDX(tree, o.Dir, format.folders, prefix+"-labels", 1)
		if err != nil {
			return nil, err
		}
		if shape[0] != labelShape[0] {
			return nil, fmt.Errorf("%s: %s has %d pictures but %d labels", o.Dir, prefix, shape[0], labelShape[0])
		}
		classes := make([]int32, len(labels))
		for i, l := range labels {
			classes[i] = int32(l)
		}
		p, err := policy.newPictures(ImageShape{1, shape[1], shape[2]}, pixels, classes, len(format.classes), standardization)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", o.Dir, prefix, err)
		}
		return p, nil
	}
	train, err := read("train", private)
	if err != nil {
		return nil, err
	}
	test, err := read("t10k", rowPolicy{})
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(train.Columns(), test.Columns(), Column.equal) {
		return nil, fmt.Errorf("%s: the t10k pictures and the train pictures have different sizes", o.Dir)
	}
	return &Task{Train: train, Test: test, Classes: len(format.classes), ClassNames: format.classes, Private: true}, nil
}

// findIDX finds one of MNIST's files under any spelling of its name, and reads it.
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
		return nil, nil, setting.Errorf("Options.Dir", "%s has no file %s (searched %s for %s); name the folder with %v",
			where, spellings[0], strings.Join(folders, ", "), strings.Join(names, ", "), setting.Named("Options.Dir"))
	}
	f, err := openFile(tree, name)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s: %w", where, name, err)
	}
	defer f.Close()
	shape, bytes, err := readIDX(f, axes)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s %w", where, name, err)
	}
	return shape, bytes, nil
}

// readIDX reads an IDX file of unsigned bytes with the given number of axes
// (LeCun, Cortes, Burges, "The MNIST database", section on file formats). It
// allocates as readExactly does.
func readIDX(r io.Reader, axes int) (shape []int, bytes []byte, err error) {
	var magic [4]byte
	if _, err := io.ReadFull(r, magic[:]); err != nil {
		return nil, nil, fmt.Errorf("is too short for an IDX file: %w", unexpectedEOF(err))
	}
	const unsignedByte = 8
	if magic[0] != 0 || magic[1] != 0 {
		return nil, nil, errors.New("is not an IDX file: it does not begin with two zero bytes")
	}
	if magic[2] != unsignedByte || int(magic[3]) != axes {
		return nil, nil, fmt.Errorf("has IDX type %#x with %d axes; unsigned bytes (0x8) with %d axes are needed", magic[2], magic[3], axes)
	}
	shape = make([]int, axes)
	total := 1
	for i := range shape {
		var length [4]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return nil, nil, fmt.Errorf("ends in its header: %w", unexpectedEOF(err))
		}
		shape[i] = int(binary.BigEndian.Uint32(length[:]))
		if shape[i] < 1 || total > maxBytes/shape[i] {
			return nil, nil, fmt.Errorf("has an axis %d with an impossible length of %d", i, shape[i])
		}
		total *= shape[i]
	}
	bytes, err = readExactly(r, total)
	return shape, bytes, err
}
