package pretrained

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSplitOptions(t *testing.T) {
	for text, want := range map[string][]string{
		"DIR":                          {"DIR"},
		"DIR,train=head":               {"DIR", "train=head"},
		"a,b/c,lora=4,targets=query|v": {"a,b/c", "lora=4", "targets=query|v"},
		"a=b/c,train=all":              {"a=b/c", "train=all"},
		"x,y=1/z,train=all":            {"x,y=1/z", "train=all"},
	} {
		dir, options := splitOptions(text)
		if got := append([]string{dir}, options...); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestParse_Refuses(t *testing.T) {
	for options, want := range map[string]string{
		",train=some":                   "write all, head, bias or lora",
		",rank=3":                       "option rank=3 is not known",
		",lora=0":                       "write a rank from 1 to 8",
		",lora=4,train=head":            "train=head has none",
		",lora=4,targets=dense":         "choose from query, key, value, attention.output.dense, intermediate.dense, output.dense, or write all-linear",
		",lora=4,targets=query|query":   "given twice",
		",rank-stabilised=true":         "drop one of them",
		",lora=4,rank-stabilised=yes":   "write true",
		",lora=4,alpha=-1":              "alpha=-1: write a number above 0",
		",train=lora,train=lora":        "given twice",
		",train=bias,targets=query|key": "drop one of them",
	} {
		if _, err := Parse("testdata/bert" + options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not contain %q", options, err, want)
		}
	}
	if _, err := Parse("testdata/none"); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("a folder that does not exist: %v", err)
	}
}

// What is not supported is refused by its name.
func TestParseConfig_Refuses(t *testing.T) {
	const sizes = `"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":12,"vocab_size":16,"max_position_embeddings":10`
	for text, want := range map[string]string{
		`{"model_type":"t5",` + sizes + `}`: `model_type "t5" is not supported`,
		`{` + sizes + `}`:                   `model_type "" is not supported`,
		`{"model_type":"bert","hidden_act":"quick_gelu",` + sizes + `}`:                "quick_gelu",
		`{"model_type":"bert","position_embedding_type":"relative_key",` + sizes + `}`: "relative_key",
		`{"model_type":"bert","is_decoder":true,` + sizes + `}`:                        "is_decoder",
		`{"model_type":"bert","quantization_config":{},` + sizes + `}`:                 "quantization_config",
		`{"model_type":"bert"}`: "needs a number from 1 to 2^20",
		`{"model_type":"bert","num_attention_heads":3,` + strings.Replace(sizes, `"num_attention_heads":2,`, "", 1) + `}`: "3 heads cannot share a width of 8",
		`{"model_type":"bert","layer_norm_eps":0,` + sizes + `}`:                                                          "the epsilon of the norms",
		`{"model_type":"roberta","pad_token_id":9,` + sizes + `}`:                                                         "out of range",
		`[]`: "not a config.json",
	} {
		if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v does not contain %q", text, err, want)
		}
	}
}

