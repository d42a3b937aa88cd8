package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

func TestLedgerEpsilon_MatchesPlan(t *testing.T) {
	changeToLedgers(t)
	v := runJSON(t, "ledger epsilon runs/mnist --delta 1e-5 --accountant rdp")
	if v["steps"] != 5.0 || v["secure"] != true || v["unit"] != "example" || len(v["groups"].([]any)) != 2 {
		t.Errorf("%v", v)
	}
	group := v["groups"].([]any)[1].(map[string]any)
	if group["group"] != "dense" || group["sensitivity"] != 0.5 || group["noise"] != 2.0 || group["lots"] != 5.0 {
		t.Errorf("%v", group)
	}
	// The first three lots are a plan of three steps, and ε is between those of three and five.
	low := runJSON(t, "budget epsilon --rate 0.01 --groups 1:2,0.5:2 --steps 3 --delta 1e-5 --accountant rdp")["epsilon"].(float64)
	high := runJSON(t, "budget epsilon --rate 0.01 --groups 1:2,0.5:2 --steps 5 --delta 1e-5 --accountant rdp")["epsilon"].(float64)
	if got := v["epsilon"].(float64); got < low || got > high {
		t.Errorf("ε is %v, outside [%v, %v]", got, low, high)
	}
	if v := runJSON(t, "ledger epsilon runs/mnist"); v["delta"] != 1e-6 {
		t.Errorf("δ is %v by default, want 1e-6 for 60000 records", v["delta"])
	}
	_, stderr, code := dptrain("ledger epsilon seeded.jsonl")
	if code != exitcode.Done || !strings.Contains(stderr, "insecure") {
		t.Errorf("a seeded run: exit %d, %q", code, stderr)
	}
}

// ledger epsilon shows its accountant and, if it differs, the accountant of the run.
func TestLedgerEpsilon_ShowsRunAccountant(t *testing.T) {
	inWorkshop(t)
	if _, stderr, code := dptrain("train --model logistic --lot 200 --ignore owner --steps 2 --noise 2 --accountant gdp --out run" + columns); code != exitcode.Done {
		t.Fatal(stderr)
	}
	if v := runJSON(t, "ledger epsilon run"); v["accountant"] != "pld" || v["run_accountant"] != "gdp" {
		t.Errorf("the accountant is %v, that of the run %v", v["accountant"], v["run_accountant"])
	}
	if stdout, _, _ := dptrain("ledger epsilon run/ledger.jsonl"); !strings.Contains(stdout, "accountant       pld\n") || !strings.Contains(stdout, "the run used     gdp (its own ε: --accountant gdp)\n") {
		t.Error(stdout)
	}
	if stdout, _, _ := dptrain("ledger epsilon run --accountant gdp"); strings.Contains(stdout, "the run used") {
		t.Error(stdout)
	}
	// The summary of another run, or of an earlier state of the ledger, is ignored.
	other := bytes.Replace(readFile(t, "run/run.json"), []byte(`"ledger_head": "`), []byte(`"ledger_head": "0`), 1)
	if err := os.WriteFile("run/run.json", other, 0o644); err != nil {
		t.Fatal(err)
	}
	if v := runJSON(t, "ledger epsilon run"); v["run_accountant"] != nil {
		t.Errorf("%v", v["run_accountant"])
	}
}

func TestLedgerVerify_JSON(t *testing.T) {
	changeToLedgers(t)
	v := runJSON(t, "ledger verify runs/mnist")
	if v["ok"] != true || v["entries"] != 7.0 || v["steps"] != 5.0 || v["ended"] != true {
		t.Errorf("%v", v)
	}
	if w := runJSON(t, "ledger verify runs/mnist --head "+v["head"].(string)); w["ok"] != true {
		t.Errorf("with its own head: %v", w)
	}
	if v := runJSON(t, "ledger verify killed.jsonl"); v["ok"] != true || v["ended"] != false {
		t.Errorf("a killed run: %v", v)
	}
	stdout, stderr, code := dptrain("ledger verify edited.jsonl --json")
	var damaged map[string]any
	if err := json.Unmarshal([]byte(stdout), &damaged); err != nil {
		t.Fatalf("%v\n%s", err, stdout)
	}
	if code != exitcode.Damaged || damaged["ok"] != false || damaged["line"] != 5.0 || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d, %v, %s", code, damaged, stderr)
	}
}

