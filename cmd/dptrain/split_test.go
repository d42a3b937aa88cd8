package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// A run with --split trains on the other rows, says that the public ones are not protected, and eval
// and --resume use the same rows and refuse a file in which they have changed.
func TestSplit_Train(t *testing.T) {
	t.Chdir(t.TempDir())
	table(t, "people.csv", 500)
	line := "train --data people.csv --label label --classes no,yes --bounds age=0:20 --vocabulary colour=red|blue --ignore owner --model logistic --lot 100 --steps 4 --noise 2 --delta 1e-4 --accountant rdp --split 0.2"
	stdout, stderr, code := dptrain(line + " --out run")
	if code != exitcode.Done || !strings.Contains(stdout, "100 rows of the file, drawn at random from 500, are public by the user's declaration") {
		t.Fatalf("exit %d, %s%s", code, stdout, stderr)
	}
	if !strings.Contains(stderr, "age: ") || !strings.Contains(stderr, "in the public part of people.csv") {
		t.Errorf("the public part was not compared with the schema: %s", stderr)
	}
	v := runJSON(t, "train --resume run --steps 5")
	if v["records"] != 400.0 || v["test_examples"] != 100.0 || v["split"].(map[string]any)["rows"] != 500.0 {
		t.Errorf("%v records, %v for testing, split %v", v["records"], v["test_examples"], v["split"])
	}
	if card := string(readFile(t, "run/MODEL_CARD.md")); !strings.Contains(card, "the guarantee does not cover them") {
		t.Error("the statement does not name the public rows")
	}
	for _, data := range []string{"", " --data people.csv"} {
		if e := runJSON(t, "eval run"+data); e["examples"] != 100.0 || fmt.Sprint(e["accuracy"]) != fmt.Sprint(v["test_accuracy"]) {
			t.Errorf("eval%s: %v, want accuracy %v", data, e, v["test_accuracy"])
		}
	}
	lines := strings.SplitAfter(string(readFile(t, "people.csv")), "\n")
	if err := os.WriteFile("people.csv", []byte(strings.Join(append(lines[:1:1], lines[2:]...), "")), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"eval run", "eval run --data people.csv", "train --resume run --steps 6"} {
		if _, stderr, code := dptrain(command); code != exitcode.Usage || !strings.Contains(stderr, "differ") {
			t.Errorf("%s with another file: exit %d, %s", command, code, stderr)
		}
	}
	table(t, "public.csv", 20)
	for flags, want := range map[string]string{
		" --test public.csv":                     "exclude each other",
		" --population 600":                      "exclude each other",
		" --split 1":                             "a share above 0 and below 1",
		" --record user:owner --user-examples 3": "a public row would reveal a user",
	} {
		command := line + flags + " --out refused"
		if strings.Contains(flags, "user:") {
			command = strings.Replace(command, " --ignore owner", "", 1)
		}
		if _, stderr, code := dptrain(command); code != exitcode.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", flags, code, stderr)
		}
	}
}
