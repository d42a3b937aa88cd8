package main

import (
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// The views of an example are recorded and kept for a resumed run. They do not change the unit of
// privacy or the cost.
func TestAugment_Views(t *testing.T) {
	t.Chdir(t.TempDir())
	const line = drawn + " --steps 3 --noise 2 --seed 5"
	plain := runJSON(t, line+" --out plain")
	got := runJSON(t, line+" --augment flip,shift:3 --views 2 --out run")
	if got["augment"] != "flip,shift:3" || got["views"] != 2.0 {
		t.Errorf("run.json has %v views, changed by %v", got["views"], got["augment"])
	}
	for _, key := range []string{"records", "epsilon", "rate", "expected_lot"} {
		if got[key] != plain[key] {
			t.Errorf("%s is %v, without views %v", key, got[key], plain[key])
		}
	}
	if got["test_loss"] == plain["test_loss"] {
		t.Error("training on changed pictures gave the same model")
	}
	if card := string(readFile(t, "run/MODEL_CARD.md")); !strings.Contains(card, "| views of a picture | 2, changed by flip,shift:3 |") {
		t.Error("the model card does not list the views")
	}
	if _, stderr, code := dptrain("train --resume run --steps 4 --views 3"); code != exitcode.Usage || !strings.Contains(stderr, "augmentation is 3 views (it was 2 views)") {
		t.Errorf("resumed with other views: exit %d, %s", code, stderr)
	}
	if more := runJSON(t, "train --resume run --steps 4"); more["steps"] != 4.0 || more["views"] != 2.0 {
		t.Errorf("resumed: %v lots of %v views", more["steps"], more["views"])
	}
}
