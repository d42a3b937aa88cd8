package load

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/dptrain/dptrain/engine/data"
)

// Augmenter makes views. Its memory is reused for each of them.
type Augmenter struct {
	views     int                                  // of an example; 0: the example itself
	transform func(view [][]float32, r *rand.Rand) // nil where views is 0
	seed      [32]byte
	stream    *rand.ChaCha8
	rand      *rand.Rand
	view      [][]float32 // one slice per column
}

func NewAugmenter(views int, transform func(view [][]float32, r *rand.Rand), columns int) *Augmenter {
	m := &Augmenter{views: views, transform: transform, view: make([][]float32, columns)}
	m.stream = rand.NewChaCha8(m.seed)
	m.rand = rand.New(m.stream)
	return m
}

// TryOnZeros transforms an example of zeros.
func (a *Augmenter) TryOnZeros(columns []data.Column) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("augmentation: Transform panicked on an example of zeros (%v); check that it reads only columns that the data have", p)
		}
	}()
	var zeros [][]float32
	for _, c := range columns {
		zeros = append(zeros, make([]float32, c.Size()))
	}
	a.transform(zeros, a.rand)
	return nil
}

// ViewsPerExample returns how many rows of a microbatch an example has.
func (a *Augmenter) ViewsPerExample() int { return max(1, a.views) }

// replicateViews gives each view a row. On entry the first rows are those of the examples. On
// return the views of an example are adjacent and share the weight of the example equally.
func (a *Augmenter) replicateViews(rows []int, weights []float32) {
	views := a.ViewsPerExample()
	for i := len(rows) - 1; i >= 0; i-- {
		rows[i] = rows[i/views]
		if weights != nil {
			weights[i] = weights[i/views] / float32(views)
		}
	}
}

// wordsPerView is the number of random words that seed the transformation of a view.
const wordsPerView = 4

// transformView changes the view in a.view.
func (a *Augmenter) transformView(words []uint64) (err error) {
	defer func() {
		// The panic's value is not passed on: it may quote the example.
		if recover() != nil {
			err = fmt.Errorf("augmentation: Transform panicked on a training example; test it on public examples")
		}
	}()
	for i, word := range words {
		binary.LittleEndian.PutUint64(a.seed[8*i:], word)
	}
	a.stream.Seed(a.seed)
	a.transform(a.view, a.rand)
	return nil
}
