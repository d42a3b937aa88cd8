package data

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"

	"github.com/dptrain/dptrain/internal/setting"
)

// The names of the files with a task's arrays, as Keras names them.
const (
	arrayTrainX, arrayTrainY = "x_train.npy", "y_train.npy"
	arrayTestX, arrayTestY   = "x_test.npy", "y_test.npy"
)

// openArrays reads x_train and y_train, and x_test and y_test if they exist, from an
// .npz file or a folder of .npy files. The first axis of x is that of the examples. Bytes
// are gray levels: they are stored as bytes and scaled to [0, 1] when they are read. Other
// numbers are not scaled, so the user must scale them by public constants, the same in
// every file. The element types are compared, but the scale cannot be checked. A y is a
// whole number from 0, or, if y is the target, any number, which is scaled by its bounds.
//
// If Tokens is a number, x [examples, length] contains indices below it, with -1 for
// padding. Then y may have a label for each step, with -1 for none. With PredictNext there
// is no y, and the label of each step is the next index.
func openArrays(tree fs.FS, where string, o Options) (*Task, error) {
	s := o.Schema
	private, err := o.privatePolicy()
	if err != nil {
		return nil, err
	}
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	indices := 0
	if s.Tokens != "" {
		var err error
		if indices, err = strconv.Atoi(s.Tokens); err != nil {
			return nil, setting.Errorf("tokens", "%s: arrays do not contain text; write %v with the number of indices", where, setting.Named("tokens"))
		}
	}
	switch {
	case s.Length != 0:
		return nil, setting.Errorf("length", "%s: the array determines the length of the examples; leave out %v", where, setting.Named("length"))
	case s.PredictNext && indices == 0:
		return nil, setting.Errorf("tokens", "%s: to predict the next index, x must contain indices; write %v with their number", where, setting.Named("tokens"))
	case s.Target != "" && len(s.Bounds) == 0:
		return nil, setting.Errorf("bounds", "%s: the bounds of the target y are not given; write %v, with limits from public knowledge and not from these arrays", where, setting.With("bounds", "y=LOW:HIGH"))
	case s.Target == "" && len(s.Classes) < 2 && !s.PredictNext:
		return nil, setting.Errorf("classes", "%s: the number of classes is not given; write %v with their number or public names", where, setting.Named("classes"))
	}
	task := &Task{ClassNames: s.Classes, Private: true, Schema: s}
	read := func(x, y string, policy rowPolicy) (set Set, err error) {
		if s.PredictNext {
			set, err = readSteps(tree, x, indices, policy)
		} else {
			set, err = readArrays(tree, x, y, indices, s, policy)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		return set, nil
	}
	train, err := read(arrayTrainX, arrayTrainY, private)
	if err != nil {
		return nil, err
	}
	task.Train, task.Classes = train, train.Columns()[1].Classes
	if _, err := fs.Stat(tree, arrayTestX); err != nil {
		return task, nil
	}
	test, err := read(arrayTestX, arrayTestY, rowPolicy{})
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(train.Columns(), test.Columns(), Column.equal) {
		return nil, fmt.Errorf("%s: the examples of %s and %s have different shapes", where, arrayTestX, arrayTrainX)
	}
	if got, want := test.Columns()[0].ElementType, train.Columns()[0].ElementType; got != want {
		return nil, fmt.Errorf("%s: %s contains %s and %s contains %s: bytes (uint8) are scaled to [0, 1] and other numbers are not scaled; save both arrays with the same type", where, arrayTestX, got, arrayTrainX, want)
	}
	task.Test = test
	return task, nil
}

// arrayTarget is the name of the target column of arrays.
const arrayTarget = "y"

func readArrays(tree fs.FS, xName, yName string, indices int, s Schema, policy rowPolicy) (Set, error) {
	x, features, err := readExamples(tree, xName, indices)
	if err != nil {
		return nil, err
	}
	y, err := readArray(tree, yName, false)
	if err != nil {
		return nil, err
	}
	if s.Target != "" {
		return withTarget(features, x, y, yName, s.Bounds[arrayTarget], policy)
	}
	if !y.isInteger {
		return nil, fmt.Errorf("%s does not contain whole numbers; labels are whole numbers from 0", yName)
	}
	label := Column{Name: "y", Kind: Label, Classes: len(s.Classes)}
	switch {
	case indices > 0 && slices.Equal(x.shape, y.shape):
		label.Shape = y.shape[1:]
	case y.total() != y.shape[0] || y.shape[0] != x.shape[0]:
		return nil, fmt.Errorf("%s has shape %v; %d examples need the same number of labels", yName, y.shape, x.shape[0])
	}
	columns := []Column{features, label}
	if x.bytes == nil {
		return policy.newTable(columns, [][]float32{x.values, y.values}, x.shape[0])
	}
	blank, err := policy.blankInvalid(columns[1:], [][]float32{y.values}, x.shape[0])
	if err != nil {
		return nil, err
	}
	if err := checkValues(label, y.values, 0); err != nil {
		return nil, err
	}
	labels := make([]int32, len(y.values))
	for i, l := range y.values {
		labels[i] = int32(l)
	}
	clearBlank(x.bytes, blank)
	pictures, err := newPictures(columns, x.bytes, labels, nil)
	if err != nil {
		return nil, err
	}
	return withBlank(pictures, blank), nil
}

// readExamples reads the features x.
func readExamples(tree fs.FS, name string, indices int) (arrayContent, Column, error) {
	x, err := readArray(tree, name, indices == 0)
	if err != nil {
		return x, Column{}, err
	}
	if indices == 0 {
		return x, Column{Name: "x", Kind: Feature, Shape: x.shape[1:], ElementType: x.elementType()}, nil
	}
	return x, Column{Name: "x", Kind: Index, Shape: x.shape[1:], Classes: indices}, x.checkIndices(name)
}

// withTarget returns a set of examples with a numeric target. It stores gray levels as
// numbers, because Pictures has labels and no targets.
func withTarget(features Column, x, y arrayContent, yName string, bounds Bounds, policy rowPolicy) (Set, error) {
	if y.total() != y.shape[0] || y.shape[0] != x.shape[0] {
		return nil, fmt.Errorf("%s has shape %v; %d examples need the same number of targets", yName, y.shape, x.shape[0])
	}
	target := Column{Name: arrayTarget, Kind: Target}
	blank, err := policy.blankInvalid([]Column{target}, [][]float32{y.values}, x.shape[0])
	if err != nil {
		return nil, err
	}
	if err := checkValues(target, y.values, 0); err != nil {
		return nil, err
	}
	for i, v := range y.values {
		y.values[i] = bounds.Scale(float64(v))
	}
	target.Bounds = bounds
	if x.bytes != nil {
		x.values = make([]float32, len(x.bytes))
		for i, b := range x.bytes {
			x.values[i] = float32(b) / 255
		}
	}
	more, err := policy.blankInvalid([]Column{features}, [][]float32{x.values}, x.shape[0])
	if err != nil {
		return nil, err
	}
	for i := range blank {
		if blank[i] = blank[i] || more[i]; blank[i] {
			fillBlank(features, x.values[i*features.Size():(i+1)*features.Size()])
			y.values[i] = 0
		}
	}
	return policy.tableOf([]Column{features, target}, [][]float32{x.values, y.values}, blank)
}

func (a arrayHeader) elementType() ElementType {
	if a.isByte {
		return Bytes
	}
	return Numbers
}

// checkIndices returns an error if the array does not contain lists of indices.
func (a arrayHeader) checkIndices(name string) error {
	if !a.isInteger || len(a.shape) != 2 {
		return fmt.Errorf("%s: indices must be whole numbers of shape [examples, length]", name)
	}
	return nil
}

// readSteps reads lists of indices for the prediction of the next index.
func readSteps(tree fs.FS, name string, indices int, policy rowPolicy) (Set, error) {
	x, err := readArray(tree, name, false)
	if err != nil {
		return nil, err
	}
	if err := x.checkIndices(name); err != nil {
		return nil, err
	}
	length := x.shape[1]
	if length < 2 {
		return nil, fmt.Errorf("%s has examples of %d index; the prediction of the next index needs at least two", name, length)
	}
	size := x.shape[0] * (length - 1)
	features, labels := make([]float32, 0, size), make([]float32, 0, size)
	for all := x.values; len(all) > 0; all = all[length:] {
		features = append(features, all[:length-1]...)
		labels = append(labels, all[1:length]...)
	}
	steps := tokenizer{length: length - 1, count: indices, next: true}
	return policy.newTable(steps.columns(Column{}), [][]float32{features, labels}, x.shape[0])
}

// arrayContent is an array with its elements. Bytes may be kept as bytes; otherwise the
// elements are in values.
type arrayContent struct {
	arrayHeader
	values []float32
	bytes  []byte
}

func readArray(tree fs.FS, name string, keepBytes bool) (a arrayContent, err error) {
	f, err := openFile(tree, name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("the file does not exist")
		}
		return a, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	if a.arrayHeader, err = readHeader(f); err == nil {
		if a.isByte && keepBytes {
			a.bytes, err = readExactly(f, a.total())
		} else {
			a.values, err = a.numbers(f)
		}
	}
	if err != nil {
		return a, fmt.Errorf("%s %w", name, err)
	}
	return a, nil
}
