package main

import (
	"encoding/json"
	"html"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
)

// Every output that shows ε also shows its note: the dry run, the run, its files, and the ledger
// commands.
func TestNotes_ShownWithEpsilon(t *testing.T) {
	inWorkshop(t)
	for _, test := range []struct {
		flags, note string
		except      []string // files with another wording
	}{
		{"--sampling fixed --noise 2 --delta 1e-5", "is proven for any data (Zhu", nil},
		{"--sampling shuffle --noise 2 --delta 1e-5", "Shuffled lots are not amplified by sampling", nil},
		{"--accountant zcdp --noise 2 --delta 1e-5", "zCDP has no amplification", nil},
		{"--accountant gdp --noise 2 --delta 1e-5", "the run may have spent more", nil},
		{"--noise 2 --delta 0.01 --allow-large-delta", "δ = 0.01 is not below 1/4000, one over the number of records", []string{"run.json"}},
		{"--noise 2 --delta 1e-5 --seed 1", "INSECURE", []string{"run.json"}},
		{"--non-private", "NONE", []string{"run.json", "report.html", "MODEL_CARD.md"}},
	} {
		line := "train --model logistic --lot 200 --ignore owner --steps 3" + columns + " " + test.flags
		out := "out" + strings.Join(strings.Fields(test.flags), "")
		for _, end := range []string{" --dry-run", " --out " + out} {
			if stdout, stderr, code := dptrain(line + end); code != exitcode.Done || !strings.Contains(stdout, test.note) {
				t.Errorf("%s%s lacks %q: exit %d, %s%s", test.flags, end, test.note, code, stdout, stderr)
			}
		}
		for _, file := range []string{"run.json", "report.html", "MODEL_CARD.md"} {
			text := html.UnescapeString(strings.ReplaceAll(string(readFile(t, out+"/"+file)), `\`, ""))
			if !slices.Contains(test.except, file) && !strings.Contains(text, test.note) {
				t.Errorf("%s: %s lacks %q", test.flags, file, test.note)
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
			if !strings.Contains(strings.ToUpper(stdout+stderr), strings.ToUpper(test.note)) {
				t.Errorf("%s lacks %q: %s%s", again, test.note, stdout, stderr)
			}
		}
	}
	// For lots of a fixed size, ε is the proven one, and the published one has its own key.
	fixed := "train --model logistic --lot 200 --ignore owner --steps 3 --sampling fixed --noise 2 --delta 1e-5" + columns
	for _, v := range []map[string]any{runJSON(t, fixed+" --dry-run"), runJSON(t, fixed+" --out fixed")} {
		if published, there := v["epsilon_published"].(float64); !there || published >= v["epsilon"].(float64) || v["approximate"] != nil {
			t.Errorf("ε is %v, the published ε %v", v["epsilon"], v["epsilon_published"])
		}
	}
}

// A script reads the proven ε of lots of a fixed size, and cannot take an approximation for a
// bound.
func TestNotes_QuietEpsilon(t *testing.T) {
	inWorkshop(t)
	const lots = "train --model logistic --lot 200 --ignore owner --steps 3" + columns + " --noise 2 --delta 1e-5"
	runText(t, lots+" --sampling fixed --out fixed")
	runText(t, lots+" --accountant gdp --out gdp")
	const plan = "budget epsilon --records 50000 --lot 49000 --steps 10 --noise 1 --delta 1e-5"
	for _, command := range []string{plan + " --sampling fixed", "ledger epsilon fixed --delta 1e-5", lots + " --sampling fixed --dry-run"} {
		v, quiet := runJSON(t, command), strings.Fields(runText(t, command+" --quiet"))[0]
		if published, there := v["epsilon_published"].(float64); !there || quiet != number.RoundUp(v["epsilon"].(float64)) || v["epsilon"].(float64) <= published {
			t.Errorf("%s: --quiet prints %s; --json ε %v, published %v", command, quiet, v["epsilon"], v["epsilon_published"])
		}
		if text := runText(t, command); !strings.Contains(text, number.RoundUp(v["epsilon_published"].(float64))+" (holds only for some data: see the note)") {
			t.Errorf("%s does not show the published ε:\n%s", command, text)
		}
	}
	for _, command := range []string{plan + " --accountant gdp", plan + " --accountant moments --asymptotic", "ledger epsilon gdp --delta 1e-5 --accountant gdp", lots + " --accountant gdp --dry-run"} {
		if v, text, quiet := runJSON(t, command), runText(t, command), runText(t, command+" --quiet"); v["approximate"] != true || !strings.Contains(text, "≈") || !strings.HasPrefix(quiet, "≈ ") {
			t.Errorf("%s does not mark an approximation: %v, %s%s", command, v["approximate"], text, quiet)
		}
	}
	var summary map[string]any
	if err := json.Unmarshal(readFile(t, "gdp/run.json"), &summary); err != nil || summary["approximate"] != true {
		t.Errorf("run.json does not mark an approximation: %v (%v)", summary["approximate"], err)
	}
	if line := string(readFile(t, "gdp/metrics.jsonl")); !strings.Contains(line, `"approximate":true`) {
		t.Errorf("metrics.jsonl does not mark an approximation: %s", line)
	}
}

// A dry run is refused if the run is.
func TestDryRun_RefusedLikeRun(t *testing.T) {
	inWorkshop(t)
	for flags, want := range map[string]int{
		"--accountant gdp --epsilon 1":                     exitcode.Usage,
		"--noise 0.5 --delta 1e-5 --stop-at-epsilon 0.001": exitcode.OverBudget,
		"--noise 2 --delta 1e-5 --threads -1":              exitcode.Usage,
	} {
		line := "train --model logistic --lot 200 --ignore owner --steps 3" + columns + " " + flags
		_, dryRun, code := dptrain(line + " --dry-run")
		if _, stderr, ran := dptrain(line + " --out run"); code != want || ran != want || dryRun != stderr {
			t.Errorf("%s: the dry run gives exit %d and %s, the run %d and %s", flags, code, dryRun, ran, stderr)
		}
	}
}
