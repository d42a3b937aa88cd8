package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/engine/data"
	"github.com/dptrain/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/number"
	"github.com/dptrain/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/internal/runspec"
	"github.com/dptrain/dptrain/internal/terminal"
)

// columns describes the files of inWorkshop. brief is a short run on them, baseline a run
// without privacy, and drawn a run on the digits that dptrain draws.
const (
	columns  = " --data people.csv --test test.csv --label label --classes no,yes --bounds age=0:100 --vocabulary colour=red|blue"
	brief    = "train --model logistic --lot 200 --accountant rdp --ignore owner" + columns
	baseline = "train --model logistic --lot 200 --non-private --ignore owner" + columns
	drawn    = "train --model logistic --lot 200 --accountant rdp"
)

// inWorkshop changes to a directory with training data and test data.
func inWorkshop(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	table(t, "people.csv", 4000)
	table(t, "test.csv", 400)
}

func TestTrain_WritesItsFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	got := runJSON(t, drawn+" --steps 20 --epsilon 2 --out run")
	for _, key := range strings.Fields(`epsilon delta accountant adjacency noise_multiplier sampling rate records
		expected_lot microbatch steps clipping groups device threads seconds examples_per_second test_accuracy
		secure ledger_head version`) {
		if _, ok := got[key]; !ok {
			t.Errorf("run.json has no %s", key)
		}
	}
	if all := got["expected_lot"].(float64) * 20 / got["seconds"].(float64); !(got["examples_per_second"].(float64) > all) {
		t.Errorf("lots ran at %v examples/s, and the whole command at %v: reading the data is counted as training", got["examples_per_second"], all)
	}
	if e := got["epsilon"].(float64); e > 2 || e < 1.99 {
		t.Errorf("ε = %v for a budget of 2", e)
	}
	if a := got["test_accuracy"].(float64); a < 0.3 {
		t.Errorf("accuracy %v: nothing was learnt", a)
	}
	file := readFile(t, "run/run.json")
	var saved map[string]any
	if err := json.Unmarshal(file, &saved); err != nil || saved["ledger_head"] != got["ledger_head"] {
		t.Errorf("run.json has %v, the command printed %v (%v)", saved["ledger_head"], got["ledger_head"], err)
	}
	report, err := ledger.Verify("run/ledger.jsonl")
	if err != nil || report.Lots != 20 || report.Head != got["ledger_head"] {
		t.Errorf("the ledger: %+v, %v", report, err)
	}
	evaluated := runJSON(t, "eval run")
	if evaluated["accuracy"] != got["test_accuracy"] {
		t.Errorf("eval has %v, train %v", evaluated["accuracy"], got["test_accuracy"])
	}
	if _, stderr, code := dptrain(drawn + " --steps 5 --out run"); code != exitcode.Usage || !strings.Contains(stderr, "already contains a run") {
		t.Errorf("a second run into the folder: exit %d, %s", code, stderr)
	}
}

