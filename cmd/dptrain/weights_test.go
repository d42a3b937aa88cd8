package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/internal/modelfile"
)

// A frozen body trained on public data under a random head: the run's files contain both, so
// that eval needs no other file and the run can be resumed.
func TestTrain_FrozenBody(t *testing.T) {
	inWorkshop(t)
	runJSON(t, baseline+" --model mlp:6 --steps 3 --out public")
	tuned := brief + " --model mlp:6 --init public/model.safetensors --noise 1 --freeze fc1 --fresh fc2"
	_, stderr, code := dptrain(tuned + " --steps 3 --out tuned")
	if code != exitcode.Done || !strings.Contains(stderr, "frozen: fc1;") || !strings.Contains(stderr, "2 of the network's 4 parameters, in dptrain's layout; random: fc2;") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	values := func(dir string) map[string][]float32 {
		tensors, err := modelfile.ReadWeights(dir + "/model.safetensors")
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
				t.Errorf("%s: unchanged is %v", name, !frozen)
			}
		}
		if len(own) != len(public) {
			t.Errorf("%d tensors, want %d", len(own), len(public))
		}
	}
	compare()
	got := runJSON(t, "train --resume tuned --steps 5")
	if got["freeze"] != "fc1" || got["steps"] != 5.0 {
		t.Errorf("the resumed run has %v", got)
	}
	compare()
	if again := runJSON(t, "eval tuned --data test.csv"); again["loss"] != got["test_loss"] {
		t.Errorf("eval has %v, and the run %v", again, got["test_loss"])
	}
	// A resumed run reads the body again: the file may have moved, but must have the same weights.
	if err := os.Rename("public/model.safetensors", "moved"); err != nil {
		t.Fatal(err)
	}
	refuses := func(flags, what string) {
		t.Helper()
		if _, stderr, code := dptrain("train --resume tuned --steps 6 " + flags); code != exitcode.Usage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, what) {
			t.Errorf("resumed with %q: exit %d: %s", flags, code, stderr)
		}
	}
	refuses("", ": the run started from that file; restore it, or give its new path with --init")
	runJSON(t, baseline+" --model mlp:6 --steps 4 --out other-public")
	refuses("--init other-public/model.safetensors", "frozen weights and other constants of the network is ")
	runJSON(t, "train --resume tuned --steps 6 --init moved")
	if err := os.Rename("moved", "public/model.safetensors"); err != nil {
		t.Fatal(err)
	}
	compare()
	// A run without --init cannot be resumed with one.
	if _, stderr, code := dptrain("train --resume public --steps 6 --init tuned/model.safetensors"); code != exitcode.Usage || !strings.Contains(stderr, "the run did not start from a file") {
		t.Errorf("--init of a run that had none: exit %d: %s", code, stderr)
	}

	// A head for other classes: the old head in the file is not read.
	if _, stderr, code := dptrain(strings.Replace(tuned, "mlp:6", "mlp:6,7", 1) + ",fc3 --steps 1 --out other"); code != exitcode.Done {
		t.Errorf("another head: exit %d: %s", code, stderr)
	}
	for flags, want := range map[string]string{
		"--freeze fc1": "--init",
		"--fresh fc2":  "--init",
		"--init public/model.safetensors --freeze fc9":             "fc1, fc2",
		"--init public/model.safetensors --fresh fc":               "fc1, fc2",
		"--init public/model.safetensors --freeze fc1,fc2":         "no layer is left to train",
		"--init public/model.safetensors --freeze fc1 --fresh fc1": "would keep random weights",
	} {
		stdout, stderr, code := dptrain(brief + " --model mlp:6 --steps 1 --out no " + flags)
		if code != exitcode.Usage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s%s", flags, code, stdout, stderr)
		}
	}
}
