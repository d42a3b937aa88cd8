package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

func TestValidation_CostIsInBudget(t *testing.T) {
	inWorkshop(t)
	for _, c := range []struct{ name, flags string }{
		{"pld", "--accountant pld"},
		{"rdp", "--accountant rdp"},
		{"shuffle", "--accountant rdp --sampling shuffle"},
		{"stated", "--accountant rdp --validation-noise 20"},
	} {
		line := "train --model logistic --ignore owner --lot 200 --epsilon 2 --validation-split 0.1 --steps 20 --out " + c.name + " " + c.flags + columns
		seen := runJSON(t, line+" --dry-run")
		got := runJSON(t, line)
		if e := got["epsilon"].(float64); e > 2 || e < 1.99 || got["steps"] != 20.0 {
			t.Errorf("%s: ε = %v of 2 in %v lots", c.name, e, got["steps"])
		}
		if got["records"] != 3600.0 || got["validation_records"] != 400.0 || seen["validation_records"] != 400.0 {
			t.Errorf("%s: %v records trained on, %v held out, %v foreseen", c.name, got["records"], got["validation_records"], seen["validation_records"])
		}
		sigma := got["validation_noise"].(float64)
		if c.name == "stated" && sigma != 20 || seen["validation_noise"] != got["validation_noise"] {
			t.Errorf("%s: noise %v, foreseen %v", c.name, sigma, seen["validation_noise"])
		}
		if d := got["validation_deviation"].(float64); !(math.Abs(d-sigma/400) <= 1e-15) {
			t.Errorf("%s: deviation %v, want %v", c.name, d, sigma/400)
		}
		// Both accuracies estimate the same value: they differ by the noise and by the
		// difference of two parts of the table.
		if a, b := got["validation_accuracy"].(float64), got["test_accuracy"].(float64); !(math.Abs(a-b) <= 6*(sigma/400+0.01)) {
			t.Errorf("%s: accuracy %v on what was held out, %v on test data", c.name, a, b)
		}
		h, err := ledger.Read(c.name + "/ledger.jsonl")
		if err != nil {
			t.Fatal(err)
		}
		last := h.Lots[len(h.Lots)-1]
		if last.Lot.Sampling.Policy != ledger.FullBatch || last.Count != 1 || last.Lot.Queries[0].Noise != sigma {
			t.Errorf("%s: the ledger ends with %+v", c.name, last)
		}
		if groups := got["groups"].([]any); groups[0].(map[string]any)["group"] != "gradient" {
			t.Errorf("%s: groups %v", c.name, groups)
		}
	}
	card := readFile(t, "stated/MODEL_CARD.md")
	for _, piece := range []string{"Each of the 20 steps drew each of the", "1 release of validation accuracy over 400 records, with noise of 20 times", "| validation accuracy |", "% ± 5.00% of noise (ε includes its cost)"} {
		if !strings.Contains(string(card), piece) {
			t.Errorf("the card lacks %q:\n%s", piece, card)
		}
	}
}

