package main

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/selection"
)

func TestTune_PublicData(t *testing.T) {
	t.Chdir(t.TempDir())
	got := runJSON(t, "tune --model logistic --epsilon 2 --accountant rdp --steps 10 --trials 4 --clip 0.5")
	rows := got["rows"].([]any)
	if len(rows) != 4 || got["data"] != "digits" || got["model"] != "logistic" {
		t.Fatalf("%d rows of 4 trials of %v on %v", len(rows), got["model"], got["data"])
	}
	lots := map[any]bool{}
	last := 1.0
	for _, r := range rows {
		row := r.(map[string]any)
		if a := row["test_accuracy"].(float64); a > last || a <= 0 {
			t.Errorf("accuracy %v after %v", a, last)
		} else {
			last = a
		}
		if row["clip"] != 0.5 || row["steps"] != 10.0 {
			t.Errorf("what was given was changed: %v", row)
		}
		lots[row["lot"]] = true
	}
	if help, _, _ := dptrain("tune --help"); selection.ValidationShare != 1/4. || !strings.Contains(strings.Join(strings.Fields(help), " "), "alone it costs a quarter of the budget of one run") {
		t.Errorf("a score costs %v of one run, and the help is\n%s", selection.ValidationShare, help)
	}
	if len(lots) != 4 {
		t.Errorf("lots %v", lots)
	}
	// train accepts the flags.
	if got["flags"] != rows[0].(map[string]any)["flags"] {
		t.Errorf("of the best the flags are %v, and %v are shown", rows[0], got["flags"])
	}
	if _, stderr, code := dptrain("train --model logistic --accountant rdp --dry-run " + got["flags"].(string)); code != exitcode.Done {
		t.Errorf("train does not take the flags: %s", stderr)
	}
	if left, _ := os.ReadDir("."); len(left) > 0 {
		t.Errorf("%v was left behind", left)
	}

	table(t, "people.csv", 200)
	table(t, "test.csv", 40)
	const public = "tune --public --ignore owner --model mlp:4 --steps 2 --trials 2 --accountant rdp" + columns
	for line, want := range map[string]string{
		"tune --noise 3":                                  "--noise",
		"tune --trials 0":                                 "--trials",
		"tune --epsilon 0":                                "--epsilon",
		"tune --non-private":                              "--non-private",
		"tune --out run":                                  "--out is for private data",
		"tune --runs poisson":                             "--runs is for private data",
		"tune --validation-split 0.1":                     "--validation-split is for private data",
		"tune --data people.csv --public":                 "label",
		strings.Replace(public, "--test test.csv", "", 1): "no test part",
	} {
		checkUsageError(t, line, want)
	}
	if shown := runText(t, public); !strings.HasPrefix(shown, "accuracy  clip") || strings.Count(shown, "\n") != 5 || !strings.Contains(shown, "\nbest ") {
		t.Errorf("tune shows\n%s", shown)
	}
	rows = runJSON(t, public+" --project 2")["rows"].([]any)
	for _, key := range []string{"clip", "learning_rate", "lot"} {
		if one, other := rows[0].(map[string]any)[key], rows[1].(map[string]any)[key]; one == other {
			t.Errorf("two trials of the same %s, %v", key, one)
		}
	}
}

// With groups, tune varies the bound of each and how the noise is divided: by an allocation or by shares.
// train repeats a row from its flags, with the same noise for the same ε.
func TestTune_Groups(t *testing.T) {
	inWorkshop(t)
	const search = "tune --public --ignore owner --model mlp:4 --steps 3 --lot 50 --epsilon 2 --delta 1e-5 --accountant rdp" + columns
	rows := runJSON(t, search+" --trials 4 --group hidden=fc1 --group out=fc2,clip=0.25")["rows"].([]any)
	seen := map[string]string{} // the groups of each division of the noise
	for _, r := range rows {
		row := r.(map[string]any)
		groups := fmt.Sprint(row["groups"])
		allocation, _ := row["allocation"].(string)
		seen[allocation] += groups
		if strings.Contains(groups, "share=") != (allocation == "") || !strings.Contains(groups, "fc2,clip=0.25") {
			t.Errorf("groups %s with the allocation %q", groups, allocation)
		}
		line := "train --ignore owner --model mlp:4 --epsilon 2 --delta 1e-5 --accountant rdp --dry-run" + columns + " " + row["flags"].(string)
		again := runJSON(t, line)
		if z := row["noise_multiplier"]; again["noise_multiplier"] != z {
			t.Errorf("%s: the noise multiplier %v, want %v", line, again["noise_multiplier"], z)
		}
		total := 0.0
		for _, g := range again["groups"].([]any) {
			total += g.(map[string]any)["share"].(float64)
		}
		if e := again["epsilon"].(float64); e > 2 || math.Abs(total-1) > 1e-9 {
			t.Errorf("%s: ε = %v of 2, and shares that add up to %v", line, e, total)
		}
	}
	if len(seen) != 3 || !strings.Contains(seen["proportional"], "[hidden=fc1 out") || strings.Count(seen["dimension"], "hidden=fc1,clip=") != 1 {
		t.Errorf("%d divisions of the noise: %v", len(seen), seen)
	}
	for flags, want := range map[string]string{
		" --group hidden=fc1 --group out=fc2 --allocation dimension":         "dimension",
		" --group hidden=fc1,share=1 --group out=fc2,share=3":                "",
		" --group hidden=fc1,clip=1,noise=40 --group out=fc2,clip=dimension": "proportional",
	} {
		for _, r := range runJSON(t, search+" --trials 3"+flags)["rows"].([]any) {
			row := r.(map[string]any)
			if allocation, _ := row["allocation"].(string); allocation != want {
				t.Errorf("%s: the allocation %q, want %q", flags, allocation, want)
			}
		}
	}
	checkUsageError(t, search+" --group all=*,noise=3", "every --group has noise of its own")
	checkUsageError(t, search+" --group a=fc1,share=1 --group b=fc2", "give this one a share")
	checkUsageError(t, search+" --group a=fc1,share=1,noise=2 --group b=fc2", "has no share")
	checkUsageError(t, search+" --group a=fc1,share=1 --group b=fc2,share=1 --allocation dimension", "two ways to divide")

	// The cost of a selection includes that of each candidate.
	const private = "tune --ignore owner --model mlp:4 --steps 3 --lot 50 --epsilon 4 --trials 3 --group hidden=fc1 --group out=fc2 --out selected" + columns
	runJSON(t, private)
	l, err := selection.ReadLedger("selected/selection.json")
	if err != nil {
		t.Fatal(err)
	}
	if cost := runJSON(t, "ledger epsilon selected")["epsilon"].(float64); cost > 4 || cost < 3.9 || len(l.Candidates) != 3 || !strings.Contains(l.Candidates[1].Flags, "--allocation dimension") {
		t.Errorf("ε = %v of 4 for the candidates %+v", cost, l.Candidates)
	}
}
