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
	windows   *data.WindowReader                   // nil unless views are windows of larger pictures
	transform func(view [][]float32, r *rand.Rand) // nil: views are not changed further
	seed      [32]byte
	stream    *rand.ChaCha8
	rand      *rand.Rand
	view      [][]float32 // one slice per column
}

// NewAugmenter returns an augmenter of the examples of a set. Where these are windows of pictures, a
// view begins as a window at a random place.
func NewAugmenter(views int, transform func(view [][]float32, r *rand.Rand), s data.Set) *Augmenter {
	m := &Augmenter{views: views, transform: transform, view: make([][]float32, len(s.Columns()))}
	if views > 0 {
		m.windows = data.NewWindowReader(s)
	}
	m.stream = rand.NewChaCha8(m.seed)
	m.rand = rand.New(m.stream)
	return m
}

// TryOnZeros transforms an example of zeros.
func (a *Augmenter) TryOnZeros(columns []data.Column) (err error) {
	if a.transform == nil {
		return nil
	}
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

// changesViews reports whether views differ from their examples.
func (a *Augmenter) changesViews() bool { return a.transform != nil || a.windows != nil }

// changeView changes the view in a.view, of the example in a row of the data set.
func (a *Augmenter) changeView(words []uint64, row int) (err error) {
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
	if a.windows != nil {
		down, right := a.windows.Places()
		if err := a.windows.Read(a.view, row, a.rand.IntN(down), a.rand.IntN(right)); err != nil {
			return fmt.Errorf("training data: %w", err)
		}
	}
	if a.transform != nil {
		a.transform(a.view, a.rand)
	}
	return nil
}
