package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/cmd/dptrain/internal/terminal"
	"github.com/dptrain/dptrain/internal/format/safetensors"
)

// smallTokenizer is a tokenizer.json of 16 pieces, for the checkpoints of models/pretrained/testdata.
const smallTokenizer = `{"version":"1.0","added_tokens":[],"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"BertProcessing","sep":["[SEP]",3],"cls":["[CLS]",2]},
"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
"vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"good":4,"bad":5,"film":6,"a":7,"very":8,"##s":9,"the":10,"is":11,".":12,"plot":13,"dull":14,"fine":15}}}`

// changeToCheckpoint changes to a folder with the checkpoint ck.
func changeToCheckpoint(t *testing.T, name string) {
	t.Helper()
	source, err := filepath.Abs(filepath.Join("../../models/pretrained/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.CopyFS("ck", os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
}

// trainedAs trains the checkpoint ck in the folder run, by options, and compares what the run states of its parameters.
func trainedAs(t *testing.T, line, options, want string) {
	t.Helper()
	os.RemoveAll("run")
	_, stderr, code := dptrain(line + "--steps 2 --out run --model hf:ck" + options)
	if code != exitcode.Done || !strings.Contains(stderr, want) || strings.Contains(stderr, "did not change") {
		t.Errorf("%s: exit %d, %s", options, code, stderr)
	}
}

// withCheckpoint changes to a folder with the checkpoint ck and the texts train.csv and test.csv.
func withCheckpoint(t *testing.T, name string) {
	t.Helper()
	changeToCheckpoint(t, name)
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("ck/tokenizer.json", smallTokenizer)
	rows := "text,mood,score\n"
	for i := range 30 {
		rows += []string{"A very good film.,happy,4\n", "the plot is BAD,sad,1\n", "films: dull dull,sad,2\n"}[i%3]
	}
	write("train.csv", rows)
	write("test.csv", rows)
}

const onTexts = "train --data train.csv --test test.csv --text text --label mood --classes sad,happy --ignore score --length 8 --lot 10 --seed 3 --noise 1 "

// A checkpoint is trained as its options say; the run says what moved; eval and predict read the run.
func TestTrain_Checkpoint(t *testing.T) {
	withCheckpoint(t, "bert")
	for options, want := range map[string]string{
		"":                      "41 trained parameters moved, 0 frozen parameters",
		",train=head":           "4 trained parameters moved, 37 frozen parameters",
		",train=bias":           "21 trained parameters moved, 20 frozen parameters",
		",lora=2,targets=value": "8 trained parameters moved, 37 frozen parameters",
		",lora=2,last=1":        "8 trained parameters moved, 37 frozen parameters",
		",train=all,last=1":     "20 trained parameters moved, 21 frozen parameters",
	} {
		trainedAs(t, onTexts, options, want)
		scored := runJSON(t, "eval run")
		summary := map[string]any{}
		if err := json.Unmarshal(readFile(t, "run/run.json"), &summary); err != nil {
			t.Fatal(err)
		}
		if scored["accuracy"] != summary["test_accuracy"] {
			t.Errorf("%s: eval finds an accuracy of %v, the run %v", options, scored["accuracy"], summary["test_accuracy"])
		}
	}
	// Without noise the factors A of adapters move in the second lot, because the factors B are zero before it.
	_, stderr, code := dptrain(strings.Replace(onTexts, "--noise 1", "--non-private", 1) + " --steps 3 --out plain --model hf:ck,lora=2")
	if code != exitcode.Done || !strings.Contains(stderr, "After 2 lots: 12 trained parameters moved") || strings.Contains(stderr, "did not change") {
		t.Errorf("adapters without privacy: exit %d, %s", code, stderr)
	}
	_, stderr, code = dptrain("train --data train.csv --text text --target score --bounds score=0:5 --ignore mood --length 8 --lot 10 --seed 3 --noise 1 --steps 2 --out regression --model hf:ck --lora r=2,alpha=4,targets=query|key")
	if code != exitcode.Done || !strings.Contains(stderr, "12 trained parameters moved") {
		t.Errorf("regression with --lora: exit %d, %s", code, stderr)
	}
	// The settings that a checkpoint chooses are those of the run that is continued.
	if resumed := runJSON(t, "train --resume regression"); resumed["steps"] != 2.0 {
		t.Errorf("--resume: %v", resumed)
	}
	got := runJSON(t, "tokenize --model hf:ck train.csv")
	if lines := fmt.Sprint(got["ids"].([]any)[1:3]); lines != "[[2 7 8 4 6 12 1 1 1 1 3] [2 10 13 11 5 1 1 1 1 3]]" {
		t.Errorf("tokenize prints %s", lines)
	}
	for line, want := range map[string]string{
		onTexts + "--steps 1 --out o --model hf:none":                   "none/tokenizer.json",
		onTexts + "--steps 1 --out o --model hf:ck,train=most":          "write all, head, bias or lora",
		onTexts + "--steps 1 --out o --model hf:ck --lora r=2,last=3":   "from 1 to 2",
		onTexts + "--steps 1 --out o --model hf:ck --freeze classifier": "exclude each other",
		onTexts + "--steps 1 --out o --model bow --lora r=2":            "needs --model hf:DIR",
		onTexts + "--steps 1 --out o --model hf:ck --lora rank=2":       "give r=RANK",
		onTexts + "--steps 1 --out o --model hf:ck --length 11":         "the checkpoint has positions for 10",
		onTexts + "--steps 1 --out o --model hf:ck --tokens bytes":      "the tokenizer has 256 ids, and the checkpoint a vocabulary of 16",
		"tokenize --model ck train.csv":                                 "give hf:DIR",
		"tokenize --model hf:ck none.txt":                               "none.txt",
	} {
		checkUsageError(t, line, want)
	}
}

// Without a terminal, a run that keeps the outputs of frozen layers says how far they are.
func TestTrain_PrintsFrozenOutputs(t *testing.T) {
	withCheckpoint(t, "bert")
	defer func(was time.Duration) { terminal.NoteDelay = was }(terminal.NoteDelay)
	terminal.NoteDelay = 0
	const want = "outputs of the frozen layers: example 10/30, "
	if _, stderr, code := dptrain(onTexts + "--microbatch 10 --steps 4 --out head --model hf:ck,train=head"); code != exitcode.Done || !strings.Contains(stderr, want) {
		t.Errorf("exit %d, %s lacks %q", code, stderr, want)
	}
}

// Every part of a checkpoint that learns classes of texts has a rule, however it is named.
func TestTrain_CheckpointByRule(t *testing.T) {
	withCheckpoint(t, "bert")
	const line = "train --dry-run --data train.csv --text text --label mood --classes sad,happy --ignore score --length 8 --epsilon 3 --model hf:ck"
	for options, want := range map[string]string{",lora=2": "30 60 0.0099", " --lora r=2": "30 60 0.0099", ",train=lora": "30 60 0.0099", ",train=bias": "30 60 0.0099", "": "30 60 0.00099", ",train=all,last=1": "30 60 0.00099"} {
		got := runJSON(t, line+options)
		if chosen := fmt.Sprint(got["expected_lot"], got["steps"], got["learning_rate"]); chosen != want {
			t.Errorf("%s: lots, steps and rate %s, want %s", options, chosen, want)
		}
	}
}

// Adapters and biases that learn the next id have a rule; whole networks and heads have none.
func TestTrain_DecoderByRule(t *testing.T) {
	for _, c := range []struct{ name, options, want string }{
		{"gpt2", ",lora=2", "30 60 0.0099 0.1"}, {"gpt2", ",train=bias", "30 60 0.0099 0.1"}, {"gpt2", "", "1 450 0.001 0.1"}, {"llama", ",train=head", "1 450 0.001 0.1"},
	} {
		t.Run(c.name+c.options, func(t *testing.T) {
			withCheckpoint(t, c.name)
			got := runJSON(t, "train --dry-run --data train.csv --text text --next --ignore mood,score --length 8 --epsilon 3 --model hf:ck"+c.options)
			if chosen := fmt.Sprint(got["expected_lot"], got["steps"], got["learning_rate"], got["clip"]); chosen != c.want {
				t.Errorf("lots, steps, rate and clip bound %s, want %s", chosen, c.want)
			}
		})
	}
}

// The folders that export writes have the names and shapes of the checkpoint, and transformers and peft
// compute with them what the run's network computes.
func TestExport_Checkpoint(t *testing.T) {
	for _, options := range []string{",lora=2", ",lora=2,last=1", ",lora=2,targets=all-linear"} {
		t.Run(options, func(t *testing.T) { compareExports(t, options) })
	}
}

func compareExports(t *testing.T, options string) {
	withCheckpoint(t, "bert")
	if _, stderr, code := dptrain(onTexts + "--steps 2 --lr 0.1 --out run --model hf:ck" + options); code != exitcode.Done {
		t.Fatal(stderr)
	}
	if got := runJSON(t, "export run --format hf --out hf"); got["format"] != "hf" || got["out"] != "hf" {
		t.Errorf("export prints %v", got)
	}
	runJSON(t, "export run --format peft --out peft")
	content := readFile(t, "hf/model.safetensors")
	tensors, metadata, err := safetensors.Read(bytes.NewReader(content), int64(len(content)))
	if err != nil || metadata["format"] != "pt" || len(tensors) != 41 {
		t.Fatalf("%d tensors, metadata %v, error %v", len(tensors), metadata, err)
	}
	for line, want := range map[string]string{
		"export run --format hf --out hf":                                  "contains files",
		"export run --format peft --out x.onnx":                            "contradicts --format peft",
		"export run --format hf --out ./run --overwrite":                   "is the folder of a run",
		"export run --format hf --out ck --overwrite":                      "the checkpoint that the run started from",
		"export run --overwrite --out ck/model-00001-of-00002.safetensors": "also the input",
	} {
		checkUsageError(t, line, want)
	}
	python := cmp.Or(os.Getenv("DPTRAIN_PYTHON"), "python3")
	if exec.Command(python, "-c", "import torch, transformers, peft").Run() != nil {
		t.Skip("this Python does not have torch, transformers and peft")
	}
	runJSON(t, "predict run --data test.csv --out predictions.jsonl --format jsonl")
	command := exec.Command(python, "-c", loadFolders)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var probabilities [][]float64 // of transformers, peft
	if err := json.Unmarshal(out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:], &probabilities); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	comparePredictions(t, probabilities...)
}

// comparePredictions compares predictions.jsonl with probabilities of the class happy.
func comparePredictions(t *testing.T, probabilities ...[]float64) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(string(readFile(t, "predictions.jsonl"))), "\n")
	for i, line := range lines {
		var row struct {
			Class       string
			Probability float64 // of the class
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		happy := row.Probability
		if row.Class == "sad" {
			happy = 1 - happy
		}
		for k := range probabilities {
			if math.Abs(happy-probabilities[k][i]) > 1e-5 {
				t.Fatalf("row %d: %v, and %v in Python (%d)", i, row, probabilities[k][i], k)
			}
		}
	}
}

