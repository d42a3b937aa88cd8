package data

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
)

// arrayNames are the files of a task in arrays, as Keras names them.
const (
	arrayTrainX, arrayTrainY = "x_train.npy", "y_train.npy"
	arrayTestX, arrayTestY   = "x_test.npy", "y_test.npy"
)

// openArrays reads x_train and y_train, and x_test and y_test if they are there,
// from an .npz file or a folder of .npy files. Examples lie along the first axis
// of x. Bytes are greys, kept as they are and scaled to [0, 1] when they are read;
// other numbers are taken as they are, so scale them by public constants, always the
// same: that examples are of one kind is checked, and on which scale cannot be. A y is a
// whole number from 0 on or, where it is the target, any number, scaled by its bounds.
//
// With Tokens a count, x [examples, length] holds indices below it, -1 for
// padding, and y may have a label for each step, -1 for none; with Next there is
// no y, and the label of each step is the index after it.
func openArrays(tree fs.FS, where string, s Schema) (*Task, error) {
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	indices := 0
	if s.Tokens != "" {
		var err error
		if indices, err = strconv.Atoi(s.Tokens); err != nil {
			return nil, fmt.Errorf("%s: arrays hold no text; write --tokens with how many indices there are", where)
		}
	}
	switch {
	case s.Length != 0:
		return nil, fmt.Errorf("%s: the length of examples is that of the array; leave out --length", where)
	case s.PredictNext && indices == 0:
		return nil, fmt.Errorf("%s: for each step to predict the next, x must hold indices; write --tokens with how many there are", where)
	case s.Target != "" && len(s.Bounds) == 0:
		return nil, fmt.Errorf("%s: the limits of the target y were not given; write --bounds y=LOW:HIGH, and take them from public knowledge, not from these arrays", where)
	case s.Target == "" && len(s.Classes) < 2 && !s.PredictNext:
		return nil, fmt.Errorf("%s: how many classes there are was not given; write --classes with their count or public names", where)
	}
	task := &Task{ClassNames: s.Classes, Private: true, Schema: s}
	read := func(x, y string) (set Set, err error) {
		if s.PredictNext {
			set, err = readSteps(tree, x, indices)
		} else {
			set, err = readArrays(tree, x, y, indices, s)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		return set, nil
	}
	train, err := read(arrayTrainX, arrayTrainY)
	if err != nil {
		return nil, err
	}
	task.Train, task.Classes = train, train.Columns()[1].Classes
	if _, err := fs.Stat(tree, arrayTestX); err != nil {
		return task, nil
	}
	test, err := read(arrayTestX, arrayTestY)
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(train.Columns(), test.Columns(), Column.equal) {
		return nil, fmt.Errorf("%s: %s has examples of another shape than %s", where, arrayTestX, arrayTrainX)
	}
	if is, was := test.Columns()[0].ElementType, train.Columns()[0].ElementType; is != was {
		return nil, fmt.Errorf("%s: %s holds %s and %s %s: bytes (uint8) are scaled to [0, 1] and numbers taken as they are; save both as one", where, arrayTestX, is, arrayTrainX, was)
	}
	task.Test = test
	return task, nil
}

// arrayTarget is the one column of arrays that has a name, to be the target.
const arrayTarget = "y"

func readArrays(tree fs.FS, xName, yName string, indices int, s Schema) (Set, error) {
	x, features, err := readExamples(tree, xName, indices)
	if err != nil {
		return nil, err
	}
	y, err := readArray(tree, yName, false)
	if err != nil {
		return nil, err
	}
	if s.Target != "" {
		return withTarget(features, x, y, yName, s.Bounds[arrayTarget])
	}
	if !y.whole {
		return nil, fmt.Errorf("%s holds no whole numbers; labels are whole numbers from 0 on", yName)
	}
	label := Column{Name: "y", Kind: Label, Classes: len(s.Classes)}
	switch {
	case indices > 0 && slices.Equal(x.shape, y.shape):
		label.Shape = y.shape[1:]
	case y.total() != y.shape[0] || y.shape[0] != x.shape[0]:
		return nil, fmt.Errorf("%s has shape %v; %d examples need as many labels", yName, y.shape, x.shape[0])
	}
	columns := []Column{features, label}
	if x.greys == nil {
		return NewTable(columns, [][]float32{x.values, y.values}, nil)
	}
	if err := checkValues(label, y.values, 0); err != nil {
		return nil, err
	}
	whole := make([]int32, len(y.values))
	for i, l := range y.values {
		whole[i] = int32(l)
	}
	return newPictures(columns, x.greys, whole, nil)
}

// readExamples reads what a network is asked about.
func readExamples(tree fs.FS, name string, indices int) (arrayContent, Column, error) {
	x, err := readArray(tree, name, indices == 0)
	if err != nil {
		return x, Column{}, err
	}
	if indices == 0 {
		return x, Column{Name: "x", Kind: Feature, Shape: x.shape[1:], ElementType: x.elements()}, nil
	}
	return x, Column{Name: "x", Kind: Index, Shape: x.shape[1:], Classes: indices}, x.indices(name)
}

// withTarget is a set of examples of which a number is predicted. Its greys are kept as
// numbers: only labelled pictures are kept as bytes.
func withTarget(features Column, x, y arrayContent, yName string, bounds Bounds) (Set, error) {
	if y.total() != y.shape[0] || y.shape[0] != x.shape[0] {
		return nil, fmt.Errorf("%s has shape %v; %d examples need as many targets", yName, y.shape, x.shape[0])
	}
	target := Column{Name: arrayTarget, Kind: Target}
	if err := checkValues(target, y.values, 0); err != nil {
		return nil, err
	}
	for i, v := range y.values {
		y.values[i] = bounds.Scale(float64(v))
	}
	target.Bounds = bounds
	if x.greys != nil {
		x.values = make([]float32, len(x.greys))
		for i, b := range x.greys {
			x.values[i] = float32(b) / 255
		}
	}
	return NewTable([]Column{features, target}, [][]float32{x.values, y.values}, nil)
}

func (a arrayHeader) elements() ElementType {
	if a.byte {
		return Bytes
	}
	return Numbers
}

// indices refuses an array that holds no lists of indices.
func (a arrayHeader) indices(name string) error {
	if !a.whole || len(a.shape) != 2 {
		return fmt.Errorf("%s: lists of indices are whole numbers of shape [examples, length]", name)
	}
	return nil
}

// readSteps reads lists of indices of which each predicts the next.
func readSteps(tree fs.FS, name string, indices int) (*Table, error) {
	x, err := readArray(tree, name, false)
	if err != nil {
		return nil, err
	}
	if err := x.indices(name); err != nil {
		return nil, err
	}
	length := x.shape[1]
	if length < 2 {
		return nil, fmt.Errorf("%s has examples of %d index; at least two are needed for one to predict the next", name, length)
	}
	size := x.shape[0] * (length - 1)
	features, labels := make([]float32, 0, size), make([]float32, 0, size)
	for all := x.values; len(all) > 0; all = all[length:] {
		features = append(features, all[:length-1]...)
		labels = append(labels, all[1:length]...)
	}
	steps := tokenizer{length: length - 1, count: indices, next: true}
	return NewTable(steps.columns(Column{}), [][]float32{features, labels}, nil)
}

// arrayContent is an array with its numbers or, if it holds bytes and these may stay, with
// the bytes instead.
type arrayContent struct {
	arrayHeader
	values []float32
	greys  []byte
}

func readArray(tree fs.FS, name string, stay bool) (a arrayContent, err error) {
	f, err := openFile(tree, name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("there is no such array")
		}
		return a, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	if a.arrayHeader, err = readHeader(f); err == nil {
		if a.byte && stay {
			a.greys, err = readExactly(f, a.total())
		} else {
			a.values, err = a.numbers(f)
		}
	}
	if err != nil {
		return a, fmt.Errorf("%s %w", name, err)
	}
	return a, nil
}