// run.json and the dry run describe the settings of the command line.
func TestTrain_UsesSettings(t *testing.T) {
	inWorkshop(t)
	line := strings.Replace(brief, "logistic", "mlp:6", 1) + ` --steps 3 --noise 2 --delta 1e-5 --clip 0.5 --clipping per-layer --allocation dimension --validation-split 0.1 --microbatch 50
		--optimizer adamw:weight-decay=0.01 --decay-of matrices --lr 0.125 --lr-of fc2=2 --schedule warmup:2 --ema 0.5 --threads 1 --device cpu --out run`
	seen, got := runJSON(t, line+" --dry-run"), runJSON(t, line)
	for _, key := range []string{"data", "model", "parameters", "records", "unit", "steps", "expected_lot", "microbatch", "delta", "accountant", "adjacency", "secure", "noise_multiplier", "validation_records", "validation_noise", "device"} {
		if seen[key] != got[key] {
			t.Errorf("%s is foreseen as %v, and was %v", key, seen[key], got[key])
		}
	}
	for key, want := range map[string]any{"accountant": "rdp", "adjacency": "zero-out", "unit": "example", "noise_multiplier": 2, "delta": 1e-5, "sampling": "poisson",
		"rate": 200. / 3600, "records": 3600, "expected_lot": 200, "microbatch": 50, "steps": 3, "clip": 0.5, "clipping": "per-layer", "allocation": "dimension", "optimizer": "adamw:weight-decay=0.01",
		"decay_of": "matrices", "learning_rate": 0.125, "lr_of": "fc2=2", "schedule": "warmup:2", "ema": 0.5, "device": "cpu", "threads": 1, "test_examples": 400, "test_labels": 400,
		"validation_records": 400, "secure": true, "private": true, "data": "people.csv", "model": "mlp:6", "parameters": 4*6 + 6 + 6*2 + 2, "out": "run", "task": "tabular-classification",
		"class_names": []string{"no", "yes"}, "platform": currentBuild().Platform, "version": currentBuild().Version} {
		if fmt.Sprint(got[key]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	plan := runJSON(t, "ledger epsilon run --accountant rdp --delta 1e-5")
	if got["epsilon"] != plan["epsilon"] || got["order"] != plan["order"] || !(got["order"].(float64) > 1) {
		t.Errorf("ε = %v by order %v, and the ledger's is %v by %v", got["epsilon"], got["order"], plan["epsilon"], plan["order"])
	}
}

// --rate replaces --lot, and a record can consist of several examples.
func TestTrain_RateAndMicrobatchRecords(t *testing.T) {
	inWorkshop(t)
	j := specOf(t, "--rate 0.05 --epochs 2 --record microbatch:4 --clipping adaptive --noise 9 --seed 7 --microbatch 5000 --ignore owner"+columns)
	c := j.Config
	if q, _ := c.Mechanism.Clipping[0].Bound.(clip.Quantile); c.Sampling.Rate != 0.05 || c.Sampling.Lot != 0 || c.Steps != 40 || c.Records.Examples != 4 || j.Records != 1000 || q.Noise != 50./20 || c.Microbatch != 1000 {
		t.Errorf("a rate of %v, a lot of %d, %d steps, %d records of %d examples, %d at a time, noise %v on their count, %v", c.Sampling.Rate, c.Sampling.Lot, c.Steps, j.Records, c.Records.Examples, c.Microbatch, q.Noise, j.Flags.Seed)
	}
}

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

// An epoch of shuffled lots is a pass, which is paid for as a whole. train and budget count
// the same lots, and the report gives the number of passes.
func TestTrain_ShuffledEpochs(t *testing.T) {
	inWorkshop(t)
	for epochs, shown := range map[string]string{"3": "3", "1.4": "1.375"} {
		run := runJSON(t, strings.Replace(brief, "--lot 200", "--lot 1500", 1)+" --sampling shuffle --noise 2 --epochs "+epochs+" --out run"+epochs)
		plan := runJSON(t, "budget epsilon --records 4000 --lot 1500 --sampling shuffle --noise 2 --epochs "+epochs+" --accountant rdp")
		if want := map[string]float64{"3": 9, "1.4": 4}[epochs]; run["steps"] != want || epochs == "3" && (plan["steps"] != want || plan["epsilon"] != run["epsilon"]) {
			t.Errorf("%s epochs are %v lots at ε = %v, and budget has %v at %v", epochs, run["steps"], run["epsilon"], plan["steps"], plan["epsilon"])
		}
		if card := string(readFile(t, "run"+epochs+"/MODEL_CARD.md")); !strings.Contains(card, "| epochs | "+shown+" |") {
			t.Errorf("%v lots are not reported as %s epochs:\n%s", run["steps"], shown, card)
		}
	}
}

// With lots of a fixed size, the budget limits the ε that is proven for any data, and both ε
// are shown.
func TestTrain_BudgetOfFixedLots(t *testing.T) {
	inWorkshop(t)
	const line = brief + " --sampling fixed --delta 1e-5"
	within := func(v map[string]any, budget float64) {
		t.Helper()
		if proven := v["epsilon"].(float64); proven > budget || proven < 0.98*budget || v["epsilon_published"].(float64) >= proven {
			t.Errorf("of %v, ε = %v, and %v is published", budget, proven, v["epsilon_published"])
		}
	}
	within(runJSON(t, line+" --steps 20 --epsilon 2 --dry-run"), 2)
	stdout, stderr, _ := dptrain(line + " --steps 20 --epsilon 2 --out run")
	var v map[string]any
	if err := json.Unmarshal(readFile(t, "run/run.json"), &v); err != nil {
		t.Fatal(err)
	}
	within(v, 2)
	want := fmt.Sprintf("ε = %s at δ = 1e-5", number.RoundUp(v["epsilon"].(float64)))
	if last := fmt.Sprintf("lot 20/20, ε %s of 2,", number.RoundUp(math.Ceil(1000*v["epsilon"].(float64))/1000)); !strings.Contains(stdout, want) || !strings.Contains(stderr, last) {
		t.Errorf("%q or %q is missing:\n%s%s", want, last, stdout, stderr)
	}
	lines := bytes.Split(bytes.TrimSpace(readFile(t, "run/metrics.jsonl")), []byte("\n"))
	var point map[string]any
	if err := json.Unmarshal(lines[len(lines)-1], &point); err != nil || point["epsilon"] != v["epsilon"] || point["epsilon_published"] != v["epsilon_published"] {
		t.Errorf("metrics.jsonl ends with %v, %v", point, err)
	}
	more := runJSON(t, "train --resume run --epsilon 3")
	within(more, 3)
	stopped := runJSON(t, line+" --steps 100000 --noise 4 --stop-at-epsilon 1.5 --out stopped")
	within(stopped, 1.5)
	if more["steps"].(float64) <= 20 || stopped["steps"].(float64) >= 100000 {
		t.Errorf("%v and %v lots", more["steps"], stopped["steps"])
	}
	// The extra releases get their share of that budget too.
	lots := runJSON(t, "budget epsilon --sampling fixed --records 3600 --lot 200 --steps 20 --noise 2 --delta 1e-5 --accountant rdp")["epsilon"].(float64)
	alone := runJSON(t, fmt.Sprintf("budget noise --sampling none --adjacency replace-one --steps 1 --delta 1e-5 --accountant rdp --epsilon %v", runspec.ValidationShare*lots))
	if hidden := runJSON(t, line+" --steps 20 --noise 2 --validation-split 0.1 --dry-run"); hidden["validation_noise"] != alone["noise_multiplier"] {
		t.Errorf("noise %v on the validation accuracy, want %v", hidden["validation_noise"], alone["noise_multiplier"])
	}
	// For these lots, the published ε is below the budget and the proven ε above it.
	seen := runJSON(t, line+" --steps 20 --noise "+fmt.Sprint(v["noise_multiplier"])+" --dry-run --stop-at-epsilon "+fmt.Sprint((v["epsilon_published"].(float64)+v["epsilon"].(float64))/2))
	if words, _ := seen["warning"].(string); !strings.Contains(words, "ends before the first") {
		t.Errorf("foreseen with the warning %q", words)
	}
}

// The progress marks an ε that is an approximation, or that does not hold against an
// adversary who knows the seed.
func TestTrainProgress_MarksEpsilon(t *testing.T) {
	inWorkshop(t)
	for flags, want := range map[string]string{
		"--accountant gdp":          "lot 2/2, ε ≈ 0.",
		"--seed 1":                  " (INSECURE), ",
		"--stop-at-epsilon 5":       " of 5, ",
		"--stop-at-epsilon 0.2":     "The budget ended the run after 1 of 2 lots.\n",
		"--seed 1 --accountant gdp": "ε ≈ 0.",
	} {
		_, stderr, code := dptrain("train --model logistic --lot 200 --ignore owner --steps 2 --noise 2 --delta 1e-5 --out out" + strings.Join(strings.Fields(flags), "") + columns + " " + flags)
		if code != exitcode.Done || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, and %q is missing:\n%s", flags, code, want, stderr)
		}
		if strings.Contains(stderr, "≈") != strings.Contains(flags, "gdp") || strings.Contains(stderr, "(INSECURE)") != strings.Contains(flags, "seed") {
			t.Errorf("%s: a mark too many or too few:\n%s", flags, stderr)
		}
	}
}

// All outputs write δ in the same form.
func TestOutputs_FormatOfDelta(t *testing.T) {
	inWorkshop(t)
	const plan = " --rate 0.01 --noise 4 --steps 1000 --delta 0.00001"
	fixed := brief + " --steps 2 --noise 2 --delta 0.00001"
	output := ""
	for _, line := range []string{
		"budget epsilon" + plan, "budget compare" + plan, "budget statement --records 1000000" + plan, "budget curve --out c.svg" + plan,
		"budget delta --rate 0.01 --noise 4 --steps 1000 --epsilon 0.9", "budget delta --quiet --rate 0.01 --noise 4 --steps 1000 --epsilon 0.9",
		"budget steps --rate 0.5 --noise 0.3 --epsilon 0.001 --delta 0.00001", "budget rate --noise 0.05 --steps 1000000 --epsilon 0.001 --delta 0.00000001",
		fixed + " --out run", fixed + " --dry-run", "ledger epsilon run", "ledger epsilon run --delta 0.00001",
	} {
		stdout, stderr, _ := dptrain(line)
		output += "\n$ " + strings.ReplaceAll(line, "--delta 0.00001", "") + "\n" + stdout + stderr
	}
	for _, file := range []string{"run/report.html", "run/MODEL_CARD.md", "c.svg"} {
		output += string(readFile(t, file))
	}
	long := regexp.MustCompile(`.*\de-0\d.*|.*0\.00001\D.*`)
	if found := long.FindAllString(output, -1); found != nil || strings.Count(output, "1e-5") < 8 {
		t.Errorf("another way to write δ is in\n%s", strings.Join(found, "\n"))
	}
}

// A dry run warns that the budget ends the run before its last lot.
func TestDryRun_WarnsOfBudget(t *testing.T) {
	inWorkshop(t)
	for stop, warns := range map[string]bool{"2": true, "50": false} {
		seen := runJSON(t, brief+" --steps 40 --noise 1 --delta 1e-5 --dry-run --stop-at-epsilon "+stop)
		if words, _ := seen["warning"].(string); strings.Contains(words, "ends before the first") != warns {
			t.Errorf("a budget of %s, and all lots cost %v: foreseen with the warning %q", stop, seen["epsilon"], words)
		}
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
	got := runJSON(t, drawn+" --steps 20 --noise 2 --delta 1e-5 --seed 1 --lr 1e38 --out far")
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

// With δ of at least one over the number of records, a mechanism may publish a record. A run with
// such a δ is refused or, if the user accepts that, every output warns of it.
func TestTrain_RefusesLargeDelta(t *testing.T) {
	inWorkshop(t)
	for delta, warns := range map[string]bool{"0.001": true, "0.00025": true, "0.0001": false} {
		for _, command := range []string{brief + " --steps 2 --noise 2 --out no", brief + " --steps 2 --noise 2 --dry-run", choice + " --trials 2 --out no"} {
			if !warns {
				break
			}
			_, stderr, code := dptrain(command + " --delta " + delta)
			if _, err := os.Stat("no"); code != exitcode.Usage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "permits publishing one record in full") || !strings.Contains(stderr, "--allow-large-delta") || err == nil {
				t.Errorf("%s --delta %s: exit %d, %s", command, delta, code, stderr)
			}
		}
		delta := delta + " --allow-large-delta"
		_, stderr, code := dptrain(brief + " --steps 2 --noise 2 --out run" + delta + " --delta " + delta)
		if code != exitcode.Done || strings.Contains(stderr, "give a smaller --delta") != warns {
			t.Errorf("δ = %s of 4000 records: exit %d, %s", delta, code, stderr)
		}
		if seen := runJSON(t, brief+" --steps 2 --noise 2 --dry-run --delta "+delta); (seen["warning"] != nil) != warns {
			t.Errorf("δ = %s of 4000 records: foreseen with the warning %v", delta, seen["warning"])
		}
	}
}

func TestTrain_PrintConfigRoundTrip(t *testing.T) {
	inWorkshop(t)
	line := brief + " --steps 7 --noise 1.5 --clip 0.5 --clipping normalized --lr 0.25 --seed 3 --microbatch 50"
	stdout, stderr, code := dptrain(line + " --print-config")
	if code != exitcode.Done {
		t.Fatal(stderr)
	}
	if err := os.WriteFile("run.yaml", []byte(stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	if v := runJSON(t, line+" --print-config"); v["clip"] != 0.5 || v["steps"] != 7.0 {
		t.Errorf("under --json: %v", v)
	}
	again, stderr, code := dptrain("train --config run.yaml --print-config")
	if code != exitcode.Done || again != stdout {
		t.Errorf("printed again (exit %d, %s):\n%s\nfirst:\n%s", code, stderr, again, stdout)
	}
	a, b := runJSON(t, line+" --out a"), runJSON(t, "train --config run.yaml --out b")
	for _, key := range []string{"test_accuracy", "test_loss", "epsilon", "microbatch", "clipping"} {
		if a[key] != b[key] {
			t.Errorf("%s: %v by flags, %v by the file", key, a[key], b[key])
		}
	}
	if a["secure"] != false {
		t.Error("a seeded run is not marked insecure in run.json")
	}
	h, err := ledger.Read("a/ledger.jsonl")
	if err != nil || h.Header.Secure {
		t.Errorf("a seeded run is not marked insecure in the ledger (%v)", err)
	}
	if kept, err := os.ReadFile("a/" + rundir.ConfigFile); err != nil || !strings.HasPrefix(string(kept), "# INSECURE") {
		t.Errorf("the seed that is kept is not marked: %s (%v)", kept, err)
	}
	if more := runJSON(t, "train --resume a --steps 9"); more["steps"] != 9.0 || more["secure"] != false {
		t.Errorf("a seeded run resumed: %v lots, secure %v", more["steps"], more["secure"])
	}
	if _, stderr, _ := dptrain(line + " --out c"); !strings.Contains(stderr, "INSECURE") {
		t.Errorf("a seeded run is not announced as insecure: %s", stderr)
	}
}

func TestTrain_Clippings(t *testing.T) {
	inWorkshop(t)
	for _, c := range runspec.Choices()["clipping"] {
		got := runJSON(t, brief+" --steps 4 --noise 1 --delta 1e-5 --out "+c+" --clipping "+c)
		groups := got["groups"].([]any)
		want := map[string]int{"flat": 1, "normalized": 1, "joint": 1, "adaptive": 2, "per-layer": 2}[c]
		if len(groups) != want {
			t.Errorf("%s: %d groups in the ledger, want %d", c, len(groups), want)
		}
		cost := runJSON(t, "budget epsilon --rate 0.05 --steps 4 --noise 1 --delta 1e-5 --accountant rdp")["epsilon"].(float64)
		if e := got["epsilon"].(float64); e < cost*(1-1e-6) || e > cost*(1+1e-6) {
			t.Errorf("%s: ε %v where a multiplier of 1 costs %v", c, e, cost)
		}
	}
}

// --show-private prints private values on marked lines and nowhere else: the files are the
// same as without the flag.
func TestTrain_ShowPrivate(t *testing.T) {
	inWorkshop(t)
	var notes [2][]string
	var points [2]string
	for i, flag := range []string{"", " --show-private"} {
		dir := "run" + strconv.Itoa(i)
		_, stderr, code := dptrain(brief + " --steps 10 --noise 1 --delta 1e-5 --seed 1 --threads 1 --out " + dir + flag)
		if code != exitcode.Done {
			t.Fatal(stderr)
		}
		marked := 0
		for line := range strings.Lines(stderr) {
			if strings.HasPrefix(line, "PRIVATE, do not publish: ") {
				marked++
				continue
			}
			for _, word := range []string{"loss", "unscaled", "held", "refused"} {
				if strings.Contains(line, word) {
					t.Errorf("%q stands in a line that is not marked: %s", word, line)
				}
			}
			notes[i] = append(notes[i], line)
		}
		if marked != 10*i {
			t.Errorf("%d lines are marked private with%q", marked, flag)
		}
		text := readFile(t, dir+"/metrics.jsonl")
		points[i] = regexp.MustCompile(`"(seconds|epsilon)":[^,}]+`).ReplaceAllString(string(text), "#")
	}
	if len(notes[0]) != len(notes[1]) || points[0] != points[1] || files(t, "run0") != files(t, "run1") {
		t.Errorf("%d and %d lines, points\n%s\n%s", len(notes[0]), len(notes[1]), points[0], points[1])
	}
	// A resumed run prints private values only if its own command asks for them.
	for _, flags := range []string{"--steps 11", "--steps 12 --show-private"} {
		_, stderr, code := dptrain("train --resume run1 " + flags)
		if code != exitcode.Done || strings.Contains(stderr, "PRIVATE, do not publish: ") != strings.Contains(flags, "private") {
			t.Errorf("resumed with %s: exit %d\n%s", flags, code, stderr)
		}
	}
}

func TestTrain_NonPrivate(t *testing.T) {
	inWorkshop(t)
	stdout, stderr, code := dptrain(baseline + " --steps 4 --project 2 --validation-split 0.1 --out run")
	if code != exitcode.Done || !strings.Contains(stderr, "NOT PRIVATE") {
		t.Errorf("exit %d, %s", code, stderr)
	}
	shown := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{"% on 400 records held out projection onto 2 principal directions privacy NONE: ", " files run report run/report.html next dptrain train (the same, with privacy)"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, stdout)
		}
	}
	for _, want := range []string{`"groups": []`, `"accountant": "none"`, `"adjacency": "none"`, `"clipping": "none"`, `"secure": false`} {
		if summary := string(readFile(t, "run/run.json")); !strings.Contains(summary, want) {
			t.Errorf("%s is not in\n%s", want, summary)
		}
	}
	if _, err := os.Stat("run/ledger.jsonl"); err == nil {
		t.Error("a run without privacy has a ledger")
	}
}

// Privacy flags on the command line of a non-private run would have no effect and are
// refused. A preset or a file can contain them: it describes the private run.
func TestTrain_NonPrivateRefusesPrivacyFlags(t *testing.T) {
	inWorkshop(t)
	file := "clip: 2\nnoise: 1\ndelta: 1e-5\naccountant: rdp\nproject: 2\nproject-noise: 3\nvalidation-split: 0.1\nvalidation-noise: 3\n"
	for name, text := range map[string]string{"private.yaml": file, "public.yaml": file + "non-private: true\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, flags := range []string{"--clip 2", "--clipping joint", "--allocation dimension", "--noise 1", "--epsilon 2", "--delta 1e-5",
		"--stop-at-epsilon 2", "--accountant rdp", "--validation-split 0.1 --validation-noise 3", "--project 2 --project-noise 3"} {
		typed := flags[strings.LastIndex(flags, "--"):]
		typed, _, _ = strings.Cut(typed, " ")
		for line, want := range map[string]string{
			baseline: "--non-private",
			strings.ReplaceAll(baseline, "--non-private", "--config public.yaml"): "contradicts non-private in public.yaml",
		} {
			_, stderr, code := dptrain(line + " --steps 4 --out run " + flags)
			if code != exitcode.Usage || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) || !strings.Contains(stderr, typed+" ") {
				t.Errorf("%s with %s: exit %d, %s", flags, want, code, stderr)
			}
		}
	}
	for i, line := range []string{baseline + " --config private.yaml", strings.ReplaceAll(baseline, "--non-private", "--config public.yaml")} {
		got := runJSON(t, line+" --steps 4 --out run"+strconv.Itoa(i))
		if got["private"] != false || got["validation_noise"] != 0.0 || got["projection_noise"] != 0.0 {
			t.Errorf("%s: private %v, noise %v and %v", line, got["private"], got["validation_noise"], got["projection_noise"])
		}
	}
	if again := runJSON(t, strings.ReplaceAll(baseline, "--non-private", "--config public.yaml --non-private=false")+" --steps 4 --out run"); again["private"] != true {
		t.Error("--non-private=false does not overrule a file")
	}
	if _, stderr, code := dptrain("train --resume run0 --epsilon 3"); code != exitcode.Usage || !strings.Contains(stderr, "--epsilon") {
		t.Errorf("a baseline resumed with a budget: exit %d, %s", code, stderr)
	}
	if j := specOf(t, "--preset abadi-mnist --data digits --non-private"); !j.Config.Mechanism.NonPrivate || j.Config.Projection.Noise != 0 || j.Config.Sampling.Lot != 600 {
		t.Errorf("of lots of %d, the baseline of a preset is private: %v", j.Config.Sampling.Lot, !j.Config.Mechanism.NonPrivate)
	}
}

// table writes a CSV file in which the colour determines the label of 19 rows in 20, and
// each owner has several rows.
func table(t *testing.T, name string, rows int) {
	t.Helper()
	var b strings.Builder
	b.WriteString("age,colour,owner,label\n")
	for i := range rows {
		colour := []string{"red", "blue"}[i%2]
		label := []string{"no", "yes"}[i%2]
		if i%20 == 7 {
			label = "no"
		}
		b.WriteString(strings.Join([]string{[]string{"20", "60"}[i/2%2], colour, string(rune('a' + i/5%20)), label}, ",") + "\n")
	}
	if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTrain_UsersOfATable(t *testing.T) {
	t.Chdir(t.TempDir())
	table(t, "people.csv", 400)
	table(t, "test.csv", 40)
	got := runJSON(t, "train --ignore owner --model mlp:8 --steps 60 --lot 100 --noise 0.5 --seed 1 --out rows"+columns)
	if got["test_accuracy"].(float64) < 0.9 || got["unit"] != "example" {
		t.Errorf("accuracy %v, unit %v", got["test_accuracy"], got["unit"])
	}
	got = runJSON(t, "train --record user:owner --user-examples 4 --model mlp:8 --steps 5 --lot 5 --noise 0.5 --out users"+columns)
	if got["unit"] != "user" || got["records"] != 20.0 {
		t.Errorf("user-level: unit %v, %v records", got["unit"], got["records"])
	}
}

func TestTrain_RefusesInvalidFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	table(t, "t.csv", 20)
	table(t, "copy.csv", 20)
	array(t, "wide/x_train.npy", "|u1", "(2, 2049)", make([]float64, 2*2049)...)
	array(t, "wide/y_train.npy", "|u1", "(2,)", 0, 1)
	for _, c := range []struct{ flags, want string }{
		{"--data mnits", "mnist"},
		{"--data mnist", "--data-dir"},
		{"--data t.csv --label label --classes no,yes --bounds age=0:100 --ignore owner", "colour"},
		{"--lot 0", "--lot"},
		{"--data t.csv --label label --classes no,yes --bounds age=0:100 --vocabulary colour=red --record user:owner --user-examples 0", "--user-examples 0: give at least 1"},
		{"--user-examples -1", "needs --record user:COLUMN"},
		{"--lot 1000000", "--lot"},
		{"--lot 0x10", "a whole number"},
		{"--rate 1.5", "--rate"},
		{"--rate 0", "--rate"},
		{"--rate 0.1 --lot 5", "--lot"},
		{"--clip 0", "--clip"},
		{"--clip -1", "--clip"},
		{"--clip Inf", "--clip"},
		{"--noise 0 --project 5", "--noise 0: give a finite multiplier above 0"},
		{"--noise -1 --validation-split 0.1", "--noise -1: give a finite multiplier above 0"},
		{"--noise Inf", "--noise +Inf: give a finite multiplier above 0"},
		{"--clipping adaptive --lot 1", "--lot"},
		{"--noise 1 --epsilon 1", "--epsilon"},
		{"--epsilon 0", "--epsilon"},
		{"--delta 0", "--delta"},
		{"--delta 1", "--delta"},
		{"--model mlpp", "mlp"},
		{"--model mlp:0", "mlp"},
		{"--optimizer adma", "adam"},
		{"--schedule lineer:1@2", "linear"},
		{"--model mlp:6 --lr-of fx2=2", "the nearest is fc2"},
		{"--model mlp:6 --lr-of fc1=2,fc1.bias=3", "names fc1.bias twice"},
		{"--lr-of =2", "LAYER=FACTOR"},
		{"--lr-of fc1", "LAYER=FACTOR"},
		{"--lr-of fc1=0", "--freeze"},
		{"--lr-of fc1=Inf", "above 0"},
		{"--decay-of matrixes --optimizer adamw", "matrices"},
		{"--decay-of matrices", "no weight decay"},
		{"--steps 0", "--steps"},
		{"--epochs 0", "--epochs"},
		{"--record usr", "--record"},
		{"--record user:owner", "label"},
		{"--record microbatch:0", "--record"},
		{"--record microbatch:50000 --validation-split 0.1", "of 1 records holds out 0: at least one"},
		{"--sampling poison", "poisson"},
		{"--clipping flatt", "flat"},
		{"--device cuda:0", "CUDA"},
		{"--device cup", "cpu"},
		{"--preset tfp", "tfp-mnist"},
		{"--config none.yaml", "none.yaml"},
		{"--microbatch 0", "--microbatch"},
		{"--init none.safetensors", "--init"},
		{"--accountant pdl", "pld"},
		{"--accountant gdp", "(--noise)"},
		{"--lr -1", "--lr"},
		{"--lr Inf", "--lr"},
		{"--epsilon Inf", "finite"},
		{"--data t.csv --test ./t.csv --label label --classes no,yes", "is the training data, or a copy of it: "},
		{"--data t.csv --test copy.csv --label label --classes no,yes", "is the training data, or a copy of it: "},
		{"--seed -1", "a whole number, 0 or more"},
		{"--ema 1", "average"},
		{"--lott 5", "--lot"},
		{"--metrics-addr nonsense", "--metrics-addr"},
		{"--metrics-addr :0", "--metrics-addr"},
		{"--metrics-addr :99999", "--metrics-addr"},
		{"--metrics-addr 192.0.2.1:9", "--metrics-addr"},
		{"--validation-split 0", "a share above 0 and below 1"},
		{"--validation-split 1", "a share above 0 and below 1"},
		{"--validation-split -0.1", "a share above 0 and below 1"},
		{"--validation-split NaN", "a share above 0 and below 1"},
		{"--validation-split 0.1 --accountant zcdp --epsilon 1e30 --delta 0.4 --allow-large-delta", "; give --validation-noise"},
		{"--project 5 --accountant zcdp --epsilon 1e30 --delta 0.4 --allow-large-delta", "; give --project-noise"},
		{"--validation-split 1e-9", "at least one"},
		{"--validation-split 0.999999", "at least one"},
		{"--validation-noise 3", "--validation-split"},
		{"--validation-split 0.1 --validation-noise 0", "--validation-noise"},
		{"--validation-split 0.1 --validation-noise Inf", "--validation-noise"},
		{"--validation-split 0.1 --validation-noise 3 --non-private", "--non-private"},
		{"--project 0", "--project 0"},
		{"--project -1", "--project -1"},
		{"--project 785", "784"},
		{"--project 5 --data wide --classes 2", "at most 2048"},
		{"--project 5 --project-noise 0", "--project-noise"},
		{"--project 5 --project-noise -1", "--project-noise"},
		{"--project 5 --project-noise NaN", "--project-noise"},
		{"--project 5 --project-noise 1e200", "noise"},
		{"--project-noise 3", "needs --project"},
		{"--augment turn", "use flip or shift:P"},
		{"--augment shift:28", "from 1 to 27 pixels"},
		{"--augment flip --views 0", "--views 0: give at least 1"},
		{"--augment flip --views 100000", "at most 4096"},
		{"--views 4", "needs --augment"},
		{"--augment flip --data remarks", "not pictures"},
		{"--project 5 --project-noise 3 --non-private", "--non-private"},
		{"--project 5 --model digits-cnn", "pictures"},
		{"--project 5 --data remarks", "indices"},
		{"--project 5 --model lstm --data remarks", "indices"},
	} {
		stdout, stderr, code := dptrain("train --out run " + c.flags)
		if code != exitcode.Usage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "dptrain: ") || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q", c.flags, code, stdout, stderr)
		}
		if left, _ := filepath.Glob("run*"); len(left) > 0 {
			t.Fatalf("%s: left %v behind", c.flags, left)
		}
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

// Whole numbers are decimal, in a configuration file too.
func TestTrain_DecimalNumbers(t *testing.T) {
	inWorkshop(t)
	if err := os.WriteFile("run.yaml", []byte("steps: 010\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	v := runJSON(t, "train --config run.yaml --lot 0100 --seed 011 --print-config")
	if v["steps"] != 10.0 || v["lot"] != 100.0 || v["seed"] != 11.0 {
		t.Errorf("steps 010, lot 0100 and seed 011 are %v, %v and %v", v["steps"], v["lot"], v["seed"])
	}
	if stdout, stderr, _ := dptrain("train --seed 18446744073709551615 --print-config"); !strings.Contains(stdout, "seed: 18446744073709551615\n") {
		t.Errorf("the largest seed is\n%s%s", stdout, stderr)
	}
}
