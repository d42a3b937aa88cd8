package main

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// threeModels trains a good model, and two that learned the opposite labels.
func threeModels(t *testing.T) {
	t.Helper()
	swapped := strings.NewReplacer(",no\n", ",yes\n", ",yes\n", ",no\n").Replace(string(readFile(t, "people.csv")))
	if err := os.WriteFile("swapped.csv", []byte(swapped), 0o644); err != nil {
		t.Fatal(err)
	}
	line := baseline + " --steps 40 --lr 1 --out "
	runJSON(t, line+"good --seed 1")
	for _, name := range []string{"poor", "worse"} {
		runJSON(t, strings.Replace(line, "people.csv", "swapped.csv", 1)+name+" --seed 2")
	}
}

// The best model is chosen on private records. The ledger states the choice with its ε, and is joined
// with others.
func TestChoose_ReleasesBestModel(t *testing.T) {
	inWorkshop(t)
	threeModels(t)
	table(t, "held.csv", 700)
	v := runJSON(t, "choose poor good worse --data held.csv --epsilon 2 --out chosen")
	if v["model"] != "good" || v["epsilon"] != 2.0 || v["records"] != 700.0 || v["unit"] != "example" || v["adjacency"] != "zero-out" {
		t.Fatalf("%v", v) // with ε = 2 a gap of more than 600 records makes the probability of another choice less than e^-600
	}
	h, err := ledger.Read("chosen/ledger.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	q := h.Lots[0].Lot.Queries[0]
	if h.LotCount() != 1 || len(h.Lots[0].Lot.Queries) != 1 || q.Mechanism != ledger.PermuteAndFlip || math.Abs(2*q.Sensitivity/q.Noise-2) > 1e-6 || 2*q.Sensitivity/q.Noise > 2 || !h.Header.Secure {
		t.Errorf("the ledger has %+v", h)
	}
	if e := runJSON(t, "ledger epsilon chosen --delta 1e-9")["epsilon"].(float64); math.Abs(e-2) > 0.06 {
		t.Errorf("the choice costs ε = %v", e)
	}
	if text := string(readFile(t, "chosen/choice.json")); !strings.Contains(text, `"model": "good"`) {
		t.Errorf("choice.json is %s", text)
	}
	// The costs of a run on the same unit and of the choice add up.
	runJSON(t, brief+" --noise 2 --steps 10 --delta 1e-5 --out run")
	alone := runJSON(t, "ledger epsilon run --delta 1e-5")["epsilon"].(float64)
	if e := runJSON(t, "ledger epsilon run chosen --delta 1e-5")["epsilon"].(float64); !(e > alone && e > 2 && e <= alone+2) {
		t.Errorf("together ε = %v, the run alone %v", e, alone)
	}
	user := runJSON(t, "choose poor good --data held.csv --epsilon 8 --record user:owner --user-examples 3 --out users")
	if user["model"] != "good" || user["unit"] != "user" || !(user["records"].(float64) < 700) {
		t.Errorf("by user: %v", user)
	}
	if stdout, _, code := dptrain("choose poor good --data held.csv --epsilon 8 --quiet --out bare"); code != exitcode.Done || strings.TrimSpace(stdout) != "good" {
		t.Errorf("bare: exit %d, %q", code, stdout)
	}
}

func TestChoose_Refuses(t *testing.T) {
	inWorkshop(t)
	threeModels(t)
	for flags, want := range map[string]string{
		"good --data test.csv":                                            "at least two",
		"good poor":                                                       "--data is missing",
		"good good --data test.csv":                                       "given twice",
		"good nowhere --data test.csv":                                    "choose: nowhere contains no model",
		"good poor --data test.csv --population 0":                        "--population 0",
		"good poor --data test.csv --budget none.budget":                  "none.budget",
		"good poor --data test.csv --epsilon 0":                           "--epsilon 0",
		"good poor --data test.csv --epsilon Inf":                         "--epsilon +Inf",
		"good poor --data test.csv --record user":                         "user:COLUMN",
		"good poor --data test.csv --record user:nothing":                 `"nothing"`,
		"good poor --data missing.csv":                                    "missing.csv",
		"good poor --data test.csv --test test.csv":                       "no use here",
		"good poor --data test.csv --record microbatch:0":                 "microbatch:K",
		"good poor --data test.csv --out good":                            "already contains a run",
		"good poor --data test.csv --record user:owner --user-examples 0": "at least 1",
	} {
		checkUsageError(t, "choose "+flags, want)
	}
	if _, err := os.Stat("choices"); err == nil {
		t.Error("a refused choice left a folder")
	}
}

// A choice on neighbouring data sets prints and writes the same, except for the model that it releases
// and random identifiers.
func TestChoose_OutputsOfNeighbouringData(t *testing.T) {
	dir := t.TempDir()
	for _, format := range []string{"csv", "jsonl"} {
		for _, unit := range []string{"example", "user:who", "microbatch:2"} {
			t.Chdir(dir)
			n := newNeighbourhood(format, unit)
			models := fmt.Sprintf("%s/%s-%s-", dir, format, strings.NewReplacer(":", "").Replace(unit))
			for _, name := range []string{"a", "b"} {
				runJSON(t, "train"+n.write(t)+" --lot 3 --steps 2 --noise 1 --accountant rdp --threads 1 --device cpu --out "+models+name)
			}
			outputs := func(n *neighbourhood, more string) map[string]string {
				t.Chdir(t.TempDir())
				flags := strings.Fields(n.write(t))
				line := "choose " + models + "a " + models + "b --epsilon 1 --out chosen --json " + strings.Join(flags[:4], " ") + more
				stdout, stderr, code := dptrain(line)
				if code != exitcode.Done {
					t.Fatalf("%s: exit %d, %s", line, code, stderr)
				}
				seen := map[string]string{"standard output": stdout, "standard error": stderr, "names": files(t, "chosen")}
				for _, name := range []string{choiceFile, "ledger.jsonl"} {
					seen[name+" json"] = string(readFile(t, "chosen/"+name))
				}
				for name, text := range seen {
					for _, d := range publicDifferences {
						if d.file.MatchString(name) {
							text = d.text.ReplaceAllString(text, "#")
						}
					}
					seen[name] = releasedModel.ReplaceAllString(text, "#")
				}
				return seen
			}
			for _, more := range []string{"", " --population 20"} {
				first := outputs(n, more)
				for name, attack := range attacks {
					for _, at := range []int{0, 11} {
						attacked := n.clone()
						if (name == "removed") != (more != "") || !attack(attacked, at) {
							continue // the number of records is public, or the removal is the change
						}
						for file, text := range outputs(attacked, more) {
							if text != first[file] {
								t.Errorf("%s, %s, %s: %s without the change:\n%s\nwith it:\n%s", format, unit, name, file, first[file], text)
							}
						}
					}
				}
			}
		}
	}
}

// A choice draws its ε from a project budget before it is made, and writes nothing where the budget
// does not allow it.
func TestChoose_DrawsFromBudget(t *testing.T) {
	openBudget(t, "3")
	threeModels(t)
	line := "choose good poor --data test.csv --budget people.budget --epsilon 2 --out "
	declared := runJSON(t, line+"chosen --population 5000")
	if left := epsilonLeft(t); declared["records"] != 5000.0 || declared["adjacency"] != "add-or-remove-one" || left != 1 {
		t.Errorf("%v is left after %v", left, declared)
	}
	if text := runText(t, "budget left people.budget"); !strings.Contains(text, "chosen") {
		t.Errorf("the budget does not list the choice: %s", text)
	}
	for flags, want := range map[string]int{"second --population 5000": exitcode.OverBudget, "second --epsilon 0.5": exitcode.Usage} {
		_, stderr, code := dptrain(line + flags)
		if _, err := os.Stat("second"); code != want || strings.Count(stderr, "\n") != 1 || err == nil {
			t.Errorf("%s: exit %d, %s; the directory: %v", flags, code, stderr, err)
		}
	}
	h, err := ledger.Read("chosen/ledger.jsonl")
	if err != nil || h.Header.Records != 5000 || h.Lots[0].Lot.Sampling.Records != 5000 {
		t.Errorf("the ledger has %+v, %v", h, err)
	}
}
