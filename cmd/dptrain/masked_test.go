package main

import (
	"bytes"
	"cmp"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
)

// maskingTokenizer is smallTokenizer with a mask.
var maskingTokenizer = strings.NewReplacer(`"fine":15`, `"[MASK]":15`, `"added_tokens":[]`, `"added_tokens":[{"id":15,"content":"[MASK]","special":true}]`).Replace(smallTokenizer)

const masksIDs = "train --data train.csv --text text --masked 0.3 --ignore mood,score --length 8 --lot 10 --seed 3 --noise 1 --steps 2 "

// An encoder learns masked ids, is evaluated with the same masks each time, and its exported folder is the start of
// another run.
func TestTrain_Masked(t *testing.T) {
	for _, c := range []struct{ checkpoint, class, moved, options string }{
		{"bert-masked", "BertForMaskedLM", "42 trained parameters moved, 0 frozen parameters", ""},
		{"bert-masked", "BertForMaskedLM", "13 trained parameters moved, 37 frozen parameters", ",lora=2"},
		{"roberta-masked", "RobertaForMaskedLM", "5 trained parameters moved, 37 frozen parameters", ",train=head"},
		{"distilbert-masked", "DistilBertForMaskedLM", "5 trained parameters moved, 36 frozen parameters", ",train=head"},
	} {
		t.Run(c.checkpoint+c.options, func(t *testing.T) {
			withCheckpoint(t, c.checkpoint)
			if err := os.WriteFile("ck/tokenizer.json", []byte(maskingTokenizer), 0o644); err != nil {
				t.Fatal(err)
			}
			_, stderr, code := dptrain(masksIDs + "--test test.csv --out run --model hf:ck" + c.options)
			if code != exitcode.Done || !strings.Contains(stderr, c.moved) {
				t.Fatalf("exit %d, %s", code, stderr)
			}
			first, again, other := runJSON(t, "eval run"), runJSON(t, "eval run --data test.csv"), runJSON(t, "train --resume run")
			if p := first["perplexity"].(float64); p != again["perplexity"] || !(p > 1 && p < 1e6) || first["loss"] != again["loss"] || other["task"] != "fill-mask" || other["test_loss"] != first["loss"] {
				t.Errorf("eval prints %v, then %v; run.json has %v", first, again, other)
			}
			runJSON(t, "export run --format hf --out hf")
			if config := string(readFile(t, "hf/config.json")); !strings.Contains(config, c.class) {
				t.Errorf("config.json is %s", config)
			}
			_, stderr, code = dptrain(onTexts + "--steps 1 --out classes --model hf:hf")
			if code != exitcode.Done {
				t.Errorf("a run from the exported folder: exit %d, %s", code, stderr)
			}
			loadMasked(t)
		})
	}
}

// loadMasked loads the exported folder with transformers.
func loadMasked(t *testing.T) {
	python := cmp.Or(os.Getenv("DPTRAIN_PYTHON"), "python3")
	if exec.Command(python, "-c", "import torch, transformers").Run() != nil {
		t.Skip("this Python does not have torch and transformers")
	}
	out, err := exec.Command(python, "-c", `
from transformers import AutoModelForMaskedLM as Auto
model, info = Auto.from_pretrained("hf", output_loading_info=True)
assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
print("loaded")`).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("loaded")) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestTrain_MaskedRefusals(t *testing.T) {
	withCheckpoint(t, "bert-masked")
	checkUsageError(t, masksIDs+"--out o --model hf:ck", "has no token [MASK] or <mask>")
	if err := os.WriteFile("ck/tokenizer.json", []byte(maskingTokenizer), 0o644); err != nil {
		t.Fatal(err)
	}
	masks := strings.Replace(masksIDs, "--masked 0.3 ", "", 1)
	for line, want := range map[string]string{
		masksIDs + "--out o --model bow":                              "only a public tokenizer has a mask",
		masksIDs + "--out o --model hf:ck --validation-split 0.5":     "--validation-split is not available with --masked",
		masksIDs + "--out o --model hf:ck --next":                     "sees the next id",
		masks + "--masked 1.5 --out o --model hf:ck":                  "--masked 1.5: write a share of the ids between 0 and 1",
		masksIDs + "--out o --model transformer --tokens bytes":       "only a public tokenizer has a mask",
		masksIDs + "--out o --model lstm --tokens tokenizer:ck/x":     "ck/x",
		masks + "--masked 0.3 --out o --model hf:ck --text-pair mood": "pairs of texts are not supported",
	} {
		checkUsageError(t, line, want)
	}
}

const nextOfSpeakers = "train --data speeches.csv --text text --record user:who --next --lot 3 --seed 3 --noise 1 --steps 2 --model hf:ck,lora=2 "

// Packed texts have the loss of the same texts by themselves, and the network writes texts.
func TestTrain_Packed(t *testing.T) {
	withCheckpoint(t, "gpt2-packed")
	rows := "text,who\n"
	for i := range 30 {
		rows += []string{"good tag,a\n", "dig,b\n", "a rapid big vital prose,c\n"}[i%3]
	}
	for name, text := range map[string]string{"speeches.csv": rows, "ck/tokenizer.json": letterTokenizer, "short.csv": "text,who\ngood,a\na,a\nbe,a\nto,b\n,b\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const still = "--length 10 --lr 1e-30 " // both networks stay those of the checkpoint
	runJSON(t, nextOfSpeakers+still+"--pack --out packed")
	runJSON(t, nextOfSpeakers+still+"--out single")
	packed, single := runJSON(t, "eval packed --data short.csv"), runJSON(t, "eval single --data short.csv")
	if a, b := packed["perplexity"].(float64), single["perplexity"].(float64); math.Abs(a-b) > 1e-4*b || packed["accuracy"] != single["accuracy"] {
		t.Errorf("packed texts have %v, and single ones %v", packed, single)
	}
	if packed["examples"] != 2.0 || single["examples"] != 5.0 {
		t.Errorf("%v packed examples of %v texts", packed["examples"], single["examples"])
	}
	if texts := runJSON(t, "generate packed --prompt dig --length 4 --seed 1")["texts"].([]any); !strings.HasPrefix(texts[0].(string), "dig") {
		t.Errorf("the network writes %q", texts)
	}
	if resumed := runJSON(t, "train --resume packed"); resumed["steps"] != 2.0 {
		t.Errorf("--resume: %v", resumed)
	}
	for line, want := range map[string]string{
		strings.Replace(nextOfSpeakers, "--record user:who", "--ignore who", 1) + "--length 8 --pack --out o":                    "--pack joins the texts of a record",
		strings.Replace(nextOfSpeakers, "--next", "--masked 0.5", 1) + "--length 8 --pack --out o":                               "has no token [MASK] or <mask>",
		strings.Replace(nextOfSpeakers, "hf:ck,lora=2", "lstm:4", 1) + "--length 8 --tokens bytes --pack --out o":                "only a public checkpoint keeps the texts of an example apart",
		"train --data short.csv --text text --record user:who --next --pack --model hf:ck --length 11 --lot 1 --steps 1 --out o": "positions for 10",
	} {
		checkUsageError(t, line, want)
	}
}