// An exported folder has the tokenizer of the training, and no file of another one.
func TestExport_CheckpointWithOtherTokenizer(t *testing.T) {
	withCheckpoint(t, "bert")
	other := strings.Replace(smallTokenizer, `"good":4,"bad":5`, `"bad":4,"good":5`, 1)
	for name, text := range map[string]string{"other.json": other, "ck/vocab.txt": "[PAD]\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for run, tokens := range map[string]string{"own": "", "run": "--tokens tokenizer:other.json "} {
		if _, stderr, code := dptrain(onTexts + tokens + "--steps 1 --model hf:ck,train=head --out " + run); code != exitcode.Done {
			t.Fatal(stderr)
		}
		runJSON(t, "export "+run+" --format hf --out hf-"+run)
	}
	if got := string(readFile(t, "hf-own/tokenizer.json")); got != smallTokenizer {
		t.Errorf("the tokenizer of the checkpoint became %s", got)
	}
	if got := string(readFile(t, "hf-run/tokenizer.json")); got != other {
		t.Errorf("the tokenizer of the training became %s", got)
	}
	for name, want := range map[string]bool{"hf-own/vocab.txt": true, "hf-run/vocab.txt": false} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Rename("other.json", "moved.json"); err != nil {
		t.Fatal(err)
	}
	checkUsageError(t, "export run --format hf --out again", "other.json: no such file or directory; it is the tokenizer of the training: restore it")
	runJSON(t, "export own --format hf --out again")
	if err := os.Rename("ck", "gone"); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"hf --out other", "onnx --out other.onnx"} {
		checkUsageError(t, "export own --format "+format, "ck/config.json: no such file or directory; a model of a checkpoint needs it again: restore it")
	}
}

