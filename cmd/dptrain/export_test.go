package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/format/safetensors"
)

// The file for PyTorch contains the same model: in place of the run's weights it gives the same
// score, and a run can start from it.
func TestExport(t *testing.T) {
	inWorkshop(t)
	runJSON(t, brief+" --steps 3 --out run")
	scored := runJSON(t, "eval run --data test.csv")
	got := runJSON(t, "export run --out model.pt.safetensors")
	if got["format"] != "safetensors" || got["out"] != "model.pt.safetensors" {
		t.Errorf("export prints %v", got)
	}
	exported, err := os.ReadFile("model.pt.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	tensors, metadata, err := safetensors.Read(bytes.NewReader(exported), int64(len(exported)))
	if err != nil || metadata["format"] != "pt" || len(tensors) == 0 {
		t.Fatalf("%d tensors, metadata %v, error %v", len(tensors), metadata, err)
	}
	_, stderr, code := dptrain(brief + " --steps 1 --out next --init model.pt.safetensors")
	if code != exitcode.Done || !strings.Contains(stderr, "match") || !strings.Contains(stderr, "PyTorch's layout") {
		t.Errorf("--init: exit %d, %s", code, stderr)
	}
	if card := string(readReports(t, "next")[1]); !strings.Contains(card, "the data that the starting weights, from model.pt.safetensors, were trained on") || !strings.Contains(stderr, "this run's ε does not cover") {
		t.Errorf("the cost of the starting weights is not mentioned:\n%s%s", stderr, card)
	}
	// Without a ledger, a directory may contain weights of any origin.
	if err := errors.Join(os.Mkdir("exported", 0o755), os.Rename("model.pt.safetensors", "exported/model.safetensors"), os.WriteFile("exported/model.json", readFile(t, "run/model.json"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if again := runJSON(t, "eval exported --data test.csv"); again["loss"] != scored["loss"] || again["accuracy"] != scored["accuracy"] {
		t.Errorf("exported weights score %v, the run's own %v", again, scored)
	}
	shown := runText(t, "export run --format onnx --out run/model.onnx")
	got = runJSON(t, "export run --format onnx --out model.onnx")
	if want := fmt.Sprintf("model logistic format onnx file run/model.onnx (%v bytes) inputs age, colour outputs class, probabilities, output", got["bytes"]); strings.Join(strings.Fields(shown), " ") != want {
		t.Errorf("export shows\n%s, want %s", shown, want)
	}
	if info, err := os.Stat("model.onnx"); err != nil || float64(info.Size()) != got["bytes"] {
		t.Errorf("export prints %v; %v", got, err)
	}

	ledger, err := filepath.Abs("run/ledger.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"export run --format onx --out m":                             "onnx",
		"export run --out m":                                          "the name does not say the format; let it end in .safetensors or .onnx",
		"export run --out m.bin":                                      "the name does not say the format",
		"export run --format onnx --out m.safetensors":                "contradicts --format onnx",
		"export run --out model.onnx":                                 "exists: choose another name, or replace the file with --overwrite",
		"export run":                                                  "--out is missing",
		"export":                                                      "one run directory",
		"export nowhere --out m.onnx":                                 "nowhere contains no model",
		"export run --out run/model.safetensors":                      "a file of the run itself",
		"export run --format onnx --out ./run/config.yaml":            "a file of the run itself",
		"export run --format onnx --out " + ledger:                    "a file of the run itself",
		"export run --out none/m.onnx":                                "--out none/m.onnx",
		"export run --format onnx --out run":                          "not a regular file",
		brief + " --model mlp:3 --init run/model.safetensors --out o": "missing fc",
	} {
		checkUsageError(t, line, want)
	}
}
