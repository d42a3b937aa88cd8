package main

import (
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// A run with truncated lots costs what budget computes for it, before and after, and its files
// state the sampling.
func TestTrain_TruncatedLots(t *testing.T) {
	inWorkshop(t)
	line := brief + " --accountant pld --delta 1e-4 --noise 1 --steps 6 --sampling truncated --max-lot 210 --constant-work --seed 1"
	seen := runJSON(t, line+" --dry-run")
	run := runJSON(t, line+" --out run")
	planned := runJSON(t, "budget epsilon --records 4000 --lot 200 --steps 6 --noise 1 --sampling truncated --max-lot 210 --delta 1e-4")
	again := runJSON(t, "ledger epsilon run --delta 1e-4")
	for what, v := range map[string]map[string]any{"--dry-run": seen, "budget": planned, "ledger": again} {
		if v["epsilon"] != run["epsilon"] {
			t.Errorf("%s: ε = %v, the run has %v", what, v["epsilon"], run["epsilon"])
		}
	}
	poisson := runJSON(t, "budget epsilon --records 4000 --lot 200 --steps 6 --noise 1 --delta 1e-4")
	if !(run["epsilon"].(float64) > 1.05*poisson["epsilon"].(float64)) {
		t.Errorf("ε = %v, without truncation %v: the test is not conclusive", run["epsilon"], poisson["epsilon"])
	}
	if run["sampling"] != "truncated" || run["max_lot"] != 210.0 || run["constant_work"] != true || planned["max_lot"] != 210.0 || seen["max_lot"] != 210.0 || run["adjacency"] != "zero-out" {
		t.Errorf("sampling %v, largest lot %v, %v and %v, constant work %v, adjacency %v", run["sampling"], run["max_lot"], planned["max_lot"], seen["max_lot"], run["constant_work"], run["adjacency"])
	}
	for file, want := range map[string]string{
		"run/ledger.jsonl":  `"sampling":{"policy":"truncated","rate":0.05`,
		"run/report.html":   "each lot is padded to the largest lot",
		"run/MODEL_CARD.md": "used at most 210 of them",
	} {
		if text := string(readFile(t, file)); !strings.Contains(text, want) {
			t.Errorf("%s lacks %q", file, want)
		}
	}
	if stdout, _, code := dptrain("ledger show run"); code != exitcode.Done || !strings.Contains(stdout, "truncated, rate 0.05, at most 210 of 4000") {
		t.Error(stdout)
	}
	if _, stderr, code := dptrain("train --resume run --steps 7 --max-lot 220"); code != exitcode.Usage {
		t.Errorf("resuming with another largest lot: exit %d, %s", code, stderr)
	}
	if resumed := runJSON(t, "train --resume run --steps 8"); resumed["steps"] != 8.0 || resumed["max_lot"] != 210.0 {
		t.Errorf("resumed: %v steps, largest lot %v", resumed["steps"], resumed["max_lot"])
	}
}

func TestTruncated_RefusesContradictions(t *testing.T) {
	inWorkshop(t)
	for line, want := range map[string]string{
		brief + " --max-lot 300":                    "--max-lot requires --sampling truncated",
		brief + " --constant-work":                  "--constant-work requires --sampling truncated",
		brief + " --sampling truncated --max-lot 0": "--max-lot 0",
		strings.Replace(brief, "--lot 200", "", 1) + " --sampling truncated --rate 1":                "below 1",
		brief + " --sampling truncated --lot 4000":                                                   "below 1",
		brief + " --sampling truncated --population 3999 --steps 1 --noise 1 --out o":                "3999",
		"budget epsilon --rate 0.01 --noise 4 --steps 10 --delta 1e-5 --sampling truncated":          "requires --records",
		"budget epsilon --records 100 --lot 10 --noise 4 --steps 10 --max-lot 20":                    "--max-lot requires --sampling truncated",
		"budget epsilon --records 100 --lot 100 --noise 4 --steps 10 --sampling truncated":           "below 1",
		"budget epsilon --records 100 --lot 10 --noise 4 --steps 9 --sampling truncated --max-lot 0": "--max-lot 0",
		"budget rate --records 100 --noise 4 --steps 10 --epsilon 1 --sampling truncated":            "--sampling poisson",
	} {
		checkUsageError(t, line, want)
	}
	if v := runJSON(t, "budget epsilon --records 60000 --lot 256 --noise 1.1 --steps 1000 --sampling truncated"); v["max_lot"] != 364.0 {
		t.Errorf("the largest lot is %v by default, want 364", v["max_lot"])
	}
}
