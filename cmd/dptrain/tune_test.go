package main

import (
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
