package main

import (
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/modelfile"
)

// In one step of SGD with equal lots and noise, --lr-of scales the change of a layer, and
// --decay-of changes only parameters that decay.
func TestMultipliers_ScaleSteps(t *testing.T) {
	inWorkshop(t)
	line := brief + " --model mlp:6 --noise 1 --seed 3 --steps 1 --optimizer "
	values := func(dir string) map[string][]float32 {
		tensors, err := modelfile.ReadWeights(dir + "/model.safetensors")
		if err != nil || len(tensors) != 4 {
			t.Fatalf("%s: %d tensors: %v", dir, len(tensors), err)
		}
		all := map[string][]float32{}
		for _, x := range tensors {
			all[x.Name] = x.Values
		}
		return all
	}
	run := func(dir, flags string) map[string][]float32 {
		runJSON(t, line+flags+" --out "+dir)
		return values(dir)
	}
	plain, start := run("plain", "sgd --lr 0.5"), run("start", "sgd --lr 1e-30")
	fast := run("fast", "sgd --lr 0.5 --lr-of fc2=3,fc1.bias=0.5")
	factors := map[string]float64{"fc1.weight": 1, "fc1.bias": 0.5, "fc2.weight": 3, "fc2.bias": 3}
	for name, factor := range factors {
		if factor == 1 && !slices.Equal(fast[name], plain[name]) {
			t.Errorf("%s moved differently", name)
		}
		for i, w := range start[name] {
			want := float64(w) + factor*(float64(plain[name][i])-float64(w))
			if got := float64(fast[name][i]); !(math.Abs(got-want) <= 1e-5*(1+math.Abs(want))) {
				t.Fatalf("%s: weight %d came to %v, want %v", name, i, got, want)
			}
		}
	}
	all, matrices := run("all", "sgd:weight-decay=0.2 --lr 0.5"), run("matrices", "sgd:weight-decay=0.2 --lr 0.5 --decay-of matrices")
	for name := range factors {
		want := all[name]
		if strings.HasSuffix(name, "bias") {
			want = plain[name]
		}
		if !slices.Equal(matrices[name], want) || slices.Equal(all[name], plain[name]) {
			t.Errorf("%s: wrong decay", name)
		}
	}
}

// run.json and the model card contain the multipliers, and a resumed run keeps them.
func TestMultipliers_AreReported(t *testing.T) {
	inWorkshop(t)
	got := runJSON(t, brief+" --model mlp:6 --noise 1 --steps 2 --optimizer adamw:weight-decay=0.1 --lr 0.02 --lr-of fc2=3 --decay-of matrices --out run")
	if got["lr_of"] != "fc2=3" || got["decay_of"] != "matrices" || got["learning_rate"] != 0.02 {
		t.Errorf("run.json has %v of %v, decay of %v", got["lr_of"], got["learning_rate"], got["decay_of"])
	}
	card, err := os.ReadFile("run/MODEL_CARD.md")
	if err != nil || !strings.Contains(string(card), "| learning-rate factors | fc2=3 |") || !strings.Contains(string(card), "| layers with weight decay | matrices |") {
		t.Errorf("the card (%v) is\n%s", err, card)
	}
	_, stderr, code := dptrain("train --resume run --steps 3 --lr-of fc2=4")
	if code != exitcode.Usage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "learning rate of fc2.weight is times 4 (it was times 3)") {
		t.Errorf("resumed with another factor: exit %d: %s", code, stderr)
	}
	if got := runJSON(t, "train --resume run --steps 3"); got["lr_of"] != "fc2=3" || got["decay_of"] != "matrices" || got["steps"] != 3.0 {
		t.Errorf("the resumed run has %v", got)
	}
	got = runJSON(t, brief+" --model mlp:6 --noise 1 --steps 1 --out plain")
	_, rates := got["lr_of"]
	_, decays := got["decay_of"]
	if rates || decays {
		t.Error("a run without multipliers reports them")
	}
}
