package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/number"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/engine/data"
)

func TestTrain_Resume(t *testing.T) {
	inWorkshop(t)
	if _, stderr, code := dptrain("train --resume nowhere"); code != exitcode.Usage || !strings.Contains(stderr, "nowhere") {
		t.Errorf("no run to resume: exit %d, %s", code, stderr)
	}
	first := runJSON(t, brief+" --steps 10 --noise 2 --delta 1e-5 --out run")
	second := runJSON(t, "train --resume run --steps 25")
	if second["steps"] != 25.0 || second["noise_multiplier"] != 2.0 {
		t.Errorf("after 10 lots, resumed to 25: %v lots of noise %v", second["steps"], second["noise_multiplier"])
	}
	if second["epsilon"].(float64) <= first["epsilon"].(float64) {
		t.Errorf("15 more lots cost nothing: ε %v, then %v", first["epsilon"], second["epsilon"])
	}
	whole := runJSON(t, "budget epsilon --rate 0.05 --steps 25 --noise 2 --delta 1e-5 --accountant rdp")
	if got, want := second["epsilon"].(float64), whole["epsilon"].(float64); got != want {
		t.Errorf("ε of both parts %v, of one history %v", got, want)
	}
	for flags, want := range map[string]string{"--resume run --dry-run": "dptrain ledger epsilon run", "--resume=": "--resume is empty", "--out=": "--out is empty", "--config=": "--config is empty",
		"--resume run --config run/config.yaml": "--resume and --config exclude each other", "--resume run --out other": "--resume and --out exclude each other", "--resume run --preset tfp-mnist": "--resume and --preset exclude each other",
		"--resume run --noise 3": "--resume and --noise exclude each other", "--resume run --epsilon 0": "--epsilon 0: give a finite budget", "--resume run --epsilon Inf": "--epsilon +Inf: give a finite budget"} {
		if _, stderr, code := dptrain("train " + flags); code != exitcode.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", flags, code, stderr)
		}
	}
	if _, stderr, code := dptrain("train --resume run --clip 3"); code != exitcode.Usage || !strings.Contains(stderr, "clip") {
		t.Errorf("another clip: exit %d, %s", code, stderr)
	}
	// The speed counts only the lots of this command.
	if idle := runJSON(t, "train --resume run"); idle["examples_per_second"] != 0.0 {
		t.Errorf("no lot was left to do, and %v examples were done in a second", idle["examples_per_second"])
	}
	if stdout, _, _ := dptrain("train --resume run"); strings.Contains(stdout, "examples/s") {
		t.Errorf("a speed of no lots is shown:\n%s", stdout)
	}
	// The time excludes earlier lots too.
	if card := string(readFile(t, "run/MODEL_CARD.md")); first["resumed_at"] != nil || second["resumed_at"] != 10.0 || !strings.Contains(card, " s after lot 25, where") || strings.Contains(card, "| speed |") {
		t.Errorf("resumed at %v, then at %v, and the card is\n%s", first["resumed_at"], second["resumed_at"], card)
	}
	extended := runJSON(t, "train --resume run --epsilon 1.5")
	if e := extended["epsilon"].(float64); e > 1.5 || e < 1.48 || extended["steps"].(float64) <= 25 {
		t.Errorf("extended to ε = 1.5: %v lots, ε %v", extended["steps"], e)
	}
}