// An idle resumed run keeps its validation. A resumed run with new lots releases another one
// within the budget.
func TestValidation_Resume(t *testing.T) {
	inWorkshop(t)
	first := runJSON(t, brief+" --steps 20 --epsilon 2 --validation-split 0.1 --out run")
	again := runJSON(t, "train --resume run")
	if again["validation_accuracy"] != first["validation_accuracy"] || again["ledger_head"] == "" || again["epsilon"] != first["epsilon"] {
		t.Errorf("resumed with nothing to do: accuracy %v, was %v; ε %v, was %v", again["validation_accuracy"], first["validation_accuracy"], again["epsilon"], first["epsilon"])
	}
	os.Remove("run/run.json")
	stdout, stderr, code := dptrain("train --resume run")
	if code != exitcode.Done || !strings.Contains(stderr, "No validation accuracy") || strings.Contains(stdout, "validation") {
		t.Errorf("with the answer lost and no budget left: exit %d\n%s%s", code, stdout, stderr)
	}
	stdout, stderr, code = dptrain("train --resume run --epsilon 3 --json")
	if code != exitcode.Done || strings.Contains(stderr, "The budget ended the run") {
		t.Errorf("extended to ε = 3: exit %d, %s", code, stderr)
	}
	var more map[string]any
	if err := json.Unmarshal([]byte(stdout), &more); err != nil {
		t.Fatal(err)
	}
	if e := more["epsilon"].(float64); e > 3 || e < 2.97 || more["validation_accuracy"] == nil || more["ledger_head"] == first["ledger_head"] {
		t.Errorf("extended to ε = 3: ε %v, accuracy %v, ledger %v", e, more["validation_accuracy"], more["ledger_head"])
	}
	if _, stderr, code := dptrain("train --resume run --validation-split 0.2"); code != exitcode.Usage || !strings.Contains(stderr, "records") {
		t.Errorf("another split: exit %d, %s", code, stderr)
	}
}

func TestValidation_UsersAndNonPrivate(t *testing.T) {
	inWorkshop(t)
	table(t, "people.csv", 400)
	table(t, "test.csv", 40)
	got := runJSON(t, "train --record user:owner --user-examples 4 --model mlp:8 --steps 5 --lot 5 --noise 0.5 --accountant rdp --validation-split 0.25 --validation-noise 3 --out users"+columns)
	if got["records"] != 15.0 || got["validation_records"] != 5.0 || got["validation_deviation"] != 0.6 {
		t.Errorf("%v users, %v held out, deviation %v", got["records"], got["validation_records"], got["validation_deviation"])
	}
	got = runJSON(t, baseline+" --steps 4 --validation-split 0.5 --out baseline")
	if got["validation_deviation"] != 0.0 || got["validation_records"] != 200.0 {
		t.Errorf("without privacy: %v records, deviation %v", got["validation_records"], got["validation_deviation"])
	}
}

// Noise that makes the validation useless is refused with what would be needed: the message's own
// number of records, or its noise, is accepted.
func TestValidation_RefusesUselessNoise(t *testing.T) {
	t.Chdir(t.TempDir())
	table(t, "few.csv", 300)
	line := "train --data few.csv --label label --classes no,yes --bounds age=0:100 --vocabulary colour=red|blue --ignore owner --model logistic --lot 100 --steps 2 --accountant rdp --epsilon 1 --delta 1e-5 --dry-run"
	_, stderr, code := dptrain(line + " --validation-split 0.1")
	var share, records, noise, limit, alone, budget float64
	_, err := fmt.Sscanf(regexp.MustCompile(`(\d) (\d{3})`).ReplaceAllString(stderr[max(0, strings.Index(stderr, "of 30 records")):], "$1$2"), "of 30 records would have noise of ±%f%%, which shows nothing: it needs about %f records in all, or --validation-noise %f (±%f%%), which alone costs ε = %f of %f;", &share, &records, &noise, &limit, &alone, &budget)
	if code != exitcode.Usage || err != nil || share < 43 || limit != 30 || noise != 9 || budget != 1 || !(alone > 0.2) || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "--split 0.2 or --test") {
		t.Fatalf("exit %d, %v, %v %v %v: %s", code, err, share, records, noise, stderr)
	}
	if stated := runJSON(t, strings.Replace(line, "--epsilon 1", "--epsilon 2", 1)+" --validation-split 0.1 --validation-noise 9"); stated["validation_noise"] != 9.0 {
		t.Errorf("stated noise: %v", stated["validation_noise"])
	}
	table(t, "few.csv", int(records)+10)
	if v := runJSON(t, line+" --validation-split 0.1"); !(v["validation_noise"].(float64) <= 0.3*v["validation_records"].(float64)) {
		t.Errorf("with the needed records: noise %v of %v", v["validation_noise"], v["validation_records"])
	}
}
