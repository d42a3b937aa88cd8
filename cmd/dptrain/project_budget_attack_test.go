package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// leftIn returns what is left of a project budget.
func leftIn(t *testing.T, file string) float64 {
	t.Helper()
	return runJSON(t, "budget left "+file)["epsilon_left"].(float64)
}

// checkRefused checks that a command fails with one line and this exit code.
func checkRefused(t *testing.T, line string, want int, message string) {
	t.Helper()
	if _, stderr, code := dptrain(line); code != want || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, message) {
		t.Errorf("%s: exit %d, want %d with %q: %s", line, code, want, message, stderr)
	}
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	if err := os.WriteFile(to, readFile(t, from), 0o644); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// A run draws from the budget that its ledger names, and from no other: neither with another file on
// the command line, nor with changed settings, nor without a budget. A budget that was moved is found
// by its identity.
func TestProjectBudget_ResumeWithAnotherBudget(t *testing.T) {
	openBudget(t, "4")
	runJSON(t, "budget open other.budget --delta 1e-5 --epsilon 9")
	runJSON(t, brief+" --steps 4 --epsilon 1 --budget people.budget --out run")
	if named := runJSON(t, "ledger show run")["budget"]; named == nil || named != runJSON(t, "budget left people.budget")["identity"] {
		t.Errorf("the ledger names the budget %v", named)
	}
	left, other := leftIn(t, "people.budget"), leftIn(t, "other.budget")
	checkRefused(t, "train --resume run --epsilon 3 --budget other.budget", exitcode.Usage, "resume the run with that budget")
	settings := string(readFile(t, "run/config.yaml"))
	if !strings.Contains(settings, "people.budget") {
		t.Fatal(settings)
	}
	for _, change := range []string{strings.Replace(settings, "people.budget", "other.budget", 1), withoutLine(settings, "budget:")} {
		if err := os.WriteFile("run/config.yaml", []byte(change), 0o644); err != nil {
			t.Fatal(err)
		}
		checkRefused(t, "train --resume run --epsilon 3", exitcode.Usage, "with that budget")
	}
	if leftIn(t, "people.budget") != left || leftIn(t, "other.budget") != other {
		t.Error("a refused run changes a budget")
	}
	if err := os.WriteFile("run/config.yaml", []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	rename(t, "people.budget", "moved.budget")
	v := runJSON(t, "train --resume run --epsilon 1.5 --budget moved.budget")
	if got := leftIn(t, "moved.budget"); math.Abs(got-(4-v["epsilon"].(float64))) > 1e-5 || v["steps"].(float64) <= 4 {
		t.Errorf("%v is left after ε = %v", got, v["epsilon"])
	}
}

// withoutLine removes the lines with a prefix.
func withoutLine(text, prefix string) (rest string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, prefix) {
			rest += line
		}
	}
	return rest
}

