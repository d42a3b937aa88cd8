package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// withoutHeldOut changes the files of the earlier version into those of a run that trained on nine
// users with 44 examples, held out no record, and had a shorter plan.
func withoutHeldOut(t *testing.T) {
	t.Helper()
	edit := func(name string, change func(text []byte) []byte) {
		if err := os.WriteFile(name, change(readFile(t, name)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	lines := func(drop string) func(text []byte) []byte {
		pattern := regexp.MustCompile("(?m)^" + drop + ".*\n")
		return func(text []byte) []byte { return pattern.ReplaceAll(text, nil) }
	}
	edit("people.csv", lines(`\d+,(u0|u5|u7),`)) // 16 examples
	edit("run/config.yaml", lines("validation-"))
	edit("run/config.yaml", func(text []byte) []byte {
		return bytes.Replace(text, []byte("steps: 200000"), []byte("steps: 14730"), 1)
	})
	edit("run/checkpoint/lot-000000014726.checkpoint", func(text []byte) []byte {
		const magic, size = len("dptrain checkpoint 1\n"), 8
		length := binary.LittleEndian.Uint64(text[magic:])
		header := regexp.MustCompile(`{"what":"validation"[^}]*},`).ReplaceAll(text[magic+size:magic+size+int(length)], nil)
		out := binary.LittleEndian.AppendUint64(slices.Clone(text[:magic]), uint64(len(header)))
		out = append(append(out, header...), text[magic+size+int(length):len(text)-sha256.Size]...)
		sum := sha256.Sum256(out)
		return append(out, sum[:]...)
	})
}

// An earlier version of dptrain wrote testdata/earlier, before ledgers had identifiers and before
// settings contained δ. Its run of 200,000 lots was interrupted; the fingerprint of its checkpoint
// contains counts of private examples. The run is read and accounted for. Because it held out
// records, it is refused; without them it is continued.
func TestResume_RunOfEarlierVersion(t *testing.T) {
	source, err := filepath.Abs("testdata/earlier")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.CopyFS(".", os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	const lots, adjacency = 14726, "add-or-remove-one"
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
	saved := string(readFile(t, "run/checkpoint/lot-000000014726.checkpoint"))
	for _, count := range []string{"user of at most 44 examples", "16 examples held out"} {
		if !strings.Contains(saved, count) {
			t.Fatalf("the checkpoint does not state %q, so the test proves nothing", count)
		}
	}
	checkUsageError(t, "train --resume run --steps 14730", "planned with 200000")
	checkUsageError(t, "train --resume run", "earlier version that let one record decide the sides of others")
	withoutHeldOut(t)
	checkUsageError(t, "train --resume run --steps 14730 --user-examples 40", "unit is user of at most 40 examples (it was user of at most 44 examples)")
	spent = epsilon("0.1")
	checkUsageError(t, "train --resume run --steps 14730", "data: missing is new") // the run lost records with empty cells
	v := runJSON(t, "train --resume run --steps 14730 --missing blank")            // its δ is the largest power of ten below one over nine users
	if v["steps"] != float64(lots+4) || v["resumed_at"] != float64(lots) || v["delta"] != 0.1 || v["adjacency"] != adjacency || v["epsilon"].(float64) <= spent || v["epsilon"].(float64) < epsilon("0.1")*(1-1e-9) {
		t.Errorf("resumed: %v lots from %v, δ %v, adjacency %v, ε %v after %v", v["steps"], v["resumed_at"], v["delta"], v["adjacency"], v["epsilon"], spent)
	}
	continued := string(readFile(t, "run/checkpoint/lot-000000014730.checkpoint"))
	if strings.Contains(continued, "at most 44") || !strings.Contains(continued, "user of at most 500 examples") {
		t.Error("the continued run saves counts of private examples")
	}
	if v := runJSON(t, "ledger epsilon selection"); v["epsilon"].(float64) > 4 || v["settings"] != 3.0 {
		t.Errorf("an earlier selection costs %v", v)
	}
}
