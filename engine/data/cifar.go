package data

import (
	"fmt"
	"github.com/dptrain/dptrain/internal/setting"
	"io"
	"io/fs"
	"path"
)

var cifarClasses = []string{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"}

// cifarStandardization has the means and deviations of the channels that are in
// common use for CIFAR-10. They are published, so they are public.
var cifarStandardization = []Standardization{{0.4914, 0.2470}, {0.4822, 0.2435}, {0.4465, 0.2616}}

const (
	cifarSide         = 32
	cifarPictureBytes = 1 + 3*cifarSide*cifarSide // bytes: a label and three planes
	cifarFile         = 10000                     // pictures in a published file
)

// openCIFAR reads CIFAR-10 (Krizhevsky 2009), either its binary version or pictures in
// the folders train/CLASS and test/CLASS.
func openCIFAR(tree fs.FS, o Options) (*Task, error) {
	var standardization []Standardization
	if o.Standardize {
		standardization = PublishedStandardization("cifar10")
	}
	for _, folder := range []string{".", "cifar-10-batches-bin", "cifar10"} {
		if _, err := fs.Stat(tree, path.Join(folder, "data_batch_1.bin")); err == nil {
			return readCIFAR(tree, folder, o, standardization)
		}
		if info, err := fs.Stat(tree, path.Join(folder, "train")); err == nil && info.IsDir() {
			task, err := openFolders(tree, folder, o.Dir, ImageShape{3, cifarSide, cifarSide}, o.OnBadRow, standardization)
			if err == nil && task.Classes != len(cifarClasses) {
				err = fmt.Errorf("%s has %d class folders; CIFAR-10 has %d classes", o.Dir, task.Classes, len(cifarClasses))
			}
			return task, err
		}
	}
	return nil, setting.Errorf("Options.Dir", "%s has neither data_batch_1.bin (searched it, cifar-10-batches-bin and cifar10) nor folders train/CLASS of pictures; unpack the binary version of CIFAR-10 and name its folder with %v", o.Dir, setting.Named("Options.Dir"))
}

func readCIFAR(tree fs.FS, folder string, o Options, standardization []Standardization) (*Task, error) {
	where := o.Dir
	private, err := o.OnBadRow.rowPolicy()
	if err != nil {
		return nil, err
	}
	read := func(policy rowPolicy, names ...string) (Set, error) {
		var pixels []byte
		var labels []int32
		for _, name := range names {
			f, err := openFile(tree, path.Join(folder, name))
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", where, name, err)
			}
			pixels, labels, err = readCIFARBatch(f, pixels, labels, len(names)*cifarFile, policy)
			f.Close()
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", where, name, err)
			}
		}
		return policy.newPictures(ImageShape{3, cifarSide, cifarSide}, pixels, labels, len(cifarClasses), standardization)
	}
	train, err := read(private, "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin")
	if err != nil {
		return nil, err
	}
	test, err := read(rowPolicy{}, "test_batch.bin")
	if err != nil {
		return nil, err
	}
	return &Task{Train: train, Test: test, Classes: len(cifarClasses), ClassNames: cifarClasses, Private: true}, nil
}

// readCIFARBatch appends a file's pictures and labels. Expected is the usual number of
// pictures in all files of the set; it determines the capacity.
func readCIFARBatch(r io.Reader, pixels []byte, labels []int32, expected int, policy rowPolicy) ([]byte, []int32, error) {
	var picture [cifarPictureBytes]byte
	const size = cifarPictureBytes - 1
	for first := len(labels); ; {
		_, err := io.ReadFull(r, picture[:])
		if err == io.EOF && len(labels) > first {
			return pixels, labels, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("the file ends in picture %d; a picture has %d bytes: %w", len(labels)-first, cifarPictureBytes, unexpectedEOF(err))
		}
		if int(picture[0]) >= len(cifarClasses) {
			if err := policy.resolve(fmt.Errorf("picture %d: the label is not between 0 and %d", len(labels)-first, len(cifarClasses)-1)); err != nil {
				return nil, nil, err
			}
		}
		if cap(pixels)-len(pixels) < size && len(labels) < expected {
			if pixels, err = grow(pixels, expected*size); err != nil {
				return nil, nil, err
			}
		}
		labels = append(labels, int32(picture[0]))
		pixels = append(pixels, picture[1:]...)
	}
}
