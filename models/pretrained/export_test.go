package pretrained

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/internal/format/torch"
	"github.com/dptrain/dptrain/models/layer"
	"github.com/dptrain/dptrain/perexample"
)

// The tensors of an exported network that was not trained are those of its checkpoint, with the same names, shapes and
// bits.
func TestExport_SameTensors(t *testing.T) {
	for _, c := range []struct{ path, original, class string }{
		{"bert", "bert", "BertForSequenceClassification"}, {"distilbert", "distilbert", "DistilBertForSequenceClassification"},
		{"gpt2", "gpt2", "GPT2ForSequenceClassification"}, {"gpt2-next", "gpt2-next", "GPT2LMHeadModel"},
		{"llama-next", "llama-next", "LlamaForCausalLM"}, {"qwen2-next", "qwen2-next", "Qwen2ForCausalLM"},
		{"qwen3", "qwen3", "Qwen3ForSequenceClassification"}, {"gemma-next", "gemma-next", "GemmaForCausalLM"},
		{"gemma2", "gemma2", "Gemma2ForSequenceClassification"}, {"gemma3", "gemma3", "Gemma3TextForSequenceClassification"},
		{"gemma3-next", "gemma3-next", "Gemma3ForCausalLM"},
		{"vit", "vit", "ViTForImageClassification"}, {"deit", "deit", "DeiTForImageClassification"},
		{"deit-teacher", "deit-teacher", "DeiTForImageClassificationWithTeacher"}, {"llama.gguf", "llama-next", "LlamaForCausalLM"},
		{"bert-masked", "bert-masked", "BertForMaskedLM"}, {"roberta-masked", "roberta-masked", "RobertaForMaskedLM"}, {"distilbert-masked", "distilbert-masked", "DistilBertForMaskedLM"},
	} {
		m, err := Parse(filepath.Join("testdata", c.path))
		if err != nil {
			t.Fatal(err)
		}
		labels := Labels{Classes: []string{"a", "b", "c"}}
		build := buildOf(m, 6)
		if strings.HasSuffix(c.original, "-masked") {
			labels = Labels{StepIDs: true}
		}
		if strings.HasSuffix(c.original, "-next") {
			labels = Labels{StepIDs: true}
			build = nextIDs(m)
		}
		net, err := build(1)
		if err != nil {
			t.Fatal(err)
		}
		tensors, err := torch.Export(net)
		if err != nil {
			t.Fatal(err)
		}
		files, err := m.Export(tensors, labels)
		if err != nil && !isGGUF(c.path) { // that of the test has no tokenizer
			t.Fatal(err)
		}
		if isGGUF(c.path) {
			if files, err = exportWithoutTokenizer(m, tensors, labels); err != nil {
				t.Fatal(err)
			}
		}
		var config map[string]any
		if err := json.Unmarshal(files[0].Content, &config); err != nil || config["architectures"].([]any)[0] != c.class {
			t.Errorf("%s: architectures %v, error %v", c.path, config["architectures"], err)
		}
		got, _, err := safetensors.Read(bytes.NewReader(files[1].Content), int64(len(files[1].Content)))
		if err != nil {
			t.Fatal(err)
		}
		byName := map[string]safetensors.Tensor{}
		for _, x := range got {
			byName[x.Name] = x
		}
		for _, want := range originalOf(t, c.original) {
			if x := byName[want.Name]; !slices.Equal(x.Shape, want.Shape) || !slices.Equal(x.Values, want.Values) {
				t.Errorf("%s: %s has shape %v, want %v, or other numbers", c.path, want.Name, x.Shape, want.Shape)
			}
			delete(byName, want.Name)
		}
		if len(byName) > 0 {
			t.Errorf("%s: %d more tensors", c.path, len(byName))
		}
	}
}

// A preprocessor that cuts keeps its other keys, and a file without an object is an error.
func TestCropInPreprocessor(t *testing.T) {
	files := []File{{"config.json", nil}, {preprocessorFile, []byte(`{"image_mean": [0.10, 0.2, 0.3], "size": {"height": 9, "width": 9}}`)}}
	got, err := CropInPreprocessor(files, 8, 12)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(got[1].Content)), "")
	const want = `{"crop_size":{"height":8,"width":12},"do_center_crop":true,"do_resize":false,"image_mean":[0.10,0.2,0.3],"size":{"height":9,"width":9}}`
	if text != want {
		t.Errorf("%s, want %s", text, want)
	}
	for _, content := range []string{"null", "[]", ""} {
		files[1].Content = []byte(content)
		if _, err := CropInPreprocessor(files, 8, 12); err == nil {
			t.Errorf("%q: no error", content)
		}
	}
	if _, err := CropInPreprocessor(files[:1], 8, 12); err == nil {
		t.Error("no preprocessor: no error")
	}
}

// exportWithoutTokenizer is Export without the files of the tokenizer.
func exportWithoutTokenizer(m *Model, tensors []safetensors.Tensor, labels Labels) ([]File, error) {
	config, err := m.exportConfig(labels)
	if err != nil {
		return nil, err
	}
	content, err := written(tensors)
	return []File{{"config.json", config}, {weightsFile, content}}, err
}

// nextIDs builds the network that predicts the next id.
func nextIDs(m *Model) perexample.Build {
	return func(batch int) (*perexample.Network, error) {
		b := layer.NewBuilder(batch, 1)
		y := m.NextIDs(b, b.Input("ids", 6), 16)
		b.SetLoss(layer.CrossEntropy(b, y, b.Input("label", 6)), y)
		return b.Network()
	}
}

// originalOf returns the tensors of a folder of testdata as the files have them.
func originalOf(t *testing.T, folder string) (list []safetensors.Tensor) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", folder, "model*.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		x, err := readTensors(file)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, x...)
	}
	if len(list) == 0 {
		t.Fatalf("%s has no tensors", folder)
	}
	return list
}
