package data

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
)

// How many pictures Digits draws.
const (
	digitsTrain = 40000
	digitsTest  = 5000
)

// digitsSeed is public: the pictures are the same for everybody, and no secret
// of a private run comes from this generator.
const digitsSeed = 0x64696769747321

// Digits draws handwritten digits, 28×28 grey pictures of ten classes: a pen's
// strokes with random slant, turn, size, place, width, wobble and noise. Nobody
// stands behind them. Picture i is the same on every call, whatever the number
// of processors; where floating point fuses a product with a sum, a grey might
// in principle differ by one, though no such pixel has been seen. They are drawn
// once a process, since a Set does not change.
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

// drawDigits draws the n pictures from number first on.
func drawDigits(first, n int) *Pictures {
	pixels := make([]byte, n*side*side)
	labels := make([]int32, n)
	workers := min(runtime.GOMAXPROCS(0), n)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			var h digitPen
			for i := w * n / workers; i < (w+1)*n/workers; i++ {
				h.take(uint64(first + i))
				labels[i] = int32(h.rng.IntN(10))
				h.write(int(labels[i]), pixels[i*side*side:(i+1)*side*side])
			}
		})
	}
	wait.Wait()
	p, err := NewPictures(1, side, side, pixels, labels, 10, nil)
	if err != nil {
		panic(err) // unreachable: the shapes and labels are made here
	}
	return p
}

// digitPen writes one digit after the other.
type digitPen struct {
	source rand.PCG
	rng    *rand.Rand
	ink    canvas
	points stroke
}

// take seeds the hand for one picture.
func (h *digitPen) take(picture uint64) {
	h.source.Seed(digitsSeed, picture)
	if h.rng == nil {
		h.rng = rand.New(&h.source)
	}
}

// within draws uniformly from [low, high).
func (h *digitPen) within(low, high float64) float64 { return low + (high-low)*h.rng.Float64() }

// about draws from a bell around 0 that ends at ±spread (three uniforms' sum,
// of deviation spread/3).
func (h *digitPen) about(spread float64) float64 {
	return spread * (2*(h.rng.Float64()+h.rng.Float64()+h.rng.Float64())/3 - 1)
}

// write draws a digit into a picture.
func (h *digitPen) write(digit int, picture []byte) {
	clear(h.ink[:])
	ways := glyphs[digit]
	way := ways[h.rng.IntN(len(ways))]

	height := 19.5 + h.about(4.5)
	width := height * (.68 + h.about(.26))
	slant := .12 + h.about(.55)
	sin, cos := math.Sincos(h.about(.48))
	center := point{float64(side-1)/2 + h.about(3.7), float64(side-1)/2 + h.about(3.7)}
	pen := h.within(1.5, 3.4)
	for _, s := range way {
		h.points = h.points[:0]
		for i, p := range s {
			if i > 0 && p == s[i-1] { // the second half of a corner
				h.points = append(h.points, h.points[i-1])
				continue
			}
			y := (p.y - .5 + h.about(.16)) * height
			x := (p.x-.5+h.about(.16))*width - slant*y
			h.points = append(h.points, point{center.x + x*cos - y*sin, center.y + x*sin + y*cos})
		}
		h.ink.draw(h.points, pen*h.within(.8, 1.2), pen*h.within(.7, 1.1))
	}
	h.develop(picture)
}

// develop turns ink into greys: the pen's darkness, and noise on every pixel.
func (h *digitPen) develop(picture []byte) {
	dark := h.within(.75, 1) * 255
	noise := h.within(0, .25)
	var random uint64
	for i, ink := range h.ink {
		if i%4 == 0 {
			random = h.rng.Uint64()
		}
		// Two bytes' difference: a triangle on [-255, 255].
		grain := float64(int(random&255) - int(random>>8&255))
		random >>= 16
		picture[i] = byte(min(max(dark*ink+noise*grain+.5, 0), 255))
	}
}
