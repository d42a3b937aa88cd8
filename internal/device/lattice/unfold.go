package lattice

import (
	"fmt"

	"github.com/dptrain/dptrain/internal/device/simd"
)

// Unfolding writes the windows of an image of int16 as rows: the operand A of the product that is
// a convolution's weight gradient. Element (c·KH+kh)·KW+kw of a row is what tap (kh, kw) of
// channel c sees, 0 in the padding. That is the order of a weight [O, C/groups, KH, KW].
//
// A picture is quantised once, and not once for each window. No window has a larger norm than the
// picture.
type Unfolding struct {
	window       simd.Window // over the channels of one group
	groups       int
	channelsLast bool
	oh, ow       int
	height, line int // of a padded plane
	// A window is a number of runs of contiguous elements of the padded planes.
	run  int
	runs []int32 // their starts
}

// NewUnfolding returns the unfolding of images of a window's size, stored plane by plane or with
// the channels of a position together. The channels are cut into equal groups. It allocates.
func NewUnfolding(w simd.Window, groups int, channelsLast bool) *Unfolding {
	if groups < 1 || w.C%groups != 0 {
		panic(fmt.Sprintf("lattice: %d channels are not %d equal groups", w.C, groups))
	}
	w.C /= groups
	u := &Unfolding{window: w, groups: groups, channelsLast: channelsLast && w.C*groups > 1,
		height: w.H + 2*w.PadH, line: w.W + 2*w.PadW, run: w.KW}
	u.oh, u.ow = w.OutputSize()
	runsOfRow, distance := 1, 0
	if w.DilW > 1 {
		u.run, runsOfRow, distance = 1, w.KW, w.DilW
	}
	for c := range w.C {
		for kh := range w.KH {
			for i := range runsOfRow {
				u.runs = append(u.runs, int32((c*u.height+kh*w.DilH)*u.line+i*distance))
			}
		}
	}
	return u
}

// Size returns the number of rows, which is the number of positions of the window, and their length.
func (u *Unfolding) Size() (rows, length int) { return u.oh * u.ow, len(u.runs) * u.run }

// Scratch returns how many elements of scratch memory Rows needs.
func (u *Unfolding) Scratch() int { return u.window.C*u.height*u.line + runSlack }

// runSlack is how many elements the kernels read past a run.
const runSlack = 8

// Rows writes the windows over one group of an image's channels, one row after the other.
func (u *Unfolding) Rows(dst, image, scratch []int16, group int) {
	rows, length := u.Size()
	w := &u.window
	if uint(group) >= uint(u.groups) || len(image) != u.groups*w.C*w.H*w.W || len(dst) < rows*length || len(scratch) < u.Scratch() {
		panic(fmt.Sprintf("lattice: %d windows of %d elements of group %d of an image of %d elements do not fit slices of %d and %d elements",
			rows, length, group, len(image), len(dst), len(scratch)))
	}
	if rows*length == 0 {
		return
	}
	active.unfold(u, dst[:rows*length], image, scratch, group)
}

func (k *kernels) unfold(u *Unfolding, dst, image, scratch []int16, group int) {
	w := &u.window
	if w.KH == 1 && w.KW == 1 && w.StrideH == 1 && w.StrideW == 1 && w.PadH == 0 && w.PadW == 0 {
		switch size := w.H * w.W; {
		case !u.channelsLast:
			k.transposeInts(dst, w.C, image[group*w.C*size:], size, w.C, size)
		case u.groups == 1:
			copy(dst, image)
		default:
			for t := range size {
				copy(dst[t*w.C:][:w.C], image[(t*u.groups+group)*w.C:])
			}
		}
		return
	}
	u.pad(k, scratch, image, group)
	length := len(u.runs) * u.run
	copyRuns, whole := k.copyRunsFor(u.run, len(dst), length)
	for y := range u.oh {
		from := scratch[y*w.StrideH*u.line:]
		positions := min(whole-y*u.ow, u.ow)
		if positions > 0 {
			copyRuns(&dst[0], &from[0], &u.runs[0], len(u.runs), u.run, positions, w.StrideW)
			dst = dst[positions*length:]
		}
		for x := max(positions, 0); x < u.ow; x++ {
			for _, start := range u.runs {
				copy(dst[:u.run], from[x*w.StrideW+int(start):])
				dst = dst[u.run:]
			}
		}
	}
}

// copyRunsFor returns the kernel for runs of some elements, and for how many rows of a length it
// writes nothing past all rows.
func (k *kernels) copyRunsFor(run, total, length int) (f copyRunsFunc, rows int) {
	for i, width := range []int{4, 8} {
		if f = k.copyRuns[i]; f != nil && run <= width {
			return f, (total - (width - run)) / length
		}
	}
	return nil, 0
}

// pad copies the channels of a group to padded planes.
func (u *Unfolding) pad(k *kernels, planes, image []int16, group int) {
	w, size := &u.window, u.height*u.line
	if w.PadH > 0 || w.PadW > 0 {
		clear(planes[:w.C*size])
	}
	rows, width := w.H, w.W // of the image, contiguous in both
	if w.PadW == 0 {
		rows, width = 1, w.H*w.W
	}
	channels := u.groups * w.C
	for y := range rows {
		to := (y+w.PadH)*u.line + w.PadW
		if u.channelsLast {
			k.transposeInts(planes[to:], size, image[y*width*channels+group*w.C:], channels, width, w.C)
			continue
		}
		for c := range w.C {
			copy(planes[c*size+to:][:width], image[((group*w.C+c)*rows+y)*width:])
		}
	}
}

// Transpose writes the columns of a rows×cols matrix as rows.
func Transpose(dst, src []int16, rows, cols int) {
	checkLengths(len(dst), rows*cols)
	checkLengths(len(src), rows*cols)
	active.transposeInts(dst, rows, src, cols, rows, cols)
}

// transposeInts writes dst[c*ldd+r] = src[r*lds+c] for r < rows and c < cols.
func (k *kernels) transposeInts(dst []int16, ldd int, src []int16, lds, rows, cols int) {
	if k.transpose8 != nil && rows >= 8 && cols >= 8 {
		// The last tile of a row or column starts earlier, so that it is complete.
		for r := 0; r < rows; r += 8 {
			r = min(r, rows-8)
			k.transpose8(&dst[r], ldd, &src[r*lds], lds, cols/8)
			if c := cols - 8; cols%8 > 0 {
				k.transpose8(&dst[c*ldd+r], ldd, &src[r*lds+c], lds, 1)
			}
		}
		return
	}
	for r := range rows {
		for c, v := range src[r*lds:][:cols] {
			dst[c*ldd+r] = v
		}
	}
}