// Without its second half, the ledger of a resumed run is a valid ledger of the first half. The
// summary shows that lines are missing.
func TestLedgerVerify_FindsMissingRun(t *testing.T) {
	inWorkshop(t)
	run := func(args string) {
		t.Helper()
		if _, stderr, code := dptrain("train " + args); code != exitcode.Done {
			t.Fatal(stderr)
		}
	}
	run("--model logistic --lot 200 --ignore owner --steps 2 --noise 2 --out run" + columns)
	ledger, summary, weights := readFile(t, "run/ledger.jsonl"), readFile(t, "run/run.json"), readFile(t, "run/model.safetensors")
	run("--resume run --steps 4")
	whole, last, trained := readFile(t, "run/ledger.jsonl"), readFile(t, "run/run.json"), readFile(t, "run/model.safetensors")
	for _, c := range []struct {
		ledger, summary, weights []byte
		code                     int
	}{{whole, last, trained, exitcode.Done}, {whole, summary, trained, exitcode.Done}, {ledger, summary, weights, exitcode.Done}, {ledger, last, weights, exitcode.Damaged}} {
		for path, text := range map[string][]byte{"run/ledger.jsonl": c.ledger, "run/run.json": c.summary, "run/model.safetensors": c.weights, "run/copy.jsonl": c.ledger} {
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, stderr, code := dptrain("ledger verify run"); code != c.code || (code != exitcode.Done) != strings.Contains(stderr, "lines are missing") {
			t.Errorf("exit %d, %q", code, stderr)
		}
		if _, stderr, code := dptrain("ledger verify run/copy.jsonl"); code != exitcode.Done {
			t.Errorf("a file of another name: exit %d, %q", code, stderr)
		}
	}
}

// The ledger of a run that ended states the SHA-256 of its weights. Every command that reads the
// weights or reports about them refuses a file that was changed.
func TestWeights_AreThoseOfLedger(t *testing.T) {
	inWorkshop(t)
	if _, stderr, code := dptrain("train --model logistic --lot 200 --ignore owner --steps 2 --noise 2 --out run" + columns); code != exitcode.Done {
		t.Fatal(stderr)
	}
	weights := readFile(t, "run/model.safetensors")
	changed := slices.Clone(weights)
	changed[len(changed)-1] ^= 1
	commands := []string{"ledger verify run", "ledger verify run/ledger.jsonl", "report run", "export run --out out.onnx --format onnx",
		"predict run --data test.csv", "eval run --data test.csv"}
	for _, c := range []struct {
		weights []byte
		code    int
	}{{changed, exitcode.Damaged}, {weights, exitcode.Done}} {
		if err := os.WriteFile("run/model.safetensors", c.weights, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, command := range commands {
			_, stderr, code := dptrain(command)
			if damaged := strings.Contains(stderr, "run/model.safetensors is not the file that the run released"); code != c.code || damaged != (code == exitcode.Damaged) || damaged && strings.Count(stderr, "\n") != 1 {
				t.Errorf("%s: exit %d, %q", command, code, stderr)
			}
		}
	}
	// The message names a command that writes the weights again.
	if err := os.WriteFile("run/model.safetensors", changed, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := dptrain("train --resume run"); code != exitcode.Done || !bytes.Equal(readFile(t, "run/model.safetensors"), weights) {
		t.Errorf("exit %d, %q", code, stderr)
	}
	// A last line that is cut short states no weights, and its run did not end.
	cut := readFile(t, "run/ledger.jsonl")
	if err := os.WriteFile("run/ledger.jsonl", cut[:len(cut)-10], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := dptrain("predict run --data test.csv"); code != exitcode.Done {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

// A truncated ledger shows the most that it may have stated.
func TestLedgerShow_Truncated(t *testing.T) {
	changeToLedgers(t)
	v := runJSON(t, "ledger show cut.jsonl")
	if v["cut_short"] != true || v["steps"].(float64) < 5 {
		t.Errorf("%v", v)
	}
}

// The ε of a ledger that has not ended comes with a note.
func TestLedgerEpsilon_NotEnded(t *testing.T) {
	changeToLedgers(t)
	for file, want := range map[string]string{"cut.jsonl": "cut short", "runs/mnist": ""} {
		stdout, stderr, code := dptrain("ledger epsilon " + file + " --json")
		var v map[string]any
		if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != exitcode.Done || v["ended"] != (want == "") ||
			!strings.Contains(stderr, want) || (stderr == "") != (want == "") {
			t.Errorf("%s: exit %d, %v, %s", file, code, v["ended"], stderr)
		}
	}
}

// The attack: a run directory is copied in the middle and both copies are resumed with one
// seed, so both release the same weights and the same summary. Each ledger alone is valid and
// claims 6 lots. --against finds the fork, and the joint ε is that of the 10 released lots.
func TestLedgers_ForkedRun(t *testing.T) {
	inWorkshop(t)
	run := func(args string) {
		t.Helper()
		if _, stderr, code := dptrain("train " + args); code != exitcode.Done {
			t.Fatal(stderr)
		}
	}
	duplicate := func(from, to string) {
		t.Helper()
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	run("--model logistic --lot 200 --ignore owner --steps 2 --noise 2 --seed 1 --out a" + columns)
	duplicate("a", "before")
	duplicate("a", "b")
	run("--resume a --steps 6")
	run("--resume b --steps 6")
	duplicate("a", "copy")
	run("--model logistic --lot 200 --ignore owner --steps 3 --noise 2 --seed 1 --out other" + columns)
	run("--model logistic --lot 200 --ignore owner --steps 10 --noise 2 --seed 1 --out ten" + columns)

	heads := map[any]bool{}
	for _, dir := range []string{"a", "b"} {
		v := runJSON(t, "ledger verify "+dir)
		if v["ok"] != true || v["steps"] != 6.0 {
			t.Errorf("%s alone: %v", dir, v)
		}
		heads[v["head"]] = true
		sum := sha256.Sum256(readFile(t, dir+"/model.safetensors"))
		if v["weights"] != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: the end line states the weights %v, the model has %x", dir, v["weights"], sum)
		}
	}
	if len(heads) != 2 {
		t.Error("the forks have the same head")
	}
	for _, test := range []struct {
		args, relation, message string
		code                    int
	}{
		{"a --against b", "fork", "a/ledger.jsonl and b/ledger.jsonl are forks of one run: they have 2 releases in common", exitcode.Damaged},
		{"a --against other copy b", "unrelated copy fork", "dptrain ledger epsilon a/ledger.jsonl b/ledger.jsonl", exitcode.Damaged},
		{"a --against before --against copy", "later copy copy", "", exitcode.Done},
		{"before --against a", "earlier copy", "verify a/ledger.jsonl instead", exitcode.Damaged},
		{"a --against other", "unrelated", "", exitcode.Done},
		{"a --against none", "", "none does not exist", exitcode.Usage},
	} {
		stdout, stderr, code := dptrain("ledger verify " + test.args + " --json")
		var v struct {
			OK      bool
			Against []struct{ Relation string }
		}
		var relations []string
		if code != exitcode.Usage {
			if err := json.Unmarshal([]byte(stdout), &v); err != nil {
				t.Fatal(err)
			}
		}
		for _, a := range v.Against {
			relations = append(relations, a.Relation)
		}
		if code != test.code || v.OK != (code == exitcode.Done) || strings.Join(relations, " ") != test.relation || !strings.Contains(stderr, test.message) {
			t.Errorf("%s: exit %d, %s\n%s", test.args, code, stdout, stderr)
		}
	}

	ten := runJSON(t, "ledger epsilon ten --delta 1e-5")["epsilon"]
	v := runJSON(t, "ledger epsilon a b copy before --delta 1e-5")
	if v["epsilon"] != ten || v["steps"] != 10.0 || len(v["files"].([]any)) != 4 || v["secure"] != false {
		t.Errorf("the joint cost is %v, want %v for ten lots", v, ten)
	}
	// a is related to b, copy and before, and so is copy; before is an earlier copy of b, too.
	if forks, copies := len(v["forks"].([]any)), len(v["copies"].([]any)); forks != 2 || copies != 4 {
		t.Errorf("%d forks and %d copies: %v", forks, copies, v)
	}
	if v := runJSON(t, "ledger epsilon a copy --delta 1e-5"); v["epsilon"] != runJSON(t, "ledger epsilon a --delta 1e-5")["epsilon"] {
		t.Errorf("a copy costs: %v", v)
	}
	if v := runJSON(t, "ledger epsilon a other --delta 1e-5"); v["steps"] != 9.0 || len(v["forks"].([]any))+len(v["copies"].([]any)) != 0 {
		t.Errorf("two runs: %v", v)
	}
	stdout, _, _ := dptrain("ledger epsilon a b --delta 1e-5")
	if !strings.Contains(stdout, "are forks of one run") || !strings.Contains(stdout, "10 in 2 ledgers") {
		t.Error(stdout)
	}
}
