package data

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	_ "image/jpeg" // the formats that folders of pictures are read in
	_ "image/png"
	"io"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/dptrain/dptrain/internal/setting"
)

// ImageShape is the shape that all pictures of a set are converted to. It determines the network,
// so it must be public: the shape of a private picture would reveal that picture.
type ImageShape struct{ Channels, Height, Width int }

// ParseImageShape parses CxHxW, such as 3x32x32.
func ParseImageShape(text string) (ImageShape, error) {
	var sides [3]int
	parts := strings.Split(text, "x")
	for i := 0; i < len(parts) && i < len(sides); i++ {
		sides[i], _ = strconv.Atoi(strings.TrimSpace(parts[i])) // 0 is not valid
	}
	shape := ImageShape{sides[0], sides[1], sides[2]}
	if len(parts) != len(sides) || !shape.valid() {
		return ImageShape{}, fmt.Errorf("image shape %q: write CxHxW with 1 channel (gray) or 3 (color) and a height and a width from 1 to %d, such as 3x32x32", text, maxSide)
	}
	return shape, nil
}

// ImageShapeOf converts the shape of examples. It returns the zero value if these are not pictures.
func ImageShapeOf(example []int) ImageShape {
	if len(example) == 3 {
		if shape := (ImageShape{example[0], example[1], example[2]}); shape.valid() {
			return shape
		}
	}
	return ImageShape{}
}

func (s ImageShape) valid() bool {
	isSide := func(n int) bool { return n >= 1 && n <= maxSide }
	return (s.Channels == 1 || s.Channels == 3) && isSide(s.Height) && isSide(s.Width)
}

func (s ImageShape) String() string { return fmt.Sprintf("%dx%dx%d", s.Channels, s.Height, s.Width) }

// size is the number of bytes of a picture.
func (s ImageShape) size() int { return s.Channels * s.Height * s.Width }

// The limits of a private picture are constants, so that none decides how much memory and time its
// decoding takes. Files are read as they are decoded, and large pictures one at a time.
const (
	// maxSide limits a picture's height and width.
	maxSide = 1 << 14
	// maxPixels limits a picture, and maxProgressive a progressive JPEG, for which a decoder keeps
	// 4 bytes for each component of each pixel in addition.
	maxPixels      = 1 << 26
	maxProgressive = 1 << 24
	// largePixels is the size from which pictures are decoded one at a time.
	largePixels = 1 << 22
	// maxMetadata limits the bytes of a file that are not pixels, and maxPixelBytes those of a pixel.
	maxMetadata   = 16 << 20
	maxPixelBytes = 8
	// maxScans limits the passes of a JPEG over its pixels: a few bytes can make a decoder visit all.
	maxScans = 128
)

// readPicture calls decode with the content of a file, up to a number of bytes.
func readPicture(tree fs.FS, name string, limit int64, decode func(r *bufio.Reader) error) error {
	f, err := tree.Open(name)
	if err != nil {
		return withoutPath(err)
	}
	defer f.Close()
	if err := decode(bufio.NewReader(io.LimitReader(f, limit))); err != nil {
		return withoutPath(err)
	}
	return nil
}

// readImageShape returns the shape and the format of the picture in a file. It has one channel if it
// is grayscale, and three otherwise.
func readImageShape(tree fs.FS, name string) (shape ImageShape, format string, err error) {
	err = readPicture(tree, name, maxMetadata, func(r *bufio.Reader) error {
		c, found, err := image.DecodeConfig(r)
		if err != nil {
			return err
		}
		if found != "png" && found != "jpeg" { // the program may have registered other formats
			return fmt.Errorf("the picture is a %s file with a wrong extension; only .png and .jpg are supported", found)
		}
		shape, format = ImageShape{3, c.Height, c.Width}, found
		if c.ColorModel == color.GrayModel || c.ColorModel == color.Gray16Model {
			shape.Channels = 1
		}
		if !shape.valid() || c.Width > maxPixels/c.Height {
			return fmt.Errorf("the picture has an unsupported size; a side must have from 1 to %d pixels, and the picture at most %d", maxSide, maxPixels)
		}
		return nil
	})
	return shape, format, err
}

