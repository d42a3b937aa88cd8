// Package synthetic draws the pictures of public data sets that need no files.
//
// A picture follows from the name of its set and from its number, and from nothing else: it is the
// same on every call and for any number of processors. On a processor that fuses multiplication and
// addition, a pixel might differ by one level. The generators are public, and no secret of a private
// run comes from them.
package synthetic

import (
	"math/rand/v2"
	"runtime"
	"sync"
)

// drawAll draws n pictures of size bytes each, starting with number first, on all processors.
// newPainter returns a function that draws the picture of a number and returns its label.
func drawAll(first, n, size int, newPainter func() func(number uint64, picture []byte) (label int)) (pixels []byte, labels []int32) {
	pixels, labels = make([]byte, n*size), make([]int32, n)
	workers := min(runtime.GOMAXPROCS(0), n)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			paint := newPainter()
			for i := w * n / workers; i < (w+1)*n/workers; i++ {
				labels[i] = int32(paint(uint64(first+i), pixels[i*size:(i+1)*size]))
			}
		})
	}
	wait.Wait()
	return pixels, labels
}

// generator draws the random choices of one picture.
type generator struct {
	source rand.PCG
	rng    *rand.Rand
}

func newGenerator() *generator {
	g := &generator{}
	g.rng = rand.New(&g.source)
	return g
}

// uniform draws uniformly from [low, high).
func (g *generator) uniform(low, high float64) float64 { return low + (high-low)*g.rng.Float64() }

// bell draws from a bell-shaped distribution on ±spread with mean 0 and standard deviation
// spread/3 (the sum of three uniform numbers).
func (g *generator) bell(spread float64) float64 {
	return spread * (2*(g.rng.Float64()+g.rng.Float64()+g.rng.Float64())/3 - 1)
}
