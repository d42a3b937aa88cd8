package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/format/safetensors"
)

// normed is a small run on drawn pictures.
const normed = "train --model digits-cnn:norm=batch --lot 200 --accountant rdp --delta 1e-5 "

// A network with batch normalization releases its statistics without a flag, in every lot and as part
// of the budget. The file of weights contains the running statistics, with PyTorch's names, and eval,
// export and --resume use them.
func TestBatchNorm_Train(t *testing.T) {
	t.Chdir(t.TempDir())
	v := runJSON(t, normed+"--steps 6 --epsilon 3 --out run")
	groups := v["groups"].([]any)
	if e := v["epsilon"].(float64); len(groups) != 2 || groups[1].(map[string]any)["group"] != "batch-statistics" || e > 3 || e < 2.97 {
		t.Fatalf("ε = %v, groups %v", v["epsilon"], groups)
	}
	if plain := runJSON(t, strings.Replace(normed, ":norm=batch", ":norm=group", 1)+"--steps 1 --epsilon 3 --out group"); plain["parameters"] != v["parameters"] {
		t.Errorf("%v weights with batch normalization, %v with group normalization", v["parameters"], plain["parameters"])
	}
	running := func(file string) (values []float32) {
		text := readFile(t, file)
		tensors, _, err := safetensors.Read(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			t.Fatal(err)
		}
		for _, tensor := range tensors {
			if strings.Contains(tensor.Name, "running_") {
				values = append(values, tensor.Values...)
			}
		}
		return values
	}
	stored := running("run/model.safetensors")
	if len(stored) != 2*(8+16) || stored[0] == 0 {
		t.Fatalf("running statistics %v", stored)
	}
	if e := runJSON(t, "eval run"); e["accuracy"] != v["test_accuracy"] {
		t.Errorf("eval computes %v, the run %v", e["accuracy"], v["test_accuracy"])
	}
	runJSON(t, "export run --out torch.safetensors")
	if !slices.Equal(running("torch.safetensors"), stored) {
		t.Error("the file for PyTorch has other running statistics")
	}
	runJSON(t, "export run --format onnx --out model.onnx")
	if info, err := os.Stat("model.onnx"); err != nil || info.Size() < 20000 {
		t.Errorf("%v, %v", info, err)
	}
	if v := runJSON(t, "train --resume run --epsilon 4"); !(v["steps"].(float64) > 6) || slices.Equal(running("run/model.safetensors"), stored) {
		t.Errorf("resumed: %v", v)
	}
	// A run that starts from the file, with the first convolution and its running statistics frozen.
	v = runJSON(t, normed+"--steps 2 --noise 2 --init run/model.safetensors --freeze conv1 --out tuned")
	before, after := running("run/model.safetensors"), running("tuned/model.safetensors")
	if !slices.Equal(before[:16], after[:16]) || slices.Equal(before[16:], after[16:]) {
		t.Errorf("frozen and other running statistics: %v, then %v", before, after)
	}
	if size := v["groups"].([]any)[1].(map[string]any)["sensitivity"].(float64); size*size < 31.9 || size*size > 32.1 {
		t.Errorf("a sensitivity of %v for two numbers of 16 channels", size)
	}
	if v := runJSON(t, "train --model digits-cnn:norm=batch --lot 200 --steps 3 --non-private --out plain"); v["epsilon"] != "Infinity" || running("plain/model.safetensors")[0] == 0 {
		t.Errorf("without privacy: %v", v)
	}
	runJSON(t, normed+"--steps 2 --noise 2 --clipping per-layer --metric batch-statistics:noise=9,every=2,clip=3 --out layers")
}

func TestBatchNorm_Refused(t *testing.T) {
	t.Chdir(t.TempDir())
	for flags, want := range map[string]string{
		"train --model digits-cnn --metric batch-statistics":                       "use a model with norm=batch",
		"train --model digits-cnn:norm=layer":                                      "norm=batch or norm=group",
		"train --model digits-cnn:norm=batch --metric batch-statistics:share=2":    "not a setting of a metric",
		"train --model digits-cnn:norm=batch --lot 99 --steps 9 --group a=conv*":   "fc1",
		"train --model digits-cnn:norm=batch --group r=*.running_mean --group a=*": "no such layer or parameter to train",
	} {
		checkUsageError(t, flags+" --out refused", want)
	}
}
