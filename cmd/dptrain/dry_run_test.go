package main

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
)

// A dry run also shows the releases besides the lots.
func TestPreview_ShowsEveryRelease(t *testing.T) {
	var b bytes.Buffer
	p := preview{
		StartNote: "a file", Projection: &rundir.Projection{Directions: 2, Noise: 3}, Augmentation: &rundir.Augmentation{Augment: "flip", Views: 4},
		ValidationRecords: 5, ValidationNoise: 6, validationStatistic: "count", Warning: "none",
	}
	p.print(&b)
	for _, row := range []string{"start\ta file\n", "projection\tonto 2 principal directions, released with a noise multiplier of 3;", "views\t4 of each image, changed by flip\n",
		"validation\t5 more records are held out; noise with standard deviation 6 is added to their count\n", "warning\tnone\n"} {
		if !strings.Contains(b.String(), row) {
			t.Errorf("%q is missing in\n%s", row, &b)
		}
	}
}

func TestDryRun_PredictsCostAndLeavesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	const line = "train --model mlp:16 --steps 30 --lot 100 --noise 1 --delta 1e-5 --accountant rdp --clipping per-layer"
	began := time.Now()
	seen := runJSON(t, line+" --dry-run --out run")
	timed := time.Since(began).Seconds()
	if left, _ := os.ReadDir("."); len(left) > 0 {
		t.Errorf("%v was left behind", left)
	}
	layers := seen["layers"].([]any)
	if len(layers) != 4 {
		t.Fatalf("%d layers, want weights and biases of two", len(layers))
	}
	var spent float64
	for _, l := range layers {
		layer := l.(map[string]any)
		ratio := layer["clip"].(float64) / layer["noise"].(float64)
		spent += ratio * ratio
	}
	if z := 1 / math.Sqrt(spent); !(math.Abs(z-1) <= 1e-6) {
		t.Errorf("the groups compose to a multiplier of %v, want 1", z)
	}
	ran := runJSON(t, line+" --out run")
	if seen["epsilon"] != ran["epsilon"] || seen["microbatch"] != ran["microbatch"] {
		t.Errorf("foreseen ε %v in microbatches of %v, was %v of %v", seen["epsilon"], seen["microbatch"], ran["epsilon"], ran["microbatch"])
	}
	if s := seen["seconds"].(float64); !(s > 0) || s > 30*timed {
		t.Errorf("30 lots are to take %v s, and some of them were timed within %v", s, timed)
	}
	// Where there is time for one lot alone, that is what is timed.
	began = time.Now()
	last := runJSON(t, "train --model mlp:16 --steps 1 --lot 100 --noise 1 --delta 1e-5 --augment flip --dry-run")
	one := last["seconds"].(float64)
	if took := time.Since(began).Seconds(); !(one > 0) || one > took || one == timingDuration.Seconds() {
		t.Errorf("one lot is to take %v s, and its dry run took %v", one, took)
	}
	if last["views"] != 1.0 || last["augment"] != "flip" {
		t.Errorf("%v views, changed by %v", last["views"], last["augment"])
	}
}

// Settings outside the range of published runs get one line of advice each, and are no error.
func TestDryRun_Advice(t *testing.T) {
	inWorkshop(t)
	stdout, stderr, code := dptrain(brief + " --steps 3 --lot 2 --noise 1 --clip 40 --delta 1e-9 --dry-run")
	if code != exitcode.Done || strings.Count(stdout, "advice ") != 3 {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
	for _, want := range []string{"a clip bound of 40 is outside", "3 lots are few", "lots of 2 records are below"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no advice with %q in %s", want, stdout)
		}
	}
	if v := runJSON(t, brief+" --steps 3 --lot 2 --noise 1 --clip 40 --delta 1e-9 --dry-run"); len(v["advice"].([]any)) != 3 {
		t.Errorf("advice %v", v["advice"])
	}
	if stdout, _, _ := dptrain(brief + " --steps 3 --lot 2 --non-private --dry-run"); strings.Contains(stdout, "advice") {
		t.Errorf("a run without privacy gets advice: %s", stdout)
	}
	stdout, _, code = dptrain("train --dry-run --threads 1")
	if code != exitcode.Done || strings.Contains(stdout, "advice") {
		t.Errorf("the default run gets advice: exit %d, %s", code, stdout)
	}
}
