package engine

import (
	"fmt"
	"math/rand/v2"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/engine/internal/load"
	"github.com/dptrain/dptrain/internal/setting"
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
	// A view begins as the example. Where Config.Train has windows of pictures ([data.Crop]), a view
	// begins as a window at a random place of the whole picture, and Transform can be nil.
	//
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

func (a Augmentation) check(train data.Set) error {
	switch {
	case a.Views < 0:
		return setting.Errorf("Augmentation.Views", "%v: give at least 1", setting.With("Augmentation.Views", a.Views))
	case a.Views == 0 && a.Transform != nil:
		return setting.Errorf("Augmentation.Views", "%v: give at least 1, the number of views of an example", setting.With("Augmentation.Views", a.Views))
	case a.Views > 0 && a.Transform == nil && data.Uncropped(train) == nil:
		return fmt.Errorf("augmentation: Views is %d and Transform is not set; set the function that changes a view", a.Views)
	case a.Views > maxViews:
		return setting.Errorf("Augmentation.Views", "%v: give at most %d", setting.With("Augmentation.Views", a.Views), maxViews)
	case a.Views == 0:
		return nil
	}
	return load.NewAugmenter(a.Views, a.Transform, train).TryOnZeros(train.Columns())
}

// maxViews is far above 64, the largest number in the literature.
const maxViews = 1 << 12