// A run ends with an explanation if its weights are not finite. It continues if only its
// test loss is not finite, and writes valid JSON.
func TestTrain_NonFiniteWeightsAndLoss(t *testing.T) {
	t.Chdir(t.TempDir())
	stdout, stderr, code := dptrain(drawn + " --steps 20 --noise 2 --delta 1e-5 --seed 1 --lr 1e300 --out run")
	if code != exitcode.Failed || stdout != "" || !strings.Contains(stderr, "not finite") || !strings.Contains(stderr, "--lr") {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
	got := runJSON(t, drawn+" --steps 20 --noise 2 --delta 1e-5 --seed 1 --optimizer momentum --lr 1e38 --out far")
	if loss, there := got["test_loss"]; !there || loss != nil {
		t.Errorf("the test loss is %v", loss)
	}
	if _, stderr, code := dptrain("report far"); code != exitcode.Done {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// Weights that stop being finite end a run because of what it released. All documents then
// claim the ε of the whole plan, and state separately what was spent.
func TestTrain_FailureStatesPlannedEpsilon(t *testing.T) {
	t.Chdir(t.TempDir())
	line := drawn + " --steps 40 --noise 2 --delta 1e-5 --accountant rdp"
	planned := runJSON(t, line+" --dry-run")["epsilon"].(float64)
	stdout, stderr, code := dptrain(line + " --lr 1e300 --json --out run")
	var printed, saved rundir.Summary
	if err := json.Unmarshal([]byte(stdout), &printed); code != exitcode.Failed || err != nil {
		t.Fatalf("exit %d, %v, %s", code, err, stderr)
	}
	if err := json.Unmarshal(readFile(t, "run/run.json"), &saved); err != nil {
		t.Fatal(err)
	}
	spent := runJSON(t, "ledger epsilon run --accountant rdp --delta 1e-5")["epsilon"].(float64)
	for where, s := range map[string]rundir.Summary{"--json": printed, "run.json": saved} {
		if !(math.Abs(float64(s.Epsilon)-planned) <= 1e-9*planned) || float64(s.SpentEpsilon) != spent || !(spent < planned) || s.PlannedSteps != 40 || s.Interrupted {
			t.Errorf("%s: ε = %v, %v spent, of %v planned", where, s.Epsilon, s.SpentEpsilon, planned)
		}
	}
	claim := "ε = " + number.RoundUp(planned)
	if !strings.Contains(stderr, claim+", the cost of the whole plan of 40 lots") {
		t.Errorf("no %s in %s", claim, stderr)
	}
	for _, file := range []string{"run/report.html", "run/MODEL_CARD.md"} {
		if !strings.Contains(string(readFile(t, file)), "differential privacy with "+claim+" and δ") {
			t.Errorf("no %s in %s", claim, file)
		}
	}
}

// counted counts the rows that are read from a set.
type counted struct {
	data.Set
	rows int
}

func (c *counted) Read(dst [][]float32, rows []int) error {
	c.rows += len(rows)
	return c.Set.Read(dst, rows)
}

// The final weights are evaluated once, however the run ends. The last line of metrics.jsonl
// contains the result if the run reported its last lot.
func TestTrain_EvaluatesFinalWeightsOnce(t *testing.T) {
	inWorkshop(t)
	const line = " --lot 20 --ignore owner --model logistic --accountant rdp --delta 1e-5" + columns
	for name, flags := range map[string]string{
		"whole":     "--noise 1 --steps 10 --out whole" + line,
		"projected": "--noise 1 --steps 10 --project 2 --out projected" + line,
		"stopped":   "--noise 1 --steps 19 --stop-at-epsilon 0.85 --out stopped" + line,
		"idle":      "--resume idle",
	} {
		if name == "idle" {
			runJSON(t, "train --noise 1 --steps 10 --out idle"+line)
		}
		j := specOf(t, flags)
		test := &counted{Set: j.Task.Test}
		j.Task.Test = test
		term := &terminal.Terminal{Out: io.Discard, Err: io.Discard}
		if err := runSpec(term, j, time.Now()); err != nil {
			t.Fatal(name, err)
		}
		if test.rows != test.Len() {
			t.Errorf("%s: %d rows were read of %d", name, test.rows, test.Len())
		}
		var r struct {
			Accuracy float64 `json:"test_accuracy"`
			Examples int     `json:"test_examples"`
		}
		text, err := os.ReadFile(name + "/run.json")
		if err = errors.Join(err, json.Unmarshal(text, &r)); err != nil || r.Examples != test.Len() {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if again := runJSON(t, "eval "+name); again["accuracy"] != r.Accuracy {
			t.Errorf("%s: run.json has %v, eval %v", name, r.Accuracy, again["accuracy"])
		}
		metrics, _ := os.ReadFile(name + "/metrics.jsonl")
		if reported := strings.Contains(string(metrics), fmt.Sprintf(`"test_accuracy":%v`, r.Accuracy)); reported == (name == "stopped") {
			t.Errorf("%s: accuracy %v, and points\n%s", name, r.Accuracy, metrics)
		}
	}
}

// The summary reports lots whose work was lost: ε includes them, but the model does not.
func TestTrain_ReportsLostLots(t *testing.T) {
	inWorkshop(t)
	if got := runJSON(t, brief+" --steps 10 --noise 2 --delta 1e-5 --out run"); got["lost_lots"] != nil {
		t.Errorf("a run without a crash lost %v lots", got["lost_lots"])
	}
	kept, err := filepath.Glob("run/checkpoint/*.checkpoint")
	if err != nil || len(kept) < 2 {
		t.Fatalf("checkpoints %v, %v", kept, err)
	}
	if err := os.Remove(kept[len(kept)-1]); err != nil {
		t.Fatal(err)
	}
	// The lot of the previous checkpoint depends on the speed of the disk.
	var before int
	if _, err := fmt.Sscanf(filepath.Base(kept[len(kept)-2]), "lot-%d.checkpoint", &before); err != nil {
		t.Fatal(err)
	}
	lost := 10 - before
	stdout, stderr, code := dptrain("train --resume run")
	if want := fmt.Sprintf("ε includes %s whose work a crash lost", number.Plural(lost, "lot")); code != exitcode.Done || !strings.Contains(stdout, want) {
		t.Errorf("exit %d, want %q: %s%s", code, want, stdout, stderr)
	}
	if got := runJSON(t, "train --resume run"); got["lost_lots"] != float64(lost) || got["steps"] != 10.0 {
		t.Errorf("%v lots lost of a run of %v, want %d", got["lost_lots"], got["steps"], lost)
	}
}

// A damaged ledger and a wrong setting have different exit codes.
func TestTrain_ResumeWithDamagedLedger(t *testing.T) {
	inWorkshop(t)
	runJSON(t, brief+" --steps 10 --noise 2 --delta 1e-5 --out run")
	file := readFile(t, "run/ledger.jsonl")
	changed := strings.Replace(string(file), `"noise":2`, `"noise":9`, 1)
	if changed == string(file) {
		t.Fatal("nothing was changed")
	}
	if err := os.WriteFile("run/ledger.jsonl", []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := dptrain("train --resume run --steps 20"); code != exitcode.Damaged || !strings.Contains(stderr, "line 2") {
		t.Errorf("exit %d, %s", code, stderr)
	}
}

// visibleLots returns the largest number of lots that a file of a run, except the ledger,
// contains.
func visibleLots(t *testing.T, dir string) int {
	t.Helper()
	least := 0
	for _, name := range []string{"run.json", "metrics.jsonl"} {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		for _, line := range strings.SplitAfter(string(text), "}\n") {
			var v struct{ Lot, Steps int }
			if json.Unmarshal([]byte(line), &v) == nil {
				least = max(least, v.Lot, v.Steps)
			}
		}
	}
	names, _ := filepath.Glob(filepath.Join(dir, "checkpoint", "*.checkpoint"))
	for _, name := range names {
		file, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the resumed run has replaced it
		}
		if err != nil {
			t.Fatal(err)
		}
		_, header, _ := strings.Cut(string(file), "\n")
		var v struct{ Step int }
		if err := json.NewDecoder(strings.NewReader(header[8:])).Decode(&v); err != nil {
			t.Fatal(err)
		}
		least = max(least, v.Step)
	}
	return least
}

// A file that cannot be written after the start is a failure and not a usage error, even if
// the system's error suggests one.
func TestTrain_FileCannotBeWritten(t *testing.T) {
	for _, name := range []string{"model.json", "checkpoint"} {
		inWorkshop(t)
		file := filepath.Join("run", name)
		if err := os.Mkdir("run", 0o755); err != nil {
			t.Fatal(err)
		}
		if name == "checkpoint" {
			if err := os.Symlink(filepath.Join("none", "none"), file); err != nil {
				t.Skip(err)
			}
		} else if err := os.MkdirAll(filepath.Join(file, "full"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, stderr, code := dptrain(brief + " --steps 2 --noise 2 --out run --quiet")
		if code != exitcode.Failed || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, name) {
			t.Errorf("%s: exit %d, %s", name, code, stderr)
		}
	}
}
