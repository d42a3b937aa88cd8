package settings

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/engine/data"
)

// tableTask returns a table of n records with two numbers and a word.
func tableTask(t *testing.T, n int) *data.Task {
	t.Helper()
	var b strings.Builder
	b.WriteString("a,b,word,y\n")
	for i := range n {
		fmt.Fprintf(&b, "%v,%v,w%d,%d\n", i%7, i%5, i%3, i%2)
	}
	file := t.TempDir() + "/t.csv"
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	classes, err := data.ParseClasses("2")
	if err != nil {
		t.Fatal(err)
	}
	task, err := data.Open(file, data.Options{Schema: data.Schema{Label: "y", Classes: classes,
		Bounds: map[string]data.Bounds{"a": {0, 7}, "b": {0, 5}}, Vocabulary: map[string][]string{"word": {"w0", "w1"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// describeDefaults returns the settings of a run, and which of them a rule chose.
func describeDefaults(t *testing.T, task *data.Task, line string) string {
	t.Helper()
	f := resolved(t, line)
	s, err := New(f, task)
	if err == nil {
		err = s.Calibrate()
	}
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return fmt.Sprint(s.Network.Model, " ", s.Config.Sampling.Lot, " ", s.Config.Steps, " ", f.Clip, " ", f.Optimizer, " ", f.LearningRate, " ", f.EMA, " by rule: ", strings.Join(f.ByRule(), " "))
}

// A table's settings follow from public numbers; flags win, and the others fit around them.
func TestDefaults_Table(t *testing.T) {
	task := tableTask(t, 300)
	all := " by rule: model lot steps clip optimizer lr ema"
	for line, want := range map[string]string{
		"--epsilon 1 --delta 1e-5":                                  "fourier:columns=3 300 400 0.32 adam 0.12 0.95" + all,
		"--epsilon 1 --delta 1e-5 --lot 75 --epochs 30":             "fourier:columns=3 75 120 0.32 adam 0.22 0.95 by rule: model clip optimizer lr ema",
		"--epsilon 1 --delta 1e-5 --steps 100":                      "fourier:columns=3 300 100 0.32 adam 0.24 0.95 by rule: model lot clip optimizer lr ema",
		"--epsilon 1 --delta 1e-5 --clip 2 --ema 0.5":               "fourier:columns=3 300 400 2 adam 0.12 0.5 by rule: model lot steps optimizer lr",
		"--epsilon 1 --delta 1e-5 --lr 0.5":                         "fourier:columns=3 300 400 0.32 adam 0.5 0.95 by rule: model lot steps clip optimizer ema",
		"--epsilon 1 --delta 1e-5 --clip 2":                         "fourier:columns=3 300 400 2 adam 0.12 0.95 by rule: model lot steps optimizer lr ema",
		"--epsilon 1 --delta 1e-5 --optimizer adam --lr 0.5":        "fourier:columns=3 300 400 0.32 adam 0.5 0.95 by rule: model lot steps clip ema",
		"--epsilon 1 --delta 1e-5 --optimizer adam:beta2=0.99":      "fourier:columns=3 300 400 0.32 adam:beta2=0.99 0.12 0.95 by rule: model lot steps clip lr ema",
		"--epsilon 1 --delta 1e-5 --clipping flat":                  "fourier:columns=3 300 400 0.32 adam 0.12 0.95" + all,
		"--epsilon 1 --delta 1e-5 --clipping normalized":            "fourier:columns=3 300 400 1 momentum 0.5 0 by rule: model lot steps",
		"--epsilon 1 --delta 1e-5 --optimizer sgd":                  "fourier:columns=3 300 400 1 sgd 0.5 0 by rule: model lot steps",
		"--epsilon 1 --delta 1e-5 --model logistic":                 "logistic 300 400 0.32 adam 0.12 0.95 by rule: lot steps clip optimizer lr ema",
		"--epsilon 1 --delta 1e-5 --model mlp:8":                    "mlp:8 256 400 2 adam 0.02 0.95 by rule: lot steps clip optimizer lr ema",
		"--epsilon 1 --delta 1e-5 --population 50000":               "mlp:64 2048 400 2 adam 0.02 0.95" + all,
		"--epsilon 1 --delta 1e-5 --sampling truncated":             "fourier:columns=3 37 400 0.32 adam 0.12 0.95" + all,
		"--epsilon 1 --delta 1e-5 --group a=* --lot 50 --epochs 10": "mlp:64,act=tanh 50 60 1 momentum 0.5 0 by rule: ",
		"--epsilon 1 --mechanism laplace --device cpu":              "mlp:64,act=tanh 7 643 1 momentum 0.5 0 by rule: ",
	} {
		if got := describeDefaults(t, task, line); got != want {
			t.Errorf("%s:\n%s, want\n%s", line, got, want)
		}
	}
}

// A transformer with a class for each text has a rule; one that predicts the next word has fixed values.
func TestDefaults_Transformer(t *testing.T) {
	task, err := data.Open("remarks", data.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"--epsilon 2 --model transformer":                "transformer 500 150 1 momentum 0.5 0 by rule: lot steps clip optimizer lr",
		"--epsilon 2 --model transformer --clip 0.1":     "transformer 500 150 0.1 momentum 5 0 by rule: lot steps optimizer lr",
		"--epsilon 2 --model transformer --lot 250":      "transformer 250 300 1 momentum 0.45 0 by rule: steps clip optimizer lr",
		"--epsilon 2 --model transformer --epochs 1.5":   "transformer 200 150 1 momentum 0.5 0 by rule: lot clip optimizer lr",
		"--epsilon 2 --model lstm:4 --steps 100":         "lstm:4 500 100 1 momentum 0.5 0 by rule: ",
		"--epsilon 0.1 --model transformer --delta 1e-6": "transformer 500 150 1 momentum 0.055 0 by rule: lot steps clip optimizer lr",
	} {
		if got := describeDefaults(t, task, line); got != want {
			t.Errorf("%s:\n%s, want\n%s", line, got, want)
		}
	}
}

// A declared number of records decides, and the number of rows does not.
func TestDefaults_PopulationHidesRows(t *testing.T) {
	line := "--epsilon 1 --population 5000"
	if a, b := describeDefaults(t, tableTask(t, 300), line), describeDefaults(t, tableTask(t, 301), line); a != b {
		t.Errorf("%s for 300 rows, %s for 301", a, b)
	}
}

// A printed configuration has no values of a rule, so that it chooses the same again. A run's own
// configuration has all of them: a resumed run continues with them.
func TestDefaults_Configuration(t *testing.T) {
	task := tableTask(t, 300)
	f := resolved(t, "--epsilon 1")
	ruled := []string{"model", "lot", "steps", "clip", "optimizer", "lr", "ema"}
	for _, name := range ruled {
		if v, ok := f.Values()[name]; ok {
			t.Errorf("the printed configuration has %s: %v, which a rule chooses", name, v)
		}
	}
	f.Out = t.TempDir()
	s, err := New(f, task)
	if err == nil {
		err = s.Calibrate()
	}
	if err == nil {
		err = f.WriteConfig(&s.Config)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := resolved(t, "--resume "+f.Out)
	for _, name := range ruled {
		if !r.Given(name) {
			t.Errorf("the run's configuration has no %s", name)
		}
	}
	again, err := New(r, task)
	if err != nil {
		t.Fatal(err)
	}
	if r.Model != f.Model || r.Lot != f.Lot || r.Clip != f.Clip || r.Optimizer != f.Optimizer || r.LearningRate != f.LearningRate || r.EMA != f.EMA || again.Network.Model != s.Network.Model {
		t.Errorf("resumed with %+v, began with %+v", r, f)
	}
	if len(r.ByRule()) != 0 {
		t.Errorf("a resumed run chose %v again", r.ByRule())
	}
}

// A run of a version without rules is resumed with the settings that it had.
func TestDefaults_ResumeOldRun(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/config.yaml", []byte("clipping: flat\ndelta: 1e-05\nema: 0\nlr: 0.5\nnoise: 1.5\noptimizer: momentum\nsteps: 600\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := describeDefaults(t, tableTask(t, 300), "--resume "+dir)
	if want := "mlp:64,act=tanh 7 600 1 momentum 0.5 0 by rule: "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Each candidate of a search has settings of its own, and keeps the flags that are given.
func TestCandidate_VariesWhatARuleChose(t *testing.T) {
	f := resolved(t, "--epsilon 1 --clip 3")
	s, err := New(f, tableTask(t, 300))
	if err == nil {
		err = s.Calibrate()
	}
	if err != nil {
		t.Fatal(err)
	}
	var lots, steps []int
	for i := range 8 {
		flags, err := s.Candidate(i)
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.WithFlags(flags)
		if err != nil {
			t.Fatal(err)
		}
		h := c.Hyperparameters()
		lots, steps = append(lots, h.Lot), append(steps, h.Steps)
		if h.Clip != 3 || h.Lot < 1 || h.Lot > 300 || h.Steps < 1 {
			t.Errorf("candidate %d: %+v", i, h)
		}
	}
	if slices.Max(lots) == slices.Min(lots) || slices.Max(steps) == slices.Min(steps) {
		t.Errorf("lots %v and steps %v do not vary", lots, steps)
	}
}
