package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

const lettersByDefault = " --data letters.jsonl --test more.jsonl --label mood --classes low,high --text text --ignore day,who"

// A text column trains without a vocabulary, a length or a model: on hashed n-grams, with settings by
// rule. The run is resumed, evaluated, exported and predicts.
func TestTrain_TextByDefault(t *testing.T) {
	t.Chdir(t.TempDir())
	letters(t, "letters.jsonl", 400)
	letters(t, "more.jsonl", 40)
	got := runJSON(t, "train --epsilon 8 --seed 1 --out run"+lettersByDefault)
	if got["model"] != "bow" || got["task"] != "text-classification" || got["steps"] != 100.0 || got["expected_lot"] != 400.0 {
		t.Errorf("%v on %v, %v lots of %v", got["model"], got["task"], got["steps"], got["expected_lot"])
	}
	if accuracy := got["test_accuracy"].(float64); accuracy < 0.95 {
		t.Errorf("accuracy %v of what one word decides", accuracy)
	}
	if again := runJSON(t, "eval run"); again["accuracy"] != got["test_accuracy"] {
		t.Errorf("eval has %v, train %v", again["accuracy"], got["test_accuracy"])
	}
	if manifest := string(readFile(t, "run/model.json")); !strings.Contains(manifest, `"tokens": "ngrams:32768"`) || !strings.Contains(manifest, `"length": 512`) {
		t.Errorf("the manifest does not state the conversion of text: %s", manifest)
	}
	if stdout, stderr, code := dptrain("predict run --data more.jsonl"); code != exitcode.Done || strings.Count(stdout, "\n") != 41 {
		t.Errorf("predict: exit %d, %s, %d lines", code, stderr, strings.Count(stdout, "\n"))
	}
	runJSON(t, "export run --out run.onnx")
	if more := runJSON(t, "train --resume run --epsilon 9"); more["steps"].(float64) <= 100 {
		t.Errorf("resumed: %v lots", more["steps"])
	}
	plan := runJSON(t, "train --dry-run --population 20000"+lettersByDefault)
	if rule := fmt.Sprint(plan["by_rule"]); !strings.Contains(rule, "model lot steps clip optimizer lr") {
		t.Errorf("--dry-run: by rule %v", rule)
	}
	if _, stderr, _ := dptrain("train --dry-run" + lettersByDefault); !strings.Contains(stderr, "Text of text: hashed n-grams in 32768 buckets, at most 512 of a text") {
		t.Errorf("--dry-run does not state the conversion of text: %s", stderr)
	}
	for flags, want := range map[string]string{
		" --tokens ngrams:x":                "ngrams:BUCKETS",
		" --tokens ngrams:1":                "from 2 to 2^24-1",
		" --model lstm":                     "use bow or embbag",
		" --model bow:3":                    "no arguments",
		" --tokens ngrams --length 9999999": "length",
		" --tokens bytes":                   "--length",
	} {
		if _, stderr, code := dptrain("train --out refused" + lettersByDefault + flags); code != exitcode.Usage || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %s; want %q in one line", flags, code, stderr, want)
		}
	}
	number := runJSON(t, "train --dry-run --data letters.jsonl --target day --bounds day=0:400 --text text --ignore mood,who")
	if number["model"] != "bow" || !strings.Contains(fmt.Sprint(number["by_rule"]), "model lot steps clip optimizer lr") {
		t.Errorf("a target: %v, by rule %v", number["model"], number["by_rule"])
	}
	checkUsageError(t, "train --out refused --data letters.jsonl --text text --next --ignore day,who,mood --tokens ngrams", "without an order")
	checkUsageError(t, "train --resume run --epsilon 10 --tokens ngrams:64", "features")
}

// The average of public word vectors is the input of a linear network. Another file is refused, and the
// same one may move.
func TestTrain_WordVectors(t *testing.T) {
	t.Chdir(t.TempDir())
	letters(t, "letters.jsonl", 400)
	letters(t, "more.jsonl", 40)
	vectors := "6 2\ndull 1 0.1\nfine -1 0.2\nvery 0 1\nit 0.1 0.4\nis 0.1 0.3\nann 0.2 0.1\n"
	for name, content := range map[string]string{"vectors.txt": vectors, "other.txt": strings.Replace(vectors, "dull 1", "dull 2", 1), "bad.txt": "dull 1 2\nfine 1 x\n"} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := runJSON(t, "train --epsilon 8 --seed 1 --out run --tokens vectors:vectors.txt"+lettersByDefault)
	if accuracy := got["test_accuracy"].(float64); got["model"] != "logistic" || got["task"] != "text-classification" || accuracy < 0.95 {
		t.Errorf("%v on %v has accuracy %v of what one word decides", got["model"], got["task"], accuracy)
	}
	if again := runJSON(t, "eval run"); again["accuracy"] != got["test_accuracy"] {
		t.Errorf("eval has %v, train %v", again["accuracy"], got["test_accuracy"])
	}
	const predict, row = "predict run --data one.jsonl --quiet", `{"text": "this is dull"}` + "\n"
	if err := os.WriteFile("one.jsonl", []byte(row), 0o644); err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, code := dptrain(predict); code != exitcode.Done || !strings.Contains(stdout, "low") {
		t.Errorf("predict: exit %d, %s%s", code, stdout, stderr)
	}
	for command, want := range map[string]string{
		"train --out refused --tokens vectors:bad.txt" + lettersByDefault:                 `line 2: "x" is not a finite number`,
		"train --out refused --tokens vectors:none.txt" + lettersByDefault:                "cannot read the word vectors none.txt",
		"train --out refused --tokens vectors" + lettersByDefault:                         "vectors:FILE",
		"train --out refused --tokens vectors:vectors.txt --length 3" + lettersByDefault:  "leave out length",
		"train --out refused --tokens vectors:vectors.txt --model bow" + lettersByDefault: "lists of indices",
		"train --resume run --epsilon 9 --tokens vectors:other.txt":                       "vectors",
		"eval run --tokens vectors:other.txt":                                             "SHA-256",
		"eval run --tokens ngrams --length 9":                                             "word vectors",
		predict + " --tokens vectors:other.txt":                                           "SHA-256",
		predict + " --tokens bytes":                                                       "only vectors:FILE",
	} {
		checkUsageError(t, command, want)
	}
	if err := os.Rename("vectors.txt", "moved.txt"); err != nil {
		t.Fatal(err)
	}
	checkUsageError(t, predict, "--tokens vectors:FILE")
	checkUsageError(t, "eval run", "--tokens vectors:FILE")
	if _, stderr, code := dptrain(predict + " --tokens vectors:moved.txt"); code != exitcode.Done {
		t.Errorf("predict with the file that has moved: exit %d, %s", code, stderr)
	}
	if more := runJSON(t, "train --resume run --epsilon 9 --tokens vectors:moved.txt"); more["steps"].(float64) <= 400 {
		t.Errorf("resumed: %v lots", more["steps"])
	}
	if err := os.Rename("other.txt", "moved.txt"); err != nil {
		t.Fatal(err)
	}
	checkUsageError(t, predict+" --tokens vectors:moved.txt", "SHA-256")
}