// What is not supported of a decoder is refused by its name.
func TestParseConfig_RefusesDecoders(t *testing.T) {
	const sizes = `"hidden_size":8,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":12,"vocab_size":16,"max_position_embeddings":10`
	const gpt2Sizes = `"model_type":"gpt2","n_embd":8,"n_layer":2,"n_head":2,"n_positions":10,"vocab_size":16`
	for text, want := range map[string]string{
		`{"model_type":"llama","rope_scaling":{"rope_type":"yarn"},` + sizes + `}`:                       `rope_type "yarn"`,
		`{"model_type":"llama","rope_scaling":{"rope_type":"llama3","factor":8},` + sizes + `}`:          "rope_type llama3: a number is missing",
		`{"model_type":"llama","rope_scaling":{"type":"linear"},` + sizes + `}`:                          "rope_type linear: a number is missing",
		`{"model_type":"llama","rope_scaling":{"type":"linear","factor":-1},` + sizes + `}`:              "factor -1 is out of range",
		`{"model_type":"llama","rope_parameters":{"full_attention":{}},` + sizes + `}`:                   "not supported for model_type llama",
		`{"model_type":"gemma3",` + sizes + `}`:                                                          `model_type "gemma3" is not supported`,
		`{"model_type":"gemma2","use_bidirectional_attention":true,` + sizes + `}`:                       "use_bidirectional_attention",
		`{"model_type":"gemma2","layer_types":["full_attention"],` + sizes + `}`:                         "1 entries for 2 blocks",
		`{"model_type":"gemma2","layer_types":["full_attention","linear_attention"],` + sizes + `}`:      `"linear_attention" is not supported`,
		`{"model_type":"gemma2","sliding_window":null,` + sizes + `}`:                                    "sliding_window 0",
		`{"model_type":"gemma2","attn_logit_softcapping":-2,` + sizes + `}`:                              "attn_logit_softcapping -2",
		`{"model_type":"gemma3_text","attn_logit_softcapping":50,` + sizes + `}`:                         "transformers ignores it",
		`{"model_type":"gemma3_text","query_pre_attn_scalar":0,` + sizes + `}`:                           "query_pre_attn_scalar 0",
		`{"model_type":"qwen2","rope_parameters":{"partial_rotary_factor":0.5},` + sizes + `}`:           "partial_rotary_factor 0.5",
		`{"model_type":"llama","hidden_act":"relu2",` + sizes + `}`:                                      "relu2",
		`{"model_type":"llama","head_dim":3,` + sizes + `}`:                                              "heads of 3 columns",
		`{"model_type":"llama","rope_theta":-1,` + sizes + `}`:                                           "rope_theta -1",
		`{"model_type":"mistral","quantization_config":{},` + sizes + `}`:                                "quantization_config",
		`{"model_type":"llama",` + strings.Replace(sizes, "value_heads\":2", "value_heads\":3", 1) + `}`: "4 heads cannot share 3 heads of keys",
		`{"model_type":"qwen3",` + strings.Replace(sizes, `"num_key_value_heads":2,`, "", 1) + `}`:       "num_key_value_heads is missing",
		`{"model_type":"llama",` + strings.Replace(sizes, `"hidden_size":8`, `"hidden_size":9`, 1) + `}`: "4 heads cannot share a width of 9",
		`{"model_type":"llama",` + strings.Replace(sizes, `_heads":4`, `_heads":0`, 1) + `}`:             "the number of heads is 0",
		`{"scale_attn_by_inverse_layer_idx":true,` + gpt2Sizes + `}`:                                     "scale_attn_by_inverse_layer_idx",
		`{"scale_attn_weights":false,` + gpt2Sizes + `}`:                                                 "scale_attn_weights",
		`{"add_cross_attention":true,` + gpt2Sizes + `}`:                                                 "add_cross_attention",
		`{` + strings.Replace(gpt2Sizes, `"n_head":2`, `"n_head":3`, 1) + `}`:                            "3 heads cannot share a width of 8",
		`{"model_type":"llama","vocab_size":"many"}`:                                                     "not a config.json",
	} {
		if _, err := parseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v does not contain %q", text, err, want)
		}
	}
	for text, want := range map[string]decoder{
		`{"model_type":"mistral",`:                                                                  {window: 4096, local: []bool{true, true}},
		`{"model_type":"mistral","sliding_window":null,`:                                            {},
		`{"model_type":"qwen2","sliding_window":4,`:                                                 {},
		`{"model_type":"qwen3","sliding_window":4,"use_sliding_window":true,`:                       {window: 4, local: []bool{false, false}},
		`{"model_type":"qwen2","sliding_window":4,"use_sliding_window":true,"max_window_layers":1,`: {window: 4, local: []bool{false, true}},
		`{"model_type":"gemma2","attn_logit_softcapping":null,`:                                     {window: 4096, local: []bool{true, false}, logitCap: 30},
		`{"model_type":"gemma2",`:                                                                   {window: 4096, local: []bool{true, false}, scoreCap: 50, logitCap: 30},
		`{"model_type":"gemma3_text","sliding_window":512,"sliding_window_pattern":2,`:              {window: 512, local: []bool{true, false}},
		`{"model_type":"gemma3_text",`:                                                              {window: 4096, local: []bool{true, true}},
	} {
		c, err := parseConfig([]byte(text + sizes + "}"))
		if err != nil {
			t.Fatal(err)
		}
		if d := c.decoder; d.window != want.window || !slices.Equal(d.local, want.local) || d.scoreCap != want.scoreCap || d.logitCap != want.logitCap {
			t.Errorf("%s: window %d, local %v, caps %v, %v", text, d.window, d.local, d.scoreCap, d.logitCap)
		}
	}
	c, err := parseConfig([]byte(`{"model_type":"gemma3_text","rope_theta":2000,"rope_local_base_freq":3000,"rope_scaling":{"rope_type":"linear","factor":8},` + sizes + "}"))
	if err != nil {
		t.Fatal(err)
	}
	if d := c.decoder; d.rotation.Base != 2000 || d.rotation.Scaling.Factor != 8 || d.localRotation.Base != 3000 || d.localRotation.Scaling.Factor != 0 {
		t.Errorf("angles %v and %v", d.rotation, d.localRotation)
	}
	for options, want := range map[string]string{
		"llama,train=bias":           "have no biases",
		"llama,lora=2,targets=query": "choose from q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj",
		"gpt2,lora=2,targets=q_proj": "choose from c_attn, c_proj, c_fc",
		"none.gguf":                  "none.gguf",
		"bert,last=3":                "from 1 to 2",
		"bert,last=0":                "from 1 to 2",
		"bert,last=1,train=head":     "exclude each other",
	} {
		if _, err := Parse(filepath.Join("testdata", options)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not contain %q", options, err, want)
		}
	}
}

