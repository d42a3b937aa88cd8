package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// shortenData removes the last n rows of people.csv.
func shortenData(t *testing.T, n int) {
	t.Helper()
	lines := bytes.SplitAfter(readFile(t, "people.csv"), []byte("\n"))
	if len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	if err := os.WriteFile("people.csv", bytes.Join(lines[:len(lines)-n], nil), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Without --population the number of rows is public, so a record is zeroed out. With
// --population, an adversary who compares everything that runs on 4000 and on 3900 rows state
// learns nothing of the number of rows.
func TestPopulation_HidesNumberOfRows(t *testing.T) {
	inWorkshop(t)
	const line = brief + " --noise 2 --seed 1 --threads 1 --device cpu"
	if v := runJSON(t, line+" --epochs 1 --out counted"); v["adjacency"] != "zero-out" || v["records"] != 4000.0 {
		t.Errorf("a run with a counted number of records has adjacency %v, records %v", v["adjacency"], v["records"])
	}
	text := string(readFile(t, "counted/report.html")) + string(readFile(t, "counted/ledger.jsonl"))
	for _, want := range []string{"The number of records is public", `"adjacency":"zero-out"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the report or the ledger lacks %q", want)
		}
	}
	declared := line + " --epochs 0.5 --population 5000 --validation-split 0.1 --project 2"
	// What depends on time or on the released weights.
	noisy := regexp.MustCompile(`seconds|examples_per_second|test_accuracy|test_loss|validation_|confusion|calibration|roc|finished|out`)
	clock := regexp.MustCompile(`"(seconds|examples_per_second)": [\d.e+-]+`) // the speed has few digits
	var stated [2]string
	for i, folder := range []string{"more", "fewer"} {
		if i == 1 {
			shortenData(t, 100)
		}
		seen, run := runJSON(t, declared+" --dry-run"), runJSON(t, declared+" --out "+folder)
		if run["records"] != 4500.0 || run["rate"] != 200./4500 || run["expected_lot"] != 200.0 || run["delta"] != 1e-5 || run["adjacency"] != "add-or-remove-one" || run["steps"] != 11.0 {
			t.Errorf("%s: records %v, rate %v, expected lot %v, δ %v, adjacency %v, steps %v", folder, run["records"], run["rate"], run["expected_lot"], run["delta"], run["adjacency"], run["steps"])
		}
		for _, v := range []map[string]any{seen, run} {
			for key := range v {
				if noisy.MatchString(key) {
					delete(v, key)
				}
			}
			text, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			stated[i] += string(text) + "\n"
		}
		stated[i] += string(readFile(t, folder+"/ledger.jsonl")) + string(readFile(t, folder+"/model.json"))
		checkpoints, err := filepath.Glob(folder + "/checkpoint/*")
		if err != nil || len(checkpoints) == 0 {
			t.Fatal(checkpoints, err)
		}
		for _, entry := range regexp.MustCompile(`\{"what":[^}]*\}`).FindAll(readFile(t, checkpoints[len(checkpoints)-1]), -1) {
			stated[i] += string(entry) + "\n"
		}
		for _, file := range []string{"report.html", "MODEL_CARD.md", "run.json"} {
			text := clock.ReplaceAllString(string(readFile(t, folder+"/"+file)), "")
			for _, rows := range []int{4000, 3900, 3600, 3500, 3400} {
				if regexp.MustCompile(fmt.Sprintf(`[^0-9.,](%d|%d,%03d)[^0-9]`, rows, rows/1000, rows%1000)).MatchString(text) {
					t.Errorf("%s: %s contains the number %d", folder, file, rows)
				}
			}
			if file != "run.json" && !strings.Contains(text, "is a declared constant and does not come from the data") {
				t.Errorf("%s: %s does not explain the adjacency", folder, file)
			}
		}
	}
	// Identifiers of runs are random, and the digests and checksums depend on them and on the
	// released weights.
	random := regexp.MustCompile(`"(run|prev|crc|weights|ledger_head)":"[0-9a-f]+"`)
	for i := range stated {
		stated[i] = random.ReplaceAllString(stated[i], `"$1":""`)
	}
	if stated[0] != stated[1] {
		t.Errorf("the number of rows shows:\n%s\n%s", stated[0], stated[1])
	}
	if !strings.Contains(stated[0], `{"what":"population","is":"4500"}`) {
		t.Error("the fingerprints of the checkpoints were not compared")
	}
	if v := runJSON(t, "train --resume fewer --steps 12"); v["records"] != 4500.0 || v["adjacency"] != "add-or-remove-one" {
		t.Errorf("the resumed run has records %v, adjacency %v", v["records"], v["adjacency"])
	}
	for flags, want := range map[string]string{
		" --population 5000 --lot 6000":         "the number of records",
		" --population 0":                       "--population 0: give a number above 0",
		" --population 5000 --sampling fixed":   "--population 5000 requires --sampling poisson",
		" --population 5000 --sampling shuffle": "--population 5000 requires --sampling poisson",
	} {
		if _, stderr, code := dptrain(brief + " --noise 2 --steps 1 --out no" + flags); code != exitcode.Usage || !strings.Contains(stderr, want) || strings.Contains(stderr, "3900") {
			t.Errorf("%s: exit %d, %s", flags, code, stderr)
		}
	}
}

// The adjacency of a plan depends on whether the number of records is given.
func TestBudget_DefaultAdjacency(t *testing.T) {
	t.Parallel()
	const rest = " --steps 100 --noise 2 --delta 1e-5"
	for flags, want := range map[string]string{
		" --records 60000 --lot 600": "zero-out",
		" --rate 0.01":               "add-or-remove-one",
		" --records 60000 --lot 600 --adjacency add-or-remove-one":   "add-or-remove-one",
		" --rate 0.01 --adjacency replace-one":                       "replace-one",
		" --records 60000 --lot 600 --sampling fixed":                "replace-one",
		" --records 60000 --lot 600 --sampling shuffle --noise 2.01": "zero-out",
	} {
		if got := runJSON(t, "budget epsilon"+rest+flags)["adjacency"]; got != want {
			t.Errorf("%s: adjacency %v, want %s", flags, got, want)
		}
	}
	counted, declared := runJSON(t, "budget epsilon --records 60000 --lot 600"+rest), runJSON(t, "budget epsilon --rate 0.01"+rest)
	if counted["epsilon"] != declared["epsilon"] {
		t.Errorf("ε is %v under zero-out, %v under add-or-remove-one", counted["epsilon"], declared["epsilon"])
	}
	if text := runText(t, "budget statement --records 60000 --lot 600"+rest); !strings.Contains(text, "contributes nothing") || !strings.Contains(text, "The number of records is public") {
		t.Errorf("the statement does not explain the adjacency: %s", text)
	}
}
