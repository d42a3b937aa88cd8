package main

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// A run states the guarantee for the relation that --adjacency names: its noise is calibrated for it,
// its ledger states it, and budget, ledger epsilon and a resumed run agree.
func TestTrain_Adjacency(t *testing.T) {
	t.Chdir(t.TempDir())
	writeSweepData(t)
	table := " --data rows.csv --test test.csv --schema columns.yaml --model logistic --lot 2 --steps 4 --delta 0.01 --accountant rdp"
	run := runJSON(t, "train --noise 3 --adjacency replace-one --out replaced"+table)
	want := runJSON(t, "budget epsilon --records 4 --lot 2 --steps 4 --delta 0.01 --accountant rdp --noise 3 --adjacency replace-one")["epsilon"].(float64)
	if run["adjacency"] != "replace-one" || math.Abs(run["epsilon"].(float64)/want-1) > 1e-9 {
		t.Errorf("the run states ε = %v under %v, the budget %v", run["epsilon"], run["adjacency"], want)
	}
	if text := string(readFile(t, "replaced/ledger.jsonl")); !strings.Contains(text, `"adjacency":"replace-one"`) {
		t.Error("the ledger states another adjacency")
	}
	calibrated := runJSON(t, "train --dry-run --epsilon 2 --adjacency replace-one"+table)["noise_multiplier"].(float64)
	zeroed := runJSON(t, "train --dry-run --epsilon 2"+table)["noise_multiplier"].(float64)
	if !(calibrated > 1.2*zeroed) {
		t.Errorf("noise %v for replaced records, %v for zeroed ones", calibrated, zeroed)
	}
	plain := runJSON(t, "train --noise 3 --out zeroed"+table)
	for line, want := range map[string]any{
		"ledger epsilon zeroed --delta 0.01 --accountant rdp --adjacency replace-one": run["epsilon"],
		"ledger epsilon zeroed --delta 0.01 --accountant rdp --adjacency zero-out":    plain["epsilon"],
		"ledger epsilon replaced --delta 0.01 --accountant rdp --adjacency zero-out":  plain["epsilon"],
		"ledger epsilon replaced --delta 0.01 --accountant rdp":                       run["epsilon"],
	} {
		if got := runJSON(t, line)["epsilon"]; math.Abs(got.(float64)/want.(float64)-1) > 1e-9 {
			t.Errorf("%s: %v, want %v", line, got, want)
		}
	}
	if again := runJSON(t, "train --resume replaced --steps 6"); again["adjacency"] != "replace-one" || !(again["epsilon"].(float64) > want) {
		t.Errorf("resumed: ε = %v under %v", again["epsilon"], again["adjacency"])
	}
	declared := runJSON(t, "train --dry-run --noise 3 --population 9 --adjacency add-remove"+table)
	if declared["adjacency"] != "add-or-remove-one" {
		t.Errorf("with a population: %v", declared["adjacency"])
	}
	for line, want := range map[string]string{
		"train --noise 3 --adjacency add-remove" + table:                              "--population",
		"train --noise 3 --adjacency zero-out --population 9" + table:                 "exclude each other",
		"train --noise 3 --adjacency zero-out --sampling fixed" + table:               "does not hold for --sampling fixed",
		"train --noise 3 --adjacency some" + table:                                    "replace-one",
		"train --resume replaced --adjacency zero-out --steps 8":                      "exclude each other",
		"ledger epsilon zeroed --delta 0.01 --adjacency add-remove":                   "--population",
		"ledger epsilon zeroed replaced --delta 0.01 --adjacency replace-one":         "one run",
		"ledger epsilon zeroed --delta 0.01,0.02":                                     "--curve",
		"ledger epsilon zeroed --delta 0.01 --out a.csv":                              "--curve",
		"ledger epsilon zeroed --delta 0.01 --curve --out a.txt":                      ".csv",
		"ledger epsilon zeroed --delta 0.01,2 --curve":                                "2",
		"train --non-private --adjacency replace-one --data digits --steps 1 --lot 2": "exclude each other",
	} {
		if _, stderr, code := dptrain(line); code != exitcode.Usage || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", line, code, stderr)
		}
	}
}

// A curve has ε of the first lots for each δ, as ledger epsilon computes it of a ledger that ends there,
// and the test results of the run.
func TestLedgerEpsilon_Curve(t *testing.T) {
	t.Chdir(t.TempDir())
	writeSweepData(t)
	table := " --data rows.csv --test test.csv --schema columns.yaml --model logistic --lot 2 --noise 3 --delta 0.01 --accountant rdp"
	runJSON(t, "train --steps 20 --out long"+table)
	got := runJSON(t, "ledger epsilon long --delta 0.01,0.001 --accountant rdp --curve --out curve.csv")
	curves := got["curves"].([]any)
	if len(curves) != 2 {
		t.Fatalf("%v", got)
	}
	for i, delta := range []float64{0.01, 0.001} {
		curve := curves[i].(map[string]any)
		points := curve["points"].([]any)
		if curve["delta"] != delta || len(points) < 2 {
			t.Fatalf("curve %d: %v", i, curve)
		}
		for _, p := range points {
			point := p.(map[string]any)
			lots := point["lots"].(float64)
			want := runJSON(t, "budget epsilon --records 4 --lot 2 --noise 3 --accountant rdp --steps "+fmt.Sprint(lots)+" --delta "+fmt.Sprint(delta))["epsilon"].(float64)
			if math.Abs(point["epsilon"].(float64)/want-1) > 1e-9 || point["test_accuracy"] == nil {
				t.Errorf("δ = %v: %v, want ε = %v", delta, point, want)
			}
		}
	}
	text, err := os.ReadFile("curve.csv")
	if points := len(curves[0].(map[string]any)["points"].([]any)); err != nil || strings.Count(string(text), "\n") != 2*points+1 {
		t.Errorf("%v: %s", err, text)
	}
	if err := os.Remove("long/metrics.jsonl"); err != nil {
		t.Fatal(err)
	}
	if plain := runJSON(t, "ledger epsilon long --curve")["curves"].([]any); len(plain) != 1 || len(plain[0].(map[string]any)["points"].([]any)) < 10 {
		t.Errorf("without test results: %v", plain)
	}
}
