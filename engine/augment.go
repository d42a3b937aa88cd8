package engine

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/dptrain/dptrain/engine/data"
)

// Augmentation shows the network several views of each example that a lot has, each
// changed in another way. The zero value shows the example as it is.
//
// The gradients of a record's views are averaged before clipping (augmentation multiplicity:
// De et al. 2022, "Unlocking High-Accuracy Differentially Private Image Classification
// through Scale"), so that a record adds what it may without them: unit, sensitivity and ε
// stay what they are. Evaluation and validation see examples as they are.
type Augmentation struct {
	Views int // of an example; 0: none, and nothing is changed
	// Transform changes one view of an example: its numbers in each column of Config.Train. It
	// must depend on them, on r and on public things alone, so not on other examples, and
	// leave labels and indices in their range. It is called from one goroutine.
	//
	// Name it in Config.Fingerprint, for Resume cannot tell one function from another.
	//
	// What r gives is drawn anew for each view of each example in each lot, from the run's
	// cryptographic generator, as what layer.Dropout drops is.
	Transform func(view [][]float32, r *rand.Rand)
}

func (a Augmentation) check(columns []data.Column) error {
	switch {
	case a.Views < 0:
		return fmt.Errorf("augmentation: %d views of an example: give at least 1, or 0 for none", a.Views)
	case a.Views == 0 && a.Transform != nil:
		return fmt.Errorf("augmentation: a change and no views were given: say how many views of an example there are")
	case a.Views > 0 && a.Transform == nil:
		return fmt.Errorf("augmentation: views and no change were given: say how an example is changed")
	case a.Views > mostViews:
		return fmt.Errorf("augmentation: %d views of an example are too many: at most %d", a.Views, mostViews)
	case a.Views == 0:
		return nil
	}
	var zeros [][]float32
	for _, c := range columns {
		zeros = append(zeros, make([]float32, c.Size()))
	}
	if said := panicked(func() { a.Transform(zeros, newViewer(a).rand) }); said != nil {
		return fmt.Errorf("augmentation: its function panicked on an example of zeros (%v): does it read what the data have?", said)
	}
	return nil
}

// mostViews is far above the 64 for which anything was published.
const mostViews = 1 << 12

// viewer makes views: it holds what is used again for each of them.
type viewer struct {
	Augmentation
	seed  [32]byte
	words *rand.ChaCha8
	rand  *rand.Rand
	view  [][]float32
}

func newViewer(a Augmentation) *viewer {
	v := &viewer{Augmentation: a}
	v.words = rand.NewChaCha8(v.seed)
	v.rand = rand.New(v.words)
	return v
}

// each is how many rows of a microbatch an example has.
func (v *viewer) each() int { return max(1, v.Views) }

// spread gives the views their rows: what was dealt to the first slots is dealt to all, an
// example's views side by side, and an example's share is that of its views together.
func (v *viewer) spread(rows []int, weights []float32) {
	for i := len(rows) - 1; i >= 0; i-- {
		rows[i] = rows[i/v.each()]
		if weights != nil {
			weights[i] = weights[i/v.each()] / float32(v.each())
		}
	}
}

// changeWords is how many words a view is changed by.
const changeWords = 4

// change makes one view of an example.
func (v *viewer) change(example [][]float32, words []uint64) (err error) {
	defer func() {
		// What the panic says is not passed on: it may quote the example.
		if recover() != nil {
			err = fmt.Errorf("augmentation: its function panicked on an example; try it on public ones")
		}
	}()
	for i, word := range words {
		binary.LittleEndian.PutUint64(v.seed[8*i:], word)
	}
	v.words.Seed(v.seed)
	v.Transform(example, v.rand)
	return nil
}

// augment changes what was read of the records in the microbatch. A slot that a record
// does not fill stays as it is: nothing in it can be worse than what the record holds.
func (r *Run) augment(views int) error {
	v, b := r.viewer, &r.batch
	if v.Transform == nil {
		return nil
	}
	words := b.words[:views*changeWords]
	if err := r.vary(words, changeWords, varyChange); err != nil {
		return err
	}
	if v.view == nil {
		v.view = make([][]float32, len(b.used))
	}
	for s := range views {
		if b.weights != nil && b.weights[s] == 0 {
			continue
		}
		for k, size := range b.sizes {
			v.view[k] = b.used[k][s*size : (s+1)*size : (s+1)*size]
		}
		if err := v.change(v.view, words[s*changeWords:][:changeWords]); err != nil {
			return err
		}
	}
	return nil
}
