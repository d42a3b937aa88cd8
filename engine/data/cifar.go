package data

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/dptrain/dptrain/internal/setting"
)

// cifar is one of the two sets of Krizhevsky (2009): a file of its binary version has, for each
// picture, the labels in a byte each and three planes of pixels.
type cifar struct {
	name, title     string
	folders         []string // in which the files are searched
	train           []string
	test            string
	labels          int // bytes of labels of a picture; the last is its class
	classNames      []string
	classFile       string // names of the classes, a line each, where classNames are not known
	classes         int
	standardization []Standardization
}

const (
	cifarSide     = 32
	cifarPixels   = 3 * cifarSide * cifarSide
	cifarPictures = 50000 // for training
)

var (
	cifarClasses = []string{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}

	// The means and deviations of the channels that are in common use. They are published, so they
	// are public.
	cifarStandardization    = []Standardization{{0.4914, 0.2470}, {0.4822, 0.2435}, {0.4465, 0.2616}}
	cifar100Standardization = []Standardization{{0.5071, 0.2675}, {0.4867, 0.2565}, {0.4408, 0.2761}}

	cifar10 = cifar{
		name: "cifar10", title: "CIFAR-10", folders: []string{".", "cifar-10-batches-bin", "cifar10"}, test: "test_batch.bin",
		train:  []string{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
		labels: 1, classes: 10, classNames: cifarClasses, standardization: cifarStandardization,
	}
	cifar100 = cifar{
		name: "cifar100", title: "CIFAR-100", folders: []string{".", "cifar-100-binary", "cifar100"}, train: []string{"train.bin"}, test: "test.bin",
		labels: 2, classes: 100, classFile: "fine_label_names.txt", standardization: cifar100Standardization,
	}
)

// open reads the binary version, or pictures in the folders train/CLASS and test/CLASS.
func (c cifar) open(tree fs.FS, o Options) (*Task, error) {
	if !o.Standardize {
		c.standardization = nil
	}
	for _, folder := range c.folders {
		if _, err := fs.Stat(tree, path.Join(folder, c.train[0])); err == nil {
			return c.readBinary(tree, folder, o)
		}
		if info, err := fs.Stat(tree, path.Join(folder, "train")); err == nil && info.IsDir() {
			plain := Options{Image: ImageShape{3, cifarSide, cifarSide}, OnBadRow: o.OnBadRow}
			task, err := openFolders(tree, folder, o.Dir, plain, c.standardization)
			if err == nil && task.Classes != c.classes {
				err = fmt.Errorf("%s has %d class folders; %s has %d classes", o.Dir, task.Classes, c.title, c.classes)
			}
			return task, err
		}
	}
	return nil, setting.Errorf("Options.Dir", "%s has neither %s (searched it, %s and %s) nor folders train/CLASS of pictures; unpack the binary version of %s and name its folder with %v",
		o.Dir, c.train[0], c.folders[1], c.folders[2], c.title, setting.Named("Options.Dir"))
}

func (c cifar) readBinary(tree fs.FS, folder string, o Options) (*Task, error) {
	private, err := o.privatePolicy()
	if err != nil {
		return nil, err
	}
	read := func(policy rowPolicy, expected int, names ...string) (Set, error) {
		var pixels []byte
		var labels []int32
		for _, name := range names {
			f, err := openFile(tree, path.Join(folder, name))
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", o.Dir, name, err)
			}
			pixels, labels, err = c.readPictures(f, pixels, labels, expected, policy)
			f.Close()
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", o.Dir, name, err)
			}
		}
		return policy.newPictures(ImageShape{3, cifarSide, cifarSide}, pixels, labels, c.classes, c.standardization)
	}
	task := &Task{Classes: c.classes, ClassNames: c.classNames, Private: true}
	if task.Train, err = read(private, cifarPictures, c.train...); err != nil {
		return nil, err
	}
	if task.Test, err = read(rowPolicy{}, cifarPictures/5, c.test); err != nil {
		return nil, err
	}
	if c.classFile != "" {
		if task.ClassNames, err = c.readClassNames(tree, folder); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", o.Dir, c.classFile, err)
		}
	}
	return task, nil
}

// readClassNames reads the published file of names, which is public.
func (c cifar) readClassNames(tree fs.FS, folder string) (names []string, err error) {
	f, err := openFile(tree, path.Join(folder, c.classFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() && len(names) <= c.classes {
		if name := strings.TrimSpace(lines.Text()); name != "" {
			names = append(names, name)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(names) != c.classes {
		return nil, fmt.Errorf("the file must have the name of a class in each of %d lines; unpack the published archive again", c.classes)
	}
	return names, nil
}

// readPictures appends a file's pictures and labels. Expected is the usual number of pictures in all
// files of the part; it determines the capacity.
func (c cifar) readPictures(r io.Reader, pixels []byte, labels []int32, expected int, policy rowPolicy) ([]byte, []int32, error) {
	picture := make([]byte, c.labels+cifarPixels)
	for first := len(labels); ; {
		_, err := io.ReadFull(r, picture)
		if err == io.EOF && len(labels) > first {
			return pixels, labels, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("the file ends in picture %d; a picture has %d bytes: %w", len(labels)-first, len(picture), unexpectedEOF(err))
		}
		label := int32(picture[c.labels-1])
		if int(label) >= c.classes {
			if err := policy.resolve(fmt.Errorf("picture %d: the label is not between 0 and %d", len(labels)-first, c.classes-1)); err != nil {
				return nil, nil, err
			}
		}
		if cap(pixels)-len(pixels) < cifarPixels && len(labels) < expected {
			if pixels, err = grow(pixels, expected*cifarPixels); err != nil {
				return nil, nil, err
			}
		}
		labels = append(labels, label)
		pixels = append(pixels, picture[c.labels:]...)
	}
}
