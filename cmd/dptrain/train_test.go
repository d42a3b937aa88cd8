package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/accountant/ledger"
	"github.com/dptrain/dptrain/clip"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/rundir"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/settings"
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
	line := strings.Replace(brief, "logistic", "mlp:6", 1) + ` --steps 3 --noise 2 --delta 1e-5 --clip 0.5 --clipping per-layer --allocation dimension --validation-split 0.1 --validation-noise 100 --microbatch 50
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
		"validation_records": 400, "secure": true, "private": true, "data": "people.csv", "model": "mlp:6", "parameters": 5*6 + 6 + 6*2 + 2, "out": "run", "task": "tabular-classification",
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
	for _, c := range settings.Choices()["clipping"] {
		got := runJSON(t, brief+" --steps 4 --noise 1 --delta 1e-5 --out "+c+" --clipping "+c)
		groups := got["groups"].([]any)
		want := map[string]int{"flat": 1, "normalized": 1, "joint": 1, "adaptive": 2, "per-layer": 2, "per-layer-size": 2}[c]
		if len(groups) != want {
			t.Errorf("%s: %d groups in the ledger, want %d", c, len(groups), want)
		}
		cost := runJSON(t, "budget epsilon --rate 0.05 --steps 4 --noise 1 --delta 1e-5 --accountant rdp")["epsilon"].(float64)
		if e := got["epsilon"].(float64); e < cost*(1-1e-6) || e > cost*(1+1e-6) {
			t.Errorf("%s: ε %v where a multiplier of 1 costs %v", c, e, cost)
		}
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
