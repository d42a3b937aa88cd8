package main

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant"
	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/training"
	"github.com/dptrain/dptrain/internal/modelfile"
	"github.com/dptrain/dptrain/models"
)

func TestProjection_CostIsInBudget(t *testing.T) {
	inWorkshop(t)
	for _, c := range []struct{ name, flags string }{
		{"pld", "--accountant pld"},
		{"rdp", "--accountant rdp"},
		{"shuffle", "--accountant rdp --sampling shuffle"},
		{"stated", "--accountant rdp --project-noise 20"},
		{"both", "--accountant rdp --validation-split 0.1"},
		{"fixed", "--accountant rdp --validation-split 0.1 --sampling fixed"},
	} {
		line := "train --model logistic --ignore owner --lot 200 --epsilon 2 --project 2 --steps 20 --out " + c.name + " " + c.flags + columns
		seen := runJSON(t, line+" --dry-run")
		got := runJSON(t, line)
		if e := got["epsilon"].(float64); e > 2 || e < 1.99 || got["steps"] != 20.0 {
			t.Errorf("%s: ε = %v of 2 in %v lots", c.name, e, got["steps"])
		}
		sigma := got["projection_noise"].(float64)
		if c.name == "stated" && sigma != 20 || seen["projection_noise"] != sigma || got["projection"] != 2.0 || seen["projection"] != 2.0 || seen["epsilon"] != got["epsilon"] {
			t.Errorf("%s: %v directions with noise %v, ε %v; foreseen %v with %v, %v", c.name, got["projection"], sigma, got["epsilon"], seen["projection"], seen["projection_noise"], seen["epsilon"])
		}
		h, err := ledger.Read(c.name + "/ledger.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		first := h.Lots[0]
		if first.Lot.Sampling != (ledger.Sampling{Policy: ledger.FullBatch, Records: h.Header.Records}) || first.Count != 1 || first.Lot.Queries[0] != ledger.RoundedQuery("second moments", 1, sigma, 1<<36) {
			t.Errorf("%s: the ledger begins with %+v", c.name, first)
		}
		// The expected history: one query for the directions, the lots, and the validation.
		spent, err := accountant.Epsilon(h, got["delta"].(float64), got["accountant"].(string))
		if err != nil || spent.Epsilon != got["epsilon"].(float64) {
			t.Errorf("%s: the ledger's ε is %v, %v", c.name, spent.Epsilon, err)
		}
		alone := h
		alone.Lots = alone.Lots[:1]
		if one, err := accountant.Epsilon(alone, got["delta"].(float64), got["accountant"].(string)); err != nil || c.name != "stated" && !(math.Abs(one.Epsilon-0.5) <= 0.01) {
			t.Errorf("%s: the directions alone cost ε = %v of a budget of 2, %v", c.name, one.Epsilon, err)
		}
	}
	if show, _, _ := dptrain("ledger show shuffle"); !strings.Contains(show, "every record") || !strings.Contains(show, "shuffle, 200 of 4000") {
		t.Errorf("the ledger is shown as\n%s", show)
	}
	page, card := readReports(t, "stated")[0], readReports(t, "stated")[1]
	for _, text := range [][]byte{page, card} {
		if !strings.Contains(string(text), "1 release of second moments over 4000 records, with noise of 20 times its sensitivity") {
			t.Errorf("the page or the card does not list the release:\n%s", text)
		}
	}
	if !strings.Contains(string(page), "2 principal directions, released with noise of 20") {
		t.Error("the page does not describe the first layer")
	}
	stdout, stderr, _ := dptrain(brief + " --steps 2 --noise 2 --project 1 --out few")
	if !strings.Contains(stdout, "onto 1 principal direction, released with a noise multiplier of") || !strings.Contains(stderr, "the run releases 1 principal direction of the features once") {
		t.Error(stdout, stderr)
	}
	budget := runJSON(t, brief+" --steps 100000 --noise 4 --stop-at-epsilon 1 --project 2 --out stopped")
	if e := budget["epsilon"].(float64); e > 1 || e < 0.98 || budget["steps"].(float64) >= 100000 {
		t.Errorf("stopped at ε = %v after %v lots", e, budget["steps"])
	}
}

// A run that stopped before its directions were released does not mention them.
func TestProjection_NotReleased(t *testing.T) {
	inWorkshop(t)
	j := specOf(t, "--lot 20 --steps 3 --noise 1 --ignore owner --model logistic --project 2 --out run"+columns)
	release, err := rundir.Create("run")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	run, err := training.Start(j)
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal.Terminal{Out: io.Discard, Err: io.Discard}
	p, err := training.NewProgress(term, j, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.End()
	r, err := finish(p, nil, nil, time.Now())
	if err != nil || r.Projection != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, text := range readReports(t, "run") {
		if !bytes.Contains(text, []byte("Nothing that depends on the training data was released")) || bytes.Contains(text, []byte("principal direction")) {
			t.Errorf("released is\n%s", text)
		}
	}
}

// Every format of the model contains the released directions.
func TestProjection_IsPartOfTheModel(t *testing.T) {
	inWorkshop(t)
	for _, line := range []string{brief + " --noise 2", baseline} {
		trained := runJSON(t, line+" --steps 10 --project 2 --out run")
		same := func(what string) {
			t.Helper()
			got := runJSON(t, "eval run --data test.csv")
			if got["accuracy"] != trained["test_accuracy"] || got["loss"] != trained["test_loss"] {
				t.Errorf("%s: %v, in training %v and %v", what, got, trained["test_accuracy"], trained["test_loss"])
			}
		}
		same("eval")
		runJSON(t, "export run --out model.pt.safetensors")
		own, err := modelfile.ReadWeights("run/model.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		tensors, err := modelfile.ReadWeights("model.pt.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		directions, err := modelfile.Directions(tensors, []int{5})
		if known, _ := modelfile.Directions(own, []int{5}); err != nil || len(directions) != 10 || !slices.Equal(directions, known) {
			t.Fatalf("directions %v, exported %v, %v", known, directions, err)
		}
		if a, b, c := dot(directions[:5], directions[:5]), dot(directions[5:], directions[5:]), dot(directions[:5], directions[5:]); !(math.Abs(a-1) <= 1e-5) || !(math.Abs(b-1) <= 1e-5) || !(math.Abs(c) <= 1e-5) {
			t.Errorf("directions %v are not orthonormal", directions)
		}

		// Starting weights include their directions, which cost nothing more.
		for _, file := range []string{"run/model.safetensors", "model.pt.safetensors"} {
			next := runJSON(t, brief+" --noise 2 --steps 1 --out next --init "+file)
			if next["projection"] != nil {
				t.Error("known directions are called released")
			}
			weights, err := modelfile.ReadWeights("next/model.safetensors")
			if err != nil {
				t.Fatal(err)
			}
			if d, err := modelfile.Directions(weights, []int{5}); err != nil || !slices.Equal(d, directions) {
				t.Errorf("started from %v with directions %v, %v", directions, d, err)
			}
			h, err := ledger.Read("next/ledger.jsonl")
			if err != nil || len(h.Lots) != 1 {
				t.Errorf("the ledger holds %+v, %v", h.Lots, err)
			}
			runJSON(t, "train --resume next --steps 3")
			if err := os.RemoveAll("next"); err != nil {
				t.Fatal(err)
			}
		}
		if _, stderr, code := dptrain(brief + " --project 2 --out next --init model.pt.safetensors"); code != exitcode.Usage || !strings.Contains(stderr, "drop --project") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("--init and --project: exit %d, %s", code, stderr)
		}

		if _, stderr, code := dptrain(strings.Replace(brief, "red|blue", "red|blue|green", 1) + " --out next --init model.pt.safetensors"); code != exitcode.Usage || !strings.Contains(stderr, "projection.weight has shape [2 5], which does not fit features of shape [6]") {
			t.Errorf("--init with directions among other features: exit %d, %s", code, stderr)
		}

		if err := errors.Join(os.Rename("model.pt.safetensors", "run/model.safetensors"), os.RemoveAll("run/ledger.jsonl")); err != nil { // the ledger has the hash of the run's own file
			t.Fatal(err)
		}
		same("what was exported")
		runJSON(t, "export run --overwrite --out model.onnx")
		if model, err := os.ReadFile("model.onnx"); err != nil || !strings.Contains(string(model), models.ProjectionName) {
			t.Errorf("the ONNX model lacks the directions, %v", err)
		}
		if err := os.RemoveAll("run"); err != nil {
			t.Fatal(err)
		}
	}
}

func dot(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// A resumed run keeps its directions and does not pay for others.
func TestProjection_Resume(t *testing.T) {
	inWorkshop(t)
	first := runJSON(t, brief+" --steps 10 --epsilon 2 --project 2 --out run")
	before, err := modelfile.ReadWeights("run/model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if again := runJSON(t, "train --resume run"); again["epsilon"] != first["epsilon"] || again["projection_noise"] != first["projection_noise"] || again["test_loss"] != first["test_loss"] {
		t.Errorf("resumed with nothing to do: %v, was %v", again, first)
	}
	more := runJSON(t, "train --resume run --epsilon 3")
	if e := more["epsilon"].(float64); e > 3 || e < 2.9 || more["projection"] != 2.0 {
		t.Errorf("extended to ε = 3: ε %v, %v directions", e, more["projection"])
	}
	after, err := modelfile.ReadWeights("run/model.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	a, _ := modelfile.Directions(before, []int{5})
	b, _ := modelfile.Directions(after, []int{5})
	if len(a) != 10 || !slices.Equal(a, b) {
		t.Errorf("directions %v became %v", a, b)
	}
	h, err := ledger.Read("run/ledger.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range h.Lots {
		if every := s.Lot.Sampling.Policy == ledger.FullBatch; every != (i == 0) {
			t.Errorf("entry %d: %+v", i, s)
		}
	}
	for _, change := range []string{"--project 1", "--project-noise 77"} {
		if _, stderr, code := dptrain("train --resume run " + change); code != exitcode.Usage || !strings.Contains(stderr, "projection is") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", change, code, stderr)
		}
	}
}
