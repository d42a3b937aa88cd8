package main

import (
	"html"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/exitcode"
)

// What an ε is worth stands wherever it is shown: before the run and after, in its files,
// and in what accounts for it again.
func TestNotesStandBesideEpsilon(t *testing.T) {
	inWorkshop(t)
	for _, test := range []struct {
		flags, says string
		other       []string // files that say it in other words
	}{
		{"--sampling fixed --noise 2 --delta 1e-5", "proven bound for any data is epsilon", nil},
		{"--sampling shuffle --noise 2 --delta 1e-5", "Shuffled batches are not amplified by sampling", nil},
		{"--accountant zcdp --noise 2 --delta 1e-5", "zCDP knows no amplification", nil},
		{"--accountant gdp --noise 2 --delta 1e-5", "may say less than was spent", nil},
		{"--noise 2 --delta 0.01", "δ = 0.01 is not below 1/4000, one over the number of records", []string{"run.json"}},
		{"--noise 2 --delta 1e-5 --seed 1", "INSECURE", []string{"run.json"}},
		{"--non-private", "NONE", []string{"run.json", "report.html", "MODEL_CARD.md"}},
	} {
		line := "train --model logistic --lot 200 --ignore owner --steps 3" + columns + " " + test.flags
		out := "out" + strings.Join(strings.Fields(test.flags), "")
		for _, end := range []string{" --dry-run", " --out " + out} {
			if stdout, stderr, code := dptrain(line + end); code != exitcode.Done || !strings.Contains(stdout, test.says) {
				t.Errorf("%s%s, which does not say %q: exit %d, %s%s", test.flags, end, test.says, code, stdout, stderr)
			}
		}
		for _, file := range []string{"run.json", "report.html", "MODEL_CARD.md"} {
			text := html.UnescapeString(strings.ReplaceAll(string(readFile(t, out+"/"+file)), `\`, ""))
			if !slices.Contains(test.other, file) && !strings.Contains(text, test.says) {
				t.Errorf("%s: %s does not say %q", test.flags, file, test.says)
			}
		}
		if test.flags != "--non-private" {
			again := "ledger epsilon " + out
			for _, flag := range []string{"accountant", "delta"} {
				if _, rest, given := strings.Cut(test.flags, "--"+flag+" "); given {
					again += " --" + flag + " " + strings.Fields(rest)[0]
				}
			}
			stdout, stderr, _ := dptrain(again)
			if !strings.Contains(strings.ToUpper(stdout+stderr), strings.ToUpper(test.says)) {
				t.Errorf("%s does not say %q: %s%s", again, test.says, stdout, stderr)
			}
		}
	}
	// Where lots have a size, what is proven is a number too.
	fixed := "train --model logistic --lot 200 --ignore owner --steps 3 --sampling fixed --noise 2 --delta 1e-5" + columns
	for _, v := range []map[string]any{runJSON(t, fixed+" --dry-run"), runJSON(t, fixed+" --out fixed")} {
		if proven, there := v["epsilon_proven"].(float64); !there || proven <= v["epsilon"].(float64) {
			t.Errorf("ε is %v, and %v is proven", v["epsilon"], v["epsilon_proven"])
		}
	}
}

// A dry run refuses what the run will.
func TestDryRunRefusesWhatTheRunWill(t *testing.T) {
	inWorkshop(t)
	for flags, want := range map[string]int{
		"--accountant gdp --epsilon 1":                     exitcode.Usage,
		"--noise 0.5 --delta 1e-5 --stop-at-epsilon 0.001": exitcode.OverBudget,
		"--noise 2 --delta 1e-5 --threads -1":              exitcode.Usage,
	} {
		line := "train --model logistic --lot 200 --ignore owner --steps 3" + columns + " " + flags
		_, foreseen, code := dptrain(line + " --dry-run")
		if _, stderr, ran := dptrain(line + " --out run"); code != want || ran != want || foreseen != stderr {
			t.Errorf("%s: exit %d and %s, and of the run %d and %s", flags, code, foreseen, ran, stderr)
		}
	}
}
