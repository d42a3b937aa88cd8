package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/cmd/dptrain/internal/exitcode"
	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/internal/format/safetensors/safetensorstest"
	"github.com/dptrain/dptrain/internal/half"
)

// readCheckpoint reads the tensors of the checkpoint ck, and removes its files of weights.
func readCheckpoint(t *testing.T) (all []safetensors.Tensor) {
	t.Helper()
	files, err := filepath.Glob("ck/model*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, ".safetensors") {
			content := readFile(t, file)
			tensors, _, err := safetensors.Read(bytes.NewReader(content), int64(len(content)))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, tensors...)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A run on a checkpoint of 16-bit numbers gives the files of the same numbers as float32: the weights of the run, its test
// results, and what it exports.
func TestTrain_HalvesGiveTheFilesOfFloat32(t *testing.T) {
	classes := strings.Replace(onTexts, "--lot 10 ", "--lot 10 --microbatch 3 --steps 2 --out run ", 1) + "--model hf:ck"
	next := "train --data train.csv --test test.csv --text text --next --ignore mood,score --length 8 --lot 10 --seed 3 --noise 1 --microbatch 3 --steps 2 --out run --model hf:ck"
	for _, c := range []halvesCase{
		{"bert", classes + ",lora=2", "peft", half.BFloat16},
		{"bert", classes + ",train=bias", "", half.Float16},
		{"bert", classes + ",train=head", "", half.BFloat16},
		{"llama-next", next + ",lora=2", "peft", half.BFloat16},
		{"llama-next", next + ",lora=2", "peft", half.Float16},
	} {
		t.Run(c.folder+c.line[strings.Index(c.line, "hf:ck"):], func(t *testing.T) { compareHalves(t, c) })
	}
}

type halvesCase struct {
	folder, line string
	adapter      string // the format of an export in addition to hf
	format       half.Format
}

func compareHalves(t *testing.T, c halvesCase) {
	withCheckpoint(t, c.folder)
	if c.folder != "bert" {
		if err := os.WriteFile("ck/tokenizer.json", []byte(letterTokenizer), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const file = "ck/model.safetensors"
	cut := safetensorstest.WriteHalves(t, file, c.format, readCheckpoint(t))
	got := c.results(t)
	var wide bytes.Buffer
	err := safetensors.Write(&wide, cut, nil)
	if err == nil {
		err = os.WriteFile(file, wide.Bytes(), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range c.results(t) {
		if !bytes.Equal(got[name], want) {
			t.Errorf("other %s", name)
		}
	}
}

// results trains, and returns what the run and its exports consist of.
func (c halvesCase) results(t *testing.T) map[string][]byte {
	t.Helper()
	if _, stderr, code := dptrain(c.line); code != exitcode.Done || !strings.Contains(stderr, "of the checkpoint did not") {
		t.Fatalf("%s: exit %d, %s", c.line, code, stderr)
	}
	stdout, stderr, code := dptrain("eval run --data test.csv --json")
	if code != exitcode.Done {
		t.Fatal(stderr)
	}
	files := map[string][]byte{"results of eval": []byte(stdout), "weights": readFile(t, "run/model.safetensors")}
	for _, format := range []string{"hf", c.adapter} {
		if format != "" {
			runJSON(t, "export run --format "+format+" --out "+format)
			names, _ := filepath.Glob(format + "/*.safetensors")
			files["export of "+format] = readFile(t, names[0])
			os.RemoveAll(format)
		}
	}
	os.RemoveAll("run")
	return files
}
