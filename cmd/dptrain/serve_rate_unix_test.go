//go:build unix

package main

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// firstModel reads the first model of a server's list.
func firstModel(t *testing.T, url string) map[string]any {
	t.Helper()
	response, err := http.Get(url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var list struct{ Models []map[string]any }
	text, _ := io.ReadAll(response.Body)
	if err := json.Unmarshal(text, &list); err != nil || len(list.Models) == 0 {
		t.Fatalf("%s: %v", text, err)
	}
	return list.Models[0]
}

// A server starts from the weights of a run, by flag and by configuration file, and continues with
// another learning rate and a schedule.
func TestServe_InitAndRate(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("rows.csv", []byte(servedRows), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("columns.yaml", []byte(servedSchema), 0o600); err != nil {
		t.Fatal(err)
	}
	runJSON(t, "train --data rows.csv --test test.csv --schema columns.yaml --model logistic --non-private --epochs 20 --lot 2 --lr 1 --optimizer sgd --out public"+copyOf(t, "rows.csv", "test.csv"))
	want := runText(t, "predict public --data rows.csv")
	model := "--model logistic --inputs 2 --classes 2 --epsilon 8 --instances 1 --false-alarms 0 --dir served "
	_, child := serveProcess(t, model+"--init public --lr 1")
	stop := func() {
		child.Process.Signal(syscall.SIGTERM)
		child.Wait()
	}
	stop()
	requireSamePredictions(t, "served", runText(t, "predict served --data rows.csv --schema columns.yaml"), want)
	url, child := serveProcess(t, model+"--lr 0.5 --schedule step:0.1@1 --test rows.csv --schema columns.yaml")
	if m := firstModel(t, url); m["rate"] != 0.5 || m["schedule"] != "step:0.1@1" || m["start"] == "" {
		t.Errorf("%v", m)
	}
	waitForMetric(t, url, `dptrain_test_accuracy{model="model"} 1`)
	stop()
	config := "models:\n- {name: other, model: logistic, inputs: [2], classes: 2, instances: 1, false_alarms: 0, schedule: 'linear:0.1@5', init: public, test: rows.csv, schema: columns.yaml, settings: {mechanism: laplace, privacy: model, epsilon: 8, clip: 1, learning_rate: 1}}\n"
	if err := os.WriteFile("models.yaml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	url, child = serveProcess(t, "--config models.yaml --dir others")
	if m := firstModel(t, url); m["schedule"] != "linear:0.1@5" {
		t.Errorf("%v", m)
	}
	waitForMetric(t, url, `dptrain_test_accuracy{model="other"} 1`)
	stop()
	requireSamePredictions(t, "others", runText(t, "predict "+filepath.Join("others", "other")+" --data rows.csv --schema columns.yaml"), want)
	for line, want := range map[string]string{
		"serve " + model + "--clip 2":                                                                     "other settings",
		"serve " + model + "--lr 1 --schedule cosine":                                                     "no end",
		"serve --model logistic --inputs 2 --classes 2 --epsilon 1 --init absent":                         "absent",
		"serve --model logistic --inputs 3 --classes 2 --epsilon 1 --init public":                         "public",
		"serve --config models.yaml --schedule constant":                                                  "--schedule",
		"serve " + model + "--test absent.csv":                                                            "absent.csv",
		"serve " + model + "--schema columns.yaml":                                                        "--test is missing",
		"serve --model multinomial --inputs 2 --classes 2 --epsilon 1 --init served --listen 127.0.0.1:0": "it is a model logistic",
	} {
		if _, stderr, code := dptrain(line); code != exitcode.Usage || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", line, code, stderr)
		}
	}
}

// waitForMetric waits until the metrics of a server contain a line.
func waitForMetric(t *testing.T, url, line string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		response, err := http.Get(url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if strings.Contains(string(text), line+"\n") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no line %s in\n%s", line, text)
		}
	}
}

// requireSamePredictions compares classes and probabilities, up to rounding.
func requireSamePredictions(t *testing.T, name, got, want string) {
	t.Helper()
	a, b := cellsOf(t, got), cellsOf(t, want)
	for i, class := range b["class"] {
		p, _ := strconv.ParseFloat(a["probability"][i], 64)
		q, _ := strconv.ParseFloat(b["probability"][i], 64)
		if a["class"][i] != class || math.Abs(p-q) > 1e-5 {
			t.Errorf("%s predicts\n%s, the run\n%s", name, got, want)
		}
	}
}

// copyOf copies a file, and returns "".
func copyOf(t *testing.T, from, to string) string {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ""
}
