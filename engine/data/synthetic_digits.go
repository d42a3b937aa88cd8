package data

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
)

// The numbers of pictures that Digits draws.
const (
	digitsTrain = 40000
	digitsTest  = 5000
)

// digitsSeed is public: the pictures are the same in every program, and no secret of a
// private run comes from this generator.
const digitsSeed = 0x64696769747321

// Digits returns a public data set of generated handwritten digits: 28×28 grayscale
// pictures of ten classes, drawn by strokes of a pen with random slant, rotation, size,
// position, width, distortion and noise. Picture i is the same on every call and for any
// number of processors. On a processor that fuses multiplication and addition, a gray level
// might differ by one, but no such pixel has been observed. The pictures are drawn once in a
// process, because a Set does not change.
func Digits() *Task {
	train, test := drawnDigits()
	return &Task{
		Name:       "digits",
		Train:      train,
		Test:       test,
		Classes:    10,
		ClassNames: tenDigits(),
	}
}

var drawnDigits = sync.OnceValues(func() (train, test *Pictures) {
	return drawDigits(0, digitsTrain), drawDigits(digitsTrain, digitsTest)
})

func tenDigits() []string { return []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"} }

// drawDigits draws n pictures, starting with number first.
func drawDigits(first, n int) *Pictures {
	pixels := make([]byte, n*side*side)
	labels := make([]int32, n)
	workers := min(runtime.GOMAXPROCS(0), n)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			var h digitPen
			for i := w * n / workers; i < (w+1)*n/workers; i++ {
				h.reset(uint64(first + i))
				labels[i] = int32(h.rng.IntN(10))
				h.drawDigit(int(labels[i]), pixels[i*side*side:(i+1)*side*side])
			}
		})
	}
	wait.Wait()
	p, err := NewPictures(1, side, side, pixels, labels, 10, nil)
	if err != nil {
		panic(err) // unreachable: the shapes and labels are valid
	}
	return p
}

// digitPen draws digits.
type digitPen struct {
	source rand.PCG
	rng    *rand.Rand
	ink    canvas
	points stroke
}

// reset seeds the pen for one picture.
func (h *digitPen) reset(picture uint64) {
	h.source.Seed(digitsSeed, picture)
	if h.rng == nil {
		h.rng = rand.New(&h.source)
	}
}

// uniform draws uniformly from [low, high).
func (h *digitPen) uniform(low, high float64) float64 { return low + (high-low)*h.rng.Float64() }

// bell draws from a bell-shaped distribution on ±spread with mean 0 and standard deviation
// spread/3 (the sum of three uniform numbers).
func (h *digitPen) bell(spread float64) float64 {
	return spread * (2*(h.rng.Float64()+h.rng.Float64()+h.rng.Float64())/3 - 1)
}

// drawDigit draws a digit into a picture.
func (h *digitPen) drawDigit(digit int, picture []byte) {
	clear(h.ink[:])
	variants := glyphs[digit]
	variant := variants[h.rng.IntN(len(variants))]

	height := 19.5 + h.bell(4.5)
	width := height * (.68 + h.bell(.26))
	slant := .12 + h.bell(.55)
	sin, cos := math.Sincos(h.bell(.48))
	center := point{float64(side-1)/2 + h.bell(3.7), float64(side-1)/2 + h.bell(3.7)}
	pen := h.uniform(1.5, 3.4)
	for _, s := range variant {
		h.points = h.points[:0]
		for i, p := range s {
			if i > 0 && p == s[i-1] { // the second half of a corner
				h.points = append(h.points, h.points[i-1])
				continue
			}
			y := (p.y - .5 + h.bell(.16)) * height
			x := (p.x-.5+h.bell(.16))*width - slant*y
			h.points = append(h.points, point{center.x + x*cos - y*sin, center.y + x*sin + y*cos})
		}
		h.ink.draw(h.points, pen*h.uniform(.8, 1.2), pen*h.uniform(.7, 1.1))
	}
	h.toPixels(picture)
}

// toPixels converts ink to gray levels, scaled by the pen's darkness, and adds noise to
// every pixel.
func (h *digitPen) toPixels(picture []byte) {
	dark := h.uniform(.75, 1) * 255
	noise := h.uniform(0, .25)
	var random uint64
	for i, ink := range h.ink {
		if i%4 == 0 {
			random = h.rng.Uint64()
		}
		// The difference of two bytes has a triangular distribution on [-255, 255].
		grain := float64(int(random&255) - int(random>>8&255))
		random >>= 16
		picture[i] = byte(min(max(dark*ink+noise*grain+.5, 0), 255))
	}
}
