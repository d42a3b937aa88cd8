package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
)

// An epoch of shuffled lots is a pass, which is paid for as a whole. train and budget count
// the same lots, and the report gives the number of passes.
func TestTrain_ShuffledEpochs(t *testing.T) {
	inWorkshop(t)
	for epochs, shown := range map[string]string{"3": "3", "1.4": "1.375"} {
		run := runJSON(t, strings.Replace(brief, "--lot 200", "--lot 1500", 1)+" --sampling shuffle --noise 2 --epochs "+epochs+" --out run"+epochs)
		plan := runJSON(t, "budget epsilon --records 4000 --lot 1500 --sampling shuffle --noise 2 --epochs "+epochs+" --accountant rdp")
		if want := map[string]float64{"3": 9, "1.4": 4}[epochs]; run["steps"] != want || epochs == "3" && (plan["steps"] != want || plan["epsilon"] != run["epsilon"]) {
			t.Errorf("%s epochs are %v lots at ε = %v, and budget has %v at %v", epochs, run["steps"], run["epsilon"], plan["steps"], plan["epsilon"])
		}
		if card := string(readFile(t, "run"+epochs+"/MODEL_CARD.md")); !strings.Contains(card, "| epochs | "+shown+" |") {
			t.Errorf("%v lots are not reported as %s epochs:\n%s", run["steps"], shown, card)
		}
	}
}

// With lots of a fixed size, the budget limits the ε that is proven for any data, and both ε
// are shown.
func TestTrain_BudgetOfFixedLots(t *testing.T) {
	inWorkshop(t)
	const line = brief + " --sampling fixed --delta 1e-5"
	within := func(v map[string]any, budget float64) {
		t.Helper()
		if proven := v["epsilon"].(float64); proven > budget || proven < 0.98*budget || v["epsilon_published"].(float64) >= proven {
			t.Errorf("of %v, ε = %v, and %v is published", budget, proven, v["epsilon_published"])
		}
	}
	within(runJSON(t, line+" --steps 20 --epsilon 2 --dry-run"), 2)
	stdout, stderr, _ := dptrain(line + " --steps 20 --epsilon 2 --out run")
	var v map[string]any
	if err := json.Unmarshal(readFile(t, "run/run.json"), &v); err != nil {
		t.Fatal(err)
	}
	within(v, 2)
	want := fmt.Sprintf("ε = %s at δ = 1e-5", number.RoundUp(v["epsilon"].(float64)))
	if last := fmt.Sprintf("lot 20/20, ε %s of 2,", number.RoundUp(math.Ceil(1000*v["epsilon"].(float64))/1000)); !strings.Contains(stdout, want) || !strings.Contains(stderr, last) {
		t.Errorf("%q or %q is missing:\n%s%s", want, last, stdout, stderr)
	}
	lines := bytes.Split(bytes.TrimSpace(readFile(t, "run/metrics.jsonl")), []byte("\n"))
	var point map[string]any
	if err := json.Unmarshal(lines[len(lines)-1], &point); err != nil || point["epsilon"] != v["epsilon"] || point["epsilon_published"] != v["epsilon_published"] {
		t.Errorf("metrics.jsonl ends with %v, %v", point, err)
	}
	more := runJSON(t, "train --resume run --epsilon 3")
	within(more, 3)
	stopped := runJSON(t, line+" --steps 100000 --noise 4 --stop-at-epsilon 1.5 --out stopped")
	within(stopped, 1.5)
	if more["steps"].(float64) <= 20 || stopped["steps"].(float64) >= 100000 {
		t.Errorf("%v and %v lots", more["steps"], stopped["steps"])
	}
	// The extra releases get their share of that budget too.
	lots := runJSON(t, "budget epsilon --sampling fixed --records 3600 --lot 200 --steps 20 --noise 2 --delta 1e-5 --accountant rdp")["epsilon"].(float64)
	alone := runJSON(t, fmt.Sprintf("budget noise --sampling none --adjacency replace-one --steps 1 --delta 1e-5 --accountant rdp --epsilon %v", settings.ValidationShare*lots))
	if hidden := runJSON(t, line+" --steps 20 --noise 2 --validation-split 0.1 --dry-run"); hidden["validation_noise"] != alone["noise_multiplier"] {
		t.Errorf("noise %v on the validation accuracy, want %v", hidden["validation_noise"], alone["noise_multiplier"])
	}
	// For these lots, the published ε is below the budget and the proven ε above it.
	seen := runJSON(t, line+" --steps 20 --noise "+fmt.Sprint(v["noise_multiplier"])+" --dry-run --stop-at-epsilon "+fmt.Sprint((v["epsilon_published"].(float64)+v["epsilon"].(float64))/2))
	if words, _ := seen["warning"].(string); !strings.Contains(words, "ends before the first") {
		t.Errorf("foreseen with the warning %q", words)
	}
}

