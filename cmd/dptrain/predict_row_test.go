package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// piped runs a command with a text on standard input.
func piped(line, input string) (stdout, stderr string, code int) {
	var out, err bytes.Buffer
	code = run(strings.Fields(line), strings.NewReader(input), &out, &err)
	return out.String(), err.String(), code
}

// A JSON object on standard input has the answer that its row has in a file.
func TestPredict_StandardInput(t *testing.T) {
	inWorkshop(t)
	runJSON(t, baseline+" --steps 20 --seed 1 --out run")
	cells := strings.Split(strings.Split(string(readFile(t, "test.csv")), "\n")[1], ",")
	object := "{\n  \"age\": " + cells[0] + ",\n  \"colour\": \"" + cells[1] + "\"\n}"
	fromFile := cellsOf(t, runText(t, "predict run --data test.csv --scores"))
	class := fromFile["class"][0]

	if stdout, stderr, code := piped("predict run --quiet", object); code != exitcode.Done || stdout != class+"\n" {
		t.Errorf("exit %d, prints %q, want %s; %s", code, stdout, class, stderr)
	}
	stdout, _, _ := piped("predict run", object)
	if want := "class " + class + " probability " + fromFile["probability"][0]; strings.Join(strings.Fields(stdout), " ") != want {
		t.Errorf("prints %q, want %q", stdout, want)
	}
	stdout, _, _ = piped("predict run --json", object)
	var answer struct {
		Class         string
		Probability   float64
		Probabilities map[string]float64
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || answer.Class != class || len(answer.Probabilities) != 2 || answer.Probabilities[class] != answer.Probability {
		t.Errorf("--json prints %s, %v", stdout, err)
	}
	if stdout, _, code := piped("predict run --data -", object+object); code != exitcode.Done || len(cellsOf(t, stdout)["class"]) != 2 {
		t.Errorf("two objects: exit %d, %s", code, stdout)
	}
	for input, want := range map[string]string{
		"":                            "standard input is empty",
		`{"age": 3`:                   "object 1 is not JSON",
		`{"age": 3}`:                  `has no key "colour"`,
		`{"age": "x", "colour": "y"}`: "is not a number",
		`[1]`:                         "standard input: line 1",
	} {
		stdout, stderr, code := piped("predict run", input)
		if code != exitcode.Usage || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: exit %d, %q lacks %q", input, code, stderr, want)
		}
	}
	if _, stderr, code := piped("predict run --json", object+object); code != exitcode.Usage || !strings.Contains(stderr, "--out is missing") {
		t.Errorf("two objects as one: exit %d, %s", code, stderr)
	}
}

// A number that a model predicts for one row is printed with the name of the target.
func TestPredict_StandardInputOfTarget(t *testing.T) {
	amongHours(t)
	runJSON(t, "train --model logistic --lot 200 --epochs 1 --non-private --out run"+predicted)
	want := cellsOf(t, runText(t, "predict run --data more.csv"))["hours"][0]
	cells := strings.Split(strings.Split(string(readFile(t, "more.csv")), "\n")[1], ",")
	stdout, stderr, code := piped("predict run", `{"age": `+cells[0]+`, "colour": "`+cells[1]+`"}`)
	if code != exitcode.Done || strings.Join(strings.Fields(stdout), " ") != "hours "+want {
		t.Errorf("exit %d, prints %q, want hours %s; %s", code, stdout, want, stderr)
	}
}
