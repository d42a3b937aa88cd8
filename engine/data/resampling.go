package data

import (
	"fmt"
	"image"
	"math"
)

// Resampling is how pictures of other sizes become pictures of a network's size: they are resized, and the
// middle is cut out. A picture of the network's size stays as it is.
//
// The bytes are those of Pillow's Image.resize: weights of a separable filter, widened where the picture
// becomes smaller, as integers; rows first, then columns, and each result rounded to a byte. Pillow 13
// begins with the columns where the height shrinks by more than twice as many pixels as the width; bytes
// of such pictures can differ.
type Resampling struct {
	Filter Filter `json:"filter"`
	Height int    `json:"height"`
	Width  int    `json:"width,omitempty"` // 0: Height is the length of the shorter side, and proportions stay
}

// Filter is the function that weighs pixels by their distance.
type Filter string

const (
	Bilinear Filter = "bilinear" // 1 − |x|
	Bicubic  Filter = "bicubic"  // Keys 1981, with a = −1/2
)

// Check returns an error if pictures cannot be resized like this for a network.
func (r *Resampling) Check(shape ImageShape) error {
	isSide := func(n, cropped int) bool { return n >= cropped && n <= maxSide }
	switch {
	case r.Filter != Bilinear && r.Filter != Bicubic:
		return fmt.Errorf("the filter %q is not supported; %s and %s are", r.Filter, Bilinear, Bicubic)
	case !isSide(r.Height, shape.Height) || r.Width == 0 && r.Height < shape.Width || r.Width != 0 && !isSide(r.Width, shape.Width):
		return fmt.Errorf("pictures are resized to %d×%d, and the part of %d×%d that the network reads is not inside", r.Height, r.Width, shape.Height, shape.Width)
	}
	return nil
}

// String describes the conversion.
func (r *Resampling) String() string {
	if r.Width == 0 {
		return fmt.Sprintf("the shorter side becomes %d pixels by %s interpolation, and the middle is cut out", r.Height, r.Filter)
	}
	return fmt.Sprintf("they become %d×%d pixels by %s interpolation, and the middle is cut out", r.Height, r.Width, r.Filter)
}

// sides returns the height and the width of a resized picture.
func (r *Resampling) sides(height, width int) (newHeight, newWidth int) {
	switch {
	case r.Width != 0:
		return r.Height, r.Width
	case width <= height:
		return r.Height * height / width, r.Height
	}
	return r.Height, r.Height * width / height
}

// weigh returns the weight of a pixel at a distance, and the distance from which weights are 0.
func (f Filter) weigh(x float64) float64 {
	x = math.Abs(x)
	switch {
	case f == Bilinear:
		return max(0, 1-x)
	case x < 1: // conversions forbid fused operations, whose last bits depend on the processor
		return float64((float64(1.5*x)-2.5)*x*x) + 1
	case x < 2:
		return float64((float64((float64(-0.5*x)+2.5)*x)-4)*x) + 2
	}
	return 0
}

func (f Filter) support() float64 {
	if f == Bilinear {
		return 1
	}
	return 2
}

// weightBits is the precision of weights, and halfWeight rounds a sum of products with them.
const (
	weightBits = 22
	halfWeight = 1 << (weightBits - 1)
)

// window are the weights of the pixels of a line for one pixel of the result.
type window struct {
	first   int
	weights []int32
}

func (w window) end() int { return w.first + len(w.weights) }

// windows returns the weights for count pixels from first, of a line of length pixels that is resized.
func (f Filter) windows(length, resized, first, count int) []window {
	all := make([]window, count)
	scale := float64(length) / float64(resized)
	widened := max(scale, 1)
	support := float64(f.support() * widened)
	for i := range all {
		center := float64((float64(first+i) + 0.5) * scale)
		from, to := max(0, int(center-support+0.5)), min(length, int(center+support+0.5))
		weights, sum := make([]float64, to-from), 0.0
		for k := range weights {
			weights[k] = f.weigh((float64(from+k) - center + 0.5) * (1 / widened))
			sum += weights[k]
		}
		all[i] = window{first: from, weights: make([]int32, len(weights))}
		for k, v := range weights {
			all[i].weights[k] = int32(math.Trunc(v/sum*(1<<weightBits) + math.Copysign(0.5, v)))
		}
	}
	return all
}

// toByte rounds a sum of bytes times weights.
func toByte(sum int32) byte { return byte(min(max(sum>>weightBits, 0), 255)) }

// resampler converts pictures by a Resampling. Its memory depends on the shape of the network's pictures only.
type resampler struct {
	Resampling
	row  []byte  // a row of a picture, resized to the width of the shape, channel by channel
	sums []int32 // of the result
}

// resample writes the pixels of a picture in the shape. Each row is read once, and added to the rows of
// the result whose windows contain it.
func (d *pictureDecoder) resample(picture image.Image, pixels []byte) {
	area, s := picture.Bounds(), d.shape
	height, width := d.resampler.sides(area.Dy(), area.Dx())
	columns := d.resampler.Filter.windows(area.Dx(), width, (width-s.Width)/2, s.Width)
	rows := d.resampler.Filter.windows(area.Dy(), height, (height-s.Height)/2, s.Height)
	for i := range d.resampler.sums {
		d.resampler.sums[i] = halfWeight
	}
	done := 0 // rows of the result that are complete
	for y := rows[0].first; y < rows[len(rows)-1].end(); y++ {
		d.readRow(picture, y, func(channel int, line []byte, stride int) {
			to := d.resampler.row[channel*s.Width:]
			for x, w := range columns {
				sum := int32(halfWeight)
				for k, weight := range w.weights {
					sum += weight * int32(line[(w.first+k)*stride])
				}
				to[x] = toByte(sum)
			}
		})
		for done < len(rows) && rows[done].end() <= y {
			done++
		}
		for i := done; i < len(rows) && rows[i].first <= y; i++ {
			weight := rows[i].weights[y-rows[i].first]
			for c := range s.Channels {
				to := d.resampler.sums[(c*s.Height+i)*s.Width:][:s.Width]
				for x, v := range d.resampler.row[c*s.Width:][:s.Width] {
					to[x] += weight * int32(v)
				}
			}
		}
	}
	for i, sum := range d.resampler.sums {
		pixels[i] = toByte(sum)
	}
}
