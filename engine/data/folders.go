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

// maxSide bounds a picture's height and width.
const maxSide = 1 << 14

// pictureFile is one picture of a tree and its class.
type pictureFile struct {
	name  string
	class int32
}

// openFolders reads pictures from folders train/CLASS and test/CLASS, or from
// CLASS folders alone, which are then all for training. The names of the folders
// are taken as public: they are the classes, in the order of the alphabet.
func openFolders(tree fs.FS, root, where string, tones []Standardization) (*Task, error) {
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
		return nil, fmt.Errorf("%s has %d folders; pictures need one folder a class, and at least two", path.Join(where, trainRoot), len(classes))
	}
	task := &Task{Classes: len(classes), ClassNames: classes, Private: true}
	files, err := listPictures(tree, trainRoot, classes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	shape, err := frameOf(tree, files[0].name)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", where, files[0].name, err)
	}
	if task.Train, err = decodePictures(tree, files, shape, len(classes), tones); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if testRoot == "" {
		return task, nil
	}
	if files, err = listPictures(tree, testRoot, classes); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if task.Test, err = decodePictures(tree, files, shape, len(classes), tones); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return task, nil
}

// subfolders also follows links.
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

// isHidden also covers what macOS adds to archives.
func isHidden(name string) bool { return strings.HasPrefix(name, ".") || name == "__MACOSX" }

// listPictures lists the pictures in a root's class folders, at least one.
func listPictures(tree fs.FS, root string, classes []string) ([]pictureFile, error) {
	folders, err := subfolders(tree, root)
	if err != nil {
		return nil, err
	}
	var files []pictureFile
	for _, folder := range folders {
		class := slices.Index(classes, folder)
		if class < 0 {
			return nil, fmt.Errorf("%s holds a class %q that the training pictures do not have", root, folder)
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
			if !pictureName(e.Name()) {
				return nil, fmt.Errorf("%s is neither .png nor .jpg; only those pictures are read", full)
			}
			files = append(files, pictureFile{full, int32(class)})
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no pictures in its class folders", root)
	}
	return files, nil
}

// pictureName reports whether a file is a picture by its name.
func pictureName(name string) bool {
	return slices.Contains([]string{".png", ".jpg", ".jpeg"}, strings.ToLower(path.Ext(name)))
}

// pictureShape is the shape that all pictures of a set have.
type pictureShape struct{ channels, height, width int }

// maxEncoded bounds a picture's file, whatever size an archive claims for it.
const maxEncoded = 1 << 28

func readPicture(tree fs.FS, name string) ([]byte, error) {
	f, err := tree.Open(name)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	encoded, err := io.ReadAll(io.LimitReader(f, maxEncoded+1))
	if err == nil && len(encoded) > maxEncoded {
		err = fmt.Errorf("is longer than %d bytes", maxEncoded)
	}
	return encoded, withoutPath(err)
}

// frameOf is the shape of the picture in a file.
func frameOf(tree fs.FS, name string) (pictureShape, error) {
	encoded, err := readPicture(tree, name)
	if err != nil {
		return pictureShape{}, err
	}
	return shapeOf(encoded)
}

// shapeOf tells the shape of an encoded picture: one channel if it is grey, else
// three.
func shapeOf(encoded []byte) (pictureShape, error) {
	c, format, err := image.DecodeConfig(bytes.NewReader(encoded))
	if err != nil {
		return pictureShape{}, err
	}
	if format != "png" && format != "jpeg" { // a program may have others registered
		return pictureShape{}, fmt.Errorf("is a %s picture by another name; only .png and .jpg are read", format)
	}
	if c.Width < 1 || c.Height < 1 || c.Width > maxSide || c.Height > maxSide {
		return pictureShape{}, fmt.Errorf("has not a size that can be read; a side has from 1 to %d pixels", maxSide)
	}
	shape := pictureShape{3, c.Height, c.Width}
	if c.ColorModel == color.GrayModel || c.ColorModel == color.Gray16Model {
		shape.channels = 1
	}
	return shape, nil
}

// decodePictures reads the files on all processors. Grey pictures among coloured
// ones become coloured; the reverse is an error, as is another size.
func decodePictures(tree fs.FS, files []pictureFile, shape pictureShape, classes int, tones []Standardization) (*Pictures, error) {
	pixels, err := decodePixels(tree, files, shape)
	if err != nil {
		return nil, err
	}
	labels := make([]int32, len(files))
	for i, f := range files {
		labels[i] = f.class
	}
	return NewPictures(shape.channels, shape.height, shape.width, pixels, labels, classes, tones)
}

func decodePixels(tree fs.FS, files []pictureFile, shape pictureShape) ([]byte, error) {
	size := shape.channels * shape.height * shape.width
	if room := memory.Available(); len(files) > maxBytes/size || !room.Fits(int64(len(files)*size)) {
		return nil, fmt.Errorf("%d pictures of %d×%d pixels are too many to hold in memory; make them smaller", len(files), shape.width, shape.height)
	}
	pixels := make([]byte, len(files)*size)
	workers := min(runtime.GOMAXPROCS(0), len(files))
	failed := make([]error, workers)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			room := newDarkroom(shape)
			for i := w * len(files) / workers; i < (w+1)*len(files)/workers; i++ {
				encoded, err := readPicture(tree, files[i].name)
				if err == nil {
					err = room.decode(encoded, pixels[i*size:(i+1)*size])
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

// pictureDecoder turns encoded pictures into planes of bytes, one after the other.
type pictureDecoder struct {
	shape pictureShape
	sheet draw.Image
}

func newDarkroom(shape pictureShape) *pictureDecoder {
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
		return fmt.Errorf("has another size than the first picture's %d×%d pixels; all pictures need one size", d.shape.width, d.shape.height)
	}
	if shape.channels > d.shape.channels {
		return errors.New("is coloured, the first picture grey; make all pictures one or the other")
	}
	picture, _, err := image.Decode(bytes.NewReader(encoded))
	if err != nil {
		return err
	}
	draw.Draw(d.sheet, d.sheet.Bounds(), picture, picture.Bounds().Min, draw.Src)
	switch sheet := d.sheet.(type) {
	case *image.Gray:
		copy(pixels, sheet.Pix)
	case *image.RGBA:
		plane := shape.height * shape.width
		for i := range plane {
			pixels[i], pixels[plane+i], pixels[2*plane+i] = sheet.Pix[4*i], sheet.Pix[4*i+1], sheet.Pix[4*i+2]
		}
	}
	return nil
}
