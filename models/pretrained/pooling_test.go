package pretrained

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dptrain/dptrain/internal/format/safetensors"
	"github.com/dptrain/dptrain/internal/format/torch"
)

// A folder of sentence-transformers is exported with the same modules and tensors, and read again with its head. The pooler
// that transformers' class has, and the network does not, is kept.
func TestExport_SameModules(t *testing.T) {
	for _, folder := range []string{"bert-mean", "bert-first"} {
		m, err := Parse(withPooling(t, filepath.Join("testdata", folder)))
		if err != nil {
			t.Fatal(err)
		}
		net, err := buildOf(m, 6)(1)
		if err != nil {
			t.Fatal(err)
		}
		tensors, err := torch.Export(net)
		if err != nil {
			t.Fatal(err)
		}
		files, err := m.Export(tensors, Labels{Classes: []string{"a", "b", "c"}})
		if err != nil {
			t.Fatal(err)
		}
		copied := t.TempDir()
		for _, f := range files {
			path := filepath.Join(copied, f.Name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, f.Content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, file := range []string{weightsFile, denseFolder + "/" + weightsFile} {
			got, want := tensorsOf(t, filepath.Join(copied, file)), tensorsOf(t, filepath.Join("testdata", folder, file))
			if len(got) != len(want) {
				t.Errorf("%s/%s: %d tensors, want %d", folder, file, len(got), len(want))
			}
			for name, x := range want {
				if y := got[name]; !slices.Equal(x.Shape, y.Shape) || !slices.Equal(x.Values, y.Values) {
					t.Errorf("%s/%s: %s has another shape or other numbers", folder, file, name)
				}
			}
		}
		again, err := Parse(withPooling(t, copied))
		if err != nil {
			t.Fatal(err)
		}
		copiedNet, err := buildOf(again, 6)(1)
		if err != nil {
			t.Fatal(err)
		}
		if _, fresh, err := again.Parts(copiedNet); err != nil || len(fresh) > 0 || again.pooling != m.pooling {
			t.Errorf("%s: the copy has the pooling %q and draws %v, error %v", folder, again.pooling, fresh, err)
		}
	}
}

func withPooling(t *testing.T, text string) string {
	t.Helper()
	text, err := WithPooling(text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func tensorsOf(t *testing.T, path string) map[string]safetensors.Tensor {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := safetensors.Read(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]safetensors.Tensor{}
	for _, x := range list {
		byName[x.Name] = x
	}
	return byName
}

// The folder's pooling is the default, and pool=head is the head of transformers. peft knows that one only.
func TestPooling_OfOptions(t *testing.T) {
	for options, want := range map[string]string{",pool=head": "bert.pooler.dense.weight", ",pool=first": "classifier.weight", "": "classifier.weight"} {
		m, err := Parse(withPooling(t, "testdata/bert-mean"+options))
		if err != nil {
			t.Fatal(err)
		}
		net, err := buildOf(m, 6)(1)
		if err != nil {
			t.Fatal(err)
		}
		var heads []string
		for _, p := range net.Params {
			if m.isHead(p.Name()) {
				heads = append(heads, p.Name())
			}
		}
		if !slices.Contains(heads, want) || len(heads) != map[bool]int{true: 4, false: 2}[options == ",pool=head"] {
			t.Errorf("%q: the head has %v, want %s", options, heads, want)
		}
	}
	m, err := Parse("testdata/bert-mean,lora=2,pool=mean")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.ExportAdapter(nil, Labels{Classes: []string{"a"}}); err == nil || !strings.Contains(err.Error(), "pool=head") {
		t.Errorf("an adapter with a linear head: error %v", err)
	}
}

// What is not supported is refused by its name, and pool=head leaves it out.
func TestPooling_Refuses(t *testing.T) {
	config, err := os.ReadFile("testdata/bert/config.json")
	if err != nil {
		t.Fatal(err)
	}
	const modules, pooling = `[{"path": "", "type": "a.Transformer"}, {"path": "1_Pooling", "type": "a.Pooling"}`, `{"pooling_mode_mean_tokens": true}`
	for _, c := range []struct{ modules, pooling, dense, want string }{
		{modules + `]`, `{"pooling_mode_max_tokens": true}`, "", `pooling "max_tokens"`},
		{modules + `]`, `{"pooling_mode_max_tokens": true, "pooling_mode_cls_token": true}`, "", "several kinds"},
		{modules + `]`, `{}`, "", `pooling ""`},
		{modules + `]`, `[`, "", "1_Pooling"},
		{modules + `, {"path": "2_Dense", "type": "a.Dense"}]`, pooling, `{"activation_function": "torch.nn.modules.activation.Tanh"}`, "activation.Tanh"},
		{modules + `, {"path": "2_LSTM", "type": "a.LSTM"}]`, pooling, "", `module "a.LSTM"`},
		{`[{"path": "../x", "type": "a.Pooling"}]`, pooling, "", `folder "../x"`},
		{`[{"path": "..", "type": "a.Pooling"}]`, pooling, "", `folder ".."`},
		{`[{"path": "", "type": "a.Transformer"}]`, pooling, "", "no module Pooling"},
		{`{`, pooling, "", "modules.json"},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"config.json": string(config), "modules.json": c.modules, "1_Pooling/config.json": c.pooling, "2_Dense/config.json": c.dense} {
			path := filepath.Join(dir, name)
			os.MkdirAll(filepath.Dir(path), 0o755)
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := WithPooling(dir); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "pool=head") {
			t.Errorf("%s %s: error %v, want %s", c.modules, c.pooling, err, c.want)
		}
		if _, err := Parse(dir + ",pool=head"); err != nil {
			t.Errorf("%s with pool=head: %v", c.modules, err)
		}
	}
	for path, want := range map[string]string{"testdata/gpt2,pool=mean": "for encoders", "testdata/vit,pool=mean": "for encoders", "testdata/bert,pool=max": "pool=max", "testdata/bert,pool=mean,pool=mean": "twice"} {
		if _, err := Parse(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", path, err, want)
		}
	}
}
