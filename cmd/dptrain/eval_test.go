package main

import (
	"math"
	"testing"

	"github.com/dptrain/dptrain/cuda"
)

// A run on a GPU measures its accuracy there, eval does so too, and the CPU says the
// same.
func TestEvalOnAGPU(t *testing.T) {
	if gpus, err := cuda.Devices(); len(gpus) == 0 {
		t.Skip("no GPU here: make test-emu PKG=./cmd/dptrain RUN=GPU runs this on the emulated device; ", err)
	}
	t.Chdir(t.TempDir())
	got := answer(t, "train --data digits --model logistic --steps 3 --lot 64 --noise 1 --delta 1e-5 --device cuda:0 --out run --quiet")
	for _, where := range []string{"--device cuda:0", "--device cpu"} {
		again := answer(t, "eval run "+where)
		if math.Abs(again["loss"].(float64)-got["test_loss"].(float64)) > 1e-5 || math.Abs(again["accuracy"].(float64)-got["test_accuracy"].(float64)) > 1e-3 {
			t.Errorf("eval %s says %v, train said %v, %v", where, again, got["test_accuracy"], got["test_loss"])
		}
	}
	if _, stderr, code := dptrain("eval run --device cpu --precision bf16"); code != exitWrong {
		t.Errorf("a precision for the CPU: exit %d, %s", code, stderr)
	}
}
