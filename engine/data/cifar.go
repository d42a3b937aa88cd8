package data

import (
	"fmt"
	"io"
	"io/fs"
	"path"
)

var cifarClasses = []string{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}

// cifarTones are the channels' means and deviations in common use for CIFAR-10;
// being published, they are public.
var cifarTones = []Standardization{{0.4914, 0.2470}, {0.4822, 0.2435}, {0.4465, 0.2616}}

const (
	cifarSide   = 32
	cifarRecord = 1 + 3*cifarSide*cifarSide // a label and three planes
	cifarFile   = 10000                     // records of a published file
)

// openCIFAR reads CIFAR-10 (Krizhevsky 2009): its binary version, or its
// pictures in folders train/CLASS and test/CLASS.
func openCIFAR(tree fs.FS, o Options) (*Task, error) {
	var tones []Standardization
	if o.Standardize {
		tones = publishedStandardization("cifar10")
	}
	for _, folder := range []string{".", "cifar-10-batches-bin", "cifar10"} {
		if _, err := fs.Stat(tree, path.Join(folder, "data_batch_1.bin")); err == nil {
			return readCIFAR(tree, folder, o.Dir, tones)
		}
		if info, err := fs.Stat(tree, path.Join(folder, "train")); err == nil && info.IsDir() {
			task, err := openFolders(tree, folder, o.Dir, tones)
			if err == nil && task.Classes != len(cifarClasses) {
				err = fmt.Errorf("%s: %d classes; CIFAR-10 has %d", o.Dir, task.Classes, len(cifarClasses))
			}
			return task, err
		}
	}
	return nil, fmt.Errorf("%s has neither data_batch_1.bin (looked in it, cifar-10-batches-bin and cifar10) nor train/CLASS folders of pictures; unpack the binary version of CIFAR-10 and name its folder with --data-dir", o.Dir)
}

func readCIFAR(tree fs.FS, folder, where string, tones []Standardization) (*Task, error) {
	read := func(names ...string) (*Pictures, error) {
		var pixels []byte
		var labels []int32
		for _, name := range names {
			f, err := openFile(tree, path.Join(folder, name))
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", where, name, err)
			}
			pixels, labels, err = readCIFARBatch(f, pixels, labels, len(names)*cifarFile)
			f.Close()
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", where, name, err)
			}
		}
		return NewPictures(3, cifarSide, cifarSide, pixels, labels, len(cifarClasses), tones)
	}
	train, err := read("data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin")
	if err != nil {
		return nil, err
	}
	test, err := read("test_batch.bin")
	if err != nil {
		return nil, err
	}
	return &Task{Train: train, Test: test, Classes: len(cifarClasses), ClassNames: cifarClasses, Private: true}, nil
}

// readCIFARBatch appends a file's pictures and labels. The files of a set are expected
// to have so many pictures in all.
func readCIFARBatch(r io.Reader, pixels []byte, labels []int32, expected int) ([]byte, []int32, error) {
	var record [cifarRecord]byte
	const size = cifarRecord - 1
	for first := len(labels); ; {
		_, err := io.ReadFull(r, record[:])
		if err == io.EOF && len(labels) > first {
			return pixels, labels, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("ends within picture %d; a picture has %d bytes: %w", len(labels)-first, cifarRecord, unexpectedEOF(err))
		}
		if int(record[0]) >= len(cifarClasses) {
			return nil, nil, fmt.Errorf("picture %d: the label is not from 0 to %d", len(labels)-first, len(cifarClasses)-1)
		}
		if cap(pixels)-len(pixels) < size && len(labels) < expected {
			if pixels, err = grow(pixels, expected*size); err != nil {
				return nil, nil, err
			}
		}
		labels = append(labels, int32(record[0]))
		pixels = append(pixels, record[1:]...)
	}
}
