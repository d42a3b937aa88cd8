package data

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/dptrain/dptrain/internal/host/memory"
	"github.com/dptrain/dptrain/internal/setting"
)

// pictureFile is one picture of a tree and its class.
type pictureFile struct {
	name  string
	class int32
}

// openFolders reads pictures from folders train/CLASS and test/CLASS, or only from folders
// CLASS, which are then all for training. The names of the folders count as public. They
// are the names of the classes, in alphabetical order.
//
// The shape of the pictures is public: Options.Image, Options.TrainedImage, or that of the test pictures.
func openFolders(tree fs.FS, root, where string, o Options, standardization []Standardization) (*Task, error) {
	task, err := readFolders(tree, root, where, o, standardization)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return task, nil
}

func readFolders(tree fs.FS, root, where string, o Options, standardization []Standardization) (*Task, error) {
	private, err := o.OnBadRow.rowPolicy()
	if err != nil {
		return nil, err
	}
	top, err := subfolders(tree, root)
	if err != nil {
		return nil, err
	}
	trainRoot, testRoot := root, ""
	if slices.Contains(top, "train") {
		trainRoot = path.Join(root, "train")
		if slices.Contains(top, "test") {
			testRoot = path.Join(root, "test")
		}
	}
	classes, err := subfolders(tree, trainRoot)
	if err != nil {
		return nil, err
	}
	if len(classes) < 2 {
		return nil, fmt.Errorf("%s has %d folders; there must be one folder of pictures for each class, and at least two classes", path.Join(where, trainRoot), len(classes))
	}
	var trainFiles, testFiles []pictureFile
	if trainFiles, err = listPictures(tree, trainRoot, classes, private); err != nil {
		return nil, err
	}
	if testRoot != "" {
		if testFiles, err = listPictures(tree, testRoot, classes, rowPolicy{}); err != nil {
			return nil, err
		}
	}
	equalTests, shape := false, cmp.Or(o.Image, o.TrainedImage)
	switch {
	case shape != ImageShape{}:
		if o.Resampling != nil {
			if err := o.Resampling.Check(shape); err != nil {
				return nil, err
			}
		}
	case testRoot == "":
		return nil, setting.Errorf("Options.Image", "the shape of the pictures is not given; write %v, such as %v, or add test pictures in test/CLASS; the shape determines the network, so it is not taken from private pictures",
			setting.With("Options.Image", "CxHxW"), setting.With("Options.Image", "3x32x32"))
	default:
		if shape, _, err = readImageShape(tree, testFiles[0].name); err != nil {
			return nil, fmt.Errorf("%s: %w", testFiles[0].name, err)
		}
		equalTests = true
	}
	task := &Task{Classes: len(classes), ClassNames: classes, Private: true, Resampling: o.Resampling}
	if task.Train, err = decodePictures(tree, trainFiles, newPictureDecoder(shape, o.Resampling), private,
		len(classes), standardization); err != nil || testRoot == "" {
		return task, err
	}
	decoder := newPictureDecoder(shape, o.Resampling)
	decoder.exact = equalTests
	task.Test, err = decodePictures(tree, testFiles, decoder, rowPolicy{}, len(classes), standardization)
	return task, err
}

// subfolders lists the folders in a folder. It follows symbolic links.
func subfolders(tree fs.FS, name string) ([]string, error) {
	entries, err := fs.ReadDir(tree, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, withoutPath(err))
	}
	var folders []string
	for _, e := range entries {
		if isHidden(e.Name()) {
			continue
		}
		info, err := fs.Stat(tree, path.Join(name, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path.Join(name, e.Name()), withoutPath(err))
		}
		if info.IsDir() {
			folders = append(folders, e.Name())
		}
	}
	return folders, nil
}

// isHidden also reports the files that macOS adds to archives.
func isHidden(name string) bool { return strings.HasPrefix(name, ".") || name == "__MACOSX" }

// listPictures lists the files in the class folders of root. It returns an error if there are
// none. A file that is not a picture is a bad row.
func listPictures(tree fs.FS, root string, classes []string, policy rowPolicy) ([]pictureFile, error) {
	folders, err := subfolders(tree, root)
	if err != nil {
		return nil, err
	}
	var files []pictureFile
	for _, folder := range folders {
		class := slices.Index(classes, folder)
		if class < 0 {
			return nil, fmt.Errorf("%s has the class folder %q, which the training pictures do not have", root, folder)
		}
		entries, err := fs.ReadDir(tree, path.Join(root, folder))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", folder, withoutPath(err))
		}
		for _, e := range entries {
			if isHidden(e.Name()) {
				continue
			}
			full := path.Join(root, folder, e.Name())
			if !isPictureName(e.Name()) {
				if err := policy.resolve(fmt.Errorf("%s is neither a .png nor a .jpg file; other files are not supported", full)); err != nil {
					return nil, err
				}
			}
			files = append(files, pictureFile{full, int32(class)})
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no pictures in its class folders", root)
	}
	return files, nil
}

// isPictureName reports whether a file's extension is that of a picture.
func isPictureName(name string) bool {
	return slices.Contains([]string{".png", ".jpg", ".jpeg"}, strings.ToLower(path.Ext(name)))
}

// decodePictures reads the files on all processors.
func decodePictures(tree fs.FS, files []pictureFile, decoder *pictureDecoder, policy rowPolicy,
	classes int, standardization []Standardization) (Set, error) {
	pixels, blank, err := decodePixels(tree, files, decoder, policy)
	if err != nil {
		return nil, err
	}
	labels := make([]int32, len(files))
	for i, f := range files {
		labels[i] = f.class
	}
	shape := decoder.shape
	p, err := NewPictures(shape.Channels, shape.Height, shape.Width, pixels, labels, classes, standardization)
	if err != nil {
		return nil, err
	}
	return withBlank(p, blank), nil
}

// decodePixels returns the concatenated pictures, and which of them are blank.
func decodePixels(tree fs.FS, files []pictureFile, decoder *pictureDecoder, policy rowPolicy) (pixels []byte, blank []bool, err error) {
	shape := decoder.shape
	size := shape.size()
	if room := memory.AtStart(); len(files) > maxBytes/size || !room.Fits(int64(len(files)*size)) {
		return nil, nil, fmt.Errorf("%d pictures of %d×%d pixels do not fit in memory; make them smaller", len(files), shape.Width, shape.Height)
	}
	pixels, blank = make([]byte, len(files)*size), make([]bool, len(files))
	workers := min(runtime.GOMAXPROCS(0), len(files))
	failed := make([]error, workers)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			own := decoder.clone()
			for i := w * len(files) / workers; i < (w+1)*len(files)/workers; i++ {
				err := own.decodeFile(tree, files[i].name, pixels[i*size:(i+1)*size])
				if err == nil {
					continue
				}
				if failed[w] = policy.resolve(fmt.Errorf("%s: %w", files[i].name, err)); failed[w] != nil {
					return
				}
				blank[i] = true
			}
		})
	}
	wait.Wait()
	for _, err := range failed {
		if err != nil {
			return nil, nil, err
		}
	}
	return pixels, blank, nil
}
