package settings

import (
	"testing"

	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/models"
)

func TestFixedModel(t *testing.T) {
	for _, c := range []struct {
		example   models.DataSpec
		projected bool
		want      string
	}{
		{models.DataSpec{Shape: []int{9}, Vocabulary: 5, LabelShape: []int{9}}, false, "lstm"},
		{models.DataSpec{Shape: []int{9}, Vocabulary: 5}, false, "embbag"},
		{models.DataSpec{Shape: []int{9}, Vocabulary: 5, Unordered: true}, false, "bow"},
		{models.DataSpec{Shape: []int{1, 28, 28}}, false, "digits-cnn"},
		{models.DataSpec{Shape: []int{1, 28, 28}}, true, fixedDenseModel},
		{models.DataSpec{Shape: []int{1, 32, 28}}, false, "mnist-cnn"},
		{models.DataSpec{Shape: []int{3, 24, 64}}, false, "mnist-cnn"},
		{models.DataSpec{Shape: []int{3, 23, 64}}, false, fixedDenseModel},
		{models.DataSpec{Shape: []int{3, 24, 65}}, false, fixedDenseModel},
		{models.DataSpec{Shape: []int{9}}, false, fixedDenseModel},
	} {
		if got := fixedModel(c.example, c.projected); got != c.want {
			t.Errorf("%+v: %s, want %s", c.example, got, c.want)
		}
	}
}

// --seed determines the random starting weights too.
func TestNew_SeedsStartingWeights(t *testing.T) {
	task, err := data.Open("digits", data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]uint64{"": publicSeed, "--seed 7": 7} {
		s, err := New(resolved(t, "--model logistic --noise 1 "+line), task)
		if err != nil || s.Network.seed != want {
			t.Errorf("%q: seed %d, want %d: %v", line, s.Network.seed, want, err)
		}
	}
}
