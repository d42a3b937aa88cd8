package main

import (
	"math"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// The default bound of joint clipping is the root of the number of parameters; a given bound
// stays.
func TestJointClipping_DefaultBound(t *testing.T) {
	inWorkshop(t)
	line := brief + " --model mlp:4 --noise 1 --steps 3 --clipping joint --out "
	if v := runJSON(t, line+"run"); v["clip"] != 2.0 { // two layers with weights and biases
		t.Errorf("bound %v, want 2", v["clip"])
	}
	if v := runJSON(t, "train --resume run --steps 4"); v["clip"] != 2.0 || v["steps"] != 4.0 {
		t.Errorf("resumed: bound %v, %v steps", v["clip"], v["steps"])
	}
	if v := runJSON(t, line+"given --clip 1"); v["clip"] != 1.0 {
		t.Errorf("bound %v, want the given 1", v["clip"])
	}
	if v := runJSON(t, "train --resume given --steps 4"); v["clip"] != 1.0 {
		t.Errorf("resumed: bound %v, want the given 1", v["clip"])
	}
	if _, stderr, code := dptrain("train --resume given --steps 5 --clip 2"); code != exitcode.Usage || !strings.Contains(stderr, "clip") {
		t.Errorf("resumed with another bound: exit %d, %s", code, stderr)
	}
	ruled := runJSON(t, brief+" --noise 1 --steps 3 --dry-run")["clip"].(float64)
	for clipping, most := range map[string]float64{"flat": ruled, "per-layer": 1} {
		if v := runJSON(t, brief+" --noise 1 --steps 3 --dry-run --clipping "+clipping); v["layers"].([]any)[0].(map[string]any)["clip"].(float64) > most {
			t.Errorf("%s: %v", clipping, v["layers"])
		}
	}
}

// A gradient of equal coordinates is clipped to the same norm by flat and by joint clipping at
// their default bounds, for any sizes of parameters.
func TestJointClipping_FirstStepsAsLongAsFlat(t *testing.T) {
	inWorkshop(t)
	for _, model := range []string{"logistic", "mlp:4", "mlp:16,8"} {
		layers := runJSON(t, brief+" --noise 1 --steps 3 --dry-run --clipping joint --model "+model)["layers"].([]any)
		total := 0.0
		size := func(layer any) float64 {
			n := 1.0
			for _, s := range layer.(map[string]any)["shape"].([]any) {
				n *= s.(float64)
			}
			return n
		}
		for _, layer := range layers {
			total += size(layer)
		}
		bound, scaled := 0.0, 0.0 // the squared norm of the scaled gradient whose norm is 1
		for _, layer := range layers {
			v := layer.(map[string]any)
			bound = v["clip"].(float64)
			scale := v["noise"].(float64) / bound // the noise multiplier is 1
			scaled += size(layer) / total / (scale * scale)
		}
		if norm := math.Sqrt(scaled); math.Abs(bound/norm-1) > 1e-6 {
			t.Errorf("%s: bound %v clips the gradient to the norm %v, flat clipping to 1", model, bound, bound/norm)
		}
	}
}