// loadFolders prints the probabilities of happy with both folders. A warning is an error.
const loadFolders = `
import csv, json, logging, warnings
import torch, transformers, peft
from transformers import AutoModelForSequenceClassification as Auto, PreTrainedTokenizerFast
warnings.simplefilter("error", UserWarning)
texts = [row["text"] for row in csv.DictReader(open("test.csv"))]
tokenizer = PreTrainedTokenizerFast(tokenizer_file="hf/tokenizer.json", pad_token="[PAD]")
inputs = tokenizer(texts, truncation=True, max_length=8, padding=True, return_tensors="pt")
inputs.pop("token_type_ids", None)
model, info = Auto.from_pretrained("hf", output_loading_info=True)
assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
assert model.config.id2label == {0: "sad", 1: "happy"}, model.config.id2label
adapted = peft.PeftModel.from_pretrained(Auto.from_pretrained("ck", num_labels=2, ignore_mismatched_sizes=True), "peft")
with torch.no_grad():
    print(json.dumps([m.eval()(**inputs).logits.softmax(-1)[:, 1].tolist() for m in (model, adapted)]))
`

// A head that reads all layers has no class in other programs: ONNX contains it.
func TestExport_MeansOfLayers(t *testing.T) {
	withCheckpoint(t, "bert")
	trainedAs(t, onTexts, ",train=head,pool=layers", "2 trained parameters moved, 37 frozen parameters")
	trainedAs(t, onTexts, ",lora=2,pool=layers", "10 trained parameters moved, 37 frozen parameters")
	runJSON(t, "export run --format onnx --out layers.onnx")
	checkUsageError(t, "export run --format hf --out hf", "no pooling that joins the means of all layers; write ONNX")
	checkUsageError(t, "export run --format peft --out peft", "peft has no head behind pool=layers; write ONNX")
}