// checkScans returns an error if a JPEG file takes more memory or time than the limits allow. It
// follows the markers as decoders do (ITU-T T.81, annex B).
func checkScans(r *bufio.Reader, pixels int) error {
	scans := 0
	for {
		if _, err := r.ReadSlice(0xff); errors.Is(err, bufio.ErrBufferFull) {
			continue
		} else if err != nil {
			return nil // the decoder reports a file that ends early
		}
		marker := byte(0xff)
		for marker == 0xff {
			var err error
			if marker, err = r.ReadByte(); err != nil {
				return nil
			}
		}
		switch {
		case marker == 0 || 0xd0 <= marker && marker <= 0xd8: // a byte 0xff of the pixels, a restart, the start
			continue
		case marker == 0xd9: // the end
			return nil
		case marker == 0xda: // a scan
			if scans++; scans > maxScans {
				return fmt.Errorf("the picture has more than %d scans; save it again", maxScans)
			}
		case marker == 0xc2 && pixels > maxProgressive:
			return fmt.Errorf("the picture is a progressive JPEG of more than %d pixels; save it as a baseline JPEG", maxProgressive)
		}
		var length [2]byte
		if _, err := io.ReadFull(r, length[:]); err != nil {
			return nil
		}
		if _, err := r.Discard(max(0, int(binary.BigEndian.Uint16(length[:]))-len(length))); err != nil {
			return nil
		}
	}
}

// pictureDecoder converts encoded pictures to consecutive planes of bytes of one shape. The rule
// is public and reads no other picture:
//
//   - A color picture becomes gray by its luma, 0.299·red + 0.587·green + 0.114·blue (ITU-R
//     BT.601), and a gray picture becomes color by repeating its channel. Transparent parts
//     become black.
//   - A picture of another size is converted by a Resampling. Without one it is cropped to the largest
//     centered rectangle with the proportions of the shape, and each pixel of the result is the mean of
//     the area that it covers.
type pictureDecoder struct {
	shape     ImageShape
	resampler *resampler  // nil: means of areas
	exact     bool        // a picture of another size, or with color where the shape is gray, is an error
	large     *sync.Mutex // held while a large picture is decoded
	gray      *image.Gray // one row of a picture
	color     *image.RGBA // one row of a picture
	row       []float64   // one row of a picture, averaged to the width of the shape, channel by channel
	sums      []float64   // the picture so far
}

func newPictureDecoder(shape ImageShape, by *Resampling) *pictureDecoder {
	d := &pictureDecoder{shape: shape, large: new(sync.Mutex)}
	if by != nil {
		d.resampler = &resampler{Resampling: *by, row: make([]byte, shape.Channels*shape.Width), sums: make([]int32, shape.size())}
	}
	return d
}

// clone returns a decoder for another goroutine.
func (d *pictureDecoder) clone() *pictureDecoder {
	var by *Resampling
	if d.resampler != nil {
		by = &d.resampler.Resampling
	}
	other := newPictureDecoder(d.shape, by)
	other.exact, other.large = d.exact, d.large
	return other
}

// decodeFile decodes the picture in a file. After an error the pixels are unchanged.
func (d *pictureDecoder) decodeFile(tree fs.FS, name string, pixels []byte) error {
	if !isPictureName(name) {
		return errors.New("the file is neither a .png nor a .jpg file")
	}
	shape, format, err := readImageShape(tree, name)
	switch {
	case err != nil:
		return err
	case d.exact && (shape.Height != d.shape.Height || shape.Width != d.shape.Width):
		return setting.Errorf("Options.Image", "the picture has a different size from the first test picture's %d×%d pixels; make all test pictures of one size, or write %v",
			d.shape.Width, d.shape.Height, setting.With("Options.Image", "CxHxW"))
	case d.exact && shape.Channels > d.shape.Channels:
		return setting.Errorf("Options.Image", "the picture has color and the first test picture is grayscale; write %v or %v",
			setting.With("Options.Image", ImageShape{3, d.shape.Height, d.shape.Width}), setting.With("Options.Image", ImageShape{1, d.shape.Height, d.shape.Width}))
	}
	count := shape.Height * shape.Width
	if count > largePixels {
		d.large.Lock()
		defer d.large.Unlock()
	}
	limit := int64(maxMetadata + maxPixelBytes*count)
	if format == "jpeg" {
		if err := readPicture(tree, name, limit, func(r *bufio.Reader) error { return checkScans(r, count) }); err != nil {
			return err
		}
	}
	return readPicture(tree, name, limit, func(r *bufio.Reader) error {
		picture, _, err := image.Decode(r)
		if err != nil {
			return err
		}
		return d.convert(picture, pixels)
	})
}

