package data

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	_ "image/jpeg" // the formats that folders of pictures are read in
	_ "image/png"
	"io"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/dptrain/dptrain/internal/memory"
)

// maxSide limits a picture's height and width.
const maxSide = 1 << 14

// pictureFile is one picture of a tree and its class.
type pictureFile struct {
	name  string
	class int32
}

// openFolders reads pictures from folders train/CLASS and test/CLASS, or only from folders
// CLASS, which are then all for training. The names of the folders count as public. They
// are the names of the classes, in alphabetical order.
func openFolders(tree fs.FS, root, where string, standardization []Standardization) (*Task, error) {
	top, err := subfolders(tree, root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
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
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if len(classes) < 2 {
		return nil, fmt.Errorf("%s has %d folders; there must be one folder of pictures for each class, and at least two classes", path.Join(where, trainRoot), len(classes))
	}
	task := &Task{Classes: len(classes), ClassNames: classes, Private: true}
	files, err := listPictures(tree, trainRoot, classes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	shape, err := readPictureShape(tree, files[0].name)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", where, files[0].name, err)
	}
	if task.Train, err = decodePictures(tree, files, shape, len(classes), standardization); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if testRoot == "" {
		return task, nil
	}
	if files, err = listPictures(tree, testRoot, classes); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if task.Test, err = decodePictures(tree, files, shape, len(classes), standardization); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return task, nil
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

// listPictures lists the pictures in the class folders of root. It returns an error if
// there are none.
func listPictures(tree fs.FS, root string, classes []string) ([]pictureFile, error) {
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
				return nil, fmt.Errorf("%s is neither a .png nor a .jpg file; other files are not supported", full)
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

// pictureShape is the common shape of all pictures of a set.
type pictureShape struct{ channels, height, width int }

// maxEncoded limits the size of a picture's file, because an archive may announce any
// size.
const maxEncoded = 1 << 28

func readPicture(tree fs.FS, name string) ([]byte, error) {
	f, err := tree.Open(name)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	encoded, err := io.ReadAll(io.LimitReader(f, maxEncoded+1))
	if err == nil && len(encoded) > maxEncoded {
		err = fmt.Errorf("the file is longer than %d bytes", maxEncoded)
	}
	return encoded, withoutPath(err)
}

// readPictureShape returns the shape of the picture in a file.
func readPictureShape(tree fs.FS, name string) (pictureShape, error) {
	encoded, err := readPicture(tree, name)
	if err != nil {
		return pictureShape{}, err
	}
	return shapeOf(encoded)
}

// shapeOf returns the shape of an encoded picture. It has one channel if it is grayscale,
// and three otherwise.
func shapeOf(encoded []byte) (pictureShape, error) {
	c, format, err := image.DecodeConfig(bytes.NewReader(encoded))
	if err != nil {
		return pictureShape{}, err
	}
	if format != "png" && format != "jpeg" { // the program may have registered other formats
		return pictureShape{}, fmt.Errorf("the picture is a %s file with a wrong extension; only .png and .jpg are supported", format)
	}
	if c.Width < 1 || c.Height < 1 || c.Width > maxSide || c.Height > maxSide {
		return pictureShape{}, fmt.Errorf("the picture has an unsupported size; a side must have from 1 to %d pixels", maxSide)
	}
	shape := pictureShape{3, c.Height, c.Width}
	if c.ColorModel == color.GrayModel || c.ColorModel == color.Gray16Model {
		shape.channels = 1
	}
	return shape, nil
}

// decodePictures reads the files on all processors. In a set of color pictures, grayscale
// pictures become color pictures. A color picture in a set of grayscale pictures or a
// picture of a different size is an error.
func decodePictures(tree fs.FS, files []pictureFile, shape pictureShape, classes int, standardization []Standardization) (*Pictures, error) {
	pixels, err := decodePixels(tree, files, shape)
	if err != nil {
		return nil, err
	}
	labels := make([]int32, len(files))
	for i, f := range files {
		labels[i] = f.class
	}
	return NewPictures(shape.channels, shape.height, shape.width, pixels, labels, classes, standardization)
}

func decodePixels(tree fs.FS, files []pictureFile, shape pictureShape) ([]byte, error) {
	size := shape.channels * shape.height * shape.width
	if room := memory.Available(); len(files) > maxBytes/size || !room.Fits(int64(len(files)*size)) {
		return nil, fmt.Errorf("%d pictures of %d×%d pixels do not fit in memory; make them smaller", len(files), shape.width, shape.height)
	}
	pixels := make([]byte, len(files)*size)
	workers := min(runtime.GOMAXPROCS(0), len(files))
	failed := make([]error, workers)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			decoder := newPictureDecoder(shape)
			for i := w * len(files) / workers; i < (w+1)*len(files)/workers; i++ {
				encoded, err := readPicture(tree, files[i].name)
				if err == nil {
					err = decoder.decode(encoded, pixels[i*size:(i+1)*size])
				}
				if err != nil {
					failed[w] = fmt.Errorf("%s: %w", files[i].name, err)
					return
				}
			}
		})
	}
	wait.Wait()
	for _, err := range failed {
		if err != nil {
			return nil, err
		}
	}
	return pixels, nil
}

// pictureDecoder converts encoded pictures to consecutive planes of bytes.
type pictureDecoder struct {
	shape  pictureShape
	canvas draw.Image
}

func newPictureDecoder(shape pictureShape) *pictureDecoder {
	area := image.Rect(0, 0, shape.width, shape.height)
	if shape.channels == 1 {
		return &pictureDecoder{shape, image.NewGray(area)}
	}
	return &pictureDecoder{shape, image.NewRGBA(area)}
}

func (d *pictureDecoder) decode(encoded, pixels []byte) error {
	shape, err := shapeOf(encoded)
	if err != nil {
		return err
	}
	if shape.height != d.shape.height || shape.width != d.shape.width {
		return fmt.Errorf("the picture has a different size from the first picture's %d×%d pixels; all pictures must have the same size", d.shape.width, d.shape.height)
	}
	if shape.channels > d.shape.channels {
		return errors.New("the picture has color and the first picture is grayscale; make all pictures grayscale or all color")
	}
	picture, _, err := image.Decode(bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	draw.Draw(d.canvas, d.canvas.Bounds(), picture, picture.Bounds().Min, draw.Src)
	switch canvas := d.canvas.(type) {
	case *image.Gray:
		copy(pixels, canvas.Pix)
	case *image.RGBA:
		plane := shape.height * shape.width
		for i := range plane {
			pixels[i], pixels[plane+i], pixels[2*plane+i] = canvas.Pix[4*i], canvas.Pix[4*i+1], canvas.Pix[4*i+2]
		}
	}
	return nil
}