// copyOf copies a folder of testdata, with one file changed.
func copyOf(t *testing.T, folder, file string, change func(text string) string) string {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(filepath.Join("testdata", folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join("testdata", folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() == file {
			text = []byte(change(string(text)))
		}
		if err := os.WriteFile(filepath.Join(dir, e.Name()), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOutputs_RefusesOtherTensors(t *testing.T) {
	for name, c := range map[string]struct{ file, old, new, want string }{
		"shape":      {"config.json", `"intermediate_size": 12`, `"intermediate_size": 13`, "config.json asks for"},
		"vocabulary": {"config.json", `"vocab_size": 16`, `"vocab_size": 15`, "the tokenizer has 16 ids"},
		"blocks":     {"config.json", `"num_hidden_layers": 2`, `"num_hidden_layers": 3`, "has no tensor roberta.encoder.layer.2."},
		"unused":     {"config.json", `"num_hidden_layers": 2`, `"num_hidden_layers": 1`, "has the tensor roberta.encoder.layer.1."},
		"positions":  {"config.json", `"max_position_embeddings": 10`, `"max_position_embeddings": 7`, "positions for 5"},
		"header":     {"model.safetensors", "F32", "F64", "F64"},
		"offsets":    {"model.safetensors", `"data_offsets":[0,`, `"data_offsets":[4,`, "offsets"},
	} {
		dir := copyOf(t, "roberta", c.file, func(text string) string {
			if !strings.Contains(text, c.old) {
				t.Fatalf("%s: %s has no %s", name, c.file, c.old)
			}
			return strings.Replace(text, c.old, c.new, 1)
		})
		m, err := Parse(dir)
		if err == nil {
			_, err = buildOf(m, 6)(1)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v does not contain %q", name, err, c.want)
		}
	}
}

// An index of shards names files of its folder only.
func TestFiles_RefusesPaths(t *testing.T) {
	for _, name := range []string{"../model.safetensors", "/etc/passwd", "model.bin", ""} {
		dir := copyOf(t, "bert", "model.safetensors.index.json", func(string) string { return `{"weight_map":{"x":"` + name + `"}}` })
		m, err := Parse(dir)
		if err == nil {
			_, err = buildOf(m, 6)(1)
		}
		if err == nil || !strings.Contains(err.Error(), "a file of tensors is in the same folder") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
