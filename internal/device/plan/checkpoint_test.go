package plan_test

import (
	"testing"

	"github.com/dptrain/dptrain/models"
)

const smallCheckpoints = "hf:../../../models/pretrained/testdata/"

// A program that keeps only some results of its forward pass has the bits of one that keeps all, and takes less
// memory.
func TestCheckpoint_KeepsBits(t *testing.T) {
	picture := models.DataSpec{Shape: []int{3, 32, 32}, Classes: 4}
	text := models.DataSpec{Shape: []int{9}, Vocabulary: 16, Classes: 16, LabelShape: []int{9}}
	for _, c := range []struct {
		model   string
		example models.DataSpec
		each    int
		saves   float64 // share of the arena; 0: the program stays as it is
	}{
		{"wrn16-4", picture, 1, 0.25},
		{"wrn16-4:standardized", picture, 2, 0.2},
		{"transformer", text, 1, 0.2},
		{"transformer:tied", text, 2, 0.25},
		{"cifar-tanh", picture, 1, 0},
		{"lstm", models.DataSpec{Shape: []int{9}, Vocabulary: 16, Classes: 3}, 1, 0},
		{"mlp:30,20,dropout=0.5", models.DataSpec{Shape: []int{12}, Classes: 4}, 2, 0.1},
		{smallCheckpoints + "gpt2-next,lora=2", text, 1, 0.4},
		{smallCheckpoints + "gpt2-next", text, 1, 0.4},
	} {
		t.Run(c.model, func(t *testing.T) {
			p := private(t, c.model, c.example, 4, c.each)
			want, before := step(t, p, c.example), p.Arena
			if done := p.Checkpoint(); done != (p.Arena < before) {
				t.Errorf("%v, and the arena has %d elements of %d", done, p.Arena, before)
			}
			t.Logf("%d of %d elements", p.Arena, before)
			if saved := 1 - float64(p.Arena)/float64(before); saved < c.saves || c.saves == 0 && saved > 0 {
				t.Errorf("saves %.2f of the arena, want %.2f", saved, c.saves)
			}
			compareBits(t, "checkpointed", step(t, p, c.example), want)
		})
	}
}