// A checkpoint for sentence embeddings gets a linear head behind its pooling, also in a run that is continued. Its export is a
// folder of sentence-transformers, which computes the same outputs.
func TestExport_SentenceEmbeddings(t *testing.T) {
	withCheckpoint(t, "bert-mean")
	trainedAs(t, onTexts, ",train=head", "2 trained parameters moved, 37 frozen parameters")
	trainedAs(t, onTexts, ",train=head,pool=head", "4 trained parameters moved")
	trainedAs(t, onTexts, ",lora=2", "10 trained parameters moved, 37 frozen parameters")
	if resumed := runJSON(t, "train --resume run --steps 3"); resumed["steps"] != 3.0 || resumed["model"] != "hf:ck,lora=2,pool=mean" {
		t.Errorf("--resume: %v lots of %v", resumed["steps"], resumed["model"])
	}
	checkUsageError(t, "export run --format peft --out peft", "peft has no head behind pool=mean")
	runJSON(t, "export run --format onnx --out merged.onnx")
	runJSON(t, "export run --format hf --out hf")
	python := cmp.Or(os.Getenv("DPTRAIN_PYTHON"), "python3")
	if exec.Command(python, "-c", "import sentence_transformers").Run() != nil {
		t.Skip("this Python does not have sentence-transformers")
	}
	runJSON(t, "predict run --data test.csv --out predictions.jsonl --format jsonl")
	out, err := exec.Command(python, "-c", loadModules).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var happy []float64
	if err := json.Unmarshal(out[bytes.LastIndexByte(bytes.TrimSpace(out), '\n')+1:], &happy); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	comparePredictions(t, happy)
}

// loadModules prints the probabilities of happy. A weight that is missing or unknown is an error.
const loadModules = `
import csv, json, warnings
import torch, transformers
from sentence_transformers import SentenceTransformer
warnings.simplefilter("error", UserWarning)
_, info = transformers.AutoModel.from_pretrained("hf", output_loading_info=True)
assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
texts = [row["text"] for row in csv.DictReader(open("test.csv"))]
model = SentenceTransformer("hf", device="cpu")
model.max_seq_length = 8
print(json.dumps(torch.tensor(model.encode(texts)).softmax(-1)[:, 1].tolist()))
`
