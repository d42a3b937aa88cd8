package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/training"
)

// usersTable writes rows of users whose label follows from their age.
func usersTable(t *testing.T, name string, users int) {
	t.Helper()
	var b strings.Builder
	b.WriteString("age,who,label\n")
	for i := range users {
		for j := range 2 + i%4 {
			age := (17*i + 41*j) % 100
			fmt.Fprintf(&b, "%d,u%d,%s\n", age, i, []string{"no", "yes"}[age/50])
		}
	}
	if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

const localSteps = "train --data users.csv --test test.csv --label label --classes no,yes --bounds age=0:100 --model logistic --record user:who --user-examples 4 --lot 100 --threads 1 --accountant rdp --local-steps 5 --local-lr 1"

// Users who train locally contribute changes of the weights: the run learns, states its local steps
// everywhere, costs what a run on gradients of users costs, and is resumed.
func TestTrain_LocalSteps(t *testing.T) {
	t.Chdir(t.TempDir())
	usersTable(t, "users.csv", 400)
	usersTable(t, "test.csv", 60)
	run := runJSON(t, localSteps+" --steps 12 --noise 0.5 --clip 2 --seed 1 --validation-split 0.1 --out run")
	if run["test_accuracy"].(float64) < 0.9 || run["unit"] != "user" || run["records"] != 360.0 || run["arithmetic"] != "exact" {
		t.Errorf("accuracy %v of %v %vs, arithmetic %v", run["test_accuracy"], run["records"], run["unit"], run["arithmetic"])
	}
	if run["local_steps"] != 5.0 || run["local_lr"] != 1.0 || run["local_batch"] != 4.0 || run["optimizer"] != "sgd" || run["learning_rate"] != 1.0 || run["device"] != "cpu" {
		t.Errorf("run.json has %v steps, rate %v, batch %v, optimizer %v with rate %v on %v", run["local_steps"], run["local_lr"], run["local_batch"], run["optimizer"], run["learning_rate"], run["device"])
	}
	gradients := runJSON(t, strings.Replace(localSteps, "--local-steps 5 --local-lr 1", "--lr 1", 1)+" --steps 12 --noise 0.5 --clip 2 --seed 1 --validation-split 0.1 --validation-noise "+fmt.Sprint(run["validation_noise"])+" --out gradients")
	if gradients["epsilon"] != run["epsilon"] || gradients["local_steps"] != nil || gradients["optimizer"] != "adam" {
		t.Errorf("ε = %v with local steps, and %v without", run["epsilon"], gradients["epsilon"])
	}
	for _, name := range []string{"run/report.html", "run/MODEL_CARD.md"} {
		if text := string(readFile(t, name)); !strings.Contains(text, "5 steps of SGD on up to 4 examples, with learning rate 1") {
			t.Errorf("%s does not state the local steps", name)
		}
	}
	if v := runJSON(t, "train --resume run --steps 14"); v["steps"] != 14.0 || v["local_steps"] != 5.0 {
		t.Errorf("resumed: %v", v)
	}
	if _, stderr, code := dptrain("train --resume run --steps 15 --local-steps 6"); code != exitcode.Usage || !strings.Contains(stderr, "local training is 6 steps") {
		t.Errorf("resumed with other steps: exit %d, %s", code, stderr)
	}
	if stdout, _, code := dptrain(localSteps + " --steps 4 --noise 1 --dry-run"); code != exitcode.Done || !strings.Contains(stdout, "5 steps of each user on up to 4 examples, with learning rate 1") {
		t.Errorf("the preview: %s", stdout)
	}
	adaptive := runJSON(t, localSteps+" --steps 6 --noise 1 --clipping adaptive --optimizer adam --lr 0.05 --local-batch 2 --seed 1 --out adaptive")
	if adaptive["local_batch"] != 2.0 || adaptive["optimizer"] != "adam" || len(adaptive["groups"].([]any)) != 2 {
		t.Errorf("with adaptive clipping: %v", adaptive)
	}
	if v := runJSON(t, strings.Replace(localSteps, "--accountant rdp", "--non-private --seed 1", 1)+" --steps 12 --out baseline"); v["test_accuracy"].(float64) < 0.9 || v["local_steps"] != 5.0 {
		t.Errorf("without privacy the accuracy is %v", v["test_accuracy"])
	}
}

// A run with local steps releases metrics of the users' examples with the weights of the lot, accounts for
// them, and can be ended by them.
func TestTrain_MetricsOfLocalSteps(t *testing.T) {
	t.Chdir(t.TempDir())
	usersTable(t, "users.csv", 400)
	usersTable(t, "test.csv", 60)
	run := runJSON(t, localSteps+" --steps 12 --noise 0.5 --clip 2 --seed 1 --metric accuracy:noise=2,every=3 --metric lot-size:noise=1,every=3 --out run")
	bare := runJSON(t, localSteps+" --steps 12 --noise 0.5 --clip 2 --seed 1 --out bare")
	if !(run["epsilon"].(float64) > bare["epsilon"].(float64)) {
		t.Errorf("ε = %v with metrics, %v without", run["epsilon"], bare["epsilon"])
	}
	last := 0.0
	for _, line := range strings.Split(strings.TrimSpace(string(readFile(t, "run/metrics.jsonl"))), "\n") {
		var point struct {
			Released []training.Metric
		}
		if err := json.Unmarshal([]byte(line), &point); err != nil {
			t.Fatal(err)
		}
		for _, m := range point.Released {
			if m.Name == "accuracy" {
				last = m.Value[0]
			}
		}
	}
	if last < 0.85 || last > 1.15 { // 100 users with a deviation of 2 and of the lot's size
		t.Errorf("the last released accuracy is %v", last)
	}
	stopped := runJSON(t, localSteps+" --steps 12 --noise 0.5 --clip 2 --seed 1 --metric accuracy:noise=2,every=3 --stop-when accuracy>=0 --out stopped")
	if stopped["stopped"] != true || stopped["steps"] != 3.0 {
		t.Errorf("stopped %v after %v lots", stopped["stopped"], stopped["steps"])
	}
}

func TestTrain_RefusesLocalSteps(t *testing.T) {
	t.Chdir(t.TempDir())
	usersTable(t, "users.csv", 400)
	usersTable(t, "test.csv", 60)
	for flags, want := range map[string]string{
		"--local-steps 0":                      "above 0",
		"--local-steps -1":                     "at least 1",
		"--local-lr 0":                         "above 0",
		"--local-lr +Inf":                      "finite",
		"--local-batch 0":                      "above 0",
		"--microbatch 8":                       "drop the microbatch",
		"--project 1":                          "not available with local steps",
		"--record example":                     "needs --record user:COLUMN",
		"--sampling truncated --constant-work": "not available with local steps",
	} {
		line := localSteps
		if strings.HasPrefix(flags, "--record") {
			line = strings.Replace(line, "--record user:who --user-examples 4", "--ignore who", 1)
		}
		checkUsageError(t, line+" --noise 1 --steps 2 --out run "+flags, want)
	}
	for _, flags := range []string{"--local-lr 1", "--local-batch 2"} {
		_, stderr, code := dptrain(strings.Replace(localSteps, "--local-steps 5 --local-lr 1", "", 1) + " --noise 1 --steps 2 --out run " + flags)
		if code != exitcode.Usage || !strings.Contains(stderr, "needs --local-steps K") {
			t.Errorf("%s: exit %d, %s", flags, code, stderr)
		}
	}
}
