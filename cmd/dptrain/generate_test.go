package main

import (
	"os"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// letterTokenizer is a tokenizer.json of 17 letters, for the decoders of models/pretrained/testdata.
const letterTokenizer = `{"model":{"type":"BPE","merges":[],"vocab":{"a":0,"b":1,"d":2,"e":3,"~":4,"g":5,"i":6,"l":7,"m":8,"o":9,"p":10,"r":11,"s":12,"t":13,"u":14,"v":15," ":16}}}`

// A decoder learns the next id, writes texts, and is exported; it also classifies texts.
func TestGenerate_Decoder(t *testing.T) {
	withCheckpoint(t, "gpt2-next")
	if err := os.WriteFile("ck/tokenizer.json", []byte(letterTokenizer), 0o644); err != nil {
		t.Fatal(err)
	}
	const train = "train --data train.csv --text text --length 8 --lot 10 --seed 3 --noise 1 --steps 2 "
	_, stderr, code := dptrain(train + "--next --ignore mood,score --out run --model hf:ck,lora=2")
	if code != exitcode.Done || !strings.Contains(stderr, "4 trained parameters moved, 28 frozen parameters") {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	first := runJSON(t, "generate run --prompt good --seed 1 --length 5 --number 2")["texts"].([]any)
	again := runJSON(t, "generate run --prompt good --seed 1 --length 5 --number 2")["texts"].([]any)
	if len(first) != 2 || first[0] != again[0] || first[1] != again[1] || !strings.HasPrefix(first[0].(string), "good") {
		t.Errorf("two texts are %q, and %q with the same seed", first, again)
	}
	probable := runJSON(t, "generate run --temperature 0 --length 5")["texts"].([]any)[0]
	if other := runJSON(t, "generate run --top-p 1e-9 --length 5")["texts"].([]any)[0]; other != probable {
		t.Errorf("the most probable ids give %q, and those with a share of 1e-9 %q", probable, other)
	}
	runJSON(t, "export run --format hf --out hf")
	if config := string(readFile(t, "hf/config.json")); !strings.Contains(config, "GPT2LMHeadModel") {
		t.Errorf("config.json is %s", config)
	}
	if card := string(readFile(t, "hf/README.md")); !strings.Contains(card, "pipeline_tag: text-generation") {
		t.Errorf("the model card is %s", card)
	}
	if p, is := runJSON(t, "eval run --data test.csv")["perplexity"].(float64); !is || !(p > 1 && p < 1000) {
		t.Errorf("the perplexity is %v", p)
	}
	_, stderr, code = dptrain(train + "--label mood --classes sad,happy --ignore score --out texts --model hf:ck,train=head")
	if code != exitcode.Done || !strings.Contains(stderr, "1 trained parameter moved, 28 frozen parameters") {
		t.Errorf("classes of texts: exit %d, %s", code, stderr)
	}
	for line, want := range map[string]string{
		"export texts --out texts.onnx":      "lastStep has no ONNX translation; write --format hf",
		"generate texts":                     "only those write texts",
		"generate run --top-p 0":             "--top-p 0",
		"generate run --temperature -1":      "--temperature -1",
		"generate run --length 0":            "at least 1",
		"generate none":                      "none",
		"generate run --prompt rrrrrrrrrrrr": "at most 10",
		train + "--next --ignore mood,score --out o --model hf:ck,train=head":             "its embedding, which is frozen",
		train + "--next --ignore mood,score --out o --tokens tokenizer:ck/tokenizer.json": "that of a checkpoint",
	} {
		checkUsageError(t, line, want)
	}
}
