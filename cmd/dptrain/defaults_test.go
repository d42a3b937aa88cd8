package main

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// The preview, run.json, the report and the notes mark the settings that a rule chose, and no others.
func TestTrain_MarksWhatARuleChose(t *testing.T) {
	t.Chdir(t.TempDir())
	hours(t, "hours.csv", 200)
	hours(t, "more.csv", 50)
	const line = " --epsilon 2 --delta 1e-5 --steps 20" + predicted
	const want = "[model lot clip optimizer lr ema]"
	preview := runJSON(t, "train --dry-run"+line)
	if got := fmt.Sprint(preview["by_rule"]); got != want {
		t.Errorf("the preview marks %s, want %s", got, want)
	}
	run := runJSON(t, "train --out run"+line)
	if got := fmt.Sprint(run["by_rule"]); got != want {
		t.Errorf("run.json marks %s, want %s", got, want)
	}
	for _, key := range []string{"model", "expected_lot", "clip", "optimizer", "learning_rate", "ema", "by_rule_reasons"} {
		if !reflect.DeepEqual(preview[key], run[key]) || run[key] == nil {
			t.Errorf("%s is %v in the preview and %v in run.json", key, preview[key], run[key])
		}
	}
	page := readReports(t, "run")[0]
	if n := bytes.Count(page, []byte("(by rule: ")); n != 6 {
		t.Errorf("the report marks %d settings, want 6", n)
	}
	text, _, _ := dptrain("train --dry-run" + line)
	for _, name := range []string{"by rule  model: 200 records, ρ = 58: too few for a hidden layer\n", "lot: all records\n", "optimizer: its steps do not depend on the clip bound\n", "ema: averages the weights of about 50 lots\n"} {
		if !strings.Contains(text, name) {
			t.Errorf("the preview has no %q:\n%s", name, text)
		}
	}
	_, stderr, _ := dptrain("train --out other" + line)
	if !strings.Contains(stderr, "Chosen by rule from public numbers: model, lot, clip, optimizer, lr, ema;") {
		t.Errorf("the notes are %s", stderr)
	}
	set := runJSON(t, "train --out set --model logistic --lot 20 --clip 1 --optimizer sgd --lr 0.1"+line)
	if set["by_rule"] != nil || set["optimizer"] != "sgd" || set["expected_lot"] != 20.0 {
		t.Errorf("with all settings given: %v", set)
	}
}