// The progress marks an ε that is an approximation, or that does not hold against an
// adversary who knows the seed.
func TestTrainProgress_MarksEpsilon(t *testing.T) {
	inWorkshop(t)
	for flags, want := range map[string]string{
		"--accountant gdp":          "lot 2/2, ε ≈ 0.",
		"--seed 1":                  " (INSECURE), ",
		"--stop-at-epsilon 5":       " of 5, ",
		"--stop-at-epsilon 0.2":     "The budget ended the run after 1 of 2 lots.\n",
		"--seed 1 --accountant gdp": "ε ≈ 0.",
	} {
		_, stderr, code := dptrain("train --model logistic --lot 200 --ignore owner --steps 2 --noise 2 --delta 1e-5 --out out" + strings.Join(strings.Fields(flags), "") + columns + " " + flags)
		if code != exitcode.Done || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, and %q is missing:\n%s", flags, code, want, stderr)
		}
		if strings.Contains(stderr, "≈") != strings.Contains(flags, "gdp") || strings.Contains(stderr, "(INSECURE)") != strings.Contains(flags, "seed") {
			t.Errorf("%s: a mark too many or too few:\n%s", flags, stderr)
		}
	}
}

// All outputs write δ in the same form.
func TestOutputs_FormatOfDelta(t *testing.T) {
	inWorkshop(t)
	const plan = " --rate 0.01 --noise 4 --steps 1000 --delta 0.00001"
	fixed := brief + " --steps 2 --noise 2 --delta 0.00001"
	output := ""
	for _, line := range []string{
		"budget epsilon" + plan, "budget compare" + plan, "budget statement --records 1000000" + plan, "budget curve --out c.svg" + plan,
		"budget delta --rate 0.01 --noise 4 --steps 1000 --epsilon 0.9", "budget delta --quiet --rate 0.01 --noise 4 --steps 1000 --epsilon 0.9",
		"budget steps --rate 0.5 --noise 0.3 --epsilon 0.001 --delta 0.00001", "budget rate --noise 0.05 --steps 1000000 --epsilon 0.001 --delta 0.00000001",
		fixed + " --out run", fixed + " --dry-run", "ledger epsilon run", "ledger epsilon run --delta 0.00001",
	} {
		stdout, stderr, _ := dptrain(line)
		output += "\n$ " + strings.ReplaceAll(line, "--delta 0.00001", "") + "\n" + stdout + stderr
	}
	for _, file := range []string{"run/report.html", "run/MODEL_CARD.md", "c.svg"} {
		output += string(readFile(t, file))
	}
	long := regexp.MustCompile(`.*\de-0\d.*|.*0\.00001\D.*`)
	if found := long.FindAllString(output, -1); found != nil || strings.Count(output, "1e-5") < 8 {
		t.Errorf("another way to write δ is in\n%s", strings.Join(found, "\n"))
	}
}

// A dry run warns that the budget ends the run before its last lot.
func TestDryRun_WarnsOfBudget(t *testing.T) {
	inWorkshop(t)
	for stop, warns := range map[string]bool{"2": true, "50": false} {
		seen := runJSON(t, brief+" --steps 40 --noise 1 --delta 1e-5 --dry-run --stop-at-epsilon "+stop)
		if words, _ := seen["warning"].(string); strings.Contains(words, "ends before the first") != warns {
			t.Errorf("a budget of %s, and all lots cost %v: foreseen with the warning %q", stop, seen["epsilon"], words)
		}
	}
}
