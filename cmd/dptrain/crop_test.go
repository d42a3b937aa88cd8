package main

import (
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// A run on parts of pictures reads the middle of test pictures, and so do eval, predict and the exported
// model. A resumed run needs the same size.
func TestCrop_IsRecorded(t *testing.T) {
	t.Chdir(t.TempDir())
	got := runJSON(t, drawn+" --crop 20x24 --augment flip --views 2 --steps 30 --noise 1 --seed 5 --out run")
	if got["crop"] != "20x24" || got["augment"] != "flip" || got["views"] != 2.0 || got["parameters"] != 10.0*(20*24+1) {
		t.Errorf("run.json has crop %v, %v views, changed by %v, and %v weights", got["crop"], got["views"], got["augment"], got["parameters"])
	}
	if manifest := string(readFile(t, "run/model.json")); !strings.Contains(strings.Join(strings.Fields(manifest), ""), `"whole_shape":[1,28,28]`) {
		t.Errorf("model.json has no shape of whole pictures: %s", manifest)
	}
	if card := string(readFile(t, "run/MODEL_CARD.md")); !strings.Contains(card, "| views of a picture | 2, random parts of 20x24 pixels, changed by flip |") {
		t.Error("the model card does not list the views")
	}
	for _, line := range []string{"eval run", "eval run --data digits"} {
		if e := runJSON(t, line); math.Abs(e["accuracy"].(float64)-got["test_accuracy"].(float64)) > 1e-9 {
			t.Errorf("%s: accuracy %v, after training %v", line, e["accuracy"], got["test_accuracy"])
		}
	}
	if p := runJSON(t, "predict run --data digits --out answers.csv"); p["examples"] == 0.0 {
		t.Errorf("predict: %v", p)
	}
	if _, stderr, code := dptrain("predict run --data shapes --out other.csv"); code != exitcode.Usage || !strings.Contains(stderr, "trained on examples of shape [1 28 28]") {
		t.Errorf("predict on other pictures: exit %d, %s", code, stderr)
	}
	if e := runJSON(t, "export run --out run.onnx"); e["bytes"] == 0.0 {
		t.Errorf("export: %v", e)
	}
	if _, stderr, code := dptrain("train --resume run --steps 31 --crop 24x24"); code != exitcode.Usage || !strings.Contains(stderr, "crop") {
		t.Errorf("resumed with another crop: exit %d, %s", code, stderr)
	}
	if more := runJSON(t, "train --resume run --steps 31"); more["steps"] != 31.0 || more["crop"] != "20x24" {
		t.Errorf("resumed: %v lots, crop %v", more["steps"], more["crop"])
	}
}

func TestCrop_Refusals(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range [][2]string{
		{drawn + " --crop 24", "--crop: \"24\": write HxW"},
		{drawn + " --crop 29x24", "--crop 29x24: a window of 29x24 pixels does not fit into pictures of 28x28"},
		{"train --data remarks --crop 2x2", "only pictures are cropped"},
		{drawn + " --views 2", "--views 2 needs --crop or --augment"},
	} {
		if _, stderr, code := dptrain(c[0] + " --steps 1 --out run"); code != exitcode.Usage || !strings.Contains(stderr, c[1]) {
			t.Errorf("%s: exit %d, %s", c[0], code, stderr)
		}
	}
}
