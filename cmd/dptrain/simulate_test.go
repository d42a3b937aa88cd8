package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

func TestSimulateDrawDiscard_WritesReportAndRows(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "simulation")
	line := "simulate drawdiscard --clients 40 --records 5 --passes 2 --instances 1,3 --batches 1,9 --epsilons none,4 --lr 0.1 --seed 3 --out " + out
	v := runJSON(t, line)
	rows, _ := v["rows"].([]any)
	if len(rows) != 10 || v["clients"] != 40.0 || v["secure"] != false || v["out"] != out {
		t.Fatalf("%d rows, clients %v, secure %v, out %v", len(rows), v["clients"], v["secure"], v["out"])
	}
	if claims := v["claims"].([]any); len(claims) != 4 {
		t.Errorf("%d claims for k = 3, two values of ε, and the best and one learning rate", len(claims))
	}
	for _, name := range []string{"report.html", "rows.json", "ledgers/central-epsilon-4.jsonl"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
	if _, message, code := dptrain(line); code != exitcode.Usage || !strings.Contains(message, "already contains a simulation") {
		t.Errorf("a second simulation in one directory: exit %d, %s", code, message)
	}
	other := filepath.Join(t.TempDir(), "other")
	if again := runJSON(t, strings.Replace(line, out, other, 1)+" --threads 1"); !reflect.DeepEqual(again["rows"], v["rows"]) {
		t.Error("one seed gives different rows")
	}
	for _, model := range []string{"mlp:4 --clip 0.1", "multinomial --clip 2"} {
		line := strings.Replace(line, out, filepath.Join(t.TempDir(), "model"), 1) + " --model " + model
		row := runJSON(t, line)["rows"].([]any)[0].(map[string]any)
		if losses := row["training_loss"].([]any); len(losses) != 2 || !(losses[1].(float64) > 0) {
			t.Errorf("%s: training losses %v", line, losses)
		}
	}
	text, notes, _ := dptrain(strings.Replace(line, out, filepath.Join(t.TempDir(), "text"), 1))
	if !strings.Contains(text, "k = 3") || !strings.Contains(text, "INSECURE") || !strings.Contains(notes, "insecure") {
		t.Errorf("output %q, notes %q", text, notes)
	}
}

func TestSimulateDrawDiscard_RefusesBadInput(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"--clients 0", "--records 0", "--records 50000", "--passes 0", "--instances 0", "--instances 20000", "--instances x", "--batches 0",
		"--epsilons 0", "--epsilons -1", "--epsilons NaN", "--epsilons Inf", "--epsilons some", "--epsilons 1,1", "--lr 0", "--lr NaN", "--lr Inf", "--lr 0.1,-1", "--lr x",
		"--threads 0", "--clip 0", "--clip NaN", "--clip Inf", "--model tree", "--model poisson", "--standardize", "--data remarks", "--data nowhere", "extra",
	} {
		out := filepath.Join(t.TempDir(), "out")
		text, message, code := dptrain("simulate drawdiscard --passes 1 --clients 5 --out " + out + " " + line)
		if code != exitcode.Usage || text != "" || strings.Count(message, "dptrain: ") != 1 {
			t.Errorf("simulate drawdiscard %s: exit %d, output %q, message %q", line, code, text, message)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("simulate drawdiscard %s left %s", line, out)
		}
	}
}