// Runs of earlier versions have ledgers that name no budget: their settings and the budget's draws
// decide.
func TestProjectBudget_ResumeOfUnnamedRun(t *testing.T) {
	openBudget(t, "4")
	runJSON(t, "budget open other.budget --delta 1e-5 --epsilon 9")
	runJSON(t, brief+" --steps 4 --noise 2 --delta 1e-6 --out run")
	settings := string(readFile(t, "run/config.yaml"))
	file, err := filepath.Abs("people.budget")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("run/config.yaml", []byte(settings+"budget: "+file+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	checkRefused(t, "train --resume run --steps 8 --budget other.budget", exitcode.Usage, "people.budget: resume it with that budget")
	checkRefused(t, "train --resume run --steps 8", exitcode.Usage, "people.budget: resume it with that budget") // and not drawn either
	// A run without a budget draws its whole cost when it is resumed with one, and is named.
	if err := os.WriteFile("run/config.yaml", []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	v := runJSON(t, "train --resume run --steps 8 --budget other.budget")
	if got := leftIn(t, "other.budget"); math.Abs(got-(9-v["epsilon"].(float64))) > 1e-5 {
		t.Errorf("%v is left after ε = %v", got, v["epsilon"])
	}
	checkRefused(t, "train --resume run --steps 9 --budget people.budget", exitcode.Usage, "resume the run with that budget")
}

// A copy of a budget does not count as another budget, and an earlier copy does not forget a run.
func TestProjectBudget_CopiedFile(t *testing.T) {
	openBudget(t, "4")
	copyFile(t, "people.budget", "before.budget")
	runJSON(t, brief+" --steps 4 --epsilon 1 --budget people.budget --out run")
	copyFile(t, "people.budget", "copy.budget")
	for _, file := range []string{"before.budget", "copy.budget"} {
		for _, line := range []string{brief + " --steps 4 --epsilon 1 --out new --budget ", "train --resume run --epsilon 2 --budget "} {
			checkRefused(t, line+file, exitcode.Usage, "this is a copy of the project budget")
		}
		checkRefused(t, "budget spend "+file+" run --delta 1e-6", exitcode.Usage, "this is a copy of the project budget")
	}
	rename(t, "people.budget", "hidden.budget")
	checkRefused(t, "train --resume run --epsilon 2 --budget before.budget", exitcode.Damaged, "earlier copy of the project budget")
	if _, err := os.Stat("new"); err == nil {
		t.Error("a refused run wrote files")
	}
}

// Copies of a run do not share one draw: the copy that did not draw last is refused.
func TestProjectBudget_CopiedRun(t *testing.T) {
	openBudget(t, "9")
	runJSON(t, brief+" --steps 4 --epsilon 1 --budget people.budget --out run")
	copyFolder(t, "run", "fork")
	runJSON(t, "train --resume run --epsilon 2")
	left := epsilonLeft(t)
	checkRefused(t, "train --resume fork --epsilon 2", exitcode.Usage, "another copy of this run")
	if epsilonLeft(t) != left {
		t.Error("a refused copy changes the budget")
	}
	if v := runJSON(t, "train --resume run --epsilon 2.5"); !(epsilonLeft(t) < left) {
		t.Errorf("the run itself: ε = %v, and %v is left", v["epsilon"], epsilonLeft(t))
	}
}

// A run costs at least the plan with which it drew, also if it is resumed with a smaller plan, a lower
// limit, or recorded when it has ended.
func TestProjectBudget_SmallerPlan(t *testing.T) {
	openBudget(t, "50")
	whole := runJSON(t, brief+" --steps 40 --noise 2 --delta 1e-5 --metric accuracy:noise=1,every=4 --out whole")["epsilon"].(float64)
	runJSON(t, strings.Replace(stopping, "--delta 1e-5", "--delta 1e-6 --budget people.budget", 1)+"stopped")
	left := epsilonLeft(t)
	for _, smaller := range []string{"--steps 4", "--epsilon 0.5", "--epochs 0.5", "--stop-at-epsilon 0.5"} {
		if _, _, code := dptrain("train --resume stopped " + smaller); code == exitcode.Done {
			t.Errorf("resumed with %s", smaller)
		}
		if got := epsilonLeft(t); got > left {
			t.Errorf("with %s %v is left, before %v", smaller, got, left)
		}
	}
	if got := runJSON(t, "budget spend people.budget stopped --delta 1e-6")["epsilon_left"]; got != left {
		t.Errorf("recorded: %v is left, before %v", got, left)
	}
	// A run that did not draw costs its plan, too.
	runJSON(t, stopping+"outside")
	checkRefused(t, "budget spend people.budget outside --delta 1e-7", exitcode.Usage, "give --delta of at least 1e-05")
	copyFolder(t, "outside", "bare")
	for _, name := range []string{"bare/run.json"} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	checkRefused(t, "budget spend people.budget bare/ledger.jsonl --delta 1e-5", exitcode.Usage, "does not state that the plan of the run ended it")
	runJSON(t, "budget open plan.budget --delta 1e-4 --epsilon 50")
	if got := runJSON(t, "budget spend plan.budget outside --delta 1e-5")["epsilon_left"].(float64); math.Abs(got-(50-whole)) > 1e-9 {
		t.Errorf("%v is left after a plan of ε = %v", got, whole)
	}
}

// A recorded run names its budget: it is resumed with it only, and recorded in no other.
func TestProjectBudget_RecordedRunIsNamed(t *testing.T) {
	openBudget(t, "9")
	runJSON(t, "budget open other.budget --delta 1e-5 --epsilon 9")
	runJSON(t, brief+" --steps 2 --noise 3 --delta 1e-6 --out outside")
	copyFolder(t, "outside", "ledgers")
	weights := runJSON(t, "ledger show outside")["weights"]
	recorded := runJSON(t, "budget spend people.budget outside --delta 1e-6")["epsilon_left"].(float64)
	if v := runJSON(t, "ledger verify outside"); v["ok"] != true || v["ended"] != true || v["weights"] != weights || weights == nil {
		t.Errorf("the recorded ledger: %v", v)
	}
	runJSON(t, "eval outside --data test.csv")
	checkRefused(t, "train --resume outside --steps 4", exitcode.Usage, "continue it with that budget")
	checkRefused(t, "train --resume outside --steps 4 --budget other.budget", exitcode.Usage, "resume the run with that budget")
	checkRefused(t, "budget spend other.budget outside --delta 1e-6", exitcode.Usage, "a run is counted once")
	v := runJSON(t, "train --resume outside --steps 4 --budget people.budget")
	if got := epsilonLeft(t); math.Abs(got-(9-v["epsilon"].(float64))) > 1e-5 || !(got < recorded) {
		t.Errorf("%v is left after ε = %v, and %v before", got, v["epsilon"], recorded)
	}
	if leftIn(t, "other.budget") != 9 {
		t.Error("the other budget changed")
	}
}

// A ledger without an end, of a run that was killed or is running, is not recorded.
func TestProjectBudget_RefusesUnfinishedLedger(t *testing.T) {
	openBudget(t, "9")
	runJSON(t, brief+" --steps 2 --noise 3 --delta 1e-6 --budget people.budget --out run")
	left := epsilonLeft(t)
	w, err := ledger.Open("run/ledger.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	checkRefused(t, "budget spend people.budget run --delta 1e-6", exitcode.Usage, "has not ended")
	if err := w.Close(); err != nil { // a process that interrupted the run
		t.Fatal(err)
	}
	if got := runJSON(t, "budget spend people.budget run --delta 1e-6")["epsilon_left"]; got != left {
		t.Errorf("%v is left, before %v", got, left)
	}
	// A part of the lots that came after the summary.
	w, err = ledger.Open("run/ledger.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	h := w.History()
	if err := errors.Join(w.Spend(h.Lots[0].Lot), w.Close()); err != nil {
		t.Fatal(err)
	}
	checkRefused(t, "budget spend people.budget run --delta 1e-6", exitcode.Usage, "does not state that the plan of the run ended it")
}
