package main

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

func epsilonLeft(t *testing.T) float64 {
	t.Helper()
	return runJSON(t, "budget left people.budget")["epsilon_left"].(float64)
}

// openBudget opens a budget in a directory with data.
func openBudget(t *testing.T, epsilon string) {
	t.Helper()
	inWorkshop(t)
	if v := runJSON(t, "budget open people.budget --delta 1e-5 --epsilon "+epsilon); v["epsilon_left"] == nil || v["delta_left"] != 1e-5 {
		t.Fatalf("a new budget: %v", v)
	}
}

// Runs draw from a budget, keep what they spent, and are refused before they write anything.
func TestProjectBudget_Runs(t *testing.T) {
	openBudget(t, "4")
	line := brief + " --steps 4 --budget people.budget --out "
	first := runJSON(t, line+"first --epsilon 1")
	if got := epsilonLeft(t); math.Abs(got-(4-first["epsilon"].(float64))) > 1e-12 || first["delta"].(float64) > 2.5e-6 || first["delta"].(float64) < 2.49e-6 {
		t.Errorf("%v is left after ε = %v at δ = %v", got, first["epsilon"], first["delta"])
	}
	// With a noise multiplier, the run draws the ε of its plan.
	second := runJSON(t, line+"second --noise 1.5 --delta 1e-6")
	left := epsilonLeft(t)
	if math.Abs(left-(4-first["epsilon"].(float64)-second["epsilon"].(float64))) > 1e-12 || second["steps"] != 4.0 {
		t.Errorf("%v is left after %v and %v of %v lots", left, first["epsilon"], second["epsilon"], second["steps"])
	}
	for _, more := range []string{"third --epsilon 3.5", "third --noise 0.5 --delta 1e-7"} {
		_, stderr, code := dptrain(line + more)
		if _, err := os.Stat("third"); code != exitcode.OverBudget || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "left") || err == nil {
			t.Errorf("%s: exit %d, %s; the directory: %v", more, code, stderr, err)
		}
	}
	// A resumed run draws no more; an extended one draws the difference.
	if v := runJSON(t, "train --resume first --steps 4"); v["steps"] != 4.0 || math.Abs(epsilonLeft(t)-left) > 1e-12 {
		t.Errorf("resumed: %v steps, %v is left, before %v", v["steps"], epsilonLeft(t), left)
	}
	extended := runJSON(t, "train --resume first --epsilon 1.5")
	if got := epsilonLeft(t); math.Abs(left-got-(extended["epsilon"].(float64)-first["epsilon"].(float64))) > 1e-12 || extended["steps"].(float64) <= 4 {
		t.Errorf("extended to ε = %v: %v is left, before %v", extended["epsilon"], got, left)
	}
	// A run that did not draw is recorded, once.
	runJSON(t, brief+" --steps 2 --noise 3 --out outside")
	before := epsilonLeft(t)
	recorded := runJSON(t, "budget spend people.budget outside --delta 1e-7")["epsilon_left"].(float64)
	if !(recorded < before) || runJSON(t, "budget spend people.budget outside --delta 1e-7")["epsilon_left"] != recorded {
		t.Errorf("recording a run: %v is left, before %v", recorded, before)
	}
	if _, stderr, code := dptrain(brief + " --record microbatch:2 --steps 1 --epsilon 0.1 --budget people.budget --out users"); code != exitcode.Usage || !strings.Contains(stderr, "unit") {
		t.Errorf("another unit of privacy: exit %d, %s", code, stderr)
	}
}

// tune draws once for all its runs.
func TestProjectBudget_Selection(t *testing.T) {
	openBudget(t, "3")
	v := runJSON(t, "tune"+strings.TrimPrefix(brief, "train")+" --trials 2 --steps 3 --epsilon 2 --budget people.budget --out chosen")
	if got := epsilonLeft(t); math.Abs(got-(3-v["epsilon"].(float64))) > 1e-12 {
		t.Errorf("%v is left after a selection of ε = %v", got, v["epsilon"])
	}
	if _, stderr, code := dptrain("tune" + strings.TrimPrefix(brief, "train") + " --trials 2 --steps 3 --epsilon 2 --budget people.budget --out again"); code != exitcode.OverBudget {
		t.Errorf("a second selection: exit %d, %s", code, stderr)
	}
}

func TestProjectBudget_RefusesBadInput(t *testing.T) {
	openBudget(t, "1")
	if err := os.WriteFile("bad.budget", []byte("{}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]int{
		"budget open people.budget --epsilon 1 --delta 1e-5":                 exitcode.Usage,
		"budget open other.budget --epsilon 0 --delta 1e-5":                  exitcode.Usage,
		"budget open other.budget --epsilon 1":                               exitcode.Usage,
		"budget open --epsilon 1 --delta 1e-5":                               exitcode.Usage,
		"budget left none.budget":                                            exitcode.Usage,
		"budget left bad.budget":                                             exitcode.Damaged,
		"budget spend people.budget":                                         exitcode.Usage,
		"budget spend people.budget none --delta 1e-6":                       exitcode.Usage,
		brief + " --steps 1 --epsilon 1 --budget none.budget --out o":        exitcode.Usage,
		brief + " --steps 1 --epsilon 1 --budget bad.budget --out o":         exitcode.Damaged,
		brief + " --steps 1 --noise 1 --budget people.budget --out o":        exitcode.Usage,
		brief + " --steps 1 --accountant gdp --budget people.budget --out o": exitcode.Usage,
		brief + " --steps 1 --non-private --budget people.budget --out o":    exitcode.Usage,
		brief + " --steps 1 --epsilon 2 --budget people.budget --out o":      exitcode.OverBudget,
	} {
		if _, stderr, code := dptrain(line); code != want || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, want %d: %s", line, code, want, stderr)
		}
	}
}

// --parallel gives the largest ε of separate runs, and needs a declaration.
func TestLedgerEpsilon_Parallel(t *testing.T) {
	inWorkshop(t)
	largest := 0.0
	for i, noise := range []string{"2", "1", "3"} {
		v := runJSON(t, brief+" --steps 3 --delta 1e-5 --noise "+noise+" --out run"+string(rune('a'+i)))
		largest = max(largest, v["epsilon"].(float64))
	}
	v := runJSON(t, "ledger epsilon runa runb runc --delta 1e-5 --accountant rdp --parallel --disjoint")
	if v["epsilon"] != largest || len(v["files"].([]any)) != 3 {
		t.Errorf("ε = %v of %v, want %v", v["epsilon"], v["files"], largest)
	}
	if err := os.CopyFS("copy", os.DirFS("runa")); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"runa runb --parallel":            "--disjoint",
		"runa runb --disjoint":            "--parallel",
		"runa --parallel --disjoint":      "at least two",
		"runa copy --parallel --disjoint": "one run",
	} {
		checkUsageError(t, "ledger epsilon --delta 1e-5 "+line, want)
	}
}