// convert writes the pixels of a picture in the shape.
func (d *pictureDecoder) convert(picture image.Image, pixels []byte) error {
	area := picture.Bounds()
	if area.Empty() {
		return errors.New("the picture has no pixels")
	}
	d.start(area.Dx())
	if d.resampler != nil && (area.Dx() != d.shape.Width || area.Dy() != d.shape.Height) {
		d.resample(picture, pixels)
		return nil
	}
	width, height := float64(area.Dx()), float64(area.Dy())
	cropWidth := min(width, height*float64(d.shape.Width)/float64(d.shape.Height))
	cropHeight := min(height, width*float64(d.shape.Height)/float64(d.shape.Width))
	columns := centeredAreas(width, cropWidth, d.shape.Width)
	for i, rows := range centeredAreas(height, cropHeight, d.shape.Height) {
		d.addRows(picture, i, rows, columns)
	}
	for i, sum := range d.sums {
		pixels[i] = byte(math.Round(sum))
	}
	return nil
}

// start prepares for a picture of a width.
func (d *pictureDecoder) start(width int) {
	row := image.Rect(0, 0, width, 1)
	switch {
	case d.shape.Channels == 1 && (d.gray == nil || d.gray.Rect != row):
		d.gray = image.NewGray(row)
	case d.shape.Channels == 3 && (d.color == nil || d.color.Rect != row):
		d.color = image.NewRGBA(row)
	}
	if d.sums == nil {
		d.row, d.sums = make([]float64, d.shape.Channels*d.shape.Width), make([]float64, d.shape.size())
	}
	clear(d.sums)
}

// coverage is the part of a line of pixels that one pixel of the result covers: from first to
// last, of which the first and the last count with a share.
type coverage struct {
	first, last           int
	firstShare, lastShare float64
}

// share is the weight of a pixel in the mean.
func (c coverage) share(i int) float64 {
	switch i {
	case c.first:
		return c.firstShare
	case c.last:
		return c.lastShare
	}
	return 1
}

// total is the number of covered pixels.
func (c coverage) total() float64 {
	if c.first == c.last {
		return c.firstShare
	}
	return c.firstShare + c.lastShare + float64(c.last-c.first-1)
}

// centeredAreas divides the crop in the middle of length pixels into equal parts.
func centeredAreas(length, crop float64, parts int) []coverage {
	all := make([]coverage, parts)
	start := (length - crop) / 2
	for i := range all {
		from, to := start+crop*float64(i)/float64(parts), start+crop*float64(i+1)/float64(parts)
		c := &all[i]
		c.first = min(int(from), int(length)-1)
		c.last = max(c.first, min(int(math.Ceil(to))-1, int(length)-1))
		if c.firstShare = float64(c.first+1) - from; c.first == c.last {
			c.firstShare = to - from
		}
		c.lastShare = to - float64(c.last)
	}
	return all
}

// addRows computes a row of the result from the rows of the picture that it covers.
func (d *pictureDecoder) addRows(picture image.Image, row int, rows coverage, columns []coverage) {
	width, plane := d.shape.Width, d.shape.Height*d.shape.Width
	for y := rows.first; y <= rows.last; y++ {
		d.averageRow(picture, y, columns)
		share := rows.share(y) / rows.total()
		for c := range d.shape.Channels {
			to := d.sums[c*plane+row*width:][:width]
			for x, v := range d.row[c*width:][:width] {
				to[x] += share * v
			}
		}
	}
}

// averageRow averages a row of the picture to the width of the shape.
func (d *pictureDecoder) averageRow(picture image.Image, y int, columns []coverage) {
	d.readRow(picture, y, func(channel int, line []byte, stride int) {
		averagePixels(d.row[channel*d.shape.Width:], line, stride, columns)
	})
}

// readRow calls do with each channel of a row of the picture: every stride-th byte of a line.
func (d *pictureDecoder) readRow(picture image.Image, y int, do func(channel int, line []byte, stride int)) {
	at := picture.Bounds().Min.Add(image.Pt(0, y))
	if d.shape.Channels == 1 {
		draw.Draw(d.gray, d.gray.Rect, picture, at, draw.Src)
		do(0, d.gray.Pix, 1)
		return
	}
	draw.Draw(d.color, d.color.Rect, picture, at, draw.Src)
	for c := range 3 {
		do(c, d.color.Pix[c:], 4)
	}
}

// averagePixels averages every stride-th byte.
func averagePixels(to []float64, pixels []byte, stride int, columns []coverage) {
	for i, c := range columns {
		sum := 0.0
		for x := c.first; x <= c.last; x++ {
			sum += c.share(x) * float64(pixels[x*stride])
		}
		to[i] = sum / c.total()
	}
}
