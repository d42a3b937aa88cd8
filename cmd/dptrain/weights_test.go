package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/safetensors"
)

// A body that was trained on public data, frozen, under a fresh head: the files that a run
// leaves hold both, so that eval needs no other, and the run may be gone on with.
func TestFrozenBody(t *testing.T) {
	inWorkshop(t)
	answer(t, baseline+" --model mlp:6 --steps 3 --out public")
	tuned := brief + " --model mlp:6 --init public/model.safetensors --noise 1 --freeze fc1 --fresh fc2"
	_, stderr, code := dptrain(tuned + " --steps 3 --out tuned")
	if code != exitDone || !strings.Contains(stderr, "fc1 is frozen") || !strings.Contains(stderr, "of fc2, which starts anew") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	values := func(dir string) map[string][]float32 {
		tensors, _, err := readWeights(dir + "/model.safetensors")
		if err != nil || !slices.IsSortedFunc(tensors, func(a, b safetensors.Tensor) int { return strings.Compare(a.Name[:3], b.Name[:3]) }) {
			t.Fatalf("%s: %d tensors: %v", dir, len(tensors), err)
		}
		all := map[string][]float32{}
		for _, x := range tensors {
			all[x.Name] = x.Values
		}
		return all
	}
	compare := func() {
		t.Helper()
		public, own := values("public"), values("tuned")
		for name, v := range public {
			if frozen := strings.HasPrefix(name, "fc1."); slices.Equal(own[name], v) != frozen {
				t.Errorf("%s: that it stayed as it was is %v", name, !frozen)
			}
		}
		if len(own) != len(public) {
			t.Errorf("%d tensors, want %d", len(own), len(public))
		}
	}
	compare()
	told := answer(t, "train --resume tuned --steps 5")
	if told["freeze"] != "fc1" || told["steps"] != 5.0 {
		t.Errorf("the resumed run says %v", told)
	}
	compare()
	if again := answer(t, "eval tuned --data test.csv"); again["loss"] != told["test_loss"] {
		t.Errorf("eval says %v, and the run said %v", again, told["test_loss"])
	}

	// A head for other classes: what the file holds of the old one is not read.
	if _, stderr, code := dptrain(strings.Replace(tuned, "mlp:6", "mlp:6,7", 1) + ",fc3 --steps 1 --out other"); code != exitDone {
		t.Errorf("another head: exit %d: %s", code, stderr)
	}
	for flags, says := range map[string]string{
		"--freeze fc1": "--init",
		"--fresh fc2":  "--init",
		"--init public/model.safetensors --freeze fc9":             "fc1, fc2",
		"--init public/model.safetensors --fresh fc":               "fc1, fc2",
		"--init public/model.safetensors --freeze fc1,fc2":         "nothing is left",
		"--init public/model.safetensors --freeze fc1 --fresh fc1": "at random",
	} {
		stdout, stderr, code := dptrain(brief + " --model mlp:6 --steps 1 --out no " + flags)
		if code != exitWrong || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit %d, %s%s", flags, code, stdout, stderr)
		}
	}
}
