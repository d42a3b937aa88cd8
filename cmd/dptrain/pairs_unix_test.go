//go:build unix

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// withPairs changes to a folder with a checkpoint and pairs of texts.
func withPairs(t *testing.T, checkpoint string) {
	t.Helper()
	withCheckpoint(t, checkpoint)
	rows := "premise,hypothesis,follows,share\n"
	for i := range 24 {
		rows += []string{"A very good film.,the film is fine,yes,0.9\n", "the plot is BAD,the plot is very very good,no,0.1\n", "films: dull,dull dull,yes,0.7\n"}[i%3]
	}
	for _, name := range []string{"train.csv", "test.csv"} {
		if err := os.WriteFile(name, []byte(rows), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

const onPairs = "train --data train.csv --text premise --text-pair hypothesis --length 10 --lot 10 --seed 3 --noise 1 --steps 2 --lr 0.1 "

const entails = onPairs + "--label follows --classes no,yes --ignore share --test test.csv "

// A network that reads pairs of texts is trained, evaluated, asked for predictions, served and exported; transformers
// computes the same probabilities with the exported folder.
func TestTrain_PairsOfTexts(t *testing.T) {
	withPairs(t, "bert")
	for _, options := range []string{"", ",lora=2", ",train=head"} {
		os.RemoveAll("run")
		got := runJSON(t, entails+"--out run --model hf:ck"+options)
		if again := runJSON(t, "eval run"); again["accuracy"] != got["test_accuracy"] || got["task"] != "text-classification" {
			t.Errorf("%s: eval has %v, train %v, task %v", options, again["accuracy"], got["test_accuracy"], got["task"])
		}
	}
	os.RemoveAll("run")
	runJSON(t, entails+"--out run --model hf:ck")
	runJSON(t, "predict run --data test.csv --out predictions.jsonl --format jsonl")
	lines := strings.Split(strings.TrimSpace(string(readFile(t, "predictions.jsonl"))), "\n")
	row := `{"premise": "A very good film.", "hypothesis": "the film is fine"}`
	one, stderr, code := runPiped([]byte(row), "predict run --json")
	if code != exitcode.Done || !sameAnswer(t, one, lines[0]) {
		t.Errorf("one row: exit %d, %s %s, and %s of the file", code, one, stderr, lines[0])
	}
	if other, _, _ := runPiped([]byte(strings.Replace(row, "the film", "dull plot", 1)), "predict run --json"); sameAnswer(t, other, lines[0]) {
		t.Error("the second text changes nothing")
	}
	response, err := http.Post(startServer(t, "run")+"/v1/predict", "application/json", strings.NewReader(row))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var body bytes.Buffer
	body.ReadFrom(response.Body)
	if response.StatusCode != http.StatusOK || !sameAnswer(t, body.String(), lines[0]) {
		t.Errorf("the server answers %d %s, and the file has %s", response.StatusCode, body.String(), lines[0])
	}
	runJSON(t, "export run --format hf --out hf")
	runJSON(t, "export run --format onnx --out run.onnx")
	if err := os.WriteFile("plain.txt", []byte("a good film\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	runJSON(t, onPairs+"--target share --bounds share=0:1 --ignore follows --out regression --model hf:ck")
	for line, want := range map[string]string{
		strings.Replace(entails, "--text-pair hypothesis", "--text-pair premise", 1) + "--out o --model hf:ck": "used in two ways",
		entails + "--out o --model bow":                                      "only a public tokenizer joins two texts",
		entails + "--out o --model bow --tokens tokenizer:ck/tokenizer.json": "only the network of a public checkpoint reads these",
		"predict run --data plain.txt":                                       "the model reads pairs of texts",
		strings.Replace(onPairs, "--text premise", "", 1) + "--label follows --classes no,yes --ignore share,premise --out o": "the first is not given",
	} {
		checkUsageError(t, line, want)
	}
	compareWithPythonPairs(t, lines)
}

// probabilityOf returns the probability of the most probable class.
func probabilityOf(t *testing.T, line string) float64 {
	t.Helper()
	var answer struct{ Probability float64 }
	if err := json.Unmarshal([]byte(line), &answer); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return answer.Probability
}

func sameAnswer(t *testing.T, a, b string) bool {
	t.Helper()
	return math.Abs(probabilityOf(t, a)-probabilityOf(t, b)) < 1e-6
}

// compareWithPythonPairs compares predictions with those of transformers for the folder hf.
func compareWithPythonPairs(t *testing.T, lines []string) {
	python := cmp.Or(os.Getenv("DPTRAIN_PYTHON"), "python3")
	if exec.Command(python, "-c", "import torch, transformers").Run() != nil {
		t.Skip("this Python does not have torch and transformers")
	}
	out, err := exec.Command(python, "-c", loadPairs).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var want []float64
	if err := json.Unmarshal(out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:], &want); err != nil || len(want) != len(lines) {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, line := range lines {
		if got := probabilityOf(t, line); math.Abs(got-max(want[i], 1-want[i])) > 1e-5 {
			t.Fatalf("row %d: %v, and %v in Python", i, line, want[i])
		}
	}
}

// loadPairs prints the probabilities of yes. The tokenizer of transformers cuts the longer text first.
const loadPairs = `
import csv, json
import torch
from transformers import AutoModelForSequenceClassification as Auto, PreTrainedTokenizerFast
rows = list(csv.DictReader(open("test.csv")))
tokenizer = PreTrainedTokenizerFast(tokenizer_file="hf/tokenizer.json", pad_token="[PAD]")
inputs = tokenizer([r["premise"] for r in rows], [r["hypothesis"] for r in rows], truncation="longest_first", max_length=10,
                   padding=True, return_tensors="pt", return_token_type_ids=True)
assert inputs["token_type_ids"].sum() > 0
with torch.no_grad():
    print(json.dumps(Auto.from_pretrained("hf").eval()(**inputs).logits.softmax(-1)[:, 1].tolist()))
`

// Encoders without segments and decoders read pairs as their tokenizers join them.
func TestTrain_PairsOfOtherFamilies(t *testing.T) {
	for _, checkpoint := range []string{"roberta", "distilbert", "gpt2", "llama"} {
		t.Run(checkpoint, func(t *testing.T) {
			withPairs(t, checkpoint)
			const length = "--length 8 " // RoBERTa's positions begin at 2
			if got := runJSON(t, entails+length+"--out run --model hf:ck,train=head"); got["task"] != "text-classification" {
				t.Errorf("task %v", got["task"])
			}
		})
	}
}
