package engine

import (
	"reflect"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/perexample"
)

// fadingSet has zeros for features after its examples were read once.
type fadingSet struct {
	data.Set
	reads int // examples
}

func (s *fadingSet) Read(dst [][]float32, rows []int) error {
	s.reads += len(rows)
	err := s.Set.Read(dst, rows)
	if s.reads > s.Len() {
		clear(dst[0])
	}
	return err
}

// An evaluator that keeps the outputs of frozen layers reads the features of an example once. It scores every
// weights, of the caller's memory or of other memory, with the bits of an evaluator that keeps none.
func TestKeepFrozen_SameBits(t *testing.T) {
	for name, build := range map[string]perexample.Build{"pictures": frozenPictures("frozen", 0, 0), "steps": frozenSteps} {
		whole, kept := newTestEvaluator(t, build), newTestEvaluator(t, build)
		table := pictureTable(300)
		fading := &fadingSet{Set: table}
		if err := kept.KeepFrozen(fading); err != nil {
			t.Fatal(err)
		}
		first := whole.Weights()
		second := make([][]float32, len(first))
		for i, w := range first {
			for j := range w {
				second[i] = append(second[i], w[j]+float32(j%3)-1)
			}
		}
		for _, weights := range [][][]float32{first, second, first} {
			want, err := whole.Score(weights, table)
			if err != nil {
				t.Fatal(err)
			}
			got, err := kept.Score(weights, fading)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: with kept outputs %+v, want %+v", name, got, want)
			}
			first[0][0]++ // the executable reads the caller's memory
		}
		if other, err := kept.Score(first, table); err != nil || other.Examples != 300 {
			t.Errorf("%s: another set: %+v, %v", name, other, err)
		}
	}
}

// Without frozen layers there are no outputs to keep.
func TestKeepFrozen_NothingFrozen(t *testing.T) {
	e := newTestEvaluator(t, frozenPictures("none", 0, 0))
	if err := e.KeepFrozen(pictureTable(3)); err != nil || e.kept != nil {
		t.Errorf("kept %v, %v", e.kept, err)
	}
}
