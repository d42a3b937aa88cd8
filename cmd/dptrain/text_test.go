package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/export"
)

// letters writes JSON lines with short texts by several people. One word of each text
// determines its mood.
func letters(t *testing.T, name string, n int) {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"text": "%s, it is %s %s.", "mood": "%s", "who": "%d", "day": %d}`+"\n", []string{"Dear Ann", "Hi", "Well"}[i%3],
			[]string{"very", "quite", "so", "now"}[i%4], []string{"dull", "fine"}[i%2], []string{"low", "high"}[i%2], i/8, i)
	}
	if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

const written = " --data letters.jsonl --test more.jsonl --label mood --classes low,high --text text --tokens bytes --length 12 --ignore day"

// Every network that reads indices trains on text and resumes. eval reads other files with
// the settings in the run's directory.
func TestTrain_Text(t *testing.T) {
	t.Chdir(t.TempDir())
	letters(t, "letters.jsonl", 400)
	letters(t, "more.jsonl", 40)
	if err := os.WriteFile("words.txt", []byte("dull\nfine\nit\nis\nvery\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{"embbag:16", " --ignore who --tokens words:words.txt --noise 0.3 --steps 60 --lot 100 --lr 1 --seed 3"},
		{"lstm:4", " --ignore who --noise 1 --steps 3"},
		{"gru:4", " --record user:who --user-examples 4 --lot 20 --noise 1 --steps 2 --validation-split 0.2 --validation-noise 3"},
		{"transformer", " --ignore who --noise 1 --steps 1 --lot 16"},
	} {
		model, flags := c[0], c[1]
		dir, _, _ := strings.Cut(model, ":")
		got := runJSON(t, "train --accountant rdp --model "+model+" --out "+dir+written+flags)
		if dir == "embbag" && got["test_accuracy"].(float64) < 0.9 {
			t.Errorf("%s: accuracy %v of what one word decides", model, got["test_accuracy"])
		}
		if got["task"] != "text-classification" {
			t.Errorf("%s: task %v", model, got["task"])
		}
		os.Remove("words.txt") // the run's directory contains its vocabulary
		if again := runJSON(t, "eval "+dir+" --data more.jsonl"); again["accuracy"] != got["test_accuracy"] {
			t.Errorf("%s: eval has %v, train %v", model, again["accuracy"], got["test_accuracy"])
		}
		for _, format := range export.Formats {
			runJSON(t, "export "+dir+" --out "+dir+"."+format)
		}
	}
	if more := runJSON(t, "train --resume lstm --steps 5"); more["steps"] != 5.0 {
		t.Errorf("resumed: %v lots", more["steps"])
	}
	if _, stderr, code := dptrain("train --resume lstm --steps 6 --length 13"); code != exitcode.Usage || !strings.Contains(stderr, "features") {
		t.Errorf("resumed with other data: exit %d, %s", code, stderr)
	}
}

// A model of an older release averages padding too. Its manifest lacks the key padded, and
// it is evaluated as it was trained.
func TestEval_ModelThatAveragesPadding(t *testing.T) {
	t.Chdir(t.TempDir())
	letters(t, "letters.jsonl", 80)
	letters(t, "more.jsonl", 40)
	got := runJSON(t, "train --accountant rdp --model gru:3 --out run --ignore who --noise 1 --steps 1"+written+" --length 90")
	if now := runJSON(t, "eval run"); now["loss"] != got["test_loss"] {
		t.Errorf("eval has %v, train %v", now["loss"], got["test_loss"])
	}
	text, err := os.ReadFile("run/model.json")
	if err != nil {
		t.Fatal(err)
	}
	older := strings.Replace(string(text), `"padded": true,`, "", 1)
	if err := os.WriteFile("run/model.json", []byte(older), 0o644); err != nil {
		t.Fatal(err)
	}
	if then := runJSON(t, "eval run"); then["loss"] == got["test_loss"] {
		t.Errorf("an older model is measured as a new one: loss %v", then["loss"])
	}
}

// Language models have a label for each step, on lines of text and on remarks.
func TestTrain_LanguageModels(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, times := range map[string]int{"plain.txt": 100, "held.txt": 20} {
		if err := os.WriteFile(name, []byte(strings.Repeat("to be or\nnot to be\n", times)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for model, flags := range map[string]string{
		"gru:8":            " --data plain.txt --test held.txt --tokens bytes --length 10 --noise 0.2 --steps 60 --lot 50 --optimizer adam --lr 0.02 --seed 1",
		"lstm:4":           " --data remarks --next --noise 1 --steps 2 --lot 30",
		"transformer:tied": " --data remarks --next --tokens bytes --length 6 --noise 1 --steps 1 --lot 8",
	} {
		dir, _, _ := strings.Cut(model, ":")
		got := runJSON(t, "train --accountant rdp --delta 1e-5 --model "+model+" --out "+dir+flags)
		if got["task"] != "text-generation" || !(got["test_loss"].(float64) > 0) || got["confusion"] != nil {
			t.Errorf("%s: task %v, loss %v, confusion %v", model, got["task"], got["test_loss"], got["confusion"])
		}
		// Always predicting the most frequent of the 18 bytes, "o", is correct for 4 of them.
		if dir == "gru" && got["test_accuracy"].(float64) < 0.3 {
			t.Errorf("%s: accuracy %v", model, got["test_accuracy"])
		}
		if again := runJSON(t, "eval "+dir); again["accuracy"] != got["test_accuracy"] || again["loss"] != got["test_loss"] {
			t.Errorf("%s: eval has %v, train %v, %v", model, again, got["test_accuracy"], got["test_loss"])
		}
		runJSON(t, "export "+dir+" --out "+dir+".onnx")
	}
	for flags, want := range map[string]string{
		"--data plain.txt":                                          "--tokens",
		"--data plain.txt --tokens bytes":                           "--length",
		"--data plain.txt --tokens words --length 3":                "words:FILE",
		"--data plain.txt --tokens bytes --length 3 --model embbag": "sequence model,",
		"--data plain.txt --tokens bytes --length 3 --label x":      "no columns",
		"--data remarks --model mlp":                                "use bow or embbag",
		"--data remarks --length -1 --tokens bytes":                 "length",
		"--data digits --tokens bytes":                              "no named columns",
	} {
		checkUsageError(t, "train --out refused "+flags, want)
	}
}
