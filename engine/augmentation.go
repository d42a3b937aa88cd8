package engine

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/dptrain/dptrain/engine/data"
)

// Augmentation replaces each example of a lot by several views, each transformed in another
// way. The zero value shows the example itself.
//
// The gradients of a record's views are averaged before clipping (augmentation multiplicity:
// De et al. 2022, "Unlocking High-Accuracy Differentially Private Image Classification
// through Scale"). The contribution of a record is bounded as without views: unit, sensitivity
// and ε do not change. Evaluation and validation read the examples themselves.
type Augmentation struct {
	Views int // views of an example; 0: no augmentation
	// Transform changes one view of an example in place: its numbers in each column of
	// Config.Train. Its result may depend only on these numbers, on r and on public values,
	// not on other examples. It must keep labels and indices in their range. It is called
	// from one goroutine.
	//
	// Name it in Config.Fingerprint: Resume cannot compare functions.
	//
	// The numbers of r are fresh for each view of each example in each lot. They come from
	// the run's cryptographic generator, as the masks of layer.Dropout do.
	Transform func(view [][]float32, r *rand.Rand)
}

func (a Augmentation) check(columns []data.Column) error {
	switch {
	case a.Views < 0:
		return fmt.Errorf("augmentation: Views is %d; give at least 1, or 0 for no augmentation", a.Views)
	case a.Views == 0 && a.Transform != nil:
		return fmt.Errorf("augmentation: Transform is set and Views is 0; set the number of views of an example")
	case a.Views > 0 && a.Transform == nil:
		return fmt.Errorf("augmentation: Views is %d and Transform is not set; set the function that changes a view", a.Views)
	case a.Views > maxViews:
		return fmt.Errorf("augmentation: %d views of an example are too many; give at most %d", a.Views, maxViews)
	case a.Views == 0:
		return nil
	}
	var zeros [][]float32
	for _, c := range columns {
		zeros = append(zeros, make([]float32, c.Size()))
	}
	if p := recoverPanic(func() { a.Transform(zeros, newAugmenter(a, len(columns)).rand) }); p != nil {
		return fmt.Errorf("augmentation: Transform panicked on an example of zeros (%v); check that it reads only columns that the data have", p)
	}
	return nil
}

// maxViews is far above 64, the largest number in the literature.
const maxViews = 1 << 12

// augmenter makes views. Its memory is reused for each of them.
type augmenter struct {
	Augmentation
	seed   [32]byte
	stream *rand.ChaCha8
	rand   *rand.Rand
	view   [][]float32 // one slice per column
}

func newAugmenter(a Augmentation, columns int) *augmenter {
	m := &augmenter{Augmentation: a, view: make([][]float32, columns)}
	m.stream = rand.NewChaCha8(m.seed)
	m.rand = rand.New(m.stream)
	return m
}

// viewsPerExample returns how many rows of a microbatch an example has.
func (a *augmenter) viewsPerExample() int { return max(1, a.Views) }

// replicateViews gives each view a row. On entry the first rows are those of the examples. On
// return the views of an example are adjacent and share the weight of the example equally.
func (a *augmenter) replicateViews(rows []int, weights []float32) {
	views := a.viewsPerExample()
	for i := len(rows) - 1; i >= 0; i-- {
		rows[i] = rows[i/views]
		if weights != nil {
			weights[i] = weights[i/views] / float32(views)
		}
	}
}

// wordsPerView is the number of random words that seed the transformation of a view.
const wordsPerView = 4

// transform changes the view in a.view.
func (a *augmenter) transform(words []uint64) (err error) {
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
	a.Transform(a.view, a.rand)
	return nil
}
