package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// A resumed run must read its data as before: with other values of the same flags, the data would
// become other numbers.
func TestResume_RequiresSameDataFlags(t *testing.T) {
	inWorkshop(t)
	runJSON(t, brief+" --steps 2 --noise 2 --delta 1e-5 --out run")
	for flag, want := range map[string]string{
		"--classes yes,no":  `data: classes is ["yes","no"] (it was ["no","yes"])`,
		"--bounds age=0:50": `data: bounds is {"age":[0,50]} (it was {"age":[0,100]})`,
		"--vocabulary colour=red|blue|" + strings.Repeat("x", 200): "data: vocabulary is of digest ",
		"--vocabulary colour=blue|red":                             `data: vocabulary is {"colour":["blue","red"]} (it was {"colour":["red","blue"]})`,
	} {
		if _, stderr, code := dptrain("train --resume run --steps 4 " + flag); code != exitcode.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", flag, code, stderr)
		}
	}
	if more := runJSON(t, "train --resume run --steps 4"+columns); more["steps"] != 4.0 {
		t.Errorf("with the same flags: %v lots", more["steps"])
	}

	if _, stderr, code := dptrain("train --resume run --steps 6 --on-bad-row fail"); code != exitcode.Usage || !strings.Contains(stderr, "data: on-bad-row is new (fail)") {
		t.Errorf("another policy for bad rows: exit %d, %s", code, stderr)
	}

	t.Chdir(t.TempDir())
	runJSON(t, drawn+" --steps 1 --noise 2 --delta 1e-5 --augment flip,shift:1 --out run")
	if _, stderr, code := dptrain("train --resume run --steps 2 --augment shift:1"); code != exitcode.Usage || !strings.Contains(stderr, "augment is shift:1 (it was flip,shift:1)") {
		t.Errorf("another augmentation: exit %d, %s", code, stderr)
	}
}

// An earlier version of dptrain wrote testdata/earlier, before ledgers had identifiers and before
// settings contained δ. Its run of 200,000 lots was interrupted. The run is read and accounted for. Its
// checkpoint is refused in one line.
func TestResume_RunOfEarlierVersion(t *testing.T) {
	source, err := filepath.Abs("testdata/earlier")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.CopyFS(".", os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	const lots = 14726
	var before map[string]any
	if err := json.Unmarshal(readFile(t, "run/run.json"), &before); err != nil {
		t.Fatal(err)
	}
	spent := before["epsilon"].(float64)
	if v := runJSON(t, "ledger verify run"); v["ok"] != true || v["steps"] != float64(lots) {
		t.Errorf("verified: %v", v)
	}
	epsilon := func(delta string) float64 {
		return runJSON(t, "ledger epsilon run --accountant rdp --delta "+delta)["epsilon"].(float64)
	}
	if again := epsilon("0.01"); math.Abs(again-spent) > 0.002*spent { // Rényi orders have been added since
		t.Errorf("the ledger costs %v, and cost %v", again, spent)
	}
	runJSON(t, "report run")
	if v := runJSON(t, "eval run --data people.csv"); v["examples"] != 60.0 {
		t.Errorf("evaluated: %v", v)
	}
	checkUsageError(t, "train --resume run --steps 14730", "planned with 200000")
	if _, stderr, code := dptrain("train --resume run"); code != exitcode.Damaged ||
		!strings.Contains(stderr, "it does not begin as a checkpoint of this version") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("a checkpoint of an earlier version: exit %d, %s", code, stderr)
	}
	if v := runJSON(t, "ledger epsilon selection"); v["epsilon"].(float64) > 4 || v["settings"] != 3.0 {
		t.Errorf("an earlier selection costs %v", v)
	}
}
